#include "hw/time/activity_meter.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace {

using hw::ActivityMeter;

TEST(ActivityMeter, SplitsIntervalsAtPeriods) {
  ActivityMeter m(100);
  EXPECT_EQ(m.busy_in(0), 0u);
  m.add(10, 30);
  m.add(90, 120);
  EXPECT_EQ(m.busy_in(0), 30u);
  EXPECT_EQ(m.busy_in(1), 20u);
  m.add(150, 450);  // reaches over periods that have not come yet
  EXPECT_EQ(m.busy_in(0), 30u);
  EXPECT_EQ(m.busy_in(1), 70u);
  EXPECT_EQ(m.busy_in(2), 100u);
  EXPECT_EQ(m.busy_in(4), 50u);
  EXPECT_EQ(m.busy_in(5), 0u);
  m.add(1000, 1001);
  EXPECT_EQ(m.busy_in(9), 0u);
  EXPECT_EQ(m.busy_in(10), 1u);
}

TEST(ActivityMeter, OverlapCountsOnce) {
  ActivityMeter m(100);
  m.add(0, 50);
  m.add(20, 60);
  m.add(60, 60);
  m.add(50, 40);
  EXPECT_EQ(m.busy_in(0), 60u);
}

TEST(ActivityMeter, StopEndsTheLastInterval) {
  ActivityMeter m(100);
  m.add(50, 1000);
  m.stop(120);
  EXPECT_EQ(m.busy_in(0), 50u);
  EXPECT_EQ(m.busy_in(1), 20u);
  m.stop(10);  // before the interval
  EXPECT_EQ(m.busy_in(0), 0u);
  m.add(110, 115);
  EXPECT_EQ(m.busy_in(1), 5u);
}

TEST(ActivityMeter, WithoutPeriodsNothingIsKept) {
  ActivityMeter m(0);
  m.add(0, 10);
  m.stop(5);
}

// Against the sum of all intervals.
TEST(ActivityMeter, RandomIntervals) {
  std::mt19937 random(1);
  ActivityMeter m(64);
  std::vector<uint64_t> busy(100'000);
  uint64_t at = 0;
  for (int i = 0; i < 2000; ++i) {
    const uint64_t begin = at + random() % 70;
    const uint64_t end = begin + random() % (i % 10 == 0 ? 300 : 20);
    m.add(begin, end);
    for (uint64_t t = begin; t < end; ++t) ++busy[t / 64];
    const uint64_t period = begin / 64;
    ASSERT_EQ(m.busy_in(period), busy[period]);
    const uint64_t before = period == 0 ? 0 : period - 1;
    ASSERT_EQ(m.busy_in(before), busy[before]) << i;
    for (uint64_t p = period + 1; p < period + 6; ++p) ASSERT_EQ(m.busy_in(p), busy[p]);
    at = end;
  }
}

}  // namespace
