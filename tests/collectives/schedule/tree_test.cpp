// Broadcast, reduce, double binary trees and barriers for any number of ranks.
#include <gtest/gtest.h>

#include <set>

#include "tests/collectives/schedule/groups.h"

namespace ccl {
namespace {

std::vector<uint32_t> sizes_of_groups() {
  std::vector<uint32_t> out = {24, 31, 32, 33, 64};
  for (uint32_t n = 1; n <= 17; ++n) out.push_back(n);
  return out;
}

void check_sizes(uint32_t n, OpKind kind, uint32_t root, const std::vector<uint64_t>& sizes,
                 const ScheduleOptions& base = {}) {
  const Group group = group_of_ranks(torus(Gen::kV3, 4), 0, n);
  for (const uint64_t bytes : sizes) {
    for (const bool in_place : {false, true}) {
      ScheduleOptions options = base;
      options.in_place = in_place;
      OpRequest request = request_of(kind, n, bytes);
      request.root = root;
      EXPECT_EQ(problem(tree(request, group, options), options), "")
          << to_string(kind) << " of " << bytes << " bytes, " << n << " ranks, root " << root
          << ", in place " << in_place;
    }
  }
}

TEST(Tree, AnyNumberOfRanks) {
  for (const uint32_t n : sizes_of_groups()) {
    for (const OpKind kind : {OpKind::kBroadcast, OpKind::kReduce, OpKind::kAllReduce}) {
      check_sizes(n, kind, n / 3, {0, 2, 66, 100000});
    }
    check_sizes(n, OpKind::kBarrier, 0, {0});
  }
}

TEST(Tree, ManySlicesOnFewChannels) {
  for (const uint32_t channels : {1, 2, 3, 4}) {
    ScheduleOptions options;
    options.max_channels = channels;
    options.slot_bytes = 4096;
    options.slots = 3;
    for (const uint32_t n : {2, 3, 7, 12}) {
      for (const OpKind kind : {OpKind::kBroadcast, OpKind::kReduce, OpKind::kAllReduce}) {
        check_sizes(n, kind, 1, {200000}, options);
      }
      const Group group = group_of_ranks(torus(Gen::kV3, 4), 0, n);
      const OpRequest request = request_of(OpKind::kAllReduce, n, 200000);
      EXPECT_TRUE(verify(on_one_core(*tree(request, group, options))).ok());
      options.max_steps = 40;
      check_sizes(n, OpKind::kAllReduce, 0, {200000}, options);
    }
  }
}

// 2.11: about 2 B per rank and 2 ceil(log2 N) hops; each rank is interior in at most one tree.
TEST(Tree, EachRankIsInteriorInOneTree) {
  const uint64_t bytes = 1 << 20;
  for (const uint32_t n : sizes_of_groups()) {
    const Group group = group_of_ranks(torus(Gen::kV3, 4), 0, n);
    const Schedule schedule = *tree(request_of(OpKind::kAllReduce, n, bytes), group, {});
    for (uint32_t r = 0; r < n; ++r) {
      std::set<uint32_t> interior;
      uint64_t written = 0;
      for (const Step& step : schedule.steps(r)) {
        if (step.sources.size() > 1) interior.insert(step.channel);
        for (const Range& to : step.destinations) written += to.rank == r ? 0 : step.bytes;
      }
      EXPECT_LE(interior.size(), 1u) << "rank " << r << " of " << n;
      EXPECT_LE(written, 2 * bytes);
    }
  }
}

TEST(Tree, BarrierTakesLogarithmicRounds) {
  const Group group = group_of_ranks(torus(Gen::kV3, 4), 0, 33);
  EXPECT_EQ(tree(request_of(OpKind::kBarrier, 33, 0), group, {})->steps(5).size(), 7u);
}

TEST(Tree, RefusesOtherOperations) {
  const Group group = whole(one_chip(Gen::kV3, 4));
  EXPECT_EQ(tree(request_of(OpKind::kAllGather, 4, 4096), group, {}).error().fault,
            base::Fault::kUnsupported);
}

}  // namespace
}  // namespace ccl
