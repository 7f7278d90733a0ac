// The verifier: accepts hand-made schedules, and finds every kind of defect put into them.
#include "runtime/collectives/schedule/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/collectives/schedule/samples.h"

namespace ccl {
namespace {

using testing::HasSubstr;

std::string verdict(const Sample& sample, uint32_t steps_in_flight = kStepsInFlight) {
  base::Status status = verify(sample.schedule(), steps_in_flight);
  return status ? "correct" : status.error().what;
}

TEST(Verify, AcceptsAMesh) {
  for (const uint32_t n : {1u, 2u, 3u, 8u}) {
    EXPECT_EQ(verdict(mesh_all_gather(n, 256)), "correct") << n;
    EXPECT_EQ(verdict(mesh_all_gather(n, 256, true)), "correct") << n;
  }
}

TEST(Verify, AcceptsARing) {
  for (const uint32_t n : {2u, 3u, 4u, 9u}) {
    for (const uint32_t slots : {2u, 3u, 8u}) {
      EXPECT_EQ(verdict(ring_all_reduce(n, 64, slots)), "correct") << n << " " << slots;
    }
  }
}

// One step: everybody folds all inputs, in the order that `first` begins.
Sample mesh_all_reduce(uint32_t n, uint64_t bytes) {
  Sample s = make_sample(sample_request(OpKind::kAllReduce, n, bytes), n, {{0, false}, {0, false}});
  for (uint32_t r = 0; r < n; ++r) {
    Steps& steps = s.ranks[r];
    steps.resize(3);
    steps[1].bytes = bytes;
    steps[1].waits = {{kReady, n - 1}};
    steps[1].destinations = {{r, Buffer::kOutput, 0}};
    steps[2].waits = {{kDone, n - 1}};
    for (uint32_t p = 0; p < n; ++p) {
      steps[1].sources.push_back({p, Buffer::kInput, 0});
      if (p == r) continue;
      steps[0].signals.push_back({p, kReady});
      steps[1].signals.push_back({p, kDone});
    }
  }
  return s;
}

Sample one_to_one(const OpRequest& request, uint32_t ranks, uint32_t from, uint32_t to) {
  Sample s = make_sample(request, ranks, {{0, true}, {0, true}});
  Step ready;
  ready.signals = {{from, 0}};
  Step send;
  send.bytes = request.input_bytes;
  send.sources = {{from, Buffer::kInput, 0}};
  send.destinations = {{to, Buffer::kOutput, 0}};
  send.waits = {{0, 1}};
  send.signals = {{to, 1}};
  Step done;
  done.waits = {{1, 1}};
  s.ranks[to] = {ready, done};
  s.ranks[from] = {send};
  return s;
}

TEST(Verify, AcceptsEveryOperation) {
  EXPECT_EQ(verdict(mesh_all_reduce(4, 64)), "correct");
  OpRequest request = sample_request(OpKind::kPermute, 3, 64);
  request.pairs = {{2, 1}};
  EXPECT_EQ(verdict(one_to_one(request, 3, 2, 1)), "correct");
  request.kind = OpKind::kPermuteReduce;
  Sample permute_reduce = one_to_one(request, 3, 2, 1);
  permute_reduce.ranks[2][0].sources.push_back({2, Buffer::kSecond, 0});
  EXPECT_EQ(verdict(permute_reduce), "correct");

  request = sample_request(OpKind::kBroadcast, 2, 64);
  Sample broadcast = one_to_one(request, 2, 0, 1);
  broadcast.ranks[0][0].destinations.push_back({0, Buffer::kOutput, 0});
  EXPECT_EQ(verdict(broadcast), "correct");
  broadcast.shape.in_place = true;
  broadcast.ranks[0][0].destinations.pop_back();
  EXPECT_EQ(verdict(broadcast), "correct");

  request = sample_request(OpKind::kReduce, 2, 64);
  request.root = 1;
  Sample reduce = one_to_one(request, 2, 0, 1);
  reduce.ranks[0][0].sources.push_back({1, Buffer::kInput, 0});
  EXPECT_EQ(verdict(reduce), "correct");

  Sample gather = mesh_all_gather(3, 64);
  gather.shape.request = sample_request(OpKind::kAllToAll, 3, 3 * 64);
  for (Steps& steps : gather.ranks) {
    for (Step& step : steps) {
      if (step.bytes != 0) step.sources[0].offset = step.destinations[0].rank * 64;
    }
  }
  EXPECT_EQ(verdict(gather), "correct");
}

// All tell rank 0, which tells all.
Sample barrier(uint32_t n) {
  OpRequest request;
  request.kind = OpKind::kBarrier;
  request.dtype = DType::kInt8;
  Sample s = make_sample(request, n, {{0, false}, {0, true}});
  s.ranks[0].resize(1);
  for (uint32_t r = 1; r < n; ++r) {
    s.ranks[0][0].signals.push_back({r, 1});
    s.ranks[r].resize(2);
    s.ranks[r][0].signals = {{0, 0}};
    s.ranks[r][1].waits = {{1, 1}};
  }
  s.ranks[0][0].waits = {{0, n - 1}};
  return s;
}

TEST(Verify, ABarrierHoldsEveryRank) {
  Sample s = barrier(4);
  EXPECT_EQ(verdict(s), "correct");
  s.ranks[3].pop_back();
  s.ranks[0][0].signals.pop_back();
  EXPECT_EQ(verdict(s), "rank 3 may leave the barrier before rank 0 enters it");
}

// Every rank holds a full slot and waits for an empty one.
TEST(Verify, FindsADeadlock) {
  EXPECT_THAT(verdict(ring_all_reduce(3, 64, 1)), HasSubstr("can never start"));
}

// Channels may share a CC-core, which then starts their steps in the order of the list.
TEST(Verify, FindsADeadlockBetweenChannels) {
  Sample s = barrier(2);
  s.shape.channels = 2;
  s.shape.events = {{0, true}, {1, true}};
  for (uint32_t r = 0; r < 2; ++r) {
    s.ranks[r].assign(2, {});
    for (uint32_t i = 0; i < 2; ++i) {
      s.ranks[r][i].channel = (r + i) % 2;
      s.ranks[r][i].waits = {{(r + i) % 2, 1}};
      s.ranks[r][i].signals = {{1 - r, (r + i) % 2}};
    }
  }
  EXPECT_THAT(verdict(s), HasSubstr("rank 0 step 0 (channel 0) can never start"));
  for (Step& step : s.ranks[0]) step.waits.clear();
  for (Step& step : s.ranks[1]) step.signals.clear();
  EXPECT_THAT(verdict(s), HasSubstr("rank 0 may leave the barrier"));
}

TEST(Verify, FindsAMissingSignal) {
  Sample s = barrier(4);
  s.ranks[0][0].signals.pop_back();
  EXPECT_EQ(verdict(s),
            "rank 3 step 1 (channel 0) can never start: it waits for 1 signals of fifo 1, 0 came; "
            "only 0 of 1 are ever sent");
  s = ring_all_reduce(4, 64, 8);
  s.ranks[2][5].signals.clear();  // the signal before it is taken for it
  EXPECT_THAT(verdict(s), HasSubstr("touch byte 64 of the output of rank 3 without an order"));
  s = mesh_all_gather(4, 64);
  s.ranks[2][3].signals.clear();
  EXPECT_THAT(verdict(s), HasSubstr("can never start: it waits for 3 signals of gather 1"));
}

TEST(Verify, FindsAMissingWait) {
  Sample s = ring_all_reduce(4, 64, 8);
  s.ranks[2][3].waits.clear();
  EXPECT_THAT(verdict(s), HasSubstr("fifo 0 of rank 2: 3 signals, of which 2 are taken"));
  s = mesh_all_gather(4, 64);
  s.ranks[2].pop_back();
  EXPECT_THAT(verdict(s), HasSubstr("gather 1 of rank 2: 3 signals, of which 0 are taken"));
}

// The same number of waits, but one comes too late.
TEST(Verify, FindsALateWait) {
  Sample s = ring_all_reduce(4, 64, 8);
  s.ranks[2].back().waits.push_back(s.ranks[2][2].waits[0]);
  s.ranks[2][2].waits.erase(s.ranks[2][2].waits.begin());
  EXPECT_THAT(verdict(s),
              HasSubstr("touch byte 0 of the channel buffer of rank 2 without an order"));
  s = ring_all_reduce(6, 64, 2);
  std::swap(s.ranks[2][4].waits[1], s.ranks[2].back().waits[0]);  // a credit
  EXPECT_NE(verdict(s), "correct");
}

TEST(Verify, FindsACreditTooMany) {
  Sample s = ring_all_reduce(6, 64, 3);
  EXPECT_EQ(verdict(s), "correct");
  s.shape.channel_bytes -= 64;
  for (Steps& steps : s.ranks) {
    for (Step& step : steps) {
      for (Range& r : step.sources) r.offset %= r.buffer == Buffer::kChannel ? 128 : 1000;
      for (Range& r : step.destinations) r.offset %= r.buffer == Buffer::kChannel ? 128 : 1000;
    }
  }
  EXPECT_NE(verdict(s), "correct");
}

TEST(Verify, FindsASignalToTheWrongRank) {
  Sample s = ring_all_reduce(4, 64, 8);
  s.ranks[2][3].signals[0].rank = 1;
  EXPECT_THAT(verdict(s), HasSubstr("fifo 1 of rank 1, which has another producer"));
  s = mesh_all_gather(4, 64);
  std::swap(s.ranks[0][3].signals[0].rank, s.ranks[0][4].signals[0].rank);
  EXPECT_THAT(verdict(s), HasSubstr("after this rank has finished"));
}

TEST(Verify, FindsWrongBytes) {
  Sample s = mesh_all_gather(4, 64);
  s.ranks[1][2].bytes -= 4;
  EXPECT_EQ(verdict(s), "nobody writes byte 124 of the output of rank 0");
  s = mesh_all_gather(4, 64);
  s.ranks[1][2].destinations[0].offset += 64;
  EXPECT_THAT(verdict(s), HasSubstr("touch byte 128 of the output of rank 0 without an order"));
  s = mesh_all_gather(4, 64);
  s.ranks[1][2].destinations[0].offset = 1000;
  EXPECT_THAT(verdict(s), HasSubstr("reaches 1000 + 64 bytes into the output of rank 0"));
  s = mesh_all_gather(2, 64);
  s.ranks[1][2].sources[0] = {0, Buffer::kInput, 0};
  EXPECT_EQ(verdict(s),
            "byte 64 of the output of rank 0 is byte 0 of inputs 0, expected byte 0 of 1");
}

TEST(Verify, FindsAFoldInAnotherOrder) {
  Sample s = mesh_all_reduce(4, 64);
  std::swap(s.ranks[2][1].sources[0], s.ranks[2][1].sources[3]);
  EXPECT_EQ(verdict(s), "ranks fold byte 0 in different orders: (0 1 2 3) and (3 1 2 0)");
}

TEST(Verify, FindsAFoldOfOtherBytes) {
  Sample s = ring_all_reduce(4, 64, 8);
  s.ranks[1][2].sources[1].offset ^= 64;
  EXPECT_THAT(verdict(s), HasSubstr("rank 1 step 2 (channel 0) folds byte"));
  s = ring_all_reduce(4, 64, 8);
  s.ranks[1][2].sources.pop_back();
  EXPECT_THAT(verdict(s), HasSubstr("expected byte"));
  s = ring_all_reduce(4, 64, 8);
  s.ranks[1][2].bytes = 62;
  EXPECT_THAT(verdict(s), HasSubstr("folds parts of elements"));
}

// Without the handshake at the start.
TEST(Verify, FindsMemoryTouchedTooEarly) {
  Sample s = mesh_all_gather(3, 64);
  for (Steps& steps : s.ranks) {
    steps[0].signals.clear();
    steps[2].waits.clear();
  }
  EXPECT_THAT(verdict(s), HasSubstr("touches memory of rank 1, which may not have started"));
}

// Nobody waits for the end of what others write.
TEST(Verify, FindsMemoryTouchedTooLate) {
  Sample s = mesh_all_gather(3, 64);
  for (Steps& steps : s.ranks) {
    for (Step& step : steps) {
      if (step.bytes != 0) step.signals.clear();
    }
    steps.pop_back();
  }
  EXPECT_THAT(verdict(s), HasSubstr("may touch memory of rank 0 after this rank has finished"));
}

// `length` steps of one channel, the last of which reads what the first has written.
Sample chain(uint32_t length, bool fan_out) {
  Sample s = make_sample(sample_request(OpKind::kAllReduce, 1, 64), 1, {});
  s.shape.channel_bytes = uint64_t{64} * length;
  Step step;
  step.bytes = 64;
  step.fan_out = fan_out;
  step.sources = {{0, Buffer::kInput, 0}};
  for (uint32_t i = 0; i + 1 < length; ++i) {
    step.destinations = {{0, Buffer::kChannel, i * 64}};
    s.ranks[0].push_back(step);
  }
  step.sources = {{0, Buffer::kChannel, 0}};
  step.destinations = {{0, Buffer::kOutput, 0}};
  s.ranks[0].push_back(step);
  return s;
}

// Steps of one channel are in flight together, kStepsInFlight of them, unless `after` says
// otherwise.
TEST(Verify, FindsAReliedOnOrderOfOneChannel) {
  EXPECT_EQ(verdict(chain(kStepsInFlight + 1, false)), "correct");
  Sample s = chain(kStepsInFlight, false);
  EXPECT_THAT(verdict(s),
              HasSubstr("rank 0 step 0 (channel 0) and rank 0 step 3 (channel 0) touch"));
  s.ranks[0].back().after = {1};
  EXPECT_THAT(verdict(s), HasSubstr("without an order"));
  s.ranks[0].back().after = {0};
  EXPECT_EQ(verdict(s), "correct");
  s.ranks[0].back().after = {3};
  EXPECT_THAT(verdict(s), HasSubstr("comes after step 3, which is no earlier step"));
  s = chain(7, true);  // no window, but completed together
  EXPECT_THAT(verdict(s), HasSubstr("without an order"));
  s.ranks[0].back().after = {5};
  EXPECT_EQ(verdict(s), "correct");
  s = chain(kStepsInFlight + 1, false);
  s.shape.channels = 2;
  s.ranks[0].back().channel = 1;
  EXPECT_NE(verdict(s), "correct");
}

TEST(Verify, ReliesOnTheGivenWindowOnly) {
  for (const uint32_t window : {1u, 2u, 5u, 31u, 32u}) {
    EXPECT_EQ(verdict(chain(window + 1, false), window), "correct") << window;
    if (window == 1) continue;  // a step is in flight with itself only
    EXPECT_THAT(verdict(chain(window, false), window), HasSubstr("without an order")) << window;
  }
  EXPECT_THAT(verdict(chain(2, false), 0), HasSubstr("expected 1 to 32"));
  EXPECT_THAT(verdict(chain(2, false), 33), HasSubstr("33 steps of a channel in flight"));
}

TEST(Verify, RefusesUnsoundEvents) {
  Sample s = mesh_all_gather(3, 64);
  s.shape.events[kDone].fifo = true;
  EXPECT_THAT(verdict(s), HasSubstr("fans out and signals fifo 1"));
  s = mesh_all_gather(3, 64);
  s.ranks[0].back().waits = {{kDone, 1}, {kDone, 1}};
  EXPECT_EQ(verdict(s), "gather 1 of rank 0: 2 waits");
  s = mesh_all_gather(3, 64);
  s.ranks[0].back().waits = {{7, 2}};
  EXPECT_THAT(verdict(s), HasSubstr("waits for event 7, which is none of its channel"));
  s = mesh_all_gather(3, 64);
  s.ranks[0][0].signals.push_back({3, 0});
  EXPECT_THAT(verdict(s), HasSubstr("signals event 0 of rank 3"));
  s = ring_all_reduce(2, 64, 2);
  s.ranks[0].back().waits.push_back({kData, 0});
  EXPECT_THAT(verdict(s), HasSubstr("waits for no signal of fifo 1"));
}

// All tell all: who has finished may come again while another still counts. Two may not mix.
TEST(Verify, FindsSignalsOfTheNextOperation) {
  for (const uint32_t n : {2u, 3u}) {
    Sample s = barrier(n);
    for (uint32_t r = 0; r < n; ++r) {
      s.ranks[r].assign(2, {});
      s.ranks[r][1].waits = {{0, n - 1}};
      for (uint32_t p = 0; p < n; ++p) {
        if (p != r) s.ranks[r][0].signals.push_back({p, 0});
      }
    }
    EXPECT_THAT(verdict(s),
                HasSubstr(n == 2 ? "correct" : "can, in the next operation, come before"));
  }
}

TEST(Verify, RefusesMalformedSteps) {
  const auto change = [](const std::function<void(Sample*)>& how) {
    Sample s = mesh_all_gather(3, 64);
    how(&s);
    return verdict(s);
  };
  EXPECT_THAT(change([](Sample* s) { s->ranks[0][1].destinations.clear(); }), HasSubstr("0 dest"));
  EXPECT_THAT(change([](Sample* s) { s->ranks[0][1].channel = 1; }),
              HasSubstr("on channel 1 of 1"));
  EXPECT_THAT(change([](Sample* s) { s->shape.largest_step = 63; }), HasSubstr("the largest step"));
  EXPECT_THAT(change([](Sample* s) { s->shape.channels = 0; }), HasSubstr("no channels"));
  EXPECT_THAT(change([](Sample* s) { s->shape.events[0].channel = 1; }), HasSubstr("event 0"));
  EXPECT_THAT(change([](Sample* s) { s->ranks[0][2].bytes = 0; }), HasSubstr("fans out without"));
  EXPECT_THAT(change([](Sample* s) { s->ranks[0][1].destinations[0].buffer = Buffer::kInput; }),
              HasSubstr("writes an input"));
  EXPECT_THAT(change([](Sample* s) {
                s->ranks[0][1].destinations.push_back(s->ranks[0][1].destinations[0]);
              }),
              HasSubstr("writes the same bytes twice"));
  EXPECT_THAT(change([](Sample* s) {
                s->ranks[0][1].sources.push_back({0, Buffer::kInput, 0});
              }),
              HasSubstr("folds, the operation does not"));
  EXPECT_THAT(change([](Sample* s) { s->ranks[0][1].sources[0].rank = 3; }),
              HasSubstr("names rank 3"));
  EXPECT_THAT(change([](Sample* s) {
                s->shape.in_place = true;
                s->ranks[0][1].destinations[0].offset = 32;
              }),
              HasSubstr("partly overlap"));
  EXPECT_THAT(change([](Sample* s) { s->shape.request.output_bytes = 64; }), HasSubstr("expected"));
}

}  // namespace
}  // namespace ccl
