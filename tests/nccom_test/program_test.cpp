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
  return o;
}

TEST(Program, LoadsForEveryOperation) {
  for (const Operation operation :
       {Operation::kAllReduce, Operation::kAllGather, Operation::kReduceScatter}) {
    for (const Check check : {Check::kOff, Check::kRandom}) {
      const Options o = options(operation, check);
      const auto program = make_program(o, 4096, 25, "trn1");
      ASSERT_TRUE(program) << program.error().message();
      neff::LoadOptions load;
      load.target_core_version = 2;
      load.target_lnc = 1;
      const auto neff = neff::load(program->neff, load);
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
      EXPECT_EQ(neff->tensors.size(), check == Check::kOff ? 0u : 2u);
      neff::CollectiveContext context;
      context.present = true;
      context.world_size = 2;
      context.rank = 1;
      EXPECT_TRUE(neff::check_context(*neff, context));
    }
  }
}

TEST(Program, NameFollowsThePattern) {
  EXPECT_EQ(make_program(options(Operation::kAllReduce, Check::kOff), 1024, 25, "trn1")->name,
            "nccom_neff_allr_x25_1024_bf16_r2_lnc1");
}

TEST(Program, EqualArgumentsGiveEqualFiles) {
  const Options o = options(Operation::kAllReduce, Check::kRandom);
  EXPECT_EQ(make_program(o, 1024, 5, "trn1")->neff, make_program(o, 1024, 5, "trn1")->neff);
}

TEST(Program, LongRunsKeepTheTriggerQueueShort) {
  const std::string text =
      assembler_text(options(Operation::kAllReduce, Check::kOff), 64, kMaxOperations, "trn1");
  EXPECT_NE(text.find("$S[15]>=1 $S[15]++@complete"), std::string::npos);
  EXPECT_NE(text.find("$S[15]>=384 $S[15]++@complete"), std::string::npos);
  EXPECT_NE(text.find("EVENT_SEMAPHORE $S[15]>=512"), std::string::npos);
  EXPECT_TRUE(
      make_program(options(Operation::kAllReduce, Check::kOff), 64, kMaxOperations, "trn1"));
}

TEST(Program, CountsOverThirtyBitsUseTwoDimensions) {
  Options o = options(Operation::kAllReduce, Check::kOff);
  const auto program = make_program(o, 6ull << 30, 1, "trn1");
  ASSERT_TRUE(program) << program.error().message();
  const auto neff = neff::load(program->neff);
  ASSERT_TRUE(neff) << neff.error().message();
  EXPECT_EQ(neff->subgraphs[0].collectives[0].source_bytes, 6ull << 30);
}

TEST(Program, DataParallelGroups) {
  Options o = options(Operation::kAllReduce, Check::kOff);
  o.ranks = 4;
  o.data_parallel = 2;
  const auto neff = neff::load(make_program(o, 64, 1, "trn1")->neff);
  ASSERT_TRUE(neff) << neff.error().message();
  ASSERT_EQ(neff->subgraphs[0].cc.groups.size(), 1u);
  EXPECT_EQ(neff->subgraphs[0].cc.groups[0].lists, (std::vector<neff::RankList>{{0, 1}, {2, 3}}));
}

}  // namespace
}  // namespace nccom
