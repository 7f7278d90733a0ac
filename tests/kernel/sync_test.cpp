#include "tests/kernel/built_kernel.h"

namespace {

using namespace kernel_test;  // NOLINT(google-build-using-namespace): names of the builder
using isa::Engine;

class Sync : public ::testing::Test {
 protected:
  static size_t waits(const std::vector<std::string>& lines) {
    size_t n = 0;
    for (const std::string& line : lines) n += line.find(">=") != std::string::npos ? 1 : 0;
    return n;
  }
  static std::string head(const std::string& line, size_t words) {
    size_t at = 0;
    while (words-- > 0 && at != std::string::npos) at = line.find(' ', at + 1);
    return line.substr(0, at);
  }

  Kernel k_{{"sync"}};
  Tile x_ = k_.sbuf({128, 64}, kF32, "x");
  Tile y_ = k_.sbuf({128, 64}, kF32, "y");
  Tile z_ = k_.sbuf({128, 64}, kF32, "z");
  View a_ = k_.input("a", kF32, {128, 64});
  View b_ = k_.input("b", kF32, {128, 64});
  View c_ = k_.output("c", kF32, {128, 64});
};

TEST_F(Sync, VectorAdd) {
  k_.load(x_, a_);
  k_.load(y_, b_);
  k_.tensor_tensor(z_, x_, y_, Op::kAdd);
  k_.store(c_, z_);
  const Built built = build(k_);
  // The second load stands for the first: transfers of a queue set complete in order.
  const std::vector<std::string> vector = {
      "TENSOR_TENSOR $S[17]>=16 $S[3]++@complete op=ADD dst=fp32@512[1][64] src0=fp32@0[1][64] "
      "src1=fp32@256[1][64] partitions=0..127",
      "DRAIN $S[3]++@complete", "HALT"};
  const std::vector<std::string> gpsimd = {"PSEUDO_DMA_TRIGGER $S[3]>=1 qGpSimdOut0 block_id=1",
                                           "DRAIN $S[2]++@complete", "HALT"};
  const std::vector<std::string> sync = {"PSEUDO_DMA_TRIGGER qSyncIn0 block_id=1",
                                         "PSEUDO_DMA_TRIGGER qSyncIn0 block_id=2",
                                         "EVENT_SEMAPHORE $S[2]>=1",
                                         "EVENT_SEMAPHORE $S[3]>=2",
                                         "EVENT_SEMAPHORE_RANGE_CLEAR $S[32]>=16 kind=SEMAPHORE "
                                         "first=0 last=47",
                                         "HALT"};
  EXPECT_EQ(built.lines(Engine::kDve), vector);
  EXPECT_EQ(built.lines(Engine::kPool), gpsimd);
  EXPECT_EQ(built.lines(Engine::kSp), sync);
  EXPECT_EQ(built.program(Engine::kPe), nullptr);
}

TEST_F(Sync, AChainOnOneEngineNeedsNone) {
  for (int i = 0; i < 10; ++i) k_.tensor_tensor(x_, x_, y_, Op::kAdd);
  const auto lines = build(k_).lines(Engine::kDve);
  EXPECT_EQ(waits(lines), 0u);
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(head(lines[static_cast<size_t>(i)], 2), "TENSOR_TENSOR op=ADD");
}

TEST_F(Sync, ReadAfterWriteAcrossEngines) {
  k_.tensor_copy(x_, y_);
  k_.activation(z_, x_, {kernel::Function::kExp});
  const Built built = build(k_);
  EXPECT_EQ(head(built.lines(Engine::kDve)[0], 2), "TENSOR_COPY $S[3]++@complete");
  EXPECT_EQ(head(built.lines(Engine::kAct)[0], 2), "ACTIVATE $S[3]>=1");
}

TEST_F(Sync, WriteAfterReadAcrossEngines) {
  k_.tensor_copy(y_, x_);
  k_.activation(x_, z_, {kernel::Function::kExp});
  EXPECT_EQ(head(build(k_).lines(Engine::kAct)[0], 2), "ACTIVATE $S[3]>=1");
}

TEST_F(Sync, WriteAfterWriteAcrossEngines) {
  k_.tensor_copy(x_, y_);
  k_.activation(x_, z_, {kernel::Function::kExp});
  EXPECT_EQ(head(build(k_).lines(Engine::kAct)[0], 2), "ACTIVATE $S[3]>=1");
}

TEST_F(Sync, ReadersDoNotWaitForEachOther) {
  k_.tensor_copy(y_, x_);
  k_.activation(z_, x_, {kernel::Function::kExp});
  EXPECT_EQ(waits(build(k_).lines(Engine::kAct)), 0u);
}

TEST_F(Sync, PartsOfATileAreApart) {
  k_.tensor_copy(x_.slice(1, 0, 32, 2), y_.slice(1, 0, 32));
  k_.activation(x_.slice(1, 1, 32, 2), z_.slice(1, 0, 32), {kernel::Function::kExp});
  EXPECT_EQ(waits(build(k_).lines(Engine::kAct)), 0u);
}

TEST_F(Sync, WhatAWaitTellsIsNotWaitedForAgain) {
  k_.tensor_copy(x_, y_);                           // Vector 1
  k_.activation(z_, x_, {kernel::Function::kExp});  // Scalar 1 waits for Vector 1
  k_.tensor_copy(y_, z_, kernel::Engine::kGpSimd);  // waits for Scalar 1, which knows Vector 1
  k_.tensor_copy(x_, y_, kernel::Engine::kGpSimd);  // overwrites what Vector wrote: known
  const Built built = build(k_);
  const auto lines = built.lines(Engine::kPool);
  EXPECT_EQ(head(lines[0], 2), "TENSOR_COPY $S[1]>=1");
  EXPECT_EQ(waits(lines), 1u);
}

TEST_F(Sync, SeveralWaitsBecomeInstructions) {
  const Tile w = k_.sbuf({128, 64}, kF32, "w");
  k_.tensor_copy(x_, z_);
  k_.activation(y_, z_, {kernel::Function::kExp});
  k_.tensor_tensor(w, x_, y_, Op::kAdd, kernel::Engine::kGpSimd);
  const auto lines = build(k_).lines(Engine::kPool);
  EXPECT_EQ(lines[0], "EVENT_SEMAPHORE $S[1]>=1");
  EXPECT_EQ(head(lines[1], 2), "TENSOR_TENSOR $S[3]>=1");
}

TEST_F(Sync, AStoreWaitsForItsOwnEngine) {
  k_.tensor_copy(x_, y_, kernel::Engine::kGpSimd);
  k_.store(c_, x_);
  const auto lines = build(k_).lines(Engine::kPool);
  EXPECT_EQ(head(lines[0], 2), "TENSOR_COPY $S[2]++@complete");
  EXPECT_EQ(head(lines[1], 2), "PSEUDO_DMA_TRIGGER $S[2]>=1");
}

TEST_F(Sync, TransfersOverTheSameBytesAreOrdered) {
  const View s = k_.scratch("s", kF32, {128, 64});
  k_.load(x_, a_);
  k_.store(s, x_);
  k_.load(y_, s);
  const Built built = build(k_);
  EXPECT_EQ(head(built.lines(Engine::kPool)[0], 2), "PSEUDO_DMA_TRIGGER $S[16]>=16");
  EXPECT_EQ(head(built.lines(Engine::kSp)[1], 2), "PSEUDO_DMA_TRIGGER $S[32]>=16");
}

// The caller gives one tensor for both (spec/neff.md 2.9).
TEST_F(Sync, AnInputThatIsAnOutputIsReadBeforeItIsWritten) {
  const View old = k_.input("state.must_alias_input", kF32, {128, 64});
  const View state = k_.output("state", kF32, {128, 64});
  k_.load(x_, old);
  k_.store(state, y_);
  k_.store(c_, z_);
  const auto lines = build(k_).lines(Engine::kPool);
  EXPECT_EQ(head(lines[0], 2), "PSEUDO_DMA_TRIGGER $S[16]>=16");
  EXPECT_EQ(waits({lines[1]}), 0u);
}

TEST_F(Sync, ColumnsOfAnOutputAreStoredAtOnce) {
  k_.store(c_.slice(1, 0, 32), x_.slice(1, 0, 32));
  k_.store(c_.slice(1, 32, 32), y_.slice(1, 0, 32));
  EXPECT_EQ(waits(build(k_).lines(Engine::kPool)), 0u);
}

// A semaphore's value says of all 16 queues that they are through only while one transfer counts on
// it, so the seventeenth waits for the first.
TEST_F(Sync, ASemaphoreCountsOneTransferAtATime) {
  Kernel k({"many"});
  const View a = k.input("a", kF32, {40, 64});
  const Tile t = k.sbuf({40, 64}, kF32, "t");
  for (int64_t i = 0; i < 40; ++i) k.load(t.slice(0, i, 1), a.slice(0, i, 1));
  k.tensor_copy(t, t);
  const Built built = build(k);
  const auto lines = built.lines(Engine::kSp);
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(lines[i].find(">="), std::string::npos) << lines[i];
  EXPECT_EQ(lines[16], "PSEUDO_DMA_TRIGGER $S[16]>=16 qSyncIn0 block_id=17");
  EXPECT_EQ(lines[39], "PSEUDO_DMA_TRIGGER $S[23]>=32 qSyncIn0 block_id=40");
  EXPECT_EQ(head(built.lines(Engine::kDve)[0], 2), "TENSOR_COPY $S[23]>=48");
  EXPECT_EQ(*built.program(Engine::kSp)->dma[39].semaphore, 23);
}

// With two tiles in turn the load of the next is triggered before the work on this one is done.
TEST_F(Sync, RingsOverlapLoadsWithWork) {
  Kernel k({"ring"});
  const View a = k.input("a", kF32, {512, 64});
  const View c = k.output("c", kF32, {512, 64});
  kernel::Ring in = k.ring(2, {128, 64}, kF32, "in");
  kernel::Ring out = k.ring(2, {128, 64}, kF32, "out");
  for (int64_t i = 0; i < 4; ++i) {
    const View x = in.next();
    const View y = out.next();
    k.load(x, a.slice(0, 128 * i, 128));
    k.tensor_scalar(y, x, {Op::kMultiply, 2.0});
    k.store(c.slice(0, 128 * i, 128), y);
  }
  const auto lines = build(k).lines(Engine::kSp);
  EXPECT_EQ(waits({lines[0], lines[1]}), 0u);
  EXPECT_EQ(head(lines[2], 2), "PSEUDO_DMA_TRIGGER $S[3]>=1");
  EXPECT_EQ(head(lines[3], 2), "PSEUDO_DMA_TRIGGER $S[3]>=2");
}

TEST_F(Sync, MemoryOfAReleasedTileWaitsForItsLastUser) {
  Kernel k({"scopes"});
  const View a = k.input("a", kF32, {128, 64});
  const Tile kept = k.sbuf({128, 64}, kF32, "kept");
  {
    const Tile t = k.sbuf({128, 64}, kF32, "t");
    k.tensor_copy(kept, t);
  }
  const Tile u = k.sbuf({128, 64}, kF32, "u");
  k.load(u, a);
  EXPECT_EQ(head(build(k).lines(Engine::kSp)[0], 2), "PSEUDO_DMA_TRIGGER $S[3]>=1");
}

TEST_F(Sync, AllSemaphoresAreBackAtZero) {
  k_.load(x_, a_);
  k_.activation(y_, x_, {kernel::Function::kExp});
  k_.store(c_, y_, kernel::Engine::kScalar);
  const Built built = build(k_);
  uint32_t highest = 0;
  for (const neff::EngineProgram& p : built.graph().programs) {
    EXPECT_TRUE(p.self_cleaning);
    for (const neff::ProgramStep& s : p.steps) {
      if (s.instruction.wait.cond != isa::WaitCond::kNone) {
        highest = std::max<uint32_t>(highest, s.instruction.wait.id);
      }
    }
    for (const neff::DmaElement& e : p.dma) highest = std::max<uint32_t>(highest, *e.semaphore);
  }
  const auto sync = built.instructions(Engine::kSp);
  const isa::Instruction& clear = sync[sync.size() - 2];
  ASSERT_EQ(clear.opcode, isa::Opcode::kEventSemaphoreRangeClear);
  EXPECT_EQ(clear.operands.event_semaphore_range_clear.first, 0);
  EXPECT_GE(clear.operands.event_semaphore_range_clear.last, highest);
}

}  // namespace
