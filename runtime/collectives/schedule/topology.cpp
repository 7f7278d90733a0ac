#include "runtime/collectives/schedule/topology.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace ccl {

bool Topology::linked(uint32_t chip_a, uint32_t chip_b) const {
  return std::binary_search(links.begin(), links.end(), std::make_pair(chip_a, chip_b));
}

std::vector<ChipRanks> by_chip(const Group& group) {
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, ChipRanks> chips;
  for (uint32_t i = 0; i < group.ranks(); ++i) {
    const Position& p = group.members[i];
    ChipRanks& chip = chips[{p.node, p.device, p.chip}];
    chip.chip = p.chip;
    chip.node = p.node;
    chip.device = p.device;
    chip.members.push_back(i);
  }
  std::vector<ChipRanks> out;
  for (auto& [key, chip] : chips) {
    std::sort(chip.members.begin(), chip.members.end(), [&](uint32_t a, uint32_t b) {
      return group.members[a].core < group.members[b].core;
    });
    out.push_back(std::move(chip));
  }
  return out;
}

bool whole_chips(const Group& group, const std::vector<ChipRanks>& chips) {
  return std::all_of(chips.begin(), chips.end(), [&](const ChipRanks& chip) {
    return chip.members.size() == group.topology.cores;
  });
}

bool one_node(const Group& group) {
  return std::all_of(group.members.begin(), group.members.end(),
                     [&](const Position& p) { return p.node == group.members.front().node; });
}

}  // namespace ccl
