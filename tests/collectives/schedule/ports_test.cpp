#include "runtime/collectives/schedule/ports.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "runtime/collectives/schedule/algorithms.h"
#include "runtime/collectives/schedule/alltoall.h"
#include "tests/collectives/schedule/mesh_groups.h"

namespace ccl {
namespace {

using contract::Gen;

// Every directed link of the 4x4 torus: device and port by which it is left.
using LinkLoads = std::map<std::pair<uint32_t, Port>, uint64_t>;

void add_route(LinkLoads* loads, uint32_t from, uint32_t to, uint64_t bytes) {
  for (const Port port : torus_route(from, to)) {
    (*loads)[{from, port}] += bytes;
    from = torus_neighbour(from, port);
  }
  ASSERT_EQ(from, to);
}

// What a schedule moves over the links of one node. A step's data start at its first remote source
// or at the rank that executes it; reading chip mates crosses no link.
LinkLoads loads_of(const Schedule& schedule, const Group& group) {
  LinkLoads loads;
  for (uint32_t r = 0; r < schedule.shape.ranks; ++r) {
    for (const Step& step : schedule.steps(r)) {
      for (const Range& source : step.sources) {
        EXPECT_EQ(group.members[source.rank].device, group.members[r].device);
      }
      for (const Range& to : step.destinations) {
        const uint32_t from = group.members[r].device;
        if (group.members[to.rank].device == from) continue;
        add_route(&loads, from, group.members[to.rank].device, step.bytes);
      }
    }
  }
  return loads;
}

void expect_all_links(const LinkLoads& loads, uint64_t bytes) {
  EXPECT_EQ(loads.size(), 64u);
  for (const auto& [link, load] : loads) {
    EXPECT_EQ(load, bytes) << "device " << link.first << " port " << static_cast<int>(link.second);
  }
}

Group node_of(Gen gen, uint32_t cores) {
  return group_of_chips(torus_topology(gen, cores), count_from(0, 16));
}

TEST(Ports, ChipCodesAreHypercubes) {
  for (const Gen gen : {Gen::kV2, Gen::kV3}) {
    const Topology topology = torus_topology(gen, 4);
    std::set<uint32_t> codes;
    for (uint32_t d = 0; d < 16; ++d) codes.insert(chip_code(gen, d));
    EXPECT_EQ(codes.size(), 16u);
    for (uint32_t a = 0; a < 16; ++a) {
      for (uint32_t b = 0; b < 16; ++b) {
        const uint32_t differs = chip_code(gen, a) ^ chip_code(gen, b);
        const bool one_bit = differs != 0 && (differs & (differs - 1)) == 0;
        EXPECT_TRUE(!one_bit || topology.linked(a, b));
      }
      // Columns differ in the column bits only.
      EXPECT_EQ((chip_code(gen, a) ^ chip_code(gen, a / 4 * 4)) & ~column_bits(gen), 0u);
    }
  }
}

TEST(Ports, EveryLinkJoinsACoreWithItsComplement) {
  for (uint32_t d = 0; d < 16; ++d) {
    std::set<uint32_t> owners;
    for (const auto& [port, back] :
         {std::pair{Port::kNorth, Port::kSouth}, std::pair{Port::kSouth, Port::kNorth},
          std::pair{Port::kEast, Port::kWest}, std::pair{Port::kWest, Port::kEast}}) {
      const auto here = port_owners(d, 0, port);
      const auto there = port_owners(torus_neighbour(d, port), 0, back);
      ASSERT_EQ(here.size(), 1u);
      ASSERT_EQ(there.size(), 1u);
      EXPECT_EQ(here[0] + there[0], 3u);
      owners.insert(here[0]);
    }
    EXPECT_EQ(owners.size(), 4u);
    EXPECT_EQ(port_owners(d, 0, Port::kLeft).size(), 2u);
    EXPECT_EQ(port_owners(d, 1, Port::kNorth)[0], 3 - port_owners(d, 0, Port::kNorth)[0]);
  }
}

TEST(Ports, RoutesAreMinimalAndBalanced) {
  LinkLoads loads;
  for (uint32_t a = 0; a < 16; ++a) {
    for (uint32_t b = 0; b < 16; ++b) add_route(&loads, a, b, 1);
  }
  expect_all_links(loads, 8);
}

// 2.7.1: a core sends to 4, 4, 4 or 3 chips and receives from as many.
TEST(Ports, OwnersAndLandingCoresShareTheChips) {
  const Group group = node_of(Gen::kV3, 4);
  const MeshPaths paths(group, by_chip(group));
  ASSERT_TRUE(paths.landing());
  for (uint32_t s = 0; s < 16; ++s) {
    std::multiset<size_t> sent;
    std::multiset<size_t> landed;
    for (uint32_t core = 0; core < 4; ++core) {
      size_t sends = 0;
      size_t lands = 0;
      for (uint32_t d = 0; d < 16; ++d) {
        sends += d != s && paths.owner(s, d, 0) == core;
        lands += d != s && paths.land(d, s) == core;
      }
      sent.insert(sends);
      landed.insert(lands);
    }
    EXPECT_EQ(sent, (std::multiset<size_t>{3, 4, 4, 4}));
    EXPECT_EQ(landed, (std::multiset<size_t>{3, 4, 4, 4}));
  }
}

TEST(Ports, CoresWithoutAPortInUseJoinTheClasses) {
  const Group row = group_of_chips(torus_topology(Gen::kV3, 4), count_from(0, 4));
  const MeshPaths paths(row, by_chip(row));
  for (uint32_t s = 0; s < 4; ++s) {
    std::set<uint32_t> senders;
    for (uint32_t d = 0; d < 4; ++d) {
      if (d != s) senders.insert(paths.owner(s, d, 0));
    }
    EXPECT_EQ(senders.size(), 3u);  // one per destination
  }
}

// Z cables: left between nodes 0-1 and 2-3, right between 1-2 and 3-0; left ones belong to
// S-engines 1 and 2, right ones to 0 and 3 (spec/collectives.md 2.3).
TEST(Ports, NodesOfAnUltraServerUseTheCablesOfTheirChips) {
  const Group group = group_of_chips(torus_topology(Gen::kV3, 4, 4), {0, 16, 32, 48});
  const MeshPaths paths(group, by_chip(group));
  for (uint32_t s = 0; s < 4; ++s) {
    for (uint32_t d = 0; d < 4; ++d) {
      if ((d + 4 - s) % 4 != 1) continue;
      const Port cable = s % 2 == 0 ? Port::kLeft : Port::kRight;
      for (const auto& [chip, core] :
           {std::pair{s, paths.owner(s, d, 0)}, std::pair{d, paths.land(s, d)}}) {
        const auto owners = port_owners(0, chip, cable);
        EXPECT_EQ(std::count(owners.begin(), owners.end(), core), 1) << s << " to " << d;
      }
    }
  }
}

// 2.15, 16 chips x 4 ranks.
TEST(LinkLoads, Mesh) {
  const Group group = node_of(Gen::kV3, 4);
  constexpr uint64_t kChunk = 1024;
  for (const OpKind kind : {OpKind::kAllGather, OpKind::kReduceScatter}) {
    const auto schedule = mesh(request_of(kind, 64, kChunk), group, {});
    ASSERT_TRUE(schedule);
    expect_all_links(loads_of(*schedule, group), 32 * kChunk);
  }
  const auto all_reduce = mesh(request_of(OpKind::kAllReduce, 64, 64 * kChunk), group, {});
  ASSERT_TRUE(all_reduce);
  expect_all_links(loads_of(*all_reduce, group), 64 * kChunk);
}

TEST(LinkLoads, RdhWithRotatedAxes) {
  const Group group = node_of(Gen::kV3, 4);
  for (const uint64_t chunk : {uint64_t{1024}, uint64_t{128 * 1024}}) {
    for (const OpKind kind : {OpKind::kAllGather, OpKind::kReduceScatter}) {
      const auto schedule = rdh(request_of(kind, 64, chunk), group, {});
      ASSERT_TRUE(schedule);
      expect_all_links(loads_of(*schedule, group), 15 * chunk);
    }
    const auto all_reduce = rdh(request_of(OpKind::kAllReduce, 64, 64 * chunk), group, {});
    ASSERT_TRUE(all_reduce);
    expect_all_links(loads_of(*all_reduce, group), 30 * chunk);
  }
}

TEST(LinkLoads, AllToAll) {
  const Group group = node_of(Gen::kV3, 4);
  const OpRequest request = request_of(OpKind::kAllToAll, 64, 256);
  for (const auto make : {direct_all_to_all, chip_all_to_all, pairwise}) {
    const auto schedule = make(request, group, {});
    ASSERT_TRUE(schedule);
    expect_all_links(loads_of(*schedule, group), 128 * 256);
  }
}

// Bytes sent per rank do not depend on the size of the machine's tables: Trn1 has other codes.
TEST(LinkLoads, RdhOnTrn1) {
  const Group group = node_of(Gen::kV2, 2);
  const auto schedule = rdh(request_of(OpKind::kAllGather, 32, 1024), group, {});
  ASSERT_TRUE(schedule);
  uint64_t total = 0;
  for (const auto& [link, load] : loads_of(*schedule, group)) total += load;
  EXPECT_EQ(total, 32u * 15 * 1024);  // every hop is one link long
}

}  // namespace
}  // namespace ccl
