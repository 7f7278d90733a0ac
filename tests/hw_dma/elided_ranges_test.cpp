// Byte-exact bookkeeping of what a timing-only run left out, against a plain array of flags.
#include "hw/mem/elided_ranges.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

namespace {

TEST(ElidedRanges, EmptyUntilSomethingIsLeftOut) {
  hw::ElidedRanges ranges;
  ranges.remove(0, 100);
  EXPECT_TRUE(ranges.empty());
  EXPECT_FALSE(ranges.overlaps(0, ~0ull));
}

TEST(ElidedRanges, NeighboursMergeAndHolesSplit) {
  hw::ElidedRanges ranges;
  ranges.add(10, 10);
  ranges.add(20, 5);
  EXPECT_TRUE(ranges.overlaps(19, 2));
  EXPECT_FALSE(ranges.overlaps(0, 10));
  EXPECT_FALSE(ranges.overlaps(25, 1));
  ranges.remove(12, 3);
  EXPECT_FALSE(ranges.overlaps(12, 3));
  EXPECT_TRUE(ranges.overlaps(11, 1));
  EXPECT_TRUE(ranges.overlaps(15, 1));
  ranges.remove(0, 100);
  EXPECT_TRUE(ranges.empty());
}

TEST(ElidedRanges, AgreesWithFlagsPerByte) {
  constexpr uint64_t kBytes = 64;
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    hw::ElidedRanges ranges;
    std::array<bool, kBytes> flags{};
    for (int step = 0; step < 30; ++step) {
      const uint64_t begin = random() % kBytes;
      const uint64_t length = 1 + random() % (kBytes - begin);
      const bool add = random() % 2 == 0;
      add ? ranges.add(begin, length) : ranges.remove(begin, length);
      for (uint64_t i = begin; i < begin + length; ++i) flags[i] = add;
      for (uint64_t i = 0; i < kBytes; ++i) ASSERT_EQ(ranges.overlaps(i, 1), flags[i]) << i;
    }
  }
}

}  // namespace
