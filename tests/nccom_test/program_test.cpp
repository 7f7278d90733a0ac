// The NEFFs that nccom-test makes, read back by the loader.
#include "tools/nccom-test/program.h"

#include <gtest/gtest.h>

#include "neff_loader/neff.h"

namespace nccom {
namespace {

Options options(Operation operation, Check check) {
  Options o;
  o.operation = operation;
  o.ranks = 2;
  o.check = check;
  o.dtype = {"bf16", contract::DType::kBf16, "bfloat16"};
  if (operation == Operation::kPermute) o.pairs = {{0, 1}, {1, 0}};
  if (operation == Operation::kSendRecv) o.pairs = {{0, 1}};
  return o;
}

Workload workload(const std::vector<Options>& streams, uint64_t size, uint32_t iterations) {
  return {streams, std::vector<uint64_t>(streams.size(), size), iterations, "trn1", 1};
}

base::Result<neff::Neff> load(const Program& program) {
  neff::LoadOptions load;
  load.target_core_version = 2;
  load.target_lnc = 1;
  return neff::load(program.neff, load);
}

TEST(Program, LoadsForEveryOperation) {
  for (const Operation operation :
       {Operation::kAllReduce, Operation::kAllGather, Operation::kReduceScatter,
        Operation::kAllToAll, Operation::kPermute, Operation::kSendRecv, Operation::kAllGatherV,
        Operation::kReduceScatterV, Operation::kAllToAllV}) {
    for (const Check check : {Check::kOff, Check::kRandom}) {
      std::vector<Options> streams{options(operation, check)};
      const Options& o = streams[0];
      const auto program = make_program(workload(streams, 4096, 25));
      ASSERT_TRUE(program) << program.error().message();
      const auto neff = load(*program);
      ASSERT_TRUE(neff) << neff.error().message();
      EXPECT_TRUE(neff->executable);
      ASSERT_EQ(neff->subgraphs.size(), 1u);
      const neff::Subgraph& sg = neff->subgraphs[0];
      ASSERT_EQ(sg.collectives.size(), 25u);
      for (const neff::CollectiveOp& op : sg.collectives) {
        EXPECT_EQ(op.source_bytes, input_bytes(o, 4096));
        EXPECT_EQ(op.destination_bytes, output_bytes(o, 4096));
        EXPECT_EQ(op.source, sg.collectives[0].source);
        EXPECT_EQ(op.destination, sg.collectives[0].destination);
      }
      const bool variable = variable_size(operation);
      EXPECT_EQ(sg.collectives[0].metadata.has_value(), variable);
      EXPECT_EQ(neff->tensors.size(), (check == Check::kOff ? 0u : 2u) + (variable ? 1u : 0u));
      neff::CollectiveContext context;
      context.present = true;
      context.world_size = 2;
      context.rank = 1;
      EXPECT_TRUE(neff::check_context(*neff, context));
    }
  }
}

TEST(Program, StreamsHaveTheirOwnBuffersGroupsAndSemaphores) {
  std::vector<Options> streams{options(Operation::kAllReduce, Check::kRandom),
                               options(Operation::kAllGather, Check::kRandom)};
  streams[1].ops_per_iter = 2;
  const auto program = make_program(workload(streams, 4096, 5));
  ASSERT_TRUE(program) << program.error().message();
  const auto neff = load(*program);
  ASSERT_TRUE(neff) << neff.error().message();
  const neff::Subgraph& sg = neff->subgraphs[0];
  ASSERT_EQ(sg.collectives.size(), 15u);
  uint32_t of_stream[2] = {};
  for (const neff::CollectiveOp& op : sg.collectives) {
    ASSERT_LT(op.stream_id, 2u);
    EXPECT_EQ(op.group_id, op.stream_id);
    ++of_stream[op.stream_id];
  }
  EXPECT_EQ(of_stream[0], 5u);
  EXPECT_EQ(of_stream[1], 10u);
  EXPECT_NE(sg.collectives[0].source, sg.collectives[1].source);
  EXPECT_EQ(neff->tensors.size(), 4u);
}

TEST(Program, UniqueBuffersDifferByOperation) {
  std::vector<Options> streams{options(Operation::kAllGather, Check::kRandom)};
  streams[0].unique_buffers = true;
  const auto program = make_program(workload(streams, 4096, 3));
  ASSERT_TRUE(program) << program.error().message();
  const auto neff = load(*program);
  ASSERT_TRUE(neff) << neff.error().message();
  const auto& ops = neff->subgraphs[0].collectives;
  ASSERT_EQ(ops.size(), 3u);
  EXPECT_NE(ops[0].source, ops[1].source);
  EXPECT_NE(ops[1].destination, ops[2].destination);
}

TEST(Program, PartsOfAnOperationFollowTheRatio) {
  std::vector<Options> streams{options(Operation::kAllGather, Check::kOff)};
  streams[0].parts = {1, 2, 1};
  const auto program = make_program(workload(streams, 4096, 2));
  ASSERT_TRUE(program) << program.error().message();
  const auto neff = load(*program);
  ASSERT_TRUE(neff) << neff.error().message();
  const auto& ops = neff->subgraphs[0].collectives;
  ASSERT_EQ(ops.size(), 6u);
  EXPECT_EQ(ops[0].destination_bytes, 1024u);
  EXPECT_EQ(ops[1].destination_bytes, 2048u);
  EXPECT_EQ(ops[1].source_offset, 512u);
  EXPECT_EQ(ops[2].destination_offset, 3072u);
}

TEST(Program, NameFollowsThePattern) {
  const std::vector<Options> streams{options(Operation::kAllReduce, Check::kOff)};
  EXPECT_EQ(make_program(workload(streams, 1024, 25))->name,
            "nccom_neff_allr_x25_1024_bf16_r2_lnc1");
}

TEST(Program, EqualArgumentsGiveEqualFiles) {
  const std::vector<Options> streams{options(Operation::kAllReduce, Check::kRandom)};
  EXPECT_EQ(make_program(workload(streams, 1024, 5))->neff,
            make_program(workload(streams, 1024, 5))->neff);
}

TEST(Program, LongRunsKeepTheTriggerQueueShort) {
  const std::vector<Options> streams{options(Operation::kAllReduce, Check::kOff)};
  const std::string text = assembler_text(workload(streams, 64, kMaxOperations));
  EXPECT_NE(text.find("$S[15]>=1 $S[15]++@complete"), std::string::npos);
  EXPECT_NE(text.find("$S[15]>=384 $S[15]++@complete"), std::string::npos);
  EXPECT_NE(text.find("EVENT_SEMAPHORE $S[15]>=512"), std::string::npos);
  EXPECT_TRUE(make_program(workload(streams, 64, kMaxOperations)));
}

TEST(Program, CountsOverThirtyBitsUseTwoDimensions) {
  const std::vector<Options> streams{options(Operation::kAllReduce, Check::kOff)};
  const auto program = make_program(workload(streams, 6ull << 30, 1));
  ASSERT_TRUE(program) << program.error().message();
  const auto neff = neff::load(program->neff);
  ASSERT_TRUE(neff) << neff.error().message();
  EXPECT_EQ(neff->subgraphs[0].collectives[0].source_bytes, 6ull << 30);
}

TEST(Program, DataParallelGroups) {
  std::vector<Options> streams{options(Operation::kAllReduce, Check::kOff)};
  streams[0].ranks = 4;
  streams[0].groups = {{0, 1}, {2, 3}};
  const auto neff = neff::load(make_program(workload(streams, 64, 1))->neff);
  ASSERT_TRUE(neff) << neff.error().message();
  ASSERT_EQ(neff->subgraphs[0].cc.groups.size(), 1u);
  EXPECT_EQ(neff->subgraphs[0].cc.groups[0].lists, (std::vector<neff::RankList>{{0, 1}, {2, 3}}));
}

TEST(Program, OwnOperations) {
  for (const Operation operation :
       {Operation::kBroadcast, Operation::kReduce, Operation::kBarrier, Operation::kPermuteReduce,
        Operation::kPermuteImplicit, Operation::kPermuteReduceImplicit}) {
    std::vector<Options> streams{options(operation, Check::kRandom)};
    Options& o = streams[0];
    o.root = rooted(operation) ? 1 : 0;
    o.reduction = contract::ReduceOp::kMin;
    if (operation == Operation::kPermuteReduce) o.pairs = {{0, 1}, {1, 0}};
    if (ring_permute(operation)) o.parts = {1, 1};
    const auto program = make_program(workload(streams, size_list(o).front(), 3));
    ASSERT_TRUE(program) << program.error().message();
    const auto neff = load(*program);
    ASSERT_TRUE(neff) << neff.error().message();
    const auto& ops = neff->subgraphs[0].collectives;
    ASSERT_EQ(ops.size(), 3 * o.parts.size());
    EXPECT_EQ(ops[0].root, o.root);
    EXPECT_EQ(ops[0].reduce, reduces(operation) ? neff::ReduceOp::kMin : neff::ReduceOp::kNone);
    EXPECT_EQ(ops[0].source_bytes, operation == Operation::kBarrier ? 0 : ops[0].destination_bytes);
    EXPECT_EQ(ops[0].second_source.has_value(), two_sources(operation));
    if (two_sources(operation)) {
      EXPECT_EQ(ops[0].second_source_offset, ops[0].source_bytes);
    }
    EXPECT_EQ(ops.back().channel_id, ring_permute(operation) ? 1u : 0u);
    neff::CollectiveContext context;
    context.present = true;
    context.world_size = 2;
    EXPECT_TRUE(neff::check_context(*neff, context));
  }
}

// In place source and destination are one buffer, each rank's part where the table of
// spec/collectives.md 1.3 has it.
TEST(Program, InPlace) {
  const std::pair<Operation, std::pair<uint64_t, uint64_t>> cases[] = {
      {Operation::kAllReduce, {0, 0}},
      {Operation::kAllGather, {2048, 0}},
      {Operation::kReduceScatter, {0, 2048}}};
  for (const auto& [operation, offsets] : cases) {
    std::vector<Options> streams{options(operation, Check::kRandom)};
    streams[0].in_place = streams[0].unique_buffers = true;
    const auto program = make_program(workload(streams, 4096, 2), 1);
    ASSERT_TRUE(program) << program.error().message();
    const auto neff = load(*program);
    ASSERT_TRUE(neff) << neff.error().message();
    const auto& ops = neff->subgraphs[0].collectives;
    EXPECT_EQ(ops[0].source, ops[0].destination);
    EXPECT_NE(ops[0].source, ops[1].source);
    EXPECT_EQ(ops[0].source_offset, offsets.first);
    EXPECT_EQ(ops[0].destination_offset, offsets.second);
  }
}

TEST(Program, SkewDelaysByRank) {
  std::vector<Options> streams{options(Operation::kBarrier, Check::kOff)};
  streams[0].skew = 10;
  const Workload work = workload(streams, 0, 1);
  EXPECT_EQ(assembler_text(work, 0).find("idle"), std::string::npos);
  EXPECT_NE(assembler_text(work, 3).find("REGISTER_MOVE dst=r1 src=30\n"), std::string::npos);
  EXPECT_TRUE(make_program(work, 3));
}

}  // namespace
}  // namespace nccom
