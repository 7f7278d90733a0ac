#include "arch/config/platform.h"

#include <unistd.h>

#include <filesystem>
#include <set>
#include <utility>

#include "arch/config/decimal.h"
#include "arch/config/embedded.h"
#include "arch/config/graph_check.h"
#include "arch/config/json_file.h"
#include "arch/config/timing.h"

namespace config {
namespace {

using nlohmann::json;

constexpr const char* kPlatformSchema = "platform.schema.json";

void read(const json& from, ChipModel& chip) {
  from.at("name").get_to(chip.name);
  from.at("cores").get_to(chip.cores);
  from.at("lnc_options").get_to(chip.lnc_options);
  from.at("lnc_default").get_to(chip.lnc_default);
  from.at("hbm_stacks").get_to(chip.hbm_stacks);
  from.at("hbm_stack_bytes").get_to(chip.hbm_stack_bytes);
  from.at("cc_cores").get_to(chip.cc_cores);
  from.at("dma_engines").get_to(chip.dma_engines);
  from.at("sbuf_partitions").get_to(chip.sbuf_partitions);
  from.at("sbuf_partition_bytes").get_to(chip.sbuf_partition_bytes);
  from.at("psum_partition_bytes").get_to(chip.psum_partition_bytes);
}

void read(const json& from, Node& node) {
  from.at("id").get_to(node.id);
  from.at("instance_type").get_to(node.instance_type);
  from.at("vcpu").get_to(node.vcpu);
  from.at("memory_gib").get_to(node.memory_gib);
}

void read(const json& from, Chip& chip) {
  from.at("id").get_to(chip.id);
  from.at("node").get_to(chip.node);
  from.at("local_id").get_to(chip.local_id);
  from.at("coord").get_to(chip.coord);
  from.at("connected_to").get_to(chip.connected_to);
  chip.connected_to_z = from.value("connected_to_z", chip.connected_to_z);
  chip.pci_bdf = from.value("pci_bdf", chip.pci_bdf);
  chip.cpu_affinity = from.value("cpu_affinity", chip.cpu_affinity);
  chip.numa_node = from.value("numa_node", chip.numa_node);
}

void read(const json& from, Switch& sw) {
  from.at("id").get_to(sw.id);
  from.at("level").get_to(sw.level);
  from.at("link").get_to(sw.link);
  from.at("members").get_to(sw.members);
}

void read(const json& from, Edge& edge) {
  from.at("a").get_to(edge.a);
  from.at("b").get_to(edge.b);
  from.at("link").get_to(edge.link);
}

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

ParameterTexts parameters_of(const json& from) {
  ParameterTexts all;
  if (!from.contains("parameters")) return all;
  for (const auto& [name, value] : from.at("parameters").items()) all[name] = text_of(value);
  return all;
}

uint64_t address_of(const json& value) {
  if (!value.is_string()) return value.get<uint64_t>();
  constexpr int kHex = 16;
  return std::stoull(value.get<std::string>(), nullptr, kHex);  // the schema has checked its form
}

void read(const json& from, Block::Window& window) {
  from.at("socket").get_to(window.socket);
  if (from.contains("address")) window.address = address_of(from.at("address"));
  from.at("size").get_to(window.size);
}

void read(const json& from, Block::Initiator& initiator) {
  from.at("socket").get_to(initiator.socket);
  if (from.contains("gbps")) initiator.gbps = parse_decimal(text_of(from.at("gbps"))).value();
  initiator.packet_bytes = from.value("packet_bytes", initiator.packet_bytes);
  if (from.contains("core")) initiator.core = from.at("core").get<uint32_t>();
}

void read(const json& from, Block::Line& line) {
  from.at("port").get_to(line.port);
  from.at("core").get_to(line.core);
  from.at("semaphore").get_to(line.semaphore);
}

template <typename T>
void read(const json& from, std::vector<T>& rows);

void read(const json& from, Block& block) {
  from.at("name").get_to(block.name);
  from.at("library").get_to(block.library);
  from.at("type").get_to(block.type);
  block.chips = from.value("chips", block.chips);
  if (from.contains("windows")) read(from.at("windows"), block.windows);
  if (from.contains("initiators")) read(from.at("initiators"), block.initiators);
  if (from.contains("semaphores")) read(from.at("semaphores"), block.semaphores);
  block.parameters = parameters_of(from);
  block.background = from.value("background", false);
}

void read(const json& all, const char* which, Policy& policy) {
  if (!all.contains(which)) return;
  const json& from = all.at(which);
  if (from.is_string()) {
    from.get_to(policy.name);
    return;
  }
  from.at("type").get_to(policy.name);
  policy.library = from.value("library", policy.library);
  policy.parameters = parameters_of(from);
}

void read(const json& from, Policies& policies) {
  read(from, "dma_queues", policies.dma_queues);
  read(from, "links", policies.links);
  read(from, "routing", policies.routing);
  read(from, "switch_port", policies.switch_port);
}

void read(const json& from, Nic& nic) {
  from.at("id").get_to(nic.id);
  from.at("node").get_to(nic.node);
  from.at("gbit").get_to(nic.gbit);
}

template <typename T>
void read(const json& from, std::vector<T>& rows) {
  for (const json& row : from) read(row, rows.emplace_back());
}

Platform read(const json& from) {
  Platform platform;
  from.at("name").get_to(platform.name);
  const auto generation = from.at("generation").get<std::string>();
  platform.generation = generation == "v2"   ? Generation::kV2
                        : generation == "v3" ? Generation::kV3
                                             : Generation::kV4;
  from.at("timing").get_to(platform.timing);
  from.at("validated").get_to(platform.validated);
  read(from.at("chip"), platform.chip);
  from.at("topology").at("kind").get_to(platform.topology);
  from.at("topology").at("dims").get_to(platform.dims);
  read(from.at("nodes"), platform.nodes);
  read(from.at("chips"), platform.chips);
  read(from.at("switches"), platform.switches);
  read(from.at("edges"), platform.edges);
  read(from.at("nics"), platform.nics);
  if (from.contains("blocks")) read(from.at("blocks"), platform.blocks);
  if (from.contains("policies")) read(from.at("policies"), platform.policies);
  return platform;
}

// A library beside the platform file, or one that the dynamic linker looks for.
std::string library_of(const std::string& file, const std::string& name) {
  const size_t slash = file.rfind('/');
  const std::string beside = file.substr(0, slash == std::string::npos ? 0 : slash + 1) + name;
  const bool relative = !name.empty() && name.front() != '/';
  const bool there = ::access(beside.c_str(), F_OK) == 0;
  if (!relative || (!there && name.find('/') == std::string::npos)) return name;
  return beside.find('/') == std::string::npos ? "./" + beside : beside;
}

// What others wrote: names are unique, chips exist, libraries are found from the file.
base::Status settle_blocks(const JsonFile& file, Platform& platform) {
  std::set<std::string> names;
  for (size_t i = 0; i < platform.blocks.size(); ++i) {
    Block& block = platform.blocks[i];
    const std::vector<std::string> here{"blocks", std::to_string(i)};
    if (!names.insert(block.name).second) {
      return file.error(here, "two blocks are called '" + block.name + "'");
    }
    if (block.chips.empty()) {
      for (const Chip& chip : platform.chips) block.chips.push_back(chip.id);
    }
    for (const uint32_t chip : block.chips) {
      if (chip < platform.chips.size()) continue;
      return file.error(here, "block '" + block.name + "': there is no chip " +
                                  std::to_string(chip) + " (0 to " +
                                  std::to_string(platform.chips.size() - 1) + ")");
    }
    block.library = library_of(file.name, block.library);
  }
  for (Policy* policy : {&platform.policies.dma_queues, &platform.policies.links,
                         &platform.policies.routing, &platform.policies.switch_port}) {
    if (!policy->library.empty()) policy->library = library_of(file.name, policy->library);
  }
  // Published times were measured without them.
  if (!platform.blocks.empty() || platform.policies.any()) platform.validated = false;
  return {};
}

// Libraries of a base count from where they were written, too.
void find_libraries(const std::string& file, json& list) {
  for (json& entry : list) {
    if (!entry.is_object() || !entry.contains("library") || !entry["library"].is_string()) continue;
    const std::string found = library_of(file, entry["library"].get<std::string>());
    const bool path = found.find('/') != std::string::npos;
    entry["library"] = path ? std::filesystem::absolute(found).string() : found;
  }
}

constexpr int kMostBases = 8;

// A file with the keys of its base that it does not have itself.
base::Status add_base(JsonFile& file, int depth) {
  if (!file.value.is_object() || !file.value.contains("base")) return {};
  const json name = file.value.at("base");
  if (!name.is_string()) return file.error({"base"}, "base is the name of a platform");
  if (depth == kMostBases) return file.error({"base"}, "bases of bases go too deep");
  auto base = read_json("platform", "platforms", relative_to(file.name, name.get<std::string>()));
  if (!base) return base.error();
  base::Status status = add_base(*base, depth + 1);
  if (!status) return status;
  if (base->value.is_object() && base->value.contains("timing")) {
    // A path counts from where it was written.
    json& timing = base->value["timing"];
    if (timing.is_string()) timing = relative_to(base->name, timing.get<std::string>());
  }
  for (const char* list : {"blocks", "policies"}) {
    if (base->value.is_object() && base->value.contains(list)) {
      find_libraries(base->name, base->value[list]);
    }
  }
  file.value.erase("base");
  json merged = std::move(base->value);
  merged.update(file.value);
  file.value = std::move(merged);
  return {};
}

base::Result<Platform> checked(base::Result<JsonFile> file) {
  if (!file) return file.error();
  const bool own_timing = file->value.is_object() && file->value.contains("timing");
  base::Status merged = add_base(*file, 0);
  if (!merged) return merged.error();
  base::Status valid = check_schema(*file, kPlatformSchema);
  if (!valid) return valid.error();
  Platform platform;
  try {
    platform = read(file->value);
  } catch (const json::exception& error) {  // the schema leaves number ranges to us
    return file->error({}, error.what());
  }
  base::Status status = check_graph(*file, platform);
  if (!status) return status.error();
  status = settle_blocks(*file, platform);
  if (!status) return status.error();
  if (own_timing) platform.timing = relative_to(file->name, platform.timing);
  return platform;
}

}  // namespace

const char* to_string(Generation generation) {
  switch (generation) {
    case Generation::kV2:
      return "v2";
    case Generation::kV3:
      return "v3";
    case Generation::kV4:
      return "v4";
  }
  return "?";
}

std::vector<std::string> platform_names() {
  return embedded_names("platforms");
}

base::Result<Platform> load_platform(const std::string& name) {
  return checked(read_json("platform", "platforms", name));
}

base::Result<Platform> parse_platform(std::string file_name, std::string text) {
  return checked(parse_json(std::move(file_name), std::move(text)));
}

base::Status check_timing(const Platform& platform, const Timing& timing) {
  if (platform.generation != timing.generation()) {
    return base::Error{base::Fault::kConfig, 0, platform.name,
                       "the timing file '" + timing.name() + "' is for generation " +
                           to_string(timing.generation()) + ", the platform is " +
                           to_string(platform.generation)};
  }
  std::set<std::string> needed;
  for (const Edge& edge : platform.edges) needed.insert("link." + edge.link + "_gbps_per_dir");
  for (const Switch& sw : platform.switches) {
    needed.insert("link." + sw.link + "_gbps_per_dir");
    needed.insert("link.switch_ns");
  }
  for (const std::string& parameter : needed) {
    if (!timing.has(parameter)) {
      return base::Error{base::Fault::kConfig, 0, platform.name,
                         "the links of this platform need the timing parameter " + parameter +
                             ", which '" + timing.name() + "' does not have"};
    }
  }
  return {};
}

}  // namespace config
