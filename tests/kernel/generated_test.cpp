// Transfers whose descriptors engines make: what becomes of the calls, and which are refused.
#include "tests/kernel/built_kernel.h"

namespace {

using namespace kernel_test;  // NOLINT(google-build-using-namespace): names of the builder
using kernel::Generate;
using kernel::Generation;
using kernel::Transfer;

Transfer made(Generate generate) {
  Transfer how;
  how.generate = generate;
  return how;
}

class GeneratedCalls : public ::testing::Test {
 protected:
  explicit GeneratedCalls(Generation generation = Generation::kV3) : k_({"made", generation}) {}

  Kernel k_;
  View table_ = k_.input("table", kF32, {500, 64});
  View out_ = k_.output("out", kF32, {128, 64});
  Tile x_ = k_.sbuf({128, 64}, kF32, "x");
  Tile i_ = k_.sbuf({128, 1}, DType::kUint32, "i");
};

class GeneratedCallsV2 : public GeneratedCalls {
 protected:
  GeneratedCallsV2() : GeneratedCalls(Generation::kV2) {}
};

TEST_F(GeneratedCalls, NameTensorsByTheirPlaceInTheTable) {
  Transfer moved = made(Generate::kHardware);
  moved.offset_register = 5;
  k_.dma_copy(x_, table_.slice(0, 2, 128), made(Generate::kHardware));
  k_.dma_copy(out_, x_, made(Generate::kHardware));
  k_.dma_copy(x_, table_.slice(0, 0, 128).slice(1, 0, 64), moved);
  const Built built = build(k_);
  const auto text = built.lines(isa::Engine::kSp);
  EXPECT_EQ(text[0],
            "DMA_MEMCPY qSyncDynamicIn0 mode=HWDGE dst=fp32@sbuf:0[4,262144][64,128] "
            "src=fp32@t0:512[4][8192] semaphore=16");
  EXPECT_EQ(text[1],
            "DMA_MEMCPY $S[16]>=16 qSyncDynamicOut0 mode=HWDGE dst=fp32@t1:0[4][8192] "
            "src=fp32@sbuf:0[4,262144][64,128] semaphore=32");
  EXPECT_EQ(text[2],
            "DMA_MEMCPY $S[32]>=16 qSyncDynamicIn0 mode=HWDGE dst=fp32@sbuf:0[4,262144][64,128] "
            "src=fp32@t0:0+r5*256[4][8192] semaphore=17");
  const neff::Variable* table = built.graph().dge_table();
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(table->table_var_ids, (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(table->size, 32u);
  const neff::QueueSet* set = built.graph().find_queue("qSyncDynamicIn0");
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(set->type, neff::QueueType::kDynamic);
  EXPECT_EQ(set->num_queues, 16u);
}

TEST_F(GeneratedCalls, FollowAnIndexWhenItIsThere) {
  k_.load(i_, k_.input("ids", DType::kUint32, {128, 1}));
  k_.load_rows(x_, table_, i_);
  Transfer add;
  add.accumulate = true;
  k_.store_rows(out_, x_, i_, add, true);
  const auto text = build(k_).lines(isa::Engine::kPool);
  EXPECT_EQ(text[0],
            "DMA_INDIRECT $S[16]>=16 qGpSimdDynamicIn0 mode=SWDGE "
            "dst=fp32@sbuf:0[4,262144][64,128] src=fp32@t0:0[4,256][64,128] semaphore=32 "
            "direction=GATHER index=uint32@256[1][1] rows=0..127");
  EXPECT_EQ(text[1],
            "DMA_INDIRECT $S[32]>=16 qGpSimdDynamicOut0 mode=SWDGE dst=fp32@t1:0[4,256][64,128] "
            "src=fp32@sbuf:0[4,262144][64,128] semaphore=48 direction=SCATTER "
            "index=uint32@256[1][1] rows=0..127 op=ADD ordered=1");
}

TEST_F(GeneratedCalls, TransposeInBlocksOfSixteenRows) {
  const View m = k_.input("m", DType::kBfloat16, {64, 100});
  const Tile t = k_.sbuf({100, 64}, DType::kBfloat16, "t");
  k_.dma_transpose(t, m, made(Generate::kHardware));
  const auto text = build(k_).lines(isa::Engine::kSp);
  EXPECT_EQ(text[0],
            "DMA_TRANSPOSE qSyncDynamicIn0 mode=HWDGE "
            "dst=bf16@sbuf:260[2,32,262144][16,4,100] src=bf16@t0:0[2,3200,200][100,4,16] "
            "semaphore=16");
}

TEST_F(GeneratedCalls, FoldsAndStaticTranspositionsAreDescriptions) {
  const Tile y = k_.sbuf({128, 64}, kF32, "y");
  k_.dma_compute(x_, {table_.slice(0, 0, 128), y}, {Op::kAdd, {2.0, 0.5}});
  k_.dma_transpose(k_.output("turned", kF32, {64, 500}), table_);
  const Built built = build(k_);
  const neff::EngineProgram& program = *built.program(isa::Engine::kSp);
  ASSERT_EQ(program.dma.size(), 2u);
  EXPECT_EQ(program.dma[0].transfers[0].op, neff::DmaOp::kFma);
  EXPECT_EQ(program.dma[0].transfers[0].sources[1].scale, 0.5);
  EXPECT_EQ(program.dma[1].transfers[0].op, neff::DmaOp::kTranspose);
  EXPECT_EQ(program.dma[1].transfers[0].transpose_shape, (std::array<uint64_t, 4>{500, 1, 1, 64}));
}

TEST_F(GeneratedCalls, HardwareMovesBytesAsTheyAre) {
  k_.dma_copy(x_.as(DType::kInt32), table_.slice(0, 0, 128), made(Generate::kHardware));
  EXPECT_NE(mistake(k_).find("do not go together in DMA_MEMCPY"), std::string::npos) << mistake(k_);
}

TEST_F(GeneratedCalls, SoftwareIsGpSimds) {
  Transfer how = made(Generate::kSoftware);
  how.engine = Engine::kScalar;
  k_.dma_copy(x_, table_.slice(0, 0, 128), how);
  EXPECT_NE(mistake(k_).find("does not exist on the Scalar engine"), std::string::npos);
}

TEST_F(GeneratedCalls, StaticTransfersHaveNoBounds) {
  Transfer how;
  how.skip = true;
  k_.dma_copy(x_, table_.slice(0, 0, 128), how);
  EXPECT_NE(mistake(k_).find("only generated transfers"), std::string::npos);
}

TEST_F(GeneratedCalls, OffsetsAreOfTensorsInHbm) {
  Transfer how = made(Generate::kHardware);
  how.offset_register = 64;
  k_.dma_copy(x_, table_.slice(0, 0, 128), how);
  EXPECT_NE(mistake(k_).find("register 64; a kernel has 0 to 31"), std::string::npos);
}

TEST_F(GeneratedCalls, SumsHaveAScaleForEachSource) {
  k_.dma_compute(x_, {table_.slice(0, 0, 128)}, {Op::kAdd, {1.0, 2.0}});
  EXPECT_NE(mistake(k_).find("adds 1 to 16 sources"), std::string::npos);
}

// Counted, not enumerated: of tensors like these the descriptors would fill memory.
TEST_F(GeneratedCalls, RingsAreFullBeforeTheyAreBuilt) {
  const View big = k_.input("big", kF32, {65536, 131072});
  const View turned = k_.scratch("turned", kF32, {131072, 65536});
  k_.dma_transpose(turned, big);
  EXPECT_NE(mistake(k_).find("dma_transpose: this transfer takes 536870912 descriptors or more, "
                             "which makes 536870912 in qSyncIn0; its rings hold 268435200"),
            std::string::npos)
      << mistake(k_);
  EXPECT_NE(k_.finish().error().message().find("generated_test.cpp:"), std::string::npos);
}

TEST_F(GeneratedCalls, RingsAreFilledByAllTransfers) {
  const View big = k_.input("big", kF32, {4096, 32768});
  const View turned = k_.scratch("turned", kF32, {32768, 4096});
  k_.dma_copy(turned, big.permute({1, 0}));
  EXPECT_EQ(mistake(k_), "");
  k_.dma_copy(turned, big.permute({1, 0}));
  EXPECT_NE(mistake(k_).find("takes 134217728 descriptors or more, which makes 268435456 in"),
            std::string::npos)
      << mistake(k_);
}

TEST_F(GeneratedCallsV2, NeedALaterGeneration) {
  k_.load_rows(x_, table_, i_);
  EXPECT_NE(mistake(k_).find("of this generation"), std::string::npos);
}

}  // namespace
