// Permutes along cycles and open chains, in place and not.
#include <gtest/gtest.h>

#include "tests/collectives/schedule/groups.h"

namespace ccl {
namespace {

using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;

std::string run(OpKind kind, uint32_t n, const Pairs& pairs, uint64_t bytes,
                const ScheduleOptions& options) {
  const Group group = group_of_ranks(torus(Gen::kV3, 4), 0, n);
  OpRequest request = request_of(kind, n, bytes);
  request.pairs = pairs;
  return problem(permute(request, group, options), options);
}

Pairs cycle(uint32_t n) {
  Pairs out;
  for (uint32_t r = 0; r < n; ++r) out.push_back({r, (r + 1) % n});
  return out;
}

TEST(Permute, Pairs) {
  const std::vector<std::pair<uint32_t, Pairs>> cases = {
      {1, cycle(1)},
      {2, cycle(2)},
      {2, {{1, 0}}},                          // send and receive
      {5, {{0, 1}, {1, 0}, {4, 4}}},          // as the benchmark's example
      {4, {{0, 1}, {1, 2}, {2, 3}}},          // open
      {8, {{0, 3}, {3, 5}, {5, 0}, {7, 6}}},  // a cycle and a pair
      {64, cycle(64)},
      {3, {}},
  };
  for (const auto& [n, pairs] : cases) {
    for (const OpKind kind : {OpKind::kPermute, OpKind::kPermuteReduce}) {
      for (const uint64_t bytes : {0, 2, 66, 100000, 1 << 26}) {
        ScheduleOptions options;
        EXPECT_EQ(run(kind, n, pairs, bytes, options), "") << n << " ranks, " << bytes;
        options.in_place = true;
        EXPECT_EQ(run(kind, n, pairs, bytes, options), "") << n << " ranks in place, " << bytes;
      }
    }
  }
}

TEST(Permute, FewSlotsInPlace) {
  for (const uint32_t slots : {2, 3}) {
    ScheduleOptions options;
    options.in_place = true;
    options.slots = slots;
    options.slot_bytes = 4096;
    EXPECT_EQ(run(OpKind::kPermute, 5, cycle(5), 100000, options), "");
    options.max_steps = 20;
    EXPECT_EQ(run(OpKind::kPermute, 5, cycle(5), 100000, options), "");
  }
}

TEST(Permute, RefusesPairsThatAreNone) {
  EXPECT_NE(run(OpKind::kPermute, 2, {{0, 1}, {0, 0}}, 64, {}), "");
  EXPECT_NE(run(OpKind::kPermute, 2, {{0, 2}}, 64, {}), "");
  EXPECT_NE(run(OpKind::kAllGather, 2, {}, 64, {}), "");
}

}  // namespace
}  // namespace ccl
