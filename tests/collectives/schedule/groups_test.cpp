#include "runtime/collectives/schedule/groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ccl {
namespace {

using testing::HasSubstr;

struct Where {
  uint32_t node;
  uint32_t device;
  uint32_t core;
};

Topology torus(contract::Gen gen, uint32_t cores) {
  Topology t;
  t.gen = gen;
  t.fabric = Fabric::kTorus;
  t.cores = cores;
  t.devices_per_node = 16;
  for (uint32_t d = 0; d < 16; ++d) {
    const uint32_t row = d / 4;
    const uint32_t col = d % 4;
    for (const uint32_t other : {(row + 1) % 4 * 4 + col, row * 4 + (col + 1) % 4}) {
      t.links.emplace_back(d, other);
      t.links.emplace_back(other, d);
    }
  }
  std::sort(t.links.begin(), t.links.end());
  return t;
}

Group make_group(const Topology& topology, const std::vector<Where>& places) {
  Group group;
  group.topology = topology;
  for (const Where& w : places) {
    Position p;
    p.node = w.node;
    p.device = w.device;
    p.chip = w.node * topology.devices_per_node + w.device;
    p.core = w.core;
    p.rank = p.chip * topology.cores + w.core;
    group.members.push_back(p);
  }
  return group;
}

Group chips(const Topology& topology, const std::vector<uint32_t>& devices) {
  std::vector<Where> places;
  for (const uint32_t d : devices) {
    for (uint32_t c = 0; c < topology.cores; ++c) places.push_back({0, d, c});
  }
  return make_group(topology, places);
}

std::string verdict(base::Status status) {
  if (status) return "legal";
  EXPECT_EQ(status.error().code, kNrtInvalid);
  return status.error().what;
}

TEST(Groups, OfSeveralNodesAreSymmetric) {
  const Topology t = torus(contract::Gen::kV3, 4);
  EXPECT_EQ(verdict(check_group(make_group(t, {{0, 3, 1}, {1, 3, 1}}), false)), "legal");
  EXPECT_THAT(verdict(check_group(make_group(t, {{0, 3, 1}, {1, 3, 2}}), false)),
              HasSubstr("group [13,78] is not symmetric"));
  EXPECT_THAT(verdict(check_group(make_group(t, {{0, 3, 1}, {0, 4, 1}, {1, 3, 1}}), false)),
              HasSubstr("node 1 has 1 ranks, node 0 has 2"));
}

TEST(Groups, StrictSizesAndShapes) {
  const Topology trn1 = torus(contract::Gen::kV2, 2);
  EXPECT_EQ(verdict(check_group(chips(trn1, {4, 5, 6, 7}), true)), "legal");
  EXPECT_EQ(verdict(check_group(chips(trn1, {0, 1, 2, 3, 4, 5, 6, 7}), true)), "legal");
  EXPECT_EQ(verdict(check_group(chips(trn1, {3, 7}), true)), "legal");
  EXPECT_THAT(verdict(check_group(chips(trn1, {0, 1, 2}), true)),
              HasSubstr("of 6 ranks on trn1; legal sizes: 1, 2, 4, 8, 16, 32"));
  EXPECT_EQ(verdict(check_group(chips(trn1, {0, 1, 2}), false)), "legal");
  EXPECT_THAT(verdict(check_group(chips(trn1, {0, 4, 8, 12}), true)), HasSubstr("one torus row"));
  EXPECT_THAT(verdict(check_group(chips(trn1, {4, 5, 6, 7, 8, 9, 10, 11}), true)),
              HasSubstr("rows {0,1} or {2,3}"));
  // One core of a chip in every row: the other side of a split.
  EXPECT_EQ(
      verdict(check_group(make_group(trn1, {{0, 0, 1}, {0, 4, 1}, {0, 8, 1}, {0, 12, 1}}), true)),
      "legal");
  EXPECT_THAT(
      verdict(check_group(make_group(trn1, {{0, 0, 0}, {0, 0, 1}, {0, 4, 1}, {0, 8, 1}}), true)),
      HasSubstr("different numbers of ranks on its chips"));

  const Topology trn2 = torus(contract::Gen::kV3, 4);
  EXPECT_EQ(verdict(check_group(chips(trn2, {0, 4, 5, 1}), true)), "legal");
  EXPECT_THAT(verdict(check_group(chips(trn2, {0, 2}), true)), HasSubstr("connected chips"));

  Topology inf2;
  inf2.fabric = Fabric::kChain;
  inf2.devices_per_node = 6;
  for (uint32_t d = 0; d + 1 < 6; ++d) {
    inf2.links.emplace_back(d, d + 1);
    inf2.links.emplace_back(d + 1, d);
  }
  std::sort(inf2.links.begin(), inf2.links.end());
  EXPECT_EQ(verdict(check_group(chips(inf2, {1, 2, 3}), true)), "legal");
  EXPECT_THAT(verdict(check_group(chips(inf2, {1, 3}), true)), HasSubstr("consecutive chips"));
  EXPECT_THAT(verdict(check_group(make_group(inf2, {{0, 0, 0}, {1, 0, 0}}), true)),
              HasSubstr("no groups of several nodes"));
}

TEST(Groups, StrictVariableSizes) {
  OpRequest request;
  const auto check = [&](OpKind kind, const Group& group) {
    request.kind = kind;
    EXPECT_EQ(verdict(check_variable(request, group, false)), "legal");
    return verdict(check_variable(request, group, true));
  };
  Topology trn2 = torus(contract::Gen::kV3, 4);
  trn2.lnc = 2;
  Topology trn3 = trn2;
  trn3.gen = contract::Gen::kV4;
  trn3.fabric = Fabric::kSwitched;

  EXPECT_EQ(check(OpKind::kAllGatherV, chips(trn2, {3})), "legal");
  EXPECT_THAT(check(OpKind::kAllGatherV, chips(trn2, {3, 7})),
              HasSubstr("legal: the 4 ranks of one chip, at LNC=2"));
  EXPECT_THAT(check(OpKind::kAllGatherV, make_group(trn2, {{0, 0, 0}, {0, 0, 1}})),
              HasSubstr("group [0,1] at LNC=2"));
  EXPECT_THAT(
      check(OpKind::kAllGatherV, make_group(trn2, {{0, 0, 0}, {0, 1, 0}, {0, 2, 0}, {0, 3, 0}})),
      HasSubstr("group [0,4,8,12] at LNC=2"));
  EXPECT_THAT(check(OpKind::kAllGatherV, chips(torus(contract::Gen::kV3, 4), {0})),
              HasSubstr("at LNC=1"));
  request.receive_displacements = true;
  EXPECT_THAT(check(OpKind::kAllGatherV, chips(trn2, {3})),
              HasSubstr("receive displacements are not supported"));

  // Without a switch: across nodes only, one rank on each.
  EXPECT_EQ(check(OpKind::kAllToAllV, make_group(trn2, {{0, 3, 1}, {1, 3, 1}})), "legal");
  for (const Group& group : {chips(trn2, {0, 1}), chips(trn2, {0}),
                             make_group(trn2, {{0, 3, 1}, {0, 3, 2}, {1, 3, 1}, {1, 3, 2}})}) {
    EXPECT_THAT(check(OpKind::kAllToAllV, group), HasSubstr("one on each of several nodes"));
  }

  EXPECT_EQ(check(OpKind::kAllToAllV, chips(trn3, {1, 2, 3})), "legal");
  EXPECT_THAT(check(OpKind::kAllToAllV, chips(trn3, {1})), HasSubstr("several whole chips"));
  EXPECT_THAT(check(OpKind::kAllToAllV, chips(trn3, {2, 1})), HasSubstr("several whole chips"));
  EXPECT_THAT(check(OpKind::kAllToAllV, chips(trn3, {1, 3})), HasSubstr("consecutive ranks"));
  EXPECT_THAT(
      check(OpKind::kAllToAllV, make_group(trn3, {{0, 0, 2}, {0, 0, 3}, {0, 1, 0}, {0, 1, 1}})),
      HasSubstr("group [2,3,4,5]"));
  trn3.lnc = 1;
  EXPECT_THAT(check(OpKind::kAllToAllV, chips(trn3, {1, 2})), HasSubstr("at LNC=1"));

  for (const OpKind kind : {OpKind::kReduceScatterV, OpKind::kAllToAll, OpKind::kAllGather}) {
    EXPECT_EQ(check(kind, chips(trn2, {0, 5})), "legal");
  }
}

TEST(Groups, PermutesAreCirclesOrSinglePairs) {
  const Group group = chips(torus(contract::Gen::kV2, 2), {0, 1, 2, 3, 4, 5, 6, 7});
  const auto check = [&](const std::vector<std::pair<uint32_t, uint32_t>>& pairs, bool strict) {
    OpRequest r;
    r.kind = OpKind::kPermute;
    r.pairs = pairs;
    return verdict(check_permute(r, group, strict));
  };
  EXPECT_EQ(check({{0, 1}, {1, 2}, {2, 0}, {4, 4}, {5, 6}, {6, 5}}, true), "legal");
  EXPECT_EQ(check({{0, 9}}, false), "legal");
  EXPECT_THAT(check({{0, 12}}, true), HasSubstr("no direct link from rank 0 to rank 12"));
  EXPECT_EQ(check({{0, 3}, {7, 1}}, false), "legal");
  EXPECT_THAT(check({{0, 1}, {1, 2}}, false), HasSubstr("pair (0, 1) is part of an open chain"));
  EXPECT_THAT(check({{1, 2}, {0, 1}, {5, 5}}, false), HasSubstr("open chain"));
}

}  // namespace
}  // namespace ccl
