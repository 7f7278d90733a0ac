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

// The code of a loop in a loop, of an engine: each level has two registers, and what moves with
// both begins at the sum.
TEST_F(Loops, LieInOneAnother) {
  k_.for_loop(2, [&](const Index& i) {
    k_.for_loop(
        3, [&](const Index& j) { k_.memset(y_.slice(1, i * 32, 32).slice(1, j * 8, 8), 1.0); });
    k_.memset(x_, 0.0);
  });
  const Lines gpsimd = build(k_).lines(isa::Engine::kPool);
  const std::string barrier = "ALL_ENGINE_BARRIER semaphore=9";
  const Lines border = {"DRAIN", barrier, barrier};
  const auto at = [&](size_t first, size_t count) {
    return Lines(gpsimd.begin() + static_cast<long>(first),
                 gpsimd.begin() + static_cast<long>(first + count));
  };
  ASSERT_EQ(gpsimd.size(), 27u);
  EXPECT_EQ(at(3, 2), (Lines{"REGISTER_MOVE dst=r63 src=2", "REGISTER_MOVE dst=r62 src=0"}));
  EXPECT_EQ(at(5, 3), border);
  EXPECT_EQ(at(8, 5), (Lines{"REGISTER_MOVE dst=r61 src=3", "REGISTER_MOVE dst=r60 src=0",
                             "REGISTER_ALU op=MUL dst=r32 a=r62 b=128",
                             "REGISTER_ALU op=MUL dst=r55 a=r60 b=32",
                             "REGISTER_ALU op=ADD dst=r32 a=r32 b=r55"}));
  EXPECT_EQ(gpsimd[13].substr(0, 6), "MEMSET");
  EXPECT_EQ(at(14, 3), border);
  EXPECT_EQ(at(17, 2), (Lines{"REGISTER_ALU op=ADD dst=r60 a=r60 b=1",
                              "COMPARE_BRANCH cond=LTU a=r60 b=r61 target=-8"}));
  EXPECT_EQ(gpsimd[19].substr(0, 6), "MEMSET");
  EXPECT_EQ(at(23, 2), (Lines{"REGISTER_ALU op=ADD dst=r62 a=r62 b=1",
                              "COMPARE_BRANCH cond=LTU a=r62 b=r63 target=-19"}));
}

TEST_F(Loops, AreNotDeeperThanFour) {
  const std::function<void(int)> nest = [&](int depth) {
    k_.for_loop(2, [&](const Index&) {
      if (depth > 1) nest(depth - 1);
    });
  };
  nest(4);
  EXPECT_EQ(mistake(k_), "");
  nest(5);
  expect_mistake("more than 4 loops in one another");
}

// Before each turn, and behind a barrier: a turn may change what is looked at.
TEST_F(Loops, GoOnAsLongAsAConditionIsMet) {
  const View cell = k_.scratch("cell", DType::kInt32, {1});
  k_.while_loop({cell, Op::kLess, -5}, 10,
                [&](const Index& i) { k_.memset(y_.slice(1, i * 4, 4), 1.0); });
  const Lines gpsimd = build(k_).lines(isa::Engine::kPool);
  const Lines turn(gpsimd.begin() + 3, gpsimd.begin() + 9);
  EXPECT_EQ(turn,
            (Lines{"REGISTER_MOVE dst=r63 src=10", "REGISTER_MOVE dst=r62 src=0",
                   "TENSOR_LOAD dst=r51 src=int32@t0:0[4][1]", "ALL_ENGINE_BARRIER semaphore=9",
                   "COMPARE_BRANCH cond=GE a=r51 b=4294967291 target=+8",
                   "REGISTER_ALU op=MUL dst=r32 a=r62 b=16"}));
  EXPECT_EQ(gpsimd[14], "COMPARE_BRANCH cond=LTU a=r62 b=r63 target=-10");
}

TEST_F(Loops, BranchesGoOneWayOrTheOther) {
  k_.branch(
      {n_.slice(0, 1, 1), Op::kGreater, 7}, [&] { k_.memset(y_, 1.0); },
      [&] { k_.memset(y_, 2.0); });
  const Lines gpsimd = build(k_).lines(isa::Engine::kPool);
  EXPECT_EQ(gpsimd[3], "TENSOR_LOAD dst=r51 src=uint32@t0:4[4][1]");
  EXPECT_EQ(gpsimd[4], "COMPARE_BRANCH cond=LEU a=r51 b=7 target=+6");
  EXPECT_EQ(gpsimd[9], "BRANCH target=+5");
  EXPECT_EQ(gpsimd[10].substr(0, 6), "MEMSET");
  EXPECT_EQ(gpsimd[14], "DRAIN $S[2]++@complete");
}

TEST_F(Loops, ConditionsMayLieInTiles) {
  const Tile cell = k_.sbuf({1, 4}, DType::kUint8, "cell");
  k_.memset(cell, 1);
  k_.branch({cell.slice(1, 2, 1)}, [&] { k_.memset(y_, 1.0); });
  const Lines gpsimd = build(k_).lines(isa::Engine::kPool);
  EXPECT_EQ(gpsimd[4].substr(0, 24), "REGISTER_LOAD dst=r51 sr");
  EXPECT_EQ(gpsimd[6], "COMPARE_BRANCH cond=EQ a=r51 b=0 target=+5");
}

TEST_F(Loops, ConditionsAreIntegers) {
  k_.branch({x_.slice(0, 0, 1).slice(1, 0, 1)}, [] {});
  expect_mistake("the condition (SBUF 'x') is not one integer of up to 32 bits");
}

TEST_F(Loops, ConditionsCompare) {
  k_.branch({n_.slice(0, 1, 1), Op::kAdd}, [] {});
  expect_mistake("a condition is an operator that compares");
}

TEST_F(Loops, ConditionsHaveTheNumbersOfTheirType) {
  k_.branch({n_.slice(0, 1, 1), Op::kLess, -1}, [] {});
  expect_mistake("-1 is no number of 32 bits");
}

// One transfer of a queue set of its own may take place any number of times.
TEST_F(Loops, HaveStaticTransfersOfWhatDoesNotMove) {
  const View still = a_.slice(0, 0, 1).reshape({128, 16});
  k_.load(x_, still);
  k_.for_loop(4, [&](const Index&) {
    k_.dma_compute(x_, {still});
    k_.dma_compute(x_, {still, still});
  });
  const Built built = build(k_);
  EXPECT_EQ(built.graph().queues.size(), 3u);
  const auto sync = built.instructions(isa::Engine::kSp);
  int triggers = 0;
  for (const isa::Instruction& in : sync) triggers += in.opcode == isa::Opcode::kPseudoDmaTrigger;
  EXPECT_EQ(triggers, 3);
}

TEST_F(Loops, HaveNoStaticTransfersOfWhatMoves) {
  k_.for_loop(4, [&](const Index& i) { k_.dma_compute(x_, {rows(i)}); });
  expect_mistake("dma_compute: src (HBM 'a') moves with a loop or a register");
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
  expect_mistake("the number of turns (HBM 'n') is not one integer of up to 32 bits");
}

}  // namespace
