#include <set>

#include "tests/collectives/schedule/checks.h"

namespace ccl {
namespace {

constexpr size_t kMostEvents = 16;

TEST(Mesh, AllGroupsOperationsAndSizes) {
  for (const NamedGroup& named : published_groups()) {
    expect_reductions_valid(mesh, named, kMostEvents);
  }
}

// Steps that move bytes, and the longest chain of them through signals and `after`: a step is one
// later than what it waits for.
struct Depth {
  size_t moves = 0;  // of one rank
  size_t hops = 0;
};

Depth depth_of(const Schedule& schedule) {
  const uint32_t ranks = schedule.shape.ranks;
  std::vector<Steps> steps;
  for (uint32_t r = 0; r < ranks; ++r) steps.push_back(schedule.steps(r));
  // hops[rank][step] once known; events collect the latest signal. Repeated until nothing changes.
  std::vector<std::vector<size_t>> hops(ranks);
  std::vector<std::vector<size_t>> events(ranks, std::vector<size_t>(schedule.shape.events.size()));
  Depth depth;
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t r = 0; r < ranks; ++r) {
      std::vector<size_t> now;
      size_t start = 0;  // steps of a channel start in order
      for (const Step& step : steps[r]) {
        for (const Wait& wait : step.waits) start = std::max(start, events[r][wait.event]);
        for (const uint32_t before : step.after) start = std::max(start, now[before]);
        now.push_back(start + (step.bytes != 0));
        for (const Signal& signal : step.signals) {
          size_t& event = events[signal.rank][signal.event];
          changed = changed || now.back() > event;
          event = std::max(event, now.back());
        }
        depth.hops = std::max(depth.hops, now.back());
      }
    }
  }
  for (const Step& step : steps[0]) depth.moves += step.bytes != 0;
  return depth;
}

Depth depth_of(MakeSchedule make, const Group& group, OpKind kind, uint64_t bytes,
               bool in_place = false) {
  ScheduleOptions options;
  options.in_place = in_place;
  const auto schedule = make(request_of(kind, group.ranks(), bytes), group, options);
  EXPECT_TRUE(schedule);
  return schedule ? depth_of(*schedule) : Depth{};
}

TEST(Mesh, OneChipIsOneHop) {
  const Group pair = group_of_chips(torus_topology(contract::Gen::kV2, 2), {0});
  const Group chip = group_of_chips(torus_topology(contract::Gen::kV3, 4), {0});
  for (const Group& group : {pair, chip}) {
    for (const bool in_place : {false, true}) {
      for (const OpKind kind : {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter}) {
        const Depth depth = depth_of(mesh, group, kind, 1024, in_place);
        EXPECT_EQ(depth.moves, 1u) << to_string(kind);
        EXPECT_EQ(depth.hops, 1u) << to_string(kind);
      }
    }
  }
  // Small: every rank folds all inputs where they are, in the order of the group.
  const auto schedule = mesh(request_of(OpKind::kAllReduce, 2, 4096), pair, {});
  ASSERT_TRUE(schedule);
  const Step fold = schedule->steps(1)[1];
  EXPECT_EQ(fold.bytes, 4096u);
  ASSERT_EQ(fold.sources.size(), 2u);
  EXPECT_EQ(fold.sources[0].rank, 0u);
  EXPECT_EQ(fold.sources[1].rank, 1u);
  EXPECT_EQ(fold.sources[0].buffer, Buffer::kInput);
}

TEST(Mesh, HopsOfTheForms) {
  const Group trn1 = group_of_chips(torus_topology(contract::Gen::kV2, 2), count_from(0, 16));
  EXPECT_EQ(depth_of(mesh, trn1, OpKind::kAllGather, 32).hops, 1u);
  EXPECT_EQ(depth_of(mesh, trn1, OpKind::kReduceScatter, 32).hops, 2u);
  EXPECT_EQ(depth_of(mesh, trn1, OpKind::kAllReduce, 1024 * 32).hops, 3u);
  const Group trn2 = group_of_chips(torus_topology(contract::Gen::kV3, 4), count_from(0, 16));
  EXPECT_EQ(depth_of(mesh, trn2, OpKind::kAllGather, 1024).hops, 2u);
  EXPECT_EQ(depth_of(mesh, trn2, OpKind::kReduceScatter, 1024).hops, 2u);
  EXPECT_EQ(depth_of(mesh, trn2, OpKind::kAllReduce, 1024 * 64).hops, 4u);
  const Group four = group_of_chips(torus_topology(contract::Gen::kV2, 2), count_from(0, 4));
  EXPECT_EQ(depth_of(mesh, four, OpKind::kAllReduce, 1024).hops, 2u);  // single step, 2.7.4
  EXPECT_EQ(depth_of(mesh, four, OpKind::kAllReduce, 1024 * 1024).hops, 3u);
}

TEST(Rdh, HopsOfTheAxes) {
  const Group trn2 = group_of_chips(torus_topology(contract::Gen::kV3, 4), count_from(0, 16));
  EXPECT_EQ(depth_of(rdh, trn2, OpKind::kAllGather, 1024).hops, 5u);
  EXPECT_EQ(depth_of(rdh, trn2, OpKind::kReduceScatter, 1024).hops, 5u);
  const Depth all_reduce = depth_of(rdh, trn2, OpKind::kAllReduce, 64 * 1024);
  EXPECT_EQ(all_reduce.hops, 9u);   // the sum and the first step of the gather are one transfer
  EXPECT_EQ(all_reduce.moves, 9u);  // every step is one transfer
}

// Nothing that a rank is asked for may grow with the group on large machines.
TEST(Mesh, LargeAllToAllNeedsFewPeers) {
  const Topology gen2 = switched_topology(8, 18, 4);
  const Group group = group_of_chips(gen2, count_from(0, 144));
  const auto schedule = mesh(request_of(OpKind::kAllToAll, 1152, 910), group, {});
  ASSERT_TRUE(schedule);
  std::set<uint32_t> peers;
  std::vector<size_t> steps(schedule->shape.channels);
  for (const Step& step : schedule->steps(700)) {
    for (const Range& to : step.destinations) peers.insert(to.rank);
    for (const Signal& signal : step.signals) peers.insert(signal.rank);
    ++steps[step.channel];
    EXPECT_LE(step.bytes, schedule->shape.largest_step);
  }
  EXPECT_EQ(peers.size(), 144u + 7);
  for (const size_t count : steps) EXPECT_LE(count, ScheduleOptions().max_steps / 2);
}

}  // namespace
}  // namespace ccl
