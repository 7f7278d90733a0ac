#include "arch/config/platform.h"

#include <algorithm>
#include <set>
#include <utility>

#include "arch/config/embedded.h"
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

// Checks what the schema cannot say. Each function returns the first breach.
class GraphCheck {
 public:
  GraphCheck(const JsonFile& file, const Platform& platform) : file_(file), platform_(platform) {}

  base::Status run() const {
    for (const auto check : {&GraphCheck::model, &GraphCheck::ids, &GraphCheck::neighbours,
                             &GraphCheck::edges, &GraphCheck::switches}) {
      base::Status status = (this->*check)();
      if (!status) return status;
    }
    return {};
  }

 private:
  base::Error error(const char* list, size_t index, std::string what) const {
    return file_.error({list, std::to_string(index)}, std::move(what));
  }
  bool is_chip(uint32_t id) const { return id < platform_.chips.size(); }

  base::Status model() const {
    const ChipModel& chip = platform_.chip;
    const auto& options = chip.lnc_options;
    if (std::find(options.begin(), options.end(), chip.lnc_default) == options.end()) {
      return file_.error({"chip", "lnc_default"}, "lnc_default is not one of lnc_options");
    }
    for (const uint32_t option : options) {
      if (chip.cores % option != 0) {
        return file_.error({"chip", "lnc_options"}, "an LNC option does not divide the cores");
      }
    }
    return {};
  }

  base::Status ids() const {
    std::set<std::pair<uint32_t, uint32_t>> local_ids;
    for (size_t i = 0; i < platform_.nodes.size(); ++i) {
      if (platform_.nodes[i].id != i) return error("nodes", i, "node ids count up from 0");
    }
    for (size_t i = 0; i < platform_.chips.size(); ++i) {
      const Chip& chip = platform_.chips[i];
      if (chip.id != i) return error("chips", i, "chip ids count up from 0");
      if (chip.node >= platform_.nodes.size()) return error("chips", i, "no such node");
      if (chip.coord.size() != platform_.dims.size()) {
        return error("chips", i, "coord needs one number per dimension of the topology");
      }
      if (!local_ids.insert({chip.node, chip.local_id}).second) {
        return error("chips", i, "another chip of this node has the same local_id");
      }
    }
    for (size_t i = 0; i < platform_.nics.size(); ++i) {
      if (platform_.nics[i].node >= platform_.nodes.size()) return error("nics", i, "no such node");
    }
    return {};
  }

  base::Status mutual(size_t index, std::vector<uint32_t> Chip::*list) const {
    const Chip& chip = platform_.chips[index];
    for (const uint32_t other : chip.*list) {
      if (!is_chip(other) || other == chip.id) {
        return error("chips", index, "neighbour " + std::to_string(other) + " does not exist");
      }
      const auto& back = platform_.chips[other].*list;
      if (std::find(back.begin(), back.end(), chip.id) == back.end()) {
        return error("chips", index,
                     "chip " + std::to_string(other) + " does not name this one as its neighbour");
      }
    }
    return {};
  }

  base::Status neighbours() const {
    for (size_t i = 0; i < platform_.chips.size(); ++i) {
      for (const auto list : {&Chip::connected_to, &Chip::connected_to_z}) {
        base::Status status = mutual(i, list);
        if (!status) return status;
      }
    }
    return {};
  }

  base::Status edges() const {
    std::set<std::pair<uint32_t, uint32_t>> seen;
    for (size_t i = 0; i < platform_.edges.size(); ++i) {
      const Edge& edge = platform_.edges[i];
      if (edge.a >= edge.b || !is_chip(edge.b)) return error("edges", i, "expected a < b < chips");
      if (!seen.insert({edge.a, edge.b}).second) return error("edges", i, "this edge stands twice");
    }
    if (platform_.topology == "switched") return {};
    std::set<std::pair<uint32_t, uint32_t>> named;
    for (const Chip& chip : platform_.chips) {
      for (const auto* list : {&chip.connected_to, &chip.connected_to_z}) {
        for (const uint32_t other : *list) {
          named.insert({std::min(chip.id, other), std::max(chip.id, other)});
        }
      }
    }
    if (seen != named) return file_.error({"edges"}, "the edges are not those of connected_to");
    return {};
  }

  base::Status switches() const {
    std::set<std::string> ids;
    for (size_t i = 0; i < platform_.switches.size(); ++i) {
      const Switch& sw = platform_.switches[i];
      if (!ids.insert(sw.id).second) return error("switches", i, "this id stands twice");
      const std::set<uint32_t> members(sw.members.begin(), sw.members.end());
      if (members.size() != sw.members.size() || !is_chip(*members.rbegin())) {
        return error("switches", i, "members are chips, each named once");
      }
    }
    return {};
  }

  const JsonFile& file_;
  const Platform& platform_;
};

base::Result<Platform> checked(base::Result<JsonFile> file) {
  if (!file) return file.error();
  Platform platform;
  try {
    platform = read(file->value);
  } catch (const json::exception& error) {  // the schema leaves number ranges to us
    return file->error({}, error.what());
  }
  base::Status status = GraphCheck(*file, platform).run();
  if (!status) return status.error();
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
  std::set<std::string> classes;
  for (const Edge& edge : platform.edges) classes.insert(edge.link);
  for (const Switch& sw : platform.switches) classes.insert(sw.link);
  for (const std::string& link : classes) {
    const std::string parameter = "link." + link + "_gbps_per_dir";
    if (!timing.has(parameter)) {
      return base::Error{base::Fault::kConfig, 0, platform.name,
                         "links of class '" + link + "' need the timing parameter " + parameter +
                             ", which '" + timing.name() + "' does not have"};
    }
  }
  return {};
}

}  // namespace config
