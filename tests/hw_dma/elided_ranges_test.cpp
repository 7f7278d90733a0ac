// Byte-exact bookkeeping of what a timing-only run left out, against a plain array of flags.
#include "hw/mem/elided.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

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

// A memory of 128 partitions of 64 bytes, by boxes and by addresses.
TEST(ElidedLanes, AgreeWithFlagsPerByte) {
  constexpr uint64_t kPitch = 64;
  std::mt19937 random(11);
  for (int round = 0; round < 50; ++round) {
    hw::Elided elided(kPitch);
    std::vector<bool> flags(128 * kPitch);
    for (int step = 0; step < 40; ++step) {
      const auto count = static_cast<uint32_t>(1 + random() % 128);
      const auto first = static_cast<uint32_t>(random() % (129 - count));
      const uint64_t begin = random() % kPitch;
      const uint64_t end = begin + 1 + random() % (kPitch - begin);
      const bool add = random() % 3 != 0;
      const bool by_address = random() % 4 == 0;
      const hw::LaneSet lanes = hw::lane_set(first, count);
      if (by_address) {
        for (uint32_t lane = first; lane < first + count; ++lane) {
          add ? elided.add(lane * kPitch + begin, end - begin)
              : elided.remove(lane * kPitch + begin, end - begin);
        }
      } else {
        add ? elided.lanes().add(lanes, begin, end) : elided.lanes().remove(lanes, begin, end);
      }
      for (uint32_t lane = first; lane < first + count; ++lane) {
        for (uint64_t i = begin; i < end; ++i) flags[lane * kPitch + i] = add;
      }
      ASSERT_EQ(elided.lanes().overlaps(lanes, begin, end), add);
      for (uint64_t i = 0; i < flags.size(); ++i) ASSERT_EQ(elided.overlaps(i, 1), flags[i]) << i;
      for (int probe = 0; probe < 50; ++probe) {
        const uint64_t at = random() % flags.size();
        const uint64_t to = at + 1 + random() % std::min<uint64_t>(flags.size() - at, 3 * kPitch);
        bool any = false;
        for (uint64_t i = at; i < to; ++i) any = any || flags[i];
        ASSERT_EQ(elided.overlaps(at, to - at), any);
      }
    }
    elided.lanes().remove(hw::lane_set(0, 128), 0, kPitch);
    EXPECT_TRUE(elided.lanes().empty());
  }
}

TEST(ElidedLanes, SetsOfLanes) {
  EXPECT_TRUE(hw::lane_set(0, 128) == ~hw::LaneSet{0});
  EXPECT_TRUE(hw::lane_set(127, 1) == hw::LaneSet{1} << 127);
  EXPECT_TRUE(hw::lane_set(32, 0) == 0);
}

}  // namespace
