// Groups of the published platforms for tests of schedules.
// Platforms, groups and requests for tests of algorithms.
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

#include "runtime/collectives/schedule/algorithms.h"
#include "runtime/collectives/schedule/verify.h"

namespace ccl {

using contract::Gen;

struct Platform {
  std::string name;
  Topology topology;
  uint32_t nodes = 1;

  uint32_t chips() const { return nodes * topology.devices_per_node; }
  uint32_t ranks() const { return chips() * topology.cores; }
};

inline void link(Topology* t, uint32_t a, uint32_t b) {
  t->links.push_back({a, b});
  t->links.push_back({b, a});
}

inline void close_links(Topology* t) {
  std::sort(t->links.begin(), t->links.end());
  t->links.erase(std::unique(t->links.begin(), t->links.end()), t->links.end());
}

inline Platform one_chip(Gen gen, uint32_t cores) {
  Platform p{"one chip of " + std::to_string(cores), {}, 1};
  p.topology.gen = gen;
  p.topology.cores = cores;
  return p;
}

// A 4x4 torus per node; `joined`: nodes of an UltraServer, in a ring of Z links, instead of hosts.
inline Platform torus(Gen gen, uint32_t cores, uint32_t nodes = 1, bool joined = false) {
  Platform p{
      "torus of " + std::to_string(cores) + " cores, nodes " + std::to_string(nodes), {}, nodes};
  Topology& t = p.topology;
  t.gen = gen;
  t.fabric = Fabric::kTorus;
  t.cores = cores;
  t.lnc = gen != Gen::kV2 && cores == 4 ? 2 : 1;
  t.devices_per_node = 16;
  for (uint32_t n = 0; n < (joined ? nodes : 1); ++n) {
    for (uint32_t d = 0; d < 16; ++d) {
      const uint32_t first = 16 * n;
      link(&t, first + d, first + (d + 4) % 16);
      link(&t, first + d, first + d / 4 * 4 + (d + 1) % 4);
      if (nodes > 1 && joined) link(&t, first + d, (first + 16) % (16 * nodes) + d);
    }
  }
  close_links(&t);
  return p;
}

// Inf2: `chips` in a row, or in a ring.
inline Platform row_of_chips(uint32_t chips, bool closed) {
  Platform p{"row of " + std::to_string(chips) + (closed ? " closed" : ""), {}, 1};
  Topology& t = p.topology;
  t.fabric = closed ? Fabric::kRing : Fabric::kChain;
  t.devices_per_node = chips;
  for (uint32_t d = 0; d + 1 < chips; ++d) link(&t, d, d + 1);
  if (closed) link(&t, chips - 1, 0);
  close_links(&t);
  return p;
}

// Two racks of `sleds` sleds of four chips; a host has one sled.
inline Platform racks(uint32_t sleds) {
  Platform p{"racks of " + std::to_string(sleds), {}, 2 * sleds};
  Topology& t = p.topology;
  t.gen = Gen::kV4;
  t.fabric = Fabric::kSwitched;
  t.lnc = 2;
  t.cores = 4;
  t.devices_per_node = 4;
  t.sleds_per_rack = sleds;
  for (uint32_t c = 0; c < 4 * sleds; ++c) link(&t, c, c + 4 * sleds);
  close_links(&t);
  return p;
}

inline Position position(const Platform& p, uint32_t rank) {
  const uint32_t chip = rank / p.topology.cores;
  Position out;
  out.rank = rank;
  out.node = chip / p.topology.devices_per_node;
  out.device = chip % p.topology.devices_per_node;
  // Hosts that no link joins number their chips alike.
  const bool one_fabric =
      p.topology.fabric == Fabric::kSwitched || p.topology.links.size() > 64 || p.nodes == 1;
  out.chip = one_fabric ? chip : out.device;
  out.core = rank % p.topology.cores;
  out.nc = out.core * p.topology.lnc;
  return out;
}

inline Group group_of_ranks(const Platform& p, const std::vector<uint32_t>& ranks) {
  Group g;
  g.topology = p.topology;
  for (const uint32_t rank : ranks) g.members.push_back(position(p, rank));
  return g;
}

// `count` ranks from `first`, every `stride`-th.
inline Group group_of_ranks(const Platform& p, uint32_t first, uint32_t count,
                            uint32_t stride = 1) {
  std::vector<uint32_t> ranks;
  for (uint32_t i = 0; i < count; ++i) ranks.push_back(first + i * stride);
  return group_of_ranks(p, ranks);
}

inline Group whole(const Platform& p) {
  return group_of_ranks(p, 0, p.ranks());
}

// `bytes`: of the long buffer; rounded down to what the operation can split.
inline OpRequest request_of(OpKind kind, uint32_t ranks, uint64_t bytes) {
  OpRequest r;
  r.kind = kind;
  r.dtype = DType::kBf16;
  const bool split =
      kind == OpKind::kAllGather || kind == OpKind::kReduceScatter || kind == OpKind::kAllToAll;
  const uint64_t share = split ? bytes / ranks / 2 * 2 : bytes;
  const uint64_t all = split ? share * ranks : bytes;
  r.input_bytes = kind == OpKind::kAllGather ? share : all;
  r.output_bytes = kind == OpKind::kReduceScatter ? share : all;
  if (kind == OpKind::kBarrier) r.input_bytes = r.output_bytes = 0;
  return r;
}

// Empty if the schedule is right and as long as it may be.
inline std::string problem(const base::Result<Schedule>& schedule, const ScheduleOptions& options) {
  if (!schedule) return schedule.error().message();
  if (const base::Status status = verify(*schedule); !status) return status.error().message();
  for (uint32_t r = 0; r < schedule->shape.ranks; ++r) {
    std::vector<uint32_t> steps(schedule->shape.channels);
    for (const Step& step : schedule->steps(r)) ++steps[step.channel];
    for (const uint32_t count : steps) {
      if (count > options.max_steps) return std::to_string(count) + " steps";
    }
  }
  return {};
}

}  // namespace ccl
