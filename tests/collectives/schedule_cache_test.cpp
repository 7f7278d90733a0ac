// Equal questions share one schedule, others do not.
#include "runtime/collectives/schedule_cache.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/collectives/schedule/groups.h"

namespace ccl {
namespace {

OpRequest all_reduce(uint64_t bytes) {
  OpRequest request;
  request.kind = OpKind::kAllReduce;
  request.dtype = DType::kBf16;
  request.input_bytes = request.output_bytes = bytes;
  return request;
}

Group trn2_ranks(uint32_t ranks) {
  return group_of_ranks(torus(Gen::kV3, 4), 0, ranks);
}

std::shared_ptr<const Overrides> forced(Algorithm algorithm) {
  Overrides overrides;
  overrides.algorithms = {{OpKind::kAllReduce, algorithm}};
  return std::make_shared<const Overrides>(overrides);
}

TEST(ScheduleCache, EqualQuestionsShareTheAnswer) {
  const Group group = trn2_ranks(16);
  const auto first = shared_schedule(all_reduce(4096), group, {}, nullptr);
  ASSERT_TRUE(first->ok());
  EXPECT_EQ(first, shared_schedule(all_reduce(4096), group, {}, nullptr));
  EXPECT_EQ(shared_schedule(all_reduce(4096), group, {}, forced(Algorithm::kRing)),
            shared_schedule(all_reduce(4096), group, {}, forced(Algorithm::kRing)));
}

TEST(ScheduleCache, WhateverDiffersMakesAnother) {
  const Group group = trn2_ranks(16);
  const auto first = shared_schedule(all_reduce(4096), group, {}, nullptr);
  Group other = group;
  std::swap(other.members[0], other.members[1]);
  ScheduleOptions in_place;
  in_place.in_place = true;
  for (const auto& schedule :
       {shared_schedule(all_reduce(8192), group, {}, nullptr),
        shared_schedule(all_reduce(4096), other, {}, nullptr),
        shared_schedule(all_reduce(4096), group, in_place, nullptr),
        shared_schedule(all_reduce(4096), group, {}, forced(Algorithm::kRing))}) {
    EXPECT_NE(schedule, first);
  }
}

TEST(ScheduleCache, RefusalsAreAnswersToo) {
  const Group group = trn2_ranks(4);
  const auto refused = shared_schedule(all_reduce(64), group, {}, forced(Algorithm::kPairwise));
  EXPECT_FALSE(refused->ok());
  EXPECT_EQ(refused, shared_schedule(all_reduce(64), group, {}, forced(Algorithm::kPairwise)));
}

TEST(ScheduleCache, OldAnswersOutliveTheirEntries) {
  const Group group = trn2_ranks(2);
  const auto first = shared_schedule(all_reduce(2), group, {}, nullptr);
  ASSERT_TRUE(first->ok());
  const size_t steps = (**first).steps(0).size();
  for (uint64_t i = 2; i < 200; ++i) shared_schedule(all_reduce(2 * i), group, {}, nullptr);
  EXPECT_EQ((**first).steps(0).size(), steps);
  EXPECT_NE(first, shared_schedule(all_reduce(2), group, {}, nullptr));
}

TEST(ScheduleCache, ThreadsMeetInOneAnswer) {
  const Group group = trn2_ranks(16);
  std::vector<std::shared_ptr<const base::Result<Schedule>>> answers(8);
  std::vector<std::thread> threads;
  for (auto& answer : answers) {
    threads.emplace_back([&] { answer = shared_schedule(all_reduce(123456), group, {}, nullptr); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& answer : answers) EXPECT_EQ(answer, answers.front());
}

}  // namespace
}  // namespace ccl
