// Loops: the code around and in their bodies, and what they refuse.
#include "tests/kernel/built_kernel.h"

namespace {

using namespace kernel_test;  // NOLINT(google-build-using-namespace): names of the builder
using kernel::Generation;
using kernel::Index;
using Lines = std::vector<std::string>;

class Loops : public ::testing::Test {
 protected:
  View rows(const Index& i) const { return a_.slice(0, i, 1).reshape({128, 16}); }
  void expect_mistake(const char* text) {
    EXPECT_NE(mistake(k_).find(text), std::string::npos) << mistake(k_);
  }

  Kernel k_{{"loops", Generation::kV3}};
  View a_ = k_.input("a", kF32, {4, 128, 16});
  View n_ = k_.input("n", DType::kUint32, {2});
  Tile x_ = k_.sbuf({128, 16}, kF32, "x");
  Tile y_ = k_.sbuf({128, 64}, kF32, "y");
};

TEST_F(Loops, EachEngineCountsForItself) {
  k_.for_loop(4, [&](const Index& i) {
    k_.load(x_, rows(i));
    k_.tensor_copy(y_.slice(1, i * 16, 16), x_);
  });
  const Built built = build(k_);
  const std::string barrier = "ALL_ENGINE_BARRIER semaphore=9";
  const std::string clear = "EVENT_SEMAPHORE_RANGE_CLEAR kind=SEMAPHORE first=";
  const Lines vector = {
      "DRAIN",
      barrier,
      barrier,
      "REGISTER_MOVE dst=r63 src=4",
      "REGISTER_MOVE dst=r62 src=0",
      "REGISTER_ALU op=MUL dst=r32 a=r62 b=64",
      "TENSOR_COPY $S[16]>=16 $S[3]++@complete dst=fp32@64+r32[1][16] src=fp32@0[1][16] "
      "partitions=0..127",
      "DRAIN",
      barrier,
      barrier,
      "REGISTER_ALU op=ADD dst=r62 a=r62 b=1",
      "COMPARE_BRANCH cond=LTU a=r62 b=r63 target=-7",
      "DRAIN $S[3]++@complete",
      "HALT"};
  EXPECT_EQ(built.lines(isa::Engine::kDve), vector);
  Lines sync = built.lines(isa::Engine::kSp);
  ASSERT_EQ(sync.size(), 18u);
  EXPECT_EQ(Lines(sync.begin(), sync.begin() + 5),
            (Lines{"EVENT_SEMAPHORE", barrier, clear + "0 last=8", clear + "16 last=31", barrier}));
  EXPECT_EQ(Lines(sync.begin() + 8, sync.begin() + 14),
            (Lines{"DMA_MEMCPY qSyncDynamicIn0 mode=HWDGE dst=fp32@sbuf:0[4,262144][16,128] "
                   "src=fp32@t0:0+r62*8192[4][2048] semaphore=16",
                   "EVENT_SEMAPHORE $S[3]>=1", barrier, clear + "0 last=8", clear + "16 last=31",
                   barrier}));
}

TEST_F(Loops, ATensorMaySayHowOften) {
  k_.for_loop({n_.slice(0, 1, 1), 3},
              [&](const Index& i) { k_.memset(y_.slice(1, i * 20, 20), 1.0); });
  const Lines lines = build(k_).lines(isa::Engine::kPool);
  ASSERT_EQ(lines.size(), 16u);
  EXPECT_EQ(lines[3], "TENSOR_LOAD dst=r63 src=uint32@t0:4[4][1]");
  EXPECT_EQ(lines[4], "REGISTER_ALU op=MIN dst=r63 a=r63 b=3");
  // Past the loop: TENSOR_LOAD has two records.
  EXPECT_EQ(lines[6], "COMPARE_BRANCH cond=EQ a=r63 b=0 target=+8");
  EXPECT_EQ(lines[13], "COMPARE_BRANCH cond=LTU a=r62 b=r63 target=-6");
}

TEST_F(Loops, TransfersBehindThemBeginAnew) {
  k_.load(x_, a_.slice(0, 0, 1).reshape({128, 16}));
  k_.for_loop(2, [&](const Index& i) { k_.load(y_.slice(1, 0, 16), rows(i)); });
  k_.load(x_, a_.slice(0, 1, 1).reshape({128, 16}));
  const Built built = build(k_);
  const neff::EngineProgram& sync = *built.program(isa::Engine::kSp);
  ASSERT_EQ(sync.dma.size(), 2u);
  EXPECT_EQ(sync.dma[0].semaphore.value_or(0), 16);
  EXPECT_EQ(sync.dma[1].semaphore.value_or(0), 16);
}

TEST_F(Loops, WhatMovesStaysInsideInAllTurns) {
  k_.for_loop(4, [&](const Index& i) { k_.load(x_, rows(i * 2)); });
  expect_mistake("leave dimension 0 of (4, 128, 16)");
}

TEST_F(Loops, PartitionsDoNotMove) {
  k_.for_loop(4, [&](const Index& i) { k_.memset(x_.slice(0, i * 32, 32), 0.0); });
  expect_mistake("partitions do not move");
}

TEST_F(Loops, DoNotNest) {
  k_.for_loop(4, [&](const Index&) { k_.for_loop(2, [&](const Index&) {}); });
  expect_mistake("loops do not nest");
}

TEST_F(Loops, HaveNoStaticTransfers) {
  k_.for_loop(4, [&](const Index&) { k_.dma_compute(x_, {a_.slice(0, 0, 1).reshape({128, 16})}); });
  expect_mistake("in a loop transfers are generated");
}

TEST_F(Loops, ViewsThatMoveEndWithThem) {
  View last;
  k_.for_loop(4, [&](const Index& i) { last = y_.slice(1, i, 1); });
  k_.memset(last, 0.0);
  expect_mistake("moves with a loop that has ended");
}

TEST_F(Loops, TakePlaceAtLeastOnce) {
  k_.for_loop(0, [&](const Index&) {});
  expect_mistake("0 turns");
}

TEST_F(Loops, AreCountedByOneNumber) {
  k_.for_loop({n_, 3}, [&](const Index&) {});
  expect_mistake("is not one uint32 of a tensor in HBM");
}

}  // namespace
