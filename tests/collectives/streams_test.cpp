// Operations of several streams and groups at once on the reference machine, which takes their
// steps and packets in any order that the hardware contract allows (spec/collectives.md 3.5, 3.6).
#include <gtest/gtest.h>

#include <deque>

#include "tests/collectives/lowering_bench.h"

namespace ccl {
namespace {

// Every stream with groups of its own: all ranks, chips, one rank per chip, pairs across chips.
class Streams : public ::testing::TestWithParam<uint32_t> {
 protected:
  static constexpr uint32_t kChips = 4;
  static constexpr uint32_t kCores = 4;

  void add(uint32_t stream, const std::vector<uint32_t>& ranks, OpKind kind,
           const std::string& algorithm) {
    Case c;
    c.group = group_of_ranks(platform_, ranks);
    c.kind = kind;
    c.algo = std::string(to_string(kind)) + ":" + algorithm;
    c.elements = kElements;
    c.stream = stream;
    c.executions = 3;
    benches_.emplace_back(c, &machine_);
    ASSERT_NO_FATAL_FAILURE(benches_.back().load());
    EXPECT_STREQ(to_string(benches_.back().algorithm), algorithm.c_str());
  }

  void run() {
    ASSERT_TRUE(machine_.run()) << machine_.error;
    EXPECT_TRUE(machine_.all_semaphores_zero());
    for (Bench& bench : benches_) bench.check();
  }

  static constexpr uint64_t kElements = 16 * 96;
  const Platform platform_ = torus(Gen::kV3, kCores);
  ReferenceMachine machine_{Gen::kV3, GetParam()};
  std::deque<Bench> benches_;
};

TEST_P(Streams, OfDifferentGroupsDoNotBlockEachOther) {
  std::vector<uint32_t> all;
  for (uint32_t rank = 0; rank < kChips * kCores; ++rank) all.push_back(rank);
  add(0, all, OpKind::kAllReduce, "mesh");
  for (uint32_t i = 0; i < kChips; ++i) {
    std::vector<uint32_t> chip;
    std::vector<uint32_t> across;
    for (uint32_t k = 0; k < kCores; ++k) {
      chip.push_back(i * kCores + k);
      across.push_back(k * kCores + i);
    }
    add(1, across, OpKind::kAllReduce, "ring");
    add(2, chip, OpKind::kAllGather, "ring");
  }
  for (uint32_t rank = 0; rank < all.size() / 2; ++rank) {
    add(3, {rank, kChips * kCores - 1 - rank}, OpKind::kAllToAll, "pairwise");
  }
  run();
}

// Two groups of one rank per chip and a mesh of all: published as a deadlock of the original.
TEST_P(Streams, RingsOfOneRankPerChipBesideAMesh) {
  add(0, {0, 4, 8, 12}, OpKind::kAllReduce, "ring");
  add(0, {13, 9, 5, 1}, OpKind::kReduceScatter, "ring");
  add(1, {0, 1, 4, 5, 8, 9, 12, 13}, OpKind::kAllReduce, "mesh");
  run();
}

INSTANTIATE_TEST_SUITE_P(Orders, Streams, ::testing::Range(1u, 9u));

}  // namespace
}  // namespace ccl
