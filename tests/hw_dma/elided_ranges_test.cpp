// Byte-exact bookkeeping of what a timing-only run left out, against a plain array of flags.
#include "hw/mem/elided_ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
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

// Over some pages: one without ranges is remembered.
TEST(ElidedRanges, AgreesWithFlagsPerPiece) {
  constexpr uint64_t kPieces = 64;
  constexpr uint64_t kPiece = 160;
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    hw::ElidedRanges ranges;
    std::array<bool, kPieces> flags{};
    for (int step = 0; step < 30; ++step) {
      const uint64_t begin = random() % kPieces;
      const uint64_t length = 1 + random() % std::min<uint64_t>(kPieces - begin, 24);
      const bool add = random() % 2 == 0;
      add ? ranges.add(begin * kPiece, length * kPiece)
          : ranges.remove(begin * kPiece, length * kPiece);
      for (uint64_t i = begin; i < begin + length; ++i) flags[i] = add;
      for (uint64_t i = 0; i < kPieces; ++i) {
        ASSERT_EQ(ranges.overlaps(i * kPiece, 4), flags[i]) << i;
        ASSERT_EQ(ranges.overlaps(i * kPiece + kPiece - 1, 1), flags[i]) << i;
      }
    }
  }
}

}  // namespace
