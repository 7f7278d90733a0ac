// The tree of memory: devices, their cores, categories of each (spec/tools.md 4.2).
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tools/neuron-top/figures.h"

namespace neuron_top {

struct MemoryRow {
  std::string key;  // names the node over all refreshes: "ND0/NC1/tensors"
  std::string label;
  int depth = 0;
  std::optional<uint64_t> host;  // bytes, where they are known
  uint64_t device = 0;           // bytes, the sum of the children's
  bool has_children = false;
  bool expanded = false;
  int device_index = 0;
};

// What is visible: children of nodes in `expanded` only. Devices without a core in use have no row.
std::vector<MemoryRow> memory_rows(const Figures& figures, const neuron_host::Devices& devices,
                                   const std::set<std::string>& expanded);

}  // namespace neuron_top
