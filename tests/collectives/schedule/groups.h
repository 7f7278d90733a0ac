// Platforms, groups and requests for tests of algorithms.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

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

// Bytes that steps move from chip to chip, by {from, to}: from the rank that executes the step, or
// from another rank whose memory it reads.
inline std::map<std::pair<uint32_t, uint32_t>, uint64_t> link_loads(const Schedule& schedule,
                                                                    const Platform& p) {
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> out;
  const auto add = [&](uint32_t from, uint32_t to, uint64_t bytes) {
    if (from / p.topology.cores == to / p.topology.cores || bytes == 0) return;
    out[{from / p.topology.cores, to / p.topology.cores}] += bytes;
  };
  for (uint32_t r = 0; r < schedule.shape.ranks; ++r) {
    for (const Step& step : schedule.steps(r)) {
      for (const Range& range : step.sources) add(range.rank, r, step.bytes);
      for (const Range& range : step.destinations) add(r, range.rank, step.bytes);
    }
  }
  return out;
}

// Bytes read and written in all memories.
inline uint64_t accesses_of(const Schedule& schedule) {
  uint64_t bytes = 0;
  for (uint32_t r = 0; r < schedule.shape.ranks; ++r) {
    for (const Step& s : schedule.steps(r)) {
      bytes += s.bytes * (s.sources.size() + s.destinations.size());
    }
  }
  return bytes;
}

// As one CC-core runs all channels: each step starts after the one before it in the list.
inline Schedule on_one_core(const Schedule& schedule) {
  Schedule out = schedule;
  out.shape.channels = 1;
  for (Event& event : out.shape.events) event.channel = 0;
  out.steps = [steps = schedule.steps](uint32_t rank) {
    Steps list = steps(rank);
    for (Step& step : list) step.channel = 0;
    return list;
  };
  return out;
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
