// What schedules know of the machine: where each rank of a group sits, and how chips are joined.
// Filled from what the ranks tell each other (device, node, neighbours), never from the emulator.
// Source: spec/collectives.md 2.1 to 2.4, spec/platforms.md 7.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/contract/address_map.h"

namespace ccl {

// Where a rank runs. A rank is a logical core.
struct Position {
  uint32_t rank = 0;    // global
  uint32_t node = 0;    // host, in the order of the ranks
  uint32_t chip = 0;    // platform-wide number, as in peer windows
  uint32_t device = 0;  // number of the chip on its node: row * 4 + col on a 4x4 torus
  uint32_t core = 0;    // logical core in the chip (l of spec/collectives.md 2.3)
  uint32_t nc = 0;      // first physical core
};

enum class Fabric : uint8_t {
  kSingle,    // one chip
  kChain,     // device d joins d + 1
  kRing,      // and the last joins the first
  kTorus,     // 4x4 within a node (v2, v3); nodes of an UltraServer are joined chip by chip (Z)
  kSwitched,  // v4: sleds of four chips, racks of sleds
  kGraph,     // anything else: only `links` says
};

struct Topology {
  contract::Gen gen = contract::Gen::kV2;
  Fabric fabric = Fabric::kSingle;
  uint32_t lnc = 1;               // physical cores per rank
  uint32_t cores = 2;             // logical cores per chip
  uint32_t devices_per_node = 1;  // chips of one host
  // Switched only: sleds (of four chips) per rack and per node; sled i of rack 0 has direct links
  // to sled i of rack 1. Platform-wide chip number = (rack * sleds_per_rack + sled) * 4 + chip.
  uint32_t sleds_per_rack = 0;
  // Chips joined by a link, by platform-wide number, each pair in both orders, sorted. Empty for
  // switched fabrics except direct links.
  std::vector<std::pair<uint32_t, uint32_t>> links;

  bool linked(uint32_t chip_a, uint32_t chip_b) const;
};

// A communication group: the members in group order.
struct Group {
  Topology topology;
  std::vector<Position> members;

  uint32_t ranks() const { return static_cast<uint32_t>(members.size()); }
};

// The group by chips: which members sit on which chip.
struct ChipRanks {
  uint32_t chip = 0;
  uint32_t node = 0;
  uint32_t device = 0;
  std::vector<uint32_t> members;  // indices in the group, by ascending core
};
// In ascending order of (node, device).
std::vector<ChipRanks> by_chip(const Group& group);
// Every chip of the group has all its ranks in it.
bool whole_chips(const Group& group, const std::vector<ChipRanks>& chips);
bool one_node(const Group& group);

}  // namespace ccl
