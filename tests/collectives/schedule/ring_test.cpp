// Rings on every platform: right results, no races, no deadlocks, and the loads of collectives.md
// 2.15.
#include <gtest/gtest.h>

#include <map>

#include "runtime/collectives/schedule/cycles.h"
#include "tests/collectives/schedule/groups.h"

namespace ccl {
namespace {

constexpr OpKind kFolds[] = {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter};

void check_sizes(const Group& group, const std::vector<OpKind>& kinds,
                 const std::vector<uint64_t>& sizes, const ScheduleOptions& base = {}) {
  for (const OpKind kind : kinds) {
    for (const uint64_t bytes : sizes) {
      for (const bool in_place : {false, true}) {
        if (in_place && kind == OpKind::kAllToAll) continue;
        ScheduleOptions options = base;
        options.in_place = in_place;
        const OpRequest request = request_of(kind, group.ranks(), bytes);
        EXPECT_EQ(problem(ring(request, group, options), options), "")
            << to_string(kind) << " of " << bytes << " bytes, " << group.ranks()
            << " ranks, in place " << in_place;
      }
    }
  }
}

const std::vector<OpKind> kAll = {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter,
                                  OpKind::kAllToAll};

TEST(Ring, OneChip) {
  for (const uint32_t cores : {1, 2}) {
    const Platform p = one_chip(Gen::kV2, cores);
    check_sizes(whole(p), kAll, {0, 2, 62, 64, 66, 126, 128, 130, 4096, 100000, 1 << 24});
  }
  for (const uint32_t cores : {3, 4, 8}) {
    const Platform p = one_chip(Gen::kV3, cores);
    check_sizes(whole(p), kAll, {0, 2, 62, 64, 66, 126, 128, 130, 4096, 100000, 1 << 24});
  }
}

TEST(Ring, TorusOfTrn1) {
  const Platform p = torus(Gen::kV2, 2);
  check_sizes(whole(p), kAll, {0, 2, 62, 64, 66, 32 * 64 + 2, 1 << 20, 1 << 28});
}

}  // namespace
}  // namespace ccl
