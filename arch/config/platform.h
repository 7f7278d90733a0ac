// A platform as a graph: nodes (hosts), chips, switches, links with a class, network cards.
//
// Source of truth: data/platforms/*.json (data/schema/platform.schema.json), names as in the
// published instance tables. Rates are not here: a link names its class, whose rate is a timing
// parameter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/config/blocks.h"
#include "base/error.h"

namespace config {

class Timing;

enum class Generation { kV2 = 2, kV3 = 3, kV4 = 4 };
const char* to_string(Generation generation);

// What every chip of the platform is.
struct ChipModel {
  std::string name;  // "trainium1"
  uint32_t cores = 0;
  std::vector<uint32_t> lnc_options;  // physical cores that may form one logical core
  uint32_t lnc_default = 1;
  uint32_t hbm_stacks = 0;
  uint64_t hbm_stack_bytes = 0;
  uint32_t cc_cores = 0;
  uint32_t dma_engines = 0;
  uint32_t sbuf_partitions = 0;
  uint64_t sbuf_partition_bytes = 0;
  uint64_t psum_partition_bytes = 0;
};

struct Node {
  uint32_t id = 0;
  std::string instance_type;  // what this host calls itself
  uint32_t vcpu = 0;
  uint32_t memory_gib = 0;
};

struct Chip {
  uint32_t id = 0;
  uint32_t node = 0;
  uint32_t local_id = 0;  // the N of /dev/neuronN on its node
  std::vector<uint32_t> coord;
  std::vector<uint32_t> connected_to;    // ids, in the order that listings print
  std::vector<uint32_t> connected_to_z;  // neighbours on other nodes of an UltraServer ring
  std::string pci_bdf;                   // empty where nothing is published
  std::string cpu_affinity;
  int numa_node = -1;
};

struct Switch {
  std::string id;
  uint32_t level = 1;
  std::string link;               // class of every attachment
  std::vector<uint32_t> members;  // chip ids
};

// Carries traffic in both directions at once.
struct Edge {
  uint32_t a = 0;  // chip ids, a < b
  uint32_t b = 0;
  std::string link;
};

struct Nic {
  uint32_t id = 0;
  uint32_t node = 0;
  uint32_t gbit = 0;
};

struct Platform {
  std::string name;
  Generation generation = Generation::kV2;
  std::string timing;      // name of its timing file, or its path
  bool validated = false;  // published rows exist that its durations are compared with
  ChipModel chip;
  // "single", "chain", "ring", "torus2d", "torus3d", "switched", "graph" (docs/platforms.md)
  std::string topology;
  std::vector<uint32_t> dims;
  std::vector<Node> nodes;
  std::vector<Chip> chips;
  std::vector<Switch> switches;
  std::vector<Edge> edges;
  std::vector<Nic> nics;
  std::vector<Block> blocks;
  Policies policies;
};

std::vector<std::string> platform_names();
// `name` is one of platform_names() or the path of a .json file. A file may name another platform
// as its `base`, and holds only what is new or differs then. Checks what the schema cannot say
// (arch/config/graph_check.h). A timing file given as a relative path lies where the platform's
// does.
base::Result<Platform> load_platform(const std::string& name);
base::Result<Platform> parse_platform(std::string file_name, std::string text);
// The timing file fits: same generation, a rate for every link class in use.
base::Status check_timing(const Platform& platform, const Timing& timing);

}  // namespace config
