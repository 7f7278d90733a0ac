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

TEST(Claim, GivesBackOnce) {
  nrt::RangeAllocator ranges(4);
  auto first = nrt::Claim::take(&ranges, 3);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->first(), 0u);
  EXPECT_FALSE(nrt::Claim::take(&ranges, 2));
  {
    const nrt::Claim moved = std::move(*first);
    first.reset();  // what has been moved from holds nothing
    EXPECT_FALSE(nrt::Claim::take(&ranges, 2));
  }
  EXPECT_TRUE(nrt::Claim::take(&ranges, 4));
}

TEST(Claim, AssignmentGivesBackWhatItReplaces) {
  nrt::RangeAllocator ranges(2);
  nrt::Claim held = *nrt::Claim::take(&ranges, 1);
  held = *nrt::Claim::take(&ranges, 1);
  EXPECT_EQ(held.first(), 1u);
  EXPECT_EQ(ranges.allocate(1), 0u);
}

}  // namespace
