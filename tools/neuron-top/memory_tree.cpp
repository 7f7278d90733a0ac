#include "tools/neuron-top/memory_tree.h"

#include <utility>

namespace neuron_top {
namespace {

std::string title(const std::string& category) {
  for (const auto& [name, text] : {std::pair{"constants", "Constants"},
                                   {"model_code", "Model Code"},
                                   {"model_shared_scratchpad", "Model Scratchpad"},
                                   {"runtime_memory", "Runtime Memory"},
                                   {"tensors", "Tensors"}}) {
    if (category == name) return text;
  }
  return category;
}

uint64_t total(const Core& core) {
  uint64_t sum = 0;
  for (const auto& [category, bytes] : core.memory) sum += bytes;
  return sum;
}

class Builder {
 public:
  explicit Builder(const std::set<std::string>& expanded) : expanded_(expanded) {}

  // Whether its children are to follow.
  bool add(MemoryRow row) {
    row.expanded = row.has_children && expanded_.count(row.key) != 0;
    rows_.push_back(std::move(row));
    return rows_.back().expanded;
  }
  std::vector<MemoryRow> take() { return std::move(rows_); }

 private:
  const std::set<std::string>& expanded_;
  std::vector<MemoryRow> rows_;
};

}  // namespace

std::vector<MemoryRow> memory_rows(const Figures& figures, const neuron_host::Devices& devices,
                                   const std::set<std::string>& expanded) {
  Builder rows(expanded);
  for (const neuron_host::Device& device : devices.all) {
    const uint32_t first = devices.first_core(device);
    const auto begin = figures.cores.lower_bound(first);
    const auto end = figures.cores.lower_bound(first + devices.logical_cores(device));
    if (begin == end) continue;
    const std::string name = "ND" + std::to_string(device.index);
    uint64_t sum = 0;
    for (auto core = begin; core != end; ++core) sum += total(core->second);
    const auto host = figures.host_by_device.find(device.index);
    const auto bytes = host == figures.host_by_device.end() ? std::optional<uint64_t>()
                                                            : std::optional(host->second);
    if (!rows.add({name, name, 0, bytes, sum, true, false, device.index})) continue;
    for (auto core = begin; core != end; ++core) {
      const std::string number = "NC" + std::to_string(core->first - first);
      const std::string key = name + "/" + number;
      const bool detailed = !core->second.memory.empty();
      if (!rows.add({key, number, 1, {}, total(core->second), detailed, false, device.index})) {
        continue;
      }
      for (const auto& [category, size] : core->second.memory) {
        rows.add({key + "/" + category, title(category), 2, {}, size, false, false, device.index});
      }
    }
  }
  return rows.take();
}

}  // namespace neuron_top
