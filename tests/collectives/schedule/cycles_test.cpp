// The rings that channels follow, against the lists and properties of spec/collectives.md 2.3 and
// 2.4.
#include "runtime/collectives/schedule/cycles.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/collectives/schedule/groups.h"

namespace ccl {
namespace {

using Order = std::vector<uint32_t>;
using Orders = std::vector<Order>;

Orders orders_of(const Group& group, uint32_t channels = 4) {
  return ring_orders(group, channels);
}

Order chips_of(const Order& order, uint32_t cores) {
  Order out;
  for (const uint32_t rank : order) {
    if (out.empty() || out.back() != rank / cores) out.push_back(rank / cores);
  }
  return out;
}

void expect_permutations(const Orders& orders, uint32_t ranks) {
  for (const Order& order : orders) {
    EXPECT_EQ(order.size(), ranks);
    EXPECT_EQ(std::set<uint32_t>(order.begin(), order.end()).size(), ranks);
  }
}

// Links between chips, in their direction, that the hops of the channels use.
std::map<std::pair<uint32_t, uint32_t>, uint32_t> uses(const Group& group, const Orders& orders) {
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> out;
  for (const Order& order : orders) {
    for (size_t i = 0; i < order.size(); ++i) {
      const Position& a = group.members[order[i]];
      const Position& b = group.members[order[(i + 1) % order.size()]];
      if (a.chip == b.chip && a.node == b.node) continue;
      ++out[{a.chip, b.chip}];
    }
  }
  return out;
}

TEST(Cycles, Trn2NodeIsTheListOfTheSpecification) {
  const Platform p = torus(Gen::kV3, 4);
  const Orders orders = orders_of(whole(p));
  ASSERT_EQ(orders.size(), 4u);
  expect_permutations(orders, 64);
  EXPECT_EQ(orders[0], (Order{1,  0,  3,  2,  5,  4,  6,  7,  8,  9,  11, 10, 13, 12, 15, 14,
                              29, 28, 31, 30, 25, 24, 26, 27, 20, 21, 22, 23, 36, 37, 39, 38,
                              53, 52, 55, 54, 49, 48, 50, 51, 60, 61, 63, 62, 57, 56, 59, 58,
                              41, 40, 43, 42, 45, 44, 46, 47, 32, 33, 34, 35, 16, 17, 19, 18}));
  EXPECT_EQ(chips_of(orders[1], 4), (Order{0, 12, 8, 9, 10, 6, 2, 14, 13, 1, 5, 4, 7, 11, 15, 3}));
  for (const uint32_t c : {0, 1}) {
    EXPECT_EQ(orders[c + 2], Order(orders[c].rbegin(), orders[c].rend()));
  }
}

TEST(Cycles, Trn2PortsJoinCoreWithItsComplement) {
  const Platform p = torus(Gen::kV3, 4);
  for (const uint32_t first : {0, 16, 32, 48}) {
    for (const uint32_t rows : {1, 2, 4}) {
      Order ranks;
      for (uint32_t i = 0; i < rows * 16; ++i) ranks.push_back((first + i) % 64);
      const Group group = group_of_ranks(p, ranks);
      const Orders orders = orders_of(group);
      ASSERT_EQ(orders.size(), rows == 4 ? 4u : 2u);
      expect_permutations(orders, rows * 16);
      for (const Order& order : orders) {
        for (size_t i = 0; i < order.size(); ++i) {
          const Position& a = group.members[order[i]];
          const Position& b = group.members[order[(i + 1) % order.size()]];
          if (a.chip == b.chip) continue;
          EXPECT_TRUE(p.topology.linked(a.chip, b.chip));
          EXPECT_EQ(a.core, 3 - b.core);
        }
      }
      // Forward channels enter chips through cores 0 and 1.
      const std::vector<ChipRing> rings = chip_rings(group, by_chip(group), 4);
      for (const ChipStop& stop : rings[0].stops) {
        EXPECT_LT(stop.in, 2u);
        EXPECT_GE(stop.out, 2u);
      }
    }
  }
}

TEST(Cycles, WholeTorusUsesEveryDirectedLinkOnce) {
  for (const Gen gen : {Gen::kV2, Gen::kV3}) {
    for (const bool one_rank : {false, true}) {
      const uint32_t cores = gen == Gen::kV2 ? 2 : 4;
      const Platform p = torus(gen, cores);
      const Group group = one_rank ? group_of_ranks(p, 0, 16, cores) : whole(p);
      const auto links = uses(group, orders_of(group));
      EXPECT_EQ(links.size(), 64u);
      for (const auto& [link, count] : links) {
        EXPECT_EQ(count, 1u);
        EXPECT_TRUE(p.topology.linked(link.first, link.second));
      }
    }
  }
}

TEST(Cycles, Trn1EntersRankZeroOnEvenChannels) {
  const Platform p = torus(Gen::kV2, 2);
  const Orders orders = orders_of(whole(p));
  ASSERT_EQ(orders.size(), 4u);
  EXPECT_EQ(chips_of(orders[0], 2), (Order{0, 1, 2, 3, 7, 4, 5, 6, 10, 11, 8, 9, 13, 14, 15, 12}));
  EXPECT_EQ(chips_of(orders[1], 2), (Order{0, 4, 8, 12, 13, 1, 5, 9, 10, 14, 2, 6, 7, 11, 15, 3}));
  for (uint32_t c = 0; c < 4; ++c) EXPECT_EQ(orders[c][0] % 2, c % 2);
}

TEST(Cycles, LinesAndRingsOfInf2) {
  const Platform ring = row_of_chips(12, true);
  const Group both = whole(ring);
  EXPECT_EQ(orders_of(both).size(), 2u);
  for (const auto& [link, count] : uses(both, orders_of(both))) {
    EXPECT_EQ(count, 1u);
    EXPECT_TRUE(ring.topology.linked(link.first, link.second));
  }
  // 2.5: up by even chips, down by odd ones.
  const Orders line = orders_of(whole(row_of_chips(6, false)));
  ASSERT_EQ(line.size(), 1u);
  EXPECT_EQ(chips_of(line[0], 2), (Order{0, 2, 4, 5, 3, 1}));
  const Orders odd = orders_of(group_of_ranks(ring, 4, 10));
  ASSERT_EQ(odd.size(), 1u);
  EXPECT_EQ(chips_of(odd[0], 2), (Order{0, 2, 4, 3, 1}));
  EXPECT_EQ(orders_of(group_of_ranks(ring, 4, 4)).size(), 2u);     // two neighbours
  EXPECT_EQ(orders_of(group_of_ranks(ring, 0, 3, 8)).size(), 1u);  // no links
}

TEST(Cycles, OneChipInBothDirections) {
  EXPECT_EQ(orders_of(whole(one_chip(Gen::kV3, 4))), (Orders{{0, 1, 2, 3}, {3, 2, 1, 0}}));
  EXPECT_EQ(orders_of(whole(one_chip(Gen::kV3, 8)))[1], (Order{7, 6, 5, 4, 3, 2, 1, 0}));
}

TEST(Cycles, RacksGoUpOneAndDownTheOther) {
  const Platform p = racks(18);
  const Group group = whole(p);
  const Orders orders = orders_of(group, 8);
  ASSERT_EQ(orders.size(), 8u);
  expect_permutations(orders, 576);
  for (uint32_t k = 0; k < 4; ++k) {
    const Order chips = chips_of(orders[k], 4);
    ASSERT_EQ(chips.size(), 144u);
    EXPECT_EQ(chips[0], k);
    EXPECT_EQ(chips[71], 17 * 4 + (k + 3) % 4);
    EXPECT_EQ(chips[72], 35 * 4 + (k + 3) % 4);
    EXPECT_EQ(chips[143], 18 * 4 + k);
  }
}

TEST(Cycles, UltraServerJoinsEqualChips) {
  for (const uint32_t nodes : {2, 4}) {
    const Platform p = torus(Gen::kV3, 4, nodes, true);
    const Group group = whole(p);
    const Orders orders = orders_of(group);
    ASSERT_EQ(orders.size(), 4u);
    expect_permutations(orders, 64 * nodes);
    for (const auto& [link, count] : uses(group, orders)) {
      EXPECT_EQ(count, 1u) << link.first << " " << link.second;
      EXPECT_TRUE(p.topology.linked(link.first, link.second)) << link.first << " " << link.second;
    }
    // 2.3: cores of nodes 1 and 3 are numbered the other way round.
    EXPECT_EQ(orders[0][63] % 4 + orders[0][64] % 4, 3u);
  }
}

TEST(Cycles, HostsAreLeftByDifferentChips) {
  const Platform p = torus(Gen::kV2, 2, 3);
  const Group group = whole(p);
  const Orders orders = orders_of(group);
  ASSERT_EQ(orders.size(), 4u);
  expect_permutations(orders, 96);
  std::set<uint32_t> last;
  for (const Order& order : orders) {
    for (size_t i = 0; i + 1 < order.size(); ++i) {
      const Position& a = group.members[order[i]];
      const Position& b = group.members[order[i + 1]];
      if (a.node == b.node) {
        EXPECT_TRUE(a.chip == b.chip || p.topology.linked(a.chip, b.chip));
      }
    }
    last.insert(group.members[order.back()].chip);
  }
  EXPECT_EQ(last.size(), 4u);
}

TEST(Cycles, OriginsOfImplicitPermutes) {
  const Group group = whole(torus(Gen::kV3, 4));
  const Orders orders = orders_of(group);
  for (uint32_t channel = 0; channel < 4; ++channel) {
    const std::vector<uint32_t>& order = orders[channel];
    const auto origins = permute_origins(group, channel, order[5]);
    ASSERT_TRUE(origins) << origins.error().message();
    ASSERT_EQ(origins->size(), 64u);
    for (size_t i = 0; i < 64; ++i) EXPECT_EQ((*origins)[i], order[(5 + 64 - i) % 64]) << i;
  }
  EXPECT_FALSE(permute_origins(group, 4, 0));
}

// Channel by channel an implicit permute follows the rings; a group has two, or four if it is a
// whole node.
TEST(Cycles, PairsOfImplicitPermutes) {
  const Platform p = torus(Gen::kV3, 4);
  const Group group = whole(p);
  const Orders orders = orders_of(group);
  for (uint32_t channel = 0; channel < 4; ++channel) {
    const auto pairs = ring_pairs(group, channel);
    ASSERT_TRUE(pairs) << pairs.error().message();
    ASSERT_EQ(pairs->size(), 64u);
    for (size_t i = 0; i < 64; ++i) {
      EXPECT_EQ((*pairs)[i], std::make_pair(orders[channel][i], orders[channel][(i + 1) % 64]));
    }
  }
  const Group row = group_of_ranks(p, 0, 16);
  EXPECT_TRUE(ring_pairs(row, 1));
  const auto third = ring_pairs(row, 2);
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, kNrtInvalid);
  const Group sleds = group_of_ranks(racks(4), 0, 8);  // half of a sled
  EXPECT_TRUE(ring_pairs(sleds, 1));
  EXPECT_FALSE(ring_pairs(sleds, 2));
  EXPECT_TRUE(ring_pairs(group_of_ranks(racks(4), 0, 32), 3));  // two whole ones
}

}  // namespace
}  // namespace ccl
