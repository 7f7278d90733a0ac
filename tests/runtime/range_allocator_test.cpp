#include <gtest/gtest.h>

#include "runtime/exec/core.h"

namespace {

TEST(RangeAllocator, FirstFitAndReuse) {
  nrt::RangeAllocator ranges(10);
  EXPECT_EQ(ranges.allocate(4), 0u);
  EXPECT_EQ(ranges.allocate(4), 4u);
  EXPECT_EQ(ranges.allocate(3), 10u);  // two left
  ranges.release(0, 4);
  EXPECT_EQ(ranges.allocate(5), 10u);  // four in front, two behind
  EXPECT_EQ(ranges.allocate(3), 0u);
  EXPECT_EQ(ranges.allocate(1), 3u);
  EXPECT_EQ(ranges.allocate(2), 8u);
  EXPECT_EQ(ranges.allocate(1), 10u);
}

TEST(RangeAllocator, ExactFit) {
  nrt::RangeAllocator ranges(1);
  EXPECT_EQ(ranges.allocate(2), 1u);
  EXPECT_EQ(ranges.allocate(1), 0u);
}

}  // namespace
