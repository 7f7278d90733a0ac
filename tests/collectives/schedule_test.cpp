// Schedules on symbolic data: result, order of the sum, races, bytes over the fabric.
#include "runtime/collectives/schedule.h"

#include <gtest/gtest.h>

namespace ccl {
namespace {

constexpr uint64_t kKiB = 1024;

OpRequest request(OpKind kind, uint64_t input, uint32_t ranks, DType dtype = DType::kBf16) {
  OpRequest r;
  r.kind = kind;
  r.dtype = dtype;
  r.input_bytes = input;
  r.output_bytes = kind == OpKind::kAllReduce   ? input
                   : kind == OpKind::kAllGather ? input * ranks
                                                : input / ranks;
  return r;
}

base::Result<Schedule> build(Algorithm algorithm, const OpRequest& r, uint32_t ranks,
                             const ScheduleOptions& options) {
  return algorithm == Algorithm::kRing ? ring_schedule(r, ranks, options)
                                       : mesh_schedule(r, ranks, options);
}

// Sizes around the cuts: 64-byte units, slots, slices.
std::vector<uint64_t> sizes() {
  return {0,
          2,
          4,
          62,
          64,
          66,
          126,
          1026,
          64 * kKiB,
          512 * kKiB - 2,
          512 * kKiB,
          512 * kKiB + 2,
          5000 * kKiB + 6,
          1024 * 1024 * kKiB};
}

class ScheduleTest : public testing::TestWithParam<std::tuple<Algorithm, OpKind, uint32_t>> {};

TEST_P(ScheduleTest, IsCorrectForEverySize) {
  const auto [algorithm, kind, ranks] = GetParam();
  for (const bool direct : {true, false}) {
    for (const bool in_place : {false, true}) {
      for (uint64_t bytes : sizes()) {
        if (kind == OpKind::kReduceScatter) bytes *= ranks;
        ScheduleOptions options;
        options.direct = direct;
        options.in_place = in_place;
        const OpRequest r = request(kind, bytes, ranks);
        const auto schedule = build(algorithm, r, ranks, options);
        ASSERT_TRUE(schedule) << schedule.error().message();
        const base::Status status = verify(*schedule);
        ASSERT_TRUE(status) << status.error().message() << " bytes " << bytes << " direct "
                            << direct << " in place " << in_place
                            << (bytes < 4 * kKiB ? "\n" + print(*schedule) : "");
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ScheduleTest,
                         testing::Combine(testing::Values(Algorithm::kRing, Algorithm::kMesh),
                                          testing::Values(OpKind::kAllReduce, OpKind::kAllGather,
                                                          OpKind::kReduceScatter),
                                          testing::Values(1u, 2u, 3u, 4u, 5u, 8u)));

TEST(Schedule, ChunksAreMultiplesOf64BytesAndCoverTheBuffer) {
  for (const uint64_t bytes : {0ull, 1ull, 63ull, 64ull, 65ull, 1000ull, 1000001ull}) {
    for (const uint32_t ranks : {1u, 2u, 3u, 7u}) {
      uint64_t at = 0;
      for (uint32_t n = 0; n < ranks; ++n) {
        const Chunk c = chunk_of(bytes, ranks, n);
        EXPECT_EQ(c.offset, at);
        at += c.bytes;
        EXPECT_TRUE(c.bytes % 64 == 0 || at == bytes);
      }
      EXPECT_EQ(at, bytes);
    }
  }
}

// Two ranks: B bytes per direction, the least possible for an all-reduce.
TEST(Schedule, TwoRankRingMovesTheLeastBytes) {
  const uint64_t bytes = 1 << 20;
  const auto reduce = ring_schedule(request(OpKind::kAllReduce, bytes, 2), 2, {});
  EXPECT_EQ(fabric_bytes(*reduce, 0, 1), bytes);
  EXPECT_EQ(fabric_bytes(*reduce, 1, 0), bytes);
  EXPECT_EQ(reduce->channel_bytes, 0u);
  const auto gather = ring_schedule(request(OpKind::kAllGather, bytes, 2), 2, {});
  EXPECT_EQ(fabric_bytes(*gather, 0, 1), bytes);
  const auto scatter = ring_schedule(request(OpKind::kReduceScatter, bytes, 2), 2, {});
  EXPECT_EQ(fabric_bytes(*scatter, 0, 1), bytes / 2);
}

TEST(Schedule, RingOfFourSendsTheBandwidthOptimum) {
  ScheduleOptions options;
  options.direct = false;
  const uint64_t bytes = 1 << 20;
  const auto s = ring_schedule(request(OpKind::kAllReduce, bytes, 4), 4, options);
  for (uint32_t r = 0; r < 4; ++r) {
    EXPECT_EQ(fabric_bytes(*s, r, (r + 1) % 4), 2 * 3 * bytes / 4);
    EXPECT_EQ(fabric_bytes(*s, (r + 1) % 4, r), 0u);
  }
}

// Position p ends with the sum in_{p+1}, in_{p+2}, ..., in_p (collectives.md 2.5).
TEST(Schedule, RingFoldsFromTheSuccessorOn) {
  const auto s = ring_schedule(request(OpKind::kReduceScatter, 3 * 64, 3), 3, {});
  ASSERT_TRUE(s);
  const Step& first = s->steps[0];
  ASSERT_EQ(first.sources.size(), 2u);
  // Rank 0 reads rank 2's part of chunk 1 before its own: 2 + 0, then rank 1 adds itself.
  EXPECT_EQ(first.rank, 0u);
  EXPECT_EQ(first.sources[0].rank, 2u);
  EXPECT_EQ(first.sources[1].rank, 0u);
  EXPECT_EQ(first.sources[0].offset, 64u);
}

TEST(Schedule, MeshFoldsInGroupOrder) {
  const auto s = mesh_schedule(request(OpKind::kAllReduce, 128, 3), 3, {});
  for (const Step& step : s->steps) {
    ASSERT_EQ(step.sources.size(), 3u);
    for (uint32_t k = 0; k < 3; ++k) EXPECT_EQ(step.sources[k].rank, k);
  }
}

Schedule two_rank_reduce() {
  return *ring_schedule(request(OpKind::kAllReduce, 256, 2), 2, {});
}

TEST(Verify, FindsAMissingOrder) {
  Schedule s = two_rank_reduce();
  for (Step& step : s.steps) step.after.clear();
  EXPECT_FALSE(verify(s));
}

TEST(Verify, FindsAWrongChunk) {
  Schedule s = two_rank_reduce();
  s.steps[0].sources[0].offset ^= 64;
  EXPECT_FALSE(verify(s));
}

TEST(Verify, FindsAMissingContribution) {
  Schedule s = two_rank_reduce();
  s.steps[0].sources.pop_back();
  EXPECT_FALSE(verify(s));
}

TEST(Verify, FindsAnIncompleteOutput) {
  Schedule s = two_rank_reduce();
  s.steps.pop_back();
  EXPECT_FALSE(verify(s));
}

TEST(Verify, FindsDifferentOrdersOnTheRanks) {
  Schedule s = *mesh_schedule(request(OpKind::kAllReduce, 64, 2), 2, {});
  std::swap(s.steps[1].sources[0], s.steps[1].sources[1]);
  EXPECT_FALSE(verify(s));
}

TEST(Verify, FindsWaitsForLaterSteps) {
  Schedule s = two_rank_reduce();
  s.steps[0].after = {1};
  EXPECT_FALSE(verify(s));
}

TEST(Verify, FindsReadsOutsideBuffers) {
  Schedule s = two_rank_reduce();
  s.steps[0].sources[0].offset = 200;
  EXPECT_FALSE(verify(s));
  s = two_rank_reduce();
  s.steps[0].destination.rank = 2;
  EXPECT_FALSE(verify(s));
}

TEST(Verify, FindsThatDirectMeshCannotRunInPlace) {
  Schedule s = *mesh_schedule(request(OpKind::kAllReduce, 64, 2), 2, {});
  EXPECT_TRUE(verify(s));
  s.in_place = true;
  EXPECT_FALSE(verify(s));
}

}  // namespace
}  // namespace ccl
