// Rings on every platform: right results, no races, no deadlocks, and the loads of
// spec/collectives.md 2.15.
#include <gtest/gtest.h>

#include <map>

#include "runtime/collectives/schedule/cycles.h"
#include "tests/collectives/schedule/groups.h"

namespace ccl {
namespace {

const std::vector<OpKind> kThree = {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter};

void check_sizes(const Group& group, const std::vector<OpKind>& kinds,
                 const std::vector<uint64_t>& sizes, const ScheduleOptions& base = {}) {
  for (const OpKind kind : kinds) {
    for (const uint64_t bytes : sizes) {
      for (const bool in_place : {false, true}) {
        if (in_place && kind == OpKind::kAllToAll) continue;
        ScheduleOptions options = base;
        options.in_place = in_place;
        const OpRequest request = request_of(kind, group.ranks(), bytes);
        EXPECT_EQ(problem(ring(request, group, options), options), "")
            << to_string(kind) << " of " << bytes << " bytes, " << group.ranks()
            << " ranks, in place " << in_place;
      }
    }
  }
}

const std::vector<OpKind> kAll = {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter,
                                  OpKind::kAllToAll};

TEST(Ring, OneChip) {
  for (const uint32_t cores : {1, 2}) {
    const Platform p = one_chip(Gen::kV2, cores);
    check_sizes(whole(p), kAll, {0, 2, 62, 64, 66, 126, 128, 130, 4096, 100000, 1 << 24});
  }
  for (const uint32_t cores : {3, 4, 8}) {
    const Platform p = one_chip(Gen::kV3, cores);
    check_sizes(whole(p), kAll, {0, 2, 62, 64, 66, 126, 128, 130, 4096, 100000, 1 << 24});
  }
}

TEST(Ring, AnyNumberOfRanks) {
  for (const Platform& p : {torus(Gen::kV2, 2), torus(Gen::kV3, 4)}) {
    for (const uint32_t n : {1, 2, 3, 4, 8, 12, 16, 24}) {
      check_sizes(group_of_ranks(p, 0, n), kAll, {0, 2, 62, 64, 66, 30000});
    }
  }
}

// Programs of several channels on one core do not wait for each other in a circle.
TEST(Ring, ChannelsOnOneCore) {
  ScheduleOptions options;
  options.slots = 3;
  options.slot_bytes = 4096;
  for (const Group& group :
       {whole(row_of_chips(6, true)), group_of_ranks(torus(Gen::kV3, 4), 0, 16, 4)}) {
    for (const OpKind kind : kAll) {
      const uint32_t n = group.ranks();
      for (const uint64_t bytes : {uint64_t{n} * 60000, uint64_t{n} * 9000 + 70}) {
        const Schedule schedule = *ring(request_of(kind, n, bytes), group, options);
        EXPECT_GT(schedule.shape.channels, 1u);
        EXPECT_TRUE(verify(on_one_core(schedule)).ok()) << to_string(kind);
      }
    }
  }
}

// Every order that a ring states is needed: without one of them there is a race or a deadlock.
TEST(Ring, NothingIsStatedInVain) {
  ScheduleOptions options;
  options.slots = 2;
  options.slices = 1;
  const Group group = group_of_ranks(torus(Gen::kV3, 4), 0, 5);
  const Schedule good = *ring(request_of(OpKind::kAllReduce, 5, 5 * 4096), group, options);
  const Steps steps = good.steps(2);
  uint32_t signals = 0;
  for (uint32_t at = 0; at < steps.size(); ++at) {
    for (uint32_t k = 0; k < steps[at].signals.size(); ++k) {
      // The signal is sent a step earlier, before what it stands for is done.
      Schedule bad = good;
      bad.steps = [good, at, k](uint32_t rank) {
        Steps list = good.steps(rank);
        if (rank != 2 || at == 0) return list;
        list[at - 1].signals.push_back(list[at].signals[k]);
        list[at].signals.erase(list[at].signals.begin() + k);
        return list;
      };
      EXPECT_EQ(verify(bad).ok(), at == 0) << "step " << at << " signal " << k;
      ++signals;
    }
  }
  EXPECT_GT(signals, 8u);
}

TEST(Ring, TorusOfTrn1) {
  const Platform p = torus(Gen::kV2, 2);
  check_sizes(whole(p), kAll, {66, 1 << 20});
  check_sizes(whole(p), {OpKind::kAllReduce}, {1 << 28});
}

TEST(Ring, NodesOfTrn2) {
  const Platform p = torus(Gen::kV3, 4);
  check_sizes(whole(p), kThree, {1 << 20});
  check_sizes(group_of_ranks(p, 16, 16), kAll, {0, 66, 2000, 1 << 20});
  check_sizes(group_of_ranks(p, 16, 32), kThree, {32 * 64 + 2});
  check_sizes(group_of_ranks(p, 0, 16, 4), kAll, {66, 1 << 20});
  check_sizes(group_of_ranks(p, 0, 12), kAll, {66, 1 << 20});
  check_sizes(group_of_ranks(p, {5, 3, 60, 17}), kAll, {66, 1 << 20});
  check_sizes(whole(one_chip(Gen::kV3, 8)), kAll, {1 << 20});
}

TEST(Ring, Inf2) {
  check_sizes(whole(row_of_chips(12, true)), kAll, {66, 1 << 20});
  check_sizes(whole(row_of_chips(6, false)), kAll, {66, 1 << 20});
}

TEST(Ring, OverNodes) {
  const Platform hosts = torus(Gen::kV2, 2, 3);
  const Group all = whole(hosts);
  check_sizes(all, {OpKind::kAllReduce}, {1 << 20});
  EXPECT_EQ(ring(request_of(OpKind::kAllReduce, 96, 4096), all, {})->shape.algorithm,
            Algorithm::kFlatRing);
  check_sizes(group_of_ranks(hosts, 16, 4, 16), kAll, {66, 1 << 20});
  check_sizes(group_of_ranks(racks(2), 0, 64, 1), {OpKind::kAllGather}, {1 << 20});
}

// Sizes that fill slots many times, and slots that just fit.
TEST(Ring, ManySlices) {
  const Platform p = one_chip(Gen::kV3, 4);
  for (const uint32_t slots : {2, 3, 8}) {
    ScheduleOptions options;
    options.slots = slots;
    options.slot_bytes = 8192;
    check_sizes(whole(p), kAll, {(1 << 20) + 2}, options);
    options.max_steps = 40;  // slices grow
    check_sizes(whole(p), kAll, {(1 << 20) + 2}, options);
  }
}

TEST(Ring, RefusesWhatItCannotDo) {
  const Group group = whole(one_chip(Gen::kV3, 4));
  ScheduleOptions options;
  options.slots = 1;
  const OpRequest request = request_of(OpKind::kAllReduce, 4, 4096);
  EXPECT_EQ(ring(request, group, options).error().code, kNrtInvalid);
  EXPECT_FALSE(ring(request_of(OpKind::kAllReduce, 4, uint64_t{1} << 62), group, {}).ok());
  EXPECT_EQ(ring(request_of(OpKind::kBarrier, 4, 0), group, {}).error().fault,
            base::Fault::kUnsupported);
  EXPECT_FALSE(ring(request_of(OpKind::kAllReduce, 4, 3), group, {}).ok());
}

// 2.15: 31.5 C per directed link for an all-reduce of 64 ranks on four channels.
TEST(Ring, LoadsEveryLinkAlike) {
  const Platform p = torus(Gen::kV3, 4);
  const uint64_t chunk = 1 << 20;
  const std::pair<OpKind, uint64_t> loads[] = {{OpKind::kAllReduce, chunk * 63 / 2},
                                               {OpKind::kAllGather, chunk * 63 / 4},
                                               {OpKind::kReduceScatter, chunk * 63 / 4}};
  for (const auto& [kind, load] : loads) {
    const auto links = link_loads(*ring(request_of(kind, 64, 64 * chunk), whole(p), {}), p);
    EXPECT_EQ(links.size(), 64u);
    for (const auto& [link, bytes] : links) EXPECT_EQ(bytes, load) << to_string(kind);
  }
}

// 2.5: reads and writes of memory per chunk, without the copy of the own chunk.
TEST(Ring, AccessesOfTheSpecification) {
  const Group group = whole(torus(Gen::kV3, 4));
  const uint64_t chunk = 1 << 16;
  const std::pair<OpKind, uint64_t> expected[] = {{OpKind::kAllGather, 2 * 63},
                                                  {OpKind::kReduceScatter, 3 * 64 - 1}};
  for (const auto& [kind, accesses] : expected) {
    ScheduleOptions options;
    options.in_place = true;
    const Schedule schedule = *ring(request_of(kind, 64, 64 * chunk), group, options);
    EXPECT_EQ(accesses_of(schedule), 64 * chunk * accesses) << to_string(kind);
  }
}

// 2.5: the chunk of position p sums the inputs of positions p+1, ..., p.
TEST(Ring, SumsInTheOrderOfThePositions) {
  const Group group = whole(one_chip(Gen::kV3, 4));
  const Schedule schedule = *ring(request_of(OpKind::kReduceScatter, 4, 4096), group, {});
  EXPECT_EQ(schedule.shape.channels, 1u);  // too little for two
  for (uint32_t r = 0; r < 4; ++r) {
    for (const Step& step : schedule.steps(r)) {
      if (step.bytes == 0) continue;
      EXPECT_EQ(step.sources.back().buffer, Buffer::kInput);
      EXPECT_EQ(step.sources.back().rank, r);
      if (step.sources.size() == 2) {
        EXPECT_EQ(step.sources[0].buffer, Buffer::kChannel);
      }
    }
  }
}

// A rank of a large group costs its own steps only.
TEST(Ring, LargeGroups) {
  const Platform p = torus(Gen::kV2, 2, 32);
  const Schedule schedule = *ring(request_of(OpKind::kAllReduce, 1024, 1 << 28), whole(p), {});
  EXPECT_LE(schedule.steps(777).size(), 4u * (2u * 1023u + 2u));
}

}  // namespace
}  // namespace ccl
