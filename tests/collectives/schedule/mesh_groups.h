// Groups of the published platforms for tests of schedules.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/collectives/schedule/schedule.h"

namespace ccl {

inline void join(Topology* t, uint32_t a, uint32_t b) {
  t->links.emplace_back(a, b);
  t->links.emplace_back(b, a);
}

inline Topology torus_topology(contract::Gen gen, uint32_t cores, uint32_t nodes = 1) {
  Topology t;
  t.gen = gen;
  t.fabric = Fabric::kTorus;
  t.cores = cores;
  t.lnc = gen == contract::Gen::kV2 ? 1 : 8 / cores;
  t.devices_per_node = 16;
  for (uint32_t n = 0; n < nodes; ++n) {
    for (uint32_t d = 0; d < 16; ++d) {
      join(&t, n * 16 + d, n * 16 + d / 4 * 4 + (d + 1) % 4);
      join(&t, n * 16 + d, n * 16 + (d + 4) % 16);
      if (nodes > 1) join(&t, n * 16 + d, (n + 1) % nodes * 16 + d);
    }
  }
  std::sort(t.links.begin(), t.links.end());
  t.links.erase(std::unique(t.links.begin(), t.links.end()), t.links.end());
  return t;
}

inline Topology line_topology(uint32_t chips, bool closed) {
  Topology t;
  t.fabric = closed ? Fabric::kRing : Fabric::kChain;
  t.devices_per_node = chips;
  for (uint32_t d = 0; d + (closed ? 0 : 1) < chips; ++d) join(&t, d, (d + 1) % chips);
  std::sort(t.links.begin(), t.links.end());
  return t;
}

inline Topology switched_topology(uint32_t cores, uint32_t sleds_per_rack,
                                  uint32_t devices_per_node) {
  Topology t;
  t.gen = contract::Gen::kV4;
  t.fabric = Fabric::kSwitched;
  t.cores = cores;
  t.lnc = 8 / cores;
  t.devices_per_node = devices_per_node;
  t.sleds_per_rack = sleds_per_rack;
  return t;
}

// All cores of the chips (platform-wide numbers), or the first `cores` of each, in their order.
inline Group group_of_chips(const Topology& topology, const std::vector<uint32_t>& chips,
                            uint32_t cores = 0) {
  Group group;
  group.topology = topology;
  for (const uint32_t chip : chips) {
    for (uint32_t core = 0; core < (cores == 0 ? topology.cores : cores); ++core) {
      Position p;
      p.rank = chip * topology.cores + core;
      p.chip = chip;
      p.node = chip / topology.devices_per_node;
      p.device = chip % topology.devices_per_node;
      p.core = core;
      p.nc = core * topology.lnc;
      group.members.push_back(p);
    }
  }
  return group;
}

inline std::vector<uint32_t> count_from(uint32_t first, uint32_t count) {
  std::vector<uint32_t> out;
  for (uint32_t i = 0; i < count; ++i) out.push_back(first + i);
  return out;
}

struct NamedGroup {
  std::string name;
  Group group;
};

// Reversed group order: chunks of a chip are not contiguous upwards.
inline Group shuffled(Group group) {
  std::reverse(group.members.begin(), group.members.end());
  for (size_t i = 0; i + 2 < group.members.size(); i += 3) {
    std::swap(group.members[i], group.members[i + 2]);
  }
  return group;
}

inline std::vector<NamedGroup> published_groups() {
  using contract::Gen;
  const Topology trn1 = torus_topology(Gen::kV2, 2);
  const Topology trn2 = torus_topology(Gen::kV3, 4);
  const Topology trn2_lnc1 = torus_topology(Gen::kV3, 8);
  const Topology ultra = torus_topology(Gen::kV3, 4, 4);
  const Topology chain = line_topology(6, false);
  const Topology circle = line_topology(12, true);
  const Topology gen2 = switched_topology(4, 18, 4);
  return {
      {"trn1 chip", group_of_chips(trn1, {0})},
      {"trn1 one core", group_of_chips(trn1, {3}, 1)},
      {"trn2 chip", group_of_chips(trn2, {5})},
      {"trn2 two cores", group_of_chips(trn2, {5}, 2)},
      {"trn2 chip LNC=1", group_of_chips(trn2_lnc1, {5})},
      {"trn1 row", group_of_chips(trn1, count_from(4, 4))},
      {"trn1 two rows", group_of_chips(trn1, count_from(8, 8))},
      {"trn1 node", group_of_chips(trn1, count_from(0, 16))},
      {"trn1 node, one rank per chip", group_of_chips(trn1, count_from(0, 16), 1)},
      {"trn2 two chips", group_of_chips(trn2, {0, 1})},
      {"trn2 three chips", group_of_chips(trn2, {0, 1, 6})},
      {"trn2 row", group_of_chips(trn2, count_from(12, 4))},
      {"trn2 row shuffled", shuffled(group_of_chips(trn2, count_from(12, 4)))},
      {"trn2 two rows", group_of_chips(trn2, count_from(0, 8))},
      {"trn2 node", group_of_chips(trn2, count_from(0, 16))},
      {"trn2 node shuffled", shuffled(group_of_chips(trn2, count_from(0, 16)))},
      {"trn2 row LNC=1", group_of_chips(trn2_lnc1, count_from(4, 4))},
      {"trn2 node, one rank per chip", group_of_chips(trn2, count_from(0, 16), 1)},
      {"inf2 chain", group_of_chips(chain, count_from(0, 6))},
      {"inf2 set of 4", group_of_chips(circle, count_from(4, 4))},
      {"inf2 ring", group_of_chips(circle, count_from(0, 12))},
      {"gen2 server", group_of_chips(gen2, count_from(0, 4))},
      {"gen2 two servers", group_of_chips(gen2, count_from(0, 8))},
      {"gen2 four servers in two racks", group_of_chips(gen2, {0, 1, 2, 3, 72, 73, 74, 75})},
      {"ultra: two rows on two nodes", group_of_chips(ultra, {0, 1, 2, 3, 16, 17, 18, 19})},
      {"ultra: a chip on four nodes", group_of_chips(ultra, {5, 21, 37, 53})},
      {"ultra: a core on four nodes", group_of_chips(ultra, {5, 21, 37, 53}, 1)},
  };
}

inline OpRequest request_of(OpKind kind, uint32_t ranks, uint64_t chunk) {
  OpRequest r;
  r.kind = kind;
  r.dtype = DType::kBf16;
  const bool all = kind == OpKind::kAllToAll;
  r.input_bytes = kind == OpKind::kReduceScatter || all ? chunk * ranks : chunk;
  r.output_bytes = kind == OpKind::kAllGather || all ? chunk * ranks : chunk;
  return r;
}

}  // namespace ccl
