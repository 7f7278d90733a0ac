#include "runtime/collectives/schedule/groups.h"

#include <algorithm>
#include <map>
#include <set>

namespace ccl {
namespace {

std::string text(const Group& group) {
  std::string out = "[";
  for (const Position& p : group.members) {
    out += (out.size() == 1 ? "" : ",") + std::to_string(p.rank);
  }
  return out + "]";
}

std::string list(const std::vector<uint32_t>& numbers) {
  std::string out;
  for (const uint32_t n : numbers) out += (out.empty() ? "" : ", ") + std::to_string(n);
  return out;
}

// Published sizes of groups within one node (the table of 1.8); empty: any.
std::vector<uint32_t> legal_sizes(const Topology& topology) {
  const uint32_t all = topology.cores * topology.devices_per_node;
  switch (family_of(topology)) {
    case Family::kTrn1:
      if (topology.devices_per_node == 1) return {1, 2};
      return {1, 2, 4, 8, 16, 32};
    case Family::kInf2: {
      std::vector<uint32_t> even{1};
      for (uint32_t n = 2; n <= all; n += 2) even.push_back(n);
      return even;
    }
    case Family::kTrn2: {
      std::vector<uint32_t> powers;
      for (uint32_t n = 1; n <= all; n *= 2) powers.push_back(n);
      return powers;
    }
    case Family::kTrn3:
      break;
  }
  return {};
}

// Every node of the group has ranks at the same places (spec/collectives.md 1.8, rule 2).
base::Status check_symmetry(const Group& group) {
  std::map<uint32_t, std::set<std::pair<uint32_t, uint32_t>>> nodes;
  for (const Position& p : group.members) nodes[p.node].insert({p.device, p.core});
  for (const auto& [node, places] : nodes) {
    if (places == nodes.begin()->second) continue;
    return invalid("group " + text(group) + " is not symmetric: node " + std::to_string(node) +
                   " has " + std::to_string(places.size()) + " ranks, node " +
                   std::to_string(nodes.begin()->first) + " has " +
                   std::to_string(nodes.begin()->second.size()) +
                   ", or they sit on other cores; every node must have the same local cores");
  }
  return {};
}

// Chips that can be reached from the first over links between members.
bool connected(const Topology& topology, const std::vector<ChipRanks>& chips) {
  std::set<size_t> seen{0};
  std::vector<size_t> open{0};
  while (!open.empty()) {
    const size_t at = open.back();
    open.pop_back();
    for (size_t i = 0; i < chips.size(); ++i) {
      if (!topology.linked(chips[at].chip, chips[i].chip)) continue;
      if (seen.insert(i).second) open.push_back(i);
    }
  }
  return seen.size() == chips.size();
}

// Rows of a 4x4 torus: one row, rows {0,1} or {2,3}, all (spec/collectives.md 1.8, trn1.32xlarge).
bool whole_rows(const std::vector<ChipRanks>& chips) {
  const uint32_t first = chips.front().device;
  for (size_t i = 0; i < chips.size(); ++i) {
    if (chips[i].device != first + i) return false;
  }
  return first % chips.size() == 0;
}

bool legal_shape(const Group& group, const std::vector<ChipRanks>& all, const std::string** rule) {
  static const std::string kConsecutive = "consecutive chips";
  static const std::string kRows =
      "one torus row, rows {0,1} or {2,3}, all 16 chips, or two adjacent chips";
  static const std::string kConnected = "1, 2, 4, 8 or 16 connected chips of a node";
  std::vector<ChipRanks> chips;  // of one node: the others are equal
  for (const ChipRanks& chip : all) {
    if (chip.node == all.front().node) chips.push_back(chip);
  }
  if (chips.size() == 1) return true;
  switch (family_of(group.topology)) {
    case Family::kInf2:
      *rule = &kConsecutive;
      return connected(group.topology, chips);
    case Family::kTrn1:
      *rule = &kRows;
      if (chips.size() == 2) return connected(group.topology, chips);
      return chips.size() % 4 == 0 && 16 % chips.size() == 0 && whole_rows(chips);
    case Family::kTrn2:
      *rule = &kConnected;
      return 16 % chips.size() == 0 && connected(group.topology, chips);
    case Family::kTrn3:
      break;
  }
  return true;
}

base::Status check_strict(const Group& group) {
  const std::string platform = to_string(family_of(group.topology));
  const std::vector<ChipRanks> chips = by_chip(group);
  const auto same_count = [&](const ChipRanks& chip) {
    return chip.members.size() == chips.front().members.size();
  };
  if (!one_node(group)) {
    if (family_of(group.topology) == Family::kInf2) {
      return invalid("group " + text(group) + ": inf2 has no groups of several nodes");
    }
  } else {
    const std::vector<uint32_t> sizes = legal_sizes(group.topology);
    if (!sizes.empty() && std::find(sizes.begin(), sizes.end(), group.ranks()) == sizes.end()) {
      return invalid("group " + text(group) + " of " + std::to_string(group.ranks()) +
                     " ranks on " + platform + "; legal sizes: " + list(sizes));
    }
  }
  if (!std::all_of(chips.begin(), chips.end(), same_count)) {
    return invalid("group " + text(group) + " on " + platform +
                   " has different numbers of ranks on its chips");
  }
  // Groups of one or some ranks per chip are the other side of a split into whole chips.
  if (!whole_chips(group, chips)) return {};
  const std::string* rule = nullptr;
  if (legal_shape(group, chips, &rule)) return {};
  return invalid("group " + text(group) + " on " + platform + " is none of: " + *rule);
}

base::Status check_all_gather_v(const OpRequest& request, const Group& group) {
  if (group.topology.lnc != 2 || group.ranks() != 4 || by_chip(group).size() != 1) {
    return invalid("all_gather_v: group " + text(group) +
                   " at LNC=" + std::to_string(group.topology.lnc) +
                   "; legal: the 4 ranks of one chip, at LNC=2");
  }
  if (request.receive_displacements) {
    return invalid("all_gather_v: receive displacements are not supported");
  }
  return {};
}

base::Status check_all_to_all_v(const Group& group) {
  const std::vector<ChipRanks> chips = by_chip(group);
  if (group.topology.fabric != Fabric::kSwitched) {
    std::set<uint32_t> nodes;
    for (const Position& p : group.members) nodes.insert(p.node);
    if (nodes.size() > 1 && nodes.size() == group.ranks()) return {};  // symmetric: one index
    return invalid("all_to_all_v: group " + text(group) +
                   "; legal without a switch: ranks of the same index, one on each of several "
                   "nodes");
  }
  const auto gap = [](const Position& a, const Position& b) { return b.rank != a.rank + 1; };
  const auto& members = group.members;
  const bool run = std::adjacent_find(members.begin(), members.end(), gap) == members.end();
  if (run && group.topology.lnc == 2 && chips.size() > 1 && whole_chips(group, chips)) return {};
  return invalid("all_to_all_v: group " + text(group) +
                 " at LNC=" + std::to_string(group.topology.lnc) +
                 "; legal: consecutive ranks of several whole chips, at LNC=2");
}

bool direct(const Group& group, uint32_t a, uint32_t b) {
  const uint32_t chip_a = group.members[a].chip;
  const uint32_t chip_b = group.members[b].chip;
  return chip_a == chip_b || group.topology.fabric == Fabric::kSwitched ||
         group.topology.linked(chip_a, chip_b);
}

}  // namespace

Family family_of(const Topology& topology) {
  switch (topology.gen) {
    case contract::Gen::kV2:
      // A single chip is the same on both.
      return topology.fabric == Fabric::kChain || topology.fabric == Fabric::kRing ? Family::kInf2
                                                                                   : Family::kTrn1;
    case contract::Gen::kV3:
      return Family::kTrn2;
    case contract::Gen::kV4:
      break;
  }
  return Family::kTrn3;
}

const char* to_string(Family family) {
  constexpr const char* kNames[] = {"trn1", "inf2", "trn2", "trn3"};
  return kNames[static_cast<size_t>(family)];
}

base::Status check_group(const Group& group, bool strict) {
  if (base::Status status = check_symmetry(group); !status) return status;
  return strict ? check_strict(group) : base::Status();
}

base::Status check_variable(const OpRequest& request, const Group& group, bool strict) {
  if (!strict) return {};
  if (request.kind == OpKind::kAllGatherV) return check_all_gather_v(request, group);
  if (request.kind == OpKind::kAllToAllV) return check_all_to_all_v(group);
  return {};
}

base::Status check_permute(const OpRequest& request, const Group& group, bool strict) {
  std::map<uint32_t, uint32_t> targets;
  std::set<uint32_t> received;
  for (const auto& [source, target] : request.pairs) {
    targets[source] = target;
    received.insert(target);
    if (strict && !direct(group, source, target)) {
      return invalid("permute: no direct link from rank " +
                     std::to_string(group.members[source].rank) + " to rank " +
                     std::to_string(group.members[target].rank));
    }
  }
  for (const auto& [source, target] : request.pairs) {
    // A chain starts where nobody sends to, or ends where nobody sends from.
    const bool starts = received.count(source) == 0;
    const bool ends = targets.count(target) == 0;
    if (starts == ends) continue;
    return invalid("permute: pair (" + std::to_string(source) + ", " + std::to_string(target) +
                   ") is part of an open chain; pairs must form closed circles, or stand alone");
  }
  return {};
}

}  // namespace ccl
