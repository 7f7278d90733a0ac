#include "arch/config/platform.h"

#include <set>
#include <utility>

#include "arch/config/embedded.h"
#include "arch/config/graph_check.h"
#include "arch/config/json_file.h"
#include "arch/config/timing.h"

namespace config {
namespace {

using nlohmann::json;

constexpr const char* kSchema = "platform.schema.json";

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
  return platform;
}

base::Result<Platform> checked(base::Result<JsonFile> file) {
  if (!file) return file.error();
  Platform platform;
  try {
    platform = read(file->value);
  } catch (const json::exception& error) {  // the schema leaves number ranges to us
    return file->error({}, error.what());
  }
  base::Status status = check_graph(*file, platform);
  if (!status) return status.error();
  platform.timing = relative_to(file->name, platform.timing);
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
  return checked(read_json("platform", "platforms", name, kSchema));
}

base::Result<Platform> parse_platform(std::string file_name, std::string text) {
  return checked(parse_json(std::move(file_name), std::move(text), kSchema));
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
