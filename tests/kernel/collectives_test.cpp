#include "compiler/kernel/order.h"
#include "tests/kernel/built_kernel.h"

namespace {

using namespace kernel_test;  // NOLINT(google-build-using-namespace): names of the builder
using isa::Engine;
using kernel::Group;

constexpr auto kSync = kernel::Engine::kSync;

class Collectives : public ::testing::Test {
 protected:
  std::string message() { return mistake(k_); }
  // As rank 0 of a world.
  static std::string refusal(const Built& built, uint32_t world) {
    neff::CollectiveContext context;
    context.present = world > 0;
    context.world_size = world;
    const base::Status status = neff::check_context(built.neff, context);
    return status.ok() ? "" : status.error().what;
  }

  Kernel k_{{"collectives"}};
  View x_ = k_.input("x", kF32, {8, 64});
  View y_ = k_.output("y", kF32, {8, 64});
  View s_ = k_.scratch("s", kF32, {8, 64});
  View wide_ = k_.scratch("wide", kF32, {32, 64});
  Group four_ = Group::all(4);
};

TEST_F(Collectives, WhatTheLoaderSees) {
  k_.all_reduce(s_, x_, Op::kMax, four_);
  k_.all_gather(wide_, s_, four_);
  k_.reduce_scatter(y_, wide_, Op::kAdd, four_);
  k_.all_to_all(s_.slice(0, 0, 4), x_.slice(0, 4, 4), {{{2, 0}, {3, 1}}}, {1, kSync});
  const Built built = build(k_);
  ASSERT_EQ(built.graph().collectives.size(), 4u);
  const neff::Subgraph& graph = built.graph();
  std::vector<neff::CollectiveOp> pool;
  for (const neff::CollectiveOp& op : graph.collectives) {
    if (op.engine == Engine::kPool) pool.push_back(op);
  }
  ASSERT_EQ(pool.size(), 3u);
  EXPECT_EQ(pool[0].type, neff::CollectiveType::kAllReduce);
  EXPECT_EQ(pool[0].reduce, neff::ReduceOp::kMax);
  EXPECT_EQ(pool[1].type, neff::CollectiveType::kAllGather);
  EXPECT_EQ(pool[1].reduce, neff::ReduceOp::kNone);
  EXPECT_EQ(pool[1].source_bytes, 2048u);
  EXPECT_EQ(pool[1].destination_bytes, 8192u);
  EXPECT_EQ(pool[2].type, neff::CollectiveType::kReduceScatter);
  EXPECT_EQ(pool[2].reduce, neff::ReduceOp::kAdd);
  EXPECT_EQ(pool[2].group_id, 0u);
  for (const neff::CollectiveOp& op : graph.collectives) {
    if (op.engine == Engine::kPool) continue;
    EXPECT_EQ(op.engine, Engine::kSp);
    EXPECT_EQ(op.type, neff::CollectiveType::kAllToAll);
    EXPECT_EQ(op.stream_id, 1u);
    EXPECT_EQ(op.group_id, 1u);
    EXPECT_EQ(op.source_offset, 1024u);
    EXPECT_EQ(graph.variables[op.source].name, "x");
    EXPECT_EQ(graph.variables[op.destination].name, "s");
  }
  ASSERT_EQ(graph.cc.groups.size(), 2u);
  EXPECT_EQ(graph.cc.groups[0].lists, (std::vector<neff::RankList>{{0, 1, 2, 3}}));
  EXPECT_EQ(graph.cc.groups[1].lists, (std::vector<neff::RankList>{{2, 0}, {3, 1}}));
  EXPECT_EQ(refusal(built, 4), "");
  EXPECT_NE(refusal(built, 0).find("load it with nrt_load_collectives"), std::string::npos);
  EXPECT_NE(refusal(built, 5), "");
}

// After the transfer that writes what it reads, and before the one that reads what it writes.
TEST_F(Collectives, OrderedAgainstTransfers) {
  k_.dma_copy(s_, x_, kSync);
  k_.all_reduce(s_, s_, Op::kAdd, four_);
  k_.dma_copy(y_, s_, kSync);
  const Built built = build(k_);
  const auto pool = built.lines(Engine::kPool);
  EXPECT_EQ(
      pool[0].rfind("PSEUDO_TRIGGER_COLLECTIVE_2 $S[16]>=16 $S[5]++@complete ctype=ALL_REDUCE "
                    "op=ADD dtype=float32 ",
                    0),
      0u)
      << pool[0];
  const auto sync = built.lines(Engine::kSp);
  EXPECT_EQ(sync[1], "PSEUDO_DMA_TRIGGER $S[5]>=1 qSyncOut0 block_id=1");
}

// The engines wait for it, not for those after it; what it does not touch waits for nothing.
TEST_F(Collectives, OrderedAgainstEachOther) {
  const Tile tile = k_.sbuf({8, 64}, kF32, "tile");
  const View first = k_.scratch("first", kF32, {8, 64});
  const View second = k_.scratch("second", kF32, {8, 64});
  k_.all_reduce(first, x_, Op::kAdd, four_);
  k_.all_reduce(second, x_, Op::kAdd, four_);
  k_.load(tile, first);
  k_.all_reduce(y_, second, Op::kAdd, four_, {1, kernel::Engine::kGpSimd});
  const Built built = build(k_);
  EXPECT_EQ(built.lines(Engine::kSp)[0].rfind("PSEUDO_DMA_TRIGGER $S[5]>=1 ", 0), 0u);
  const auto pool = built.lines(Engine::kPool);
  EXPECT_EQ(pool[0].rfind("PSEUDO_TRIGGER_COLLECTIVE_2 $S[5]++@complete ", 0), 0u) << pool[0];
  EXPECT_EQ(pool[1].rfind("PSEUDO_TRIGGER_COLLECTIVE_2 $S[5]++@complete ", 0), 0u) << pool[1];
  EXPECT_EQ(pool[2].rfind("PSEUDO_TRIGGER_COLLECTIVE_2 $S[5]>=2 $S[6]++@complete ", 0), 0u)
      << pool[2];
}

TEST_F(Collectives, SyncWaitsForAllAndClearsTheirSemaphores) {
  k_.all_reduce(y_, x_, Op::kAdd, four_, {3, kSync});
  const auto lines = build(k_).lines(Engine::kSp);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1], "EVENT_SEMAPHORE_RANGE_CLEAR $S[8]>=1 kind=SEMAPHORE first=0 last=15");
}

TEST_F(Collectives, NoMoreUnderWayThanACcCoreKeeps) {
  Kernel k({"many"});
  const View x = k.input("x", kF32, {300, 64});
  const View y = k.output("y", kF32, {300, 64});
  for (int i = 0; i < 130; ++i) k.all_reduce(y.slice(0, i, 1), x.slice(0, i, 1), Op::kAdd, four_);
  const auto lines = build(k).lines(Engine::kPool);
  EXPECT_EQ(lines[127].find("$S[5]>="), std::string::npos) << lines[127];
  EXPECT_NE(lines[128].find(" $S[5]>=1 "), std::string::npos) << lines[128];
  EXPECT_NE(lines[129].find(" $S[5]>=2 "), std::string::npos) << lines[129];
}

// Which any program may load.
TEST_F(Collectives, OfOneRankAreCopies) {
  k_.all_gather(s_, x_, Group::all(1));
  k_.all_reduce(s_, s_, Op::kAdd, Group::all(1));
  k_.reduce_scatter(y_, s_, Op::kAdd, {{{0}}});
  const Built built = build(k_);
  EXPECT_FALSE(built.neff.has_collectives());
  EXPECT_EQ(refusal(built, 0), "");
  EXPECT_EQ(built.lines(Engine::kPool)[0], "PSEUDO_DMA_TRIGGER qGpSimdIn0 block_id=1");
  EXPECT_EQ(built.lines(Engine::kPool)[1], "PSEUDO_DMA_TRIGGER $S[16]>=16 qGpSimdOut0 block_id=1");
}

TEST_F(Collectives, Groups) {
  const auto said = [&](const Group& group) {
    Kernel k({"groups"});
    const View a = k.input("a", kF32, {4});
    const View b = k.output("b", kF32, {4});
    k.all_reduce(b, a, Op::kAdd, group);
    return mistake(k);
  };
  EXPECT_EQ(said({}), "all_reduce: the group or one of its lists has no ranks");
  EXPECT_EQ(said({{{0}, {}}}), "all_reduce: the group or one of its lists has no ranks");
  EXPECT_EQ(said({{{0, 1}, {1, 2}}}), "all_reduce: rank 1 is twice in the group");
  EXPECT_EQ(said({{{0, 1}, {3, 4}}}),
            "all_reduce: rank 2 is not in the group, whose ranks go up to 4");
  EXPECT_EQ(said({{{1, 2}}}), "all_reduce: rank 0 is not in the group, whose ranks go up to 2");
}

TEST_F(Collectives, GroupsOfOneWorld) {
  k_.all_reduce(s_, x_, Op::kAdd, four_, {}, {"first.cpp", 3});
  k_.all_reduce(y_, x_, Op::kAdd, Group::all(8), {}, {"second.cpp", 4});
  EXPECT_EQ(message(), "all_reduce: the group has 8 ranks, that of first.cpp:3 has 4");
  EXPECT_EQ(k_.status().error().where, "second.cpp:4");
}

TEST_F(Collectives, OneEngineForAStream) {
  k_.all_reduce(s_, x_, Op::kAdd, four_, {2, kSync}, {"first.cpp", 3});
  k_.all_reduce(y_, x_, Op::kAdd, four_, {2}, {"second.cpp", 4});
  EXPECT_EQ(message(), "all_reduce: stream 2 is triggered by Sync at first.cpp:3, here by GpSimd");
}

TEST_F(Collectives, FourStreams) {
  k_.all_reduce(s_, x_, Op::kAdd, four_, {4});
  EXPECT_EQ(message(), "all_reduce: stream 4; there are 0 to 3");
}

TEST_F(Collectives, OnlyWholePiecesOfHbm) {
  const auto said = [&](auto call) {
    Kernel k({"operands"});
    const View a = k.input("a", kF32, {4, 4});
    const View b = k.output("b", kF32, {4, 4});
    const Tile tile = k.sbuf({4, 4}, kF32, "tile");
    call(k, a, b, tile);
    return mistake(k);
  };
  const Group four = four_;
  EXPECT_EQ(said([&](Kernel& k, const View& a, const View&, const View& tile) {
              k.all_reduce(tile, a, Op::kAdd, four);
            }),
            "all_reduce: dst (SBUF 'tile') is not in HBM");
  EXPECT_EQ(said([&](Kernel& k, const View& a, const View& b, const View&) {
              k.all_reduce(b.slice(1, 0, 2), a.slice(1, 0, 2), Op::kAdd, four);
            }),
            "all_reduce: dst (HBM 'b') is not contiguous");
  EXPECT_EQ(said([&](Kernel& k, const View& a, const View& b, const View&) {
              k.all_reduce(b, a.slice(0, 0, 1).broadcast(0, 4), Op::kAdd, four);
            }),
            "all_reduce: src (HBM 'a') is not contiguous");
  EXPECT_EQ(said([&](Kernel& k, const View& a, const View&, const View&) {
              k.all_reduce(a, a, Op::kAdd, four);
            }),
            "all_reduce: HBM 'a' is read only");
  EXPECT_EQ(said([&](Kernel& k, const View& a, const View& b, const View&) {
              k.all_reduce(b, a, Op::kMultiply, four);
            }),
            "all_reduce: collectives fold with kAdd, kMin or kMax");
  EXPECT_EQ(said([&](Kernel& k, const View& a, const View& b, const View&) {
              k.all_reduce(b.as(DType::kInt32), a, Op::kAdd, four);
            }),
            "all_reduce: dst is int32, src float32; collectives do not convert");
  EXPECT_EQ(
      said([&](Kernel& k, const View& a, const View& b, const View&) { k.all_gather(b, a, four); }),
      "all_gather: dst (HBM 'b') of 16 and src (HBM 'a') of 16 elements do not fit 4 ranks");
  EXPECT_EQ(said([&](Kernel& k, const View& a, const View& b, const View&) {
              k.all_to_all(b.slice(0, 0, 1).slice(1, 0, 3), a.slice(0, 0, 1).slice(1, 0, 3), four);
            }),
            "all_to_all: dst (HBM 'b') of 3 and src (HBM 'a') of 3 elements do not fit 4 ranks");
}

TEST_F(Collectives, InPlaceOnlyAsAWhole) {
  k_.all_reduce(s_, s_, Op::kAdd, four_);
  EXPECT_EQ(message(), "");
  k_.all_reduce(s_.slice(0, 1, 4), s_.slice(0, 0, 4), Op::kAdd, four_);
  EXPECT_EQ(message(), "all_reduce: dst (HBM 's') and src (HBM 's') overlap");
}

TEST_F(Collectives, NoneAfterTheEnd) {
  build(k_);
  k_.all_reduce(y_, x_, Op::kAdd, four_);
  EXPECT_EQ(message(), "all_reduce: the kernel is finished");
}

TEST_F(Collectives, AreNotInLoops) {
  k_.for_loop(2, [&](const kernel::Index&) { k_.all_reduce(s_, x_, Op::kAdd, four_); });
  EXPECT_NE(message().find("all_reduce: in a loop"), std::string::npos) << message();
}

TEST_F(Collectives, AreOverWhenALoopBegins) {
  k_.all_reduce(s_, x_, Op::kAdd, four_);
  const kernel::Tile tile = k_.sbuf({8, 64}, kF32, "tile");
  k_.for_loop(2, [&](const kernel::Index&) { k_.load(tile, s_); });
  k_.store(y_, tile);
  const Built built = build(k_);
  bool waits = false;
  for (const neff::EngineProgram& p : built.graph().programs) {
    if (p.engine != Engine::kSp) continue;
    for (const neff::ProgramStep& step : p.steps) {
      if (step.instruction.opcode == isa::Opcode::kAllEngineBarrier) break;
      waits = waits || (step.instruction.wait.cond == isa::WaitCond::kGe &&
                        step.instruction.wait.id == kernel::Order::kFirstStream);
    }
  }
  EXPECT_TRUE(waits);
}

}  // namespace
