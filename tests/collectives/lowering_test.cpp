// Lowered collectives on the reference machine: results for every type, size and number of ranks,
// nine executions of the same rings, several CC-cores, in place and not, refusals.
#include <gtest/gtest.h>

#include "tests/collectives/lowering_bench.h"
#include "tests/collectives/schedule/samples.h"

namespace ccl {
namespace {

constexpr OpKind kKinds[] = {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter};

struct Named {
  const char* name;
  Algorithmic function;
};
const std::vector<Named>& algorithms() {
  static const std::vector<Named> list = {{"ring", ring}, {"mesh", mesh}};
  return list;
}

Group two_ranks() {
  return whole(one_chip(Gen::kV2, 2));
}
// `ranks` on two-core chips of a trn1 torus.
Group trn1(uint32_t ranks) {
  return group_of_ranks(torus(Gen::kV2, 2), 0, ranks);
}
Group trn2(uint32_t ranks) {
  return group_of_ranks(torus(Gen::kV3, 4), 0, ranks);
}

TEST(Lowering, TwoRanksEverySizeAndAlgorithm) {
  for (const OpKind kind : kKinds) {
    for (const Named& algorithm : algorithms()) {
      for (const bool in_place : {false, true}) {
        for (const uint64_t elements : {0, 2, 30, 32, 34, 510, 512, 514, 1024, 20000}) {
          for (const uint32_t seed : {1u, 2u}) {
            Case c;
            c.group = two_ranks();
            c.algorithm = algorithm.function;
            c.kind = kind;
            c.elements = elements;
            c.in_place = in_place;
            c.seed = seed;
            c.cc_count = seed;
            run(c);
          }
        }
      }
    }
  }
}

TEST(Lowering, OddElementCounts) {
  for (const Named& algorithm : algorithms()) {
    for (const uint64_t elements : {1, 3, 31, 33, 1023, 70001}) {
      Case c;
      c.group = two_ranks();
      c.algorithm = algorithm.function;
      c.elements = elements;
      c.dtype = DType::kUint8;
      run(c);
    }
  }
}

TEST(Lowering, PacketsLargerThanOneDescriptor) {
  Case c;
  c.group = two_ranks();
  c.algorithm = mesh;
  c.elements = 16 * 65536 + 1234;  // over 64 KiB per engine
  run(c);
  c.kind = OpKind::kAllGather;
  run(c);
}

TEST(Lowering, EveryTypeAndReduction) {
  for (int code = 1; code <= 0xF; ++code) {
    for (const ReduceOp op : {ReduceOp::kAdd, ReduceOp::kMax, ReduceOp::kMin}) {
      for (const Named& algorithm : algorithms()) {
        Case c;
        c.group = two_ranks();
        c.algorithm = algorithm.function;
        c.dtype = static_cast<DType>(code);
        c.op = op;
        c.elements = 100;
        run(c);
        c.kind = OpKind::kReduceScatter;
        run(c);
      }
    }
  }
}

TEST(Lowering, NineExecutionsReplayTheSameRings) {
  for (const OpKind kind : kKinds) {
    for (const Named& algorithm : algorithms()) {
      for (const bool in_place : {false, true}) {
        for (const uint32_t seed : {1u, 2u, 3u}) {
          Case c;
          c.group = trn1(seed == 1 ? 2 : 4);
          c.algorithm = algorithm.function;
          c.kind = kind;
          c.elements = 3000;
          c.in_place = in_place;
          c.executions = 9;
          c.seed = seed;
          c.cc_count = 1 + seed % 2;
          run(c);
        }
      }
    }
  }
}

TEST(Lowering, RanksOfSeveralChips) {
  for (const OpKind kind : kKinds) {
    for (const Named& algorithm : algorithms()) {
      for (const uint32_t ranks : {4u, 8u, 16u}) {
        for (const uint64_t per_rank : {0u, 1u, 33u, 3000u}) {
          Case c;
          c.group = trn1(ranks);
          c.algorithm = algorithm.function;
          c.kind = kind;
          c.elements = per_rank * ranks;
          c.executions = ranks > 8 ? 1 : 2;
          c.seed = ranks;
          c.cc_count = 2;
          run(c);
        }
      }
    }
  }
}

TEST(Lowering, LogicalCoresOfTwo) {
  for (const OpKind kind : kKinds) {
    for (const Named& algorithm : algorithms()) {
      for (const uint32_t cc_count : {1u, 3u, 4u}) {
        Case c;
        c.group = trn2(8);
        c.algorithm = algorithm.function;
        c.kind = kind;
        c.elements = 8 * 4500;
        c.cc_count = cc_count;
        c.executions = 2;
        run(c);
      }
    }
  }
}

TEST(Lowering, WholeTrn1) {
  for (const OpKind kind : kKinds) {
    for (const Named& algorithm : algorithms()) {
      Case c;
      c.group = trn1(32);
      c.algorithm = algorithm.function;
      c.kind = kind;
      c.elements = 32 * 100;
      c.cc_count = 2;
      run(c);
    }
  }
}

// Slots are reused: more slices than slots, with credits.
TEST(Lowering, RingReusesItsSlots) {
  Case c;
  c.group = trn1(4);
  c.algorithm = ring;
  c.elements = 4 * 200000;
  c.schedule.slot_bytes = 16384;
  c.schedule.slots = 3;
  c.executions = 2;
  run(c);
}

TEST(Lowering, LongProgramsAreRolled) {
  Case c;
  c.group = trn1(8);
  c.algorithm = ring;
  c.elements = 8 * 100000;
  c.schedule.slot_bytes = 4096;
  Bench bench(c);
  bench.run();
  EXPECT_LT(bench.records, 400u) << bench.text;
}

// The schedule in place has no copy of a rank's own chunk.
TEST(Lowering, InPlaceOnSomeRanksOnly) {
  for (const OpKind kind : {OpKind::kAllGather, OpKind::kAllReduce}) {
    Case c;
    c.group = trn1(4);
    c.kind = kind;
    c.elements = 64;
    c.in_place = true;
    Bench bench(c);
    bench.prepare();
    EXPECT_TRUE(bench.lower_rank(0)) << to_string(kind);
    bench.members()[1].dst += 0x0800'0000;
    const auto mixed = bench.lower_rank(0);
    EXPECT_EQ(static_cast<bool>(mixed), kind == OpKind::kAllReduce) << to_string(kind);
    if (mixed) continue;
    EXPECT_EQ(mixed.error().code, kNrtInvalid);
    EXPECT_NE(mixed.error().what.find("in place on 3 of 4 ranks"), std::string::npos);
  }
}

TEST(Lowering, WithoutBroadcastEveryEngineIsRung) {
  Case c;
  c.group = two_ranks();
  c.algorithm = mesh;
  c.elements = 40000;
  c.broadcast = false;
  c.executions = 9;
  run(c);
}

// ---- Schedules by hand

Case by_hand(const Sample& sample) {
  Case c;
  c.group = trn1(sample.shape.ranks);
  c.kind = sample.shape.request.kind;
  c.dtype = sample.shape.request.dtype;
  c.op = sample.shape.request.op;
  c.elements = sample.shape.request.input_bytes / contract::dtype_size(c.dtype);
  c.in_place = sample.shape.in_place;
  c.algorithm = [schedule = sample.schedule()](const OpRequest&, const Group&,
                                               const ScheduleOptions&) -> base::Result<Schedule> {
    return schedule;
  };
  return c;
}

TEST(LoweringByHand, FanOutsOfSmallStepsUseManyEnginesAndOneDoorbell) {
  Sample sample = mesh_all_gather(16, 64);
  sample.shape.largest_step = 64;
  Case c = by_hand(sample);
  c.executions = 2;
  Bench bench(c);
  bench.run();
  const auto lowered = bench.lower_rank(0);
  ASSERT_TRUE(lowered);
  EXPECT_EQ(lowered->rings.size(), 16u);
  uint32_t doorbells = 0;
  for (const auto& r : lowered->programs[0]) {
    const auto op = static_cast<contract::cc_program::Op>(r.op);
    doorbells +=
        op == contract::cc_program::Op::kDmaAdvance || op == contract::cc_program::Op::kDmaRange;
  }
  EXPECT_LE(doorbells, 2u);
}

TEST(LoweringByHand, RingWithCredits) {
  for (const uint64_t bytes : {64, 2048, 40000}) {
    Case c = by_hand(ring_all_reduce(5, bytes, 2));
    c.group = trn1(5);
    c.executions = 5;
    run(c);
  }
}

// One read, four writes; then steps that follow each other on the same bytes.
Sample copies() {
  const uint64_t bytes = 4096;
  Sample s = make_sample(sample_request(OpKind::kBroadcast, 4, bytes), 4, {{0, false}, {0, false}});
  s.shape.largest_step = bytes;
  for (uint32_t r = 0; r < 4; ++r) {
    Step ready;
    ready.signals = {{0, 0}};
    s.ranks[r].push_back(ready);
    Step end;
    end.waits = {{1, 1}};
    if (r == 0) {
      Step send;
      send.bytes = bytes;
      send.sources = {{0, Buffer::kInput, 0}};
      send.waits = {{0, 4}};
      for (uint32_t p = 0; p < 4; ++p) {
        send.destinations.push_back({p, Buffer::kOutput, 0});
        send.signals.push_back({p, 1});
      }
      s.ranks[r].push_back(send);
    }
    s.ranks[r].push_back(end);
  }
  return s;
}

TEST(LoweringByHand, OneReadFourWrites) {
  Case c = by_hand(copies());
  c.executions = 4;
  run(c);
}

// Steps after steps: through the queue where cuts coincide, through the CC-core where not.
TEST(LoweringByHand, StepsFollowTheirPredecessors) {
  for (const uint64_t bytes : {256, 8192}) {
    Sample s = make_sample(sample_request(OpKind::kBroadcast, 1, bytes), 1, {});
    s.shape.channel_bytes = 2 * bytes;
    s.shape.largest_step = bytes;
    const auto copy = [&](Range from, Range to, uint64_t n, std::vector<uint32_t> after) {
      Step step;
      step.bytes = n;
      step.sources = {from};
      step.destinations = {to};
      step.after = std::move(after);
      s.ranks[0].push_back(step);
    };
    copy({0, Buffer::kInput, 0}, {0, Buffer::kChannel, 0}, bytes, {});
    copy({0, Buffer::kChannel, 0}, {0, Buffer::kChannel, bytes}, bytes, {0});
    copy({0, Buffer::kChannel, bytes}, {0, Buffer::kOutput, 0}, bytes / 2, {1});
    copy({0, Buffer::kChannel, bytes + bytes / 2}, {0, Buffer::kOutput, bytes / 2}, bytes / 2, {1});
    for (const uint32_t seed : {1u, 2u, 3u, 4u, 5u}) {
      Case c = by_hand(s);
      c.group = group_of_ranks(one_chip(Gen::kV2, 1), 0, 1);
      c.seed = seed;
      c.executions = 3;
      run(c);
    }
  }
}

TEST(LoweringByHand, SchedulesThatPointOutsideAreRefused) {
  const auto refused = [](const std::function<void(Sample*)>& damage) {
    Sample sample = mesh_all_gather(2, 64);
    damage(&sample);
    Case c = by_hand(sample);
    c.right = false;
    Bench bench(c);
    bench.prepare();
    return !bench.lower_rank(0);
  };
  EXPECT_FALSE(refused([](Sample*) {}));
  EXPECT_TRUE(refused([](Sample* s) { s->ranks[0][1].channel = 1; }));
  EXPECT_TRUE(refused([](Sample* s) { s->ranks[0][1].sources[0].rank = 2; }));
  EXPECT_TRUE(refused([](Sample* s) { s->ranks[0][1].sources[0].offset = 1; }));
  EXPECT_TRUE(refused([](Sample* s) { s->ranks[0][1].destinations[0].offset = ~0ull; }));
  EXPECT_TRUE(refused([](Sample* s) { s->ranks[0][1].destinations.clear(); }));
  EXPECT_TRUE(refused([](Sample* s) { s->ranks[0][0].signals[0].event = 2; }));
  EXPECT_TRUE(refused([](Sample* s) { s->ranks[0][0].signals[0].rank = 2; }));
  EXPECT_TRUE(refused([](Sample* s) { s->ranks[0][2].waits = {{7, 1}}; }));
  EXPECT_TRUE(refused([](Sample* s) { s->ranks[0][1].after = {1}; }));
  EXPECT_TRUE(refused([](Sample* s) { s->shape.largest_step = 1; }));
}

TEST(LoweringByHand, CopyPacketsShrinkWithTheOption) {
  Case c = by_hand(mesh_all_gather(2, 1 << 20));
  Bench bench(c);
  bench.prepare();
  bench.options().packet_bytes = 4096;
  const auto lowered = bench.lower_rank(0);
  ASSERT_TRUE(lowered);
  for (const EngineRing& engine : lowered->rings) {
    for (const auto& d : engine.s2m) EXPECT_LE(contract::desc::length(d.w0), 4096u);
  }
  bench.options().packet_bytes = 0;
  EXPECT_FALSE(bench.lower_rank(0));
}

TEST(LoweringByHand, ResourcesThatDoNotSuffice) {
  Case c = by_hand(mesh_all_gather(2, 64));
  c.algorithm = ring;
  c.kind = OpKind::kAllReduce;
  c.elements = 4096;
  Bench bench(c);
  bench.prepare();
  ASSERT_TRUE(bench.lower_rank(0));
  const std::vector<RankResources> good = bench.members();
  const auto refused = [&](int code) {
    const auto lowered = bench.lower_rank(0);
    bench.members() = good;
    return !lowered && lowered.error().code == code;
  };
  bench.members()[1].signals = 0;
  EXPECT_TRUE(refused(kNrtResource));
  bench.members()[1].cc[0].signal_base = 255;
  EXPECT_TRUE(refused(kNrtInvalid));
  bench.members()[0].cc[0].completion_base = 254;
  EXPECT_TRUE(refused(kNrtResource));
  bench.members()[1].cc_count = 2;
  EXPECT_TRUE(refused(kNrtInvalid));
  bench.members()[1].gen = Gen::kV3;
  EXPECT_TRUE(refused(kNrtInvalid));
  bench.members()[0].queue = 16;
  EXPECT_TRUE(refused(kNrtInvalid));
  if (bench.members()[0].channel_bytes != 0) {
    bench.members()[1].channel_bytes = 0;
    EXPECT_TRUE(refused(kNrtInvalid));
  }
}

}  // namespace
}  // namespace ccl
