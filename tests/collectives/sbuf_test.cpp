// Tensors in SBUF on the reference machine: every shape of rows, columns and partitions, in place
// and not, several algorithms; refusals.
#include <gtest/gtest.h>

#include "tests/collectives/lowering_bench.h"
#include "tests/collectives/schedule/samples.h"

namespace ccl {
namespace {

constexpr uint64_t kElement = 4;

// `part` is the tensor without the chunks of the other ranks; `partitions` those of the long one.
Case sbuf_case(OpKind kind, const Group& group, const SbufRows& part, uint32_t partitions) {
  Case c;
  c.group = group;
  c.kind = kind;
  const uint64_t elements = part.bytes / kElement * part.partitions;
  SbufRows whole = part;
  whole.partitions = partitions;
  switch (kind) {
    case OpKind::kAllGather:
      c.elements = elements;
      c.input_rows = part;
      c.output_rows = whole;
      break;
    case OpKind::kReduceScatter:
      c.elements = elements * group.ranks();
      c.input_rows = whole;
      c.output_rows = part;
      break;
    default:
      c.elements = elements;
      c.input_rows = part;
      c.output_rows = part;
  }
  return c;
}

Group ranks_of(uint32_t count) {
  return group_of_ranks(torus(Gen::kV3, 4), 0, count);
}

TEST(Sbuf, EveryShape) {
  for (const OpKind kind : {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter}) {
    for (const uint32_t count : {2u, 4u}) {
      for (const uint64_t row : {4, 24, 512, 4100}) {
        for (const uint32_t partitions : {1u, 3u, 16u}) {
          // Side by side, one partition after the other, and both.
          for (const uint32_t whole : {partitions, partitions * count, partitions * 2}) {
            for (const bool in_place : {false, true}) {
              Case c = sbuf_case(kind, ranks_of(count), {row, partitions, 2}, whole);
              c.in_place = in_place;
              run(c);
            }
          }
        }
      }
    }
  }
}

TEST(Sbuf, EveryAlgorithm) {
  for (const OpKind kind : {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter}) {
    for (const char* algorithm : {"ring", "mesh", "rdh", "kangaring"}) {
      Case c = sbuf_case(kind, ranks_of(16), {512, 16, 1}, 128);
      c.algo = std::string(to_string(kind)) + ":" + algorithm;
      c.executions = 3;
      c.cc_count = 2;
      run(c);
    }
  }
}

TEST(Sbuf, ReductionOfRowsOfDifferentLength) {
  Case c = sbuf_case(OpKind::kAllReduce, ranks_of(4), {48, 8, 1}, 0);
  c.output_rows = {128, 3, 1};
  run(c);
}

TEST(Sbuf, OverlapsAreSeenByPartition) {
  OpRequest q = sample_request(OpKind::kAllReduce, 2, 4096);
  q.input_rows = q.output_rows = {512, 8, 2};
  RankResources r;
  r.src = 0x1000;
  const uint64_t partition = contract::tpb::kPartitionStride;
  for (const uint64_t apart : {uint64_t{512}, partition, partition + 511, 16 * partition}) {
    r.dst = r.src + apart;
    EXPECT_FALSE(tensors_overlap(q, r)) << apart;
  }
  for (const uint64_t near : {uint64_t{0}, uint64_t{511}, 2 * partition, 14 * partition + 511}) {
    r.dst = r.src + near;
    EXPECT_TRUE(tensors_overlap(q, r)) << near;
  }
}

TEST(Sbuf, Refusals) {
  OpRequest q = sample_request(OpKind::kAllReduce, 2, 4096);
  q.input_rows = q.output_rows = {512, 8, 1};
  EXPECT_TRUE(validate(q, 2));
  OpRequest mixed = q;
  mixed.output_rows = {};
  EXPECT_FALSE(validate(mixed, 2));
  OpRequest ragged = q;
  ragged.input_rows.bytes = 500;
  EXPECT_FALSE(validate(ragged, 2));
  OpRequest other = sample_request(OpKind::kAllToAll, 2, 4096);
  other.input_rows = other.output_rows = q.input_rows;
  EXPECT_FALSE(validate(other, 2));
}

// Rows of one length at other distances are no legal alias.
TEST(Sbuf, AliasOfAnotherShape) {
  Case c = sbuf_case(OpKind::kAllReduce, ranks_of(2), {512, 8, 1}, 0);
  c.in_place = true;
  c.output_rows = {1024, 4, 1};
  Bench bench(c);
  ASSERT_NO_FATAL_FAILURE(bench.prepare());
  const auto lowered = bench.lower_rank(0);
  ASSERT_FALSE(lowered);
  EXPECT_NE(lowered.error().what.find("overlap"), std::string::npos);
}

}  // namespace
}  // namespace ccl
