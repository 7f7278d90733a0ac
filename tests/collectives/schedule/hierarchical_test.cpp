#include "tests/collectives/schedule/checks.h"

namespace ccl {
namespace {

using contract::Gen;

constexpr size_t kMostEvents = 64;

std::vector<NamedGroup> node_groups() {
  const Topology trn1 = torus_topology(Gen::kV2, 2, 2);
  const Topology ultra = torus_topology(Gen::kV3, 4, 4);
  const Topology gen2 = switched_topology(4, 18, 4);
  return {
      {"trn1: a chip on two nodes", group_of_chips(trn1, {0, 16})},
      {"trn1: rows on two nodes", group_of_chips(trn1, {0, 1, 2, 3, 16, 17, 18, 19})},
      {"ultra: a chip on four nodes", group_of_chips(ultra, {5, 21, 37, 53})},
      {"ultra: rows on four nodes shuffled",
       shuffled(
           group_of_chips(ultra, {0, 1, 2, 3, 16, 17, 18, 19, 32, 33, 34, 35, 48, 49, 50, 51}))},
      {"ultra: nodes, one rank per chip", group_of_chips(ultra, count_from(0, 32), 1)},
      {"gen2: two servers", group_of_chips(gen2, count_from(4, 8))},
      {"gen2: six servers", group_of_chips(gen2, count_from(60, 24))},
      {"gen2: eight servers", group_of_chips(gen2, count_from(0, 32))},
  };
}

TEST(Hierarchical, AllGroupsOperationsAndSizes) {
  for (const NamedGroup& named : node_groups()) {
    expect_reductions_valid(hierarchical, named, kMostEvents);
  }
}

TEST(Hierarchical, SubBlocks) {
  for (const NamedGroup& named : node_groups()) {
    if (named.group.ranks() > kSmallGroup) continue;
    const uint64_t chunk = (4u << 20) / named.group.ranks() + 70;
    for (const bool in_place : {false, true}) {
      expect_valid(hierarchical, named, OpKind::kAllGather, chunk, in_place, kMostEvents);
      expect_valid(hierarchical, named, OpKind::kReduceScatter, chunk, in_place, kMostEvents);
      expect_valid(hierarchical, named, OpKind::kAllReduce, chunk * named.group.ranks(), in_place,
                   kMostEvents);
    }
  }
}

TEST(Hierarchical, NeedsNodesWithSeveralRanks) {
  const Topology ultra = torus_topology(Gen::kV3, 4, 4);
  const OpRequest request = request_of(OpKind::kAllReduce, 4, 1024);
  EXPECT_FALSE(hierarchical(request, group_of_chips(ultra, {0}), {}));
  EXPECT_FALSE(hierarchical(request, group_of_chips(ultra, {0, 16, 32, 48}, 1), {}));
  Group uneven = group_of_chips(ultra, {0, 17}, 2);
  EXPECT_FALSE(hierarchical(request, uneven, {}));
}

}  // namespace
}  // namespace ccl
