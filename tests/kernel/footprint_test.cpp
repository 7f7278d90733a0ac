#include "compiler/kernel/footprint.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace {

using kernel::covers;
using kernel::Footprint;
using kernel::FootprintBuilder;
using kernel::may_overlap;

struct Pattern {
  int64_t offset;
  int64_t element;
  std::vector<std::pair<int64_t, int64_t>> dims;  // step, count

  Footprint footprint() const {
    FootprintBuilder b(1, offset, element);
    for (const auto& [step, count] : dims) b.dim(step, count);
    return b.build();
  }
  std::set<int64_t> bytes() const {
    std::set<int64_t> out;
    std::vector<int64_t> starts{offset};
    for (const auto& [step, count] : dims) {
      std::vector<int64_t> more;
      for (const int64_t s : starts) {
        for (int64_t i = 0; i < count; ++i) more.push_back(s + i * step);
      }
      starts = more;
    }
    for (const int64_t s : starts) {
      for (int64_t i = 0; i < element; ++i) out.insert(s + i);
    }
    return out;
  }
};

TEST(Footprint, ColumnsOfOneMatrixAreApart) {
  const Pattern left{0, 4, {{4, 16}, {128, 10}}};
  const Pattern right{64, 4, {{4, 16}, {128, 10}}};
  EXPECT_FALSE(may_overlap(left.footprint(), right.footprint()));
  EXPECT_TRUE(may_overlap(left.footprint(), left.footprint()));
  const Pattern between{60, 4, {{4, 2}, {128, 3}}};
  EXPECT_TRUE(may_overlap(left.footprint(), between.footprint()));
  EXPECT_TRUE(may_overlap(right.footprint(), between.footprint()));
}

TEST(Footprint, OddAndEvenElementsAreApart) {
  const Pattern even{0, 2, {{4, 8}}};
  const Pattern odd{2, 2, {{4, 8}}};
  EXPECT_FALSE(may_overlap(even.footprint(), odd.footprint()));
  EXPECT_FALSE(covers(even.footprint(), odd.footprint()));
}

TEST(Footprint, PartitionsAndMemoriesSeparate) {
  FootprintBuilder a(0, 0, 64);
  a.partitions(0, 32);
  FootprintBuilder b(0, 0, 64);
  b.partitions(32, 32);
  FootprintBuilder c(1, 0, 64);
  c.partitions(0, 32);
  EXPECT_FALSE(may_overlap(a.build(), b.build()));
  EXPECT_FALSE(may_overlap(a.build(), c.build()));
}

// Sound whatever the pattern: what touches, overlaps; what is covered is inside.
TEST(Footprint, NeverMissesACommonByte) {
  std::mt19937 random(1);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  const auto make = [&] {
    Pattern p{pick(0, 40), pick(1, 4), {}};
    for (int64_t i = pick(0, 3); i > 0; --i) p.dims.push_back({pick(0, 24), pick(1, 4)});
    return p;
  };
  int apart = 0;
  for (int round = 0; round < 20000; ++round) {
    const Pattern a = make();
    const Pattern b = make();
    const std::set<int64_t> in_a = a.bytes();
    const std::set<int64_t> in_b = b.bytes();
    bool touch = false;
    bool inside = true;
    for (const int64_t byte : in_b) {
      touch = touch || in_a.count(byte) != 0;
      inside = inside && in_a.count(byte) != 0;
    }
    ASSERT_TRUE(!touch || may_overlap(a.footprint(), b.footprint())) << "round " << round;
    if (!may_overlap(a.footprint(), b.footprint())) ++apart;
    ASSERT_TRUE(inside || !covers(a.footprint(), b.footprint())) << "round " << round;
  }
  EXPECT_GT(apart, 4000);
}

}  // namespace
