#include "neff_loader/access_pattern.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace neff {

bool operator==(const neff::Run& a, const neff::Run& b) {
  return a.offset == b.offset && a.bytes == b.bytes;
}
void PrintTo(const neff::Run& r, std::ostream* out) {
  *out << r.offset << "+" << r.bytes;
}

namespace {

AccessPattern make(int64_t offset, std::vector<int64_t> sizes, std::vector<int64_t> steps) {
  AccessPattern p;
  p.offset = offset;
  p.dims = static_cast<unsigned>(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    p.sizes[i] = sizes[i];
    p.steps[i] = steps[i];
  }
  return p;
}

std::vector<neff::Run> runs(const AccessPattern& p) {
  std::vector<neff::Run> out;
  RunCursor cursor(p);
  neff::Run r{};
  while (cursor.next(&r)) out.push_back(r);
  return out;
}

// The definition of spec/neff.md 3.5.1, byte by byte.
std::vector<int64_t> touched(const AccessPattern& p) {
  std::vector<int64_t> out;
  const auto n = [&](unsigned i) { return i < p.dims ? p.sizes[i] : 1; };
  const auto s = [&](unsigned i) { return i < p.dims ? p.steps[i] : 0; };
  for (int64_t i3 = 0; i3 < n(3); ++i3) {
    for (int64_t i2 = 0; i2 < n(2); ++i2) {
      for (int64_t i1 = 0; i1 < n(1); ++i1) {
        for (int64_t b = 0; b < n(0); ++b) {
          out.push_back(p.offset + i3 * s(3) + i2 * s(2) + i1 * s(1) + b * s(0));
        }
      }
    }
  }
  return out;
}

TEST(AccessPattern, WorkedExamples) {
  EXPECT_EQ(runs(make(32, {16, 4}, {1, 512})),
            (std::vector<neff::Run>{{32, 16}, {544, 16}, {1056, 16}, {1568, 16}}));
  EXPECT_EQ(
      runs(make(1024, {8, 2, 3}, {1, 64, 256})),
      (std::vector<neff::Run>{{1024, 8}, {1088, 8}, {1280, 8}, {1344, 8}, {1536, 8}, {1600, 8}}));
  EXPECT_EQ(runs(make(768, {256, 4}, {1, -256})),
            (std::vector<neff::Run>{{768, 256}, {512, 256}, {256, 256}, {0, 256}}));
  const auto transposed = runs(make(0, {2, 3, 4}, {1, 8, 2}));
  ASSERT_EQ(transposed.size(), 12u);
  EXPECT_EQ(transposed[3], (neff::Run{2, 2}));
  EXPECT_EQ(runs(make(0, {256, 128}, {1, 256})),
            (std::vector<neff::Run>{{0, 32768}}));  // touching runs
  EXPECT_EQ(runs(make(0, {256, 3}, {1, 0})),
            (std::vector<neff::Run>{{0, 256}, {0, 256}, {0, 256}}));
}

TEST(AccessPattern, RunsCoverTheDefinitionInOrder) {
  std::mt19937 random(7);
  const int64_t steps[] = {-9, -3, -1, 0, 1, 2, 3, 6, 12};
  for (int round = 0; round < 3000; ++round) {
    AccessPattern p = make(1000, {1}, {1});
    p.dims = 1 + static_cast<unsigned>(random() % 4);
    for (unsigned i = 0; i < p.dims; ++i) {
      p.sizes[i] = 1 + static_cast<int64_t>(random() % 4);
      p.steps[i] = steps[random() % 9];
    }
    std::vector<int64_t> bytes;
    for (const neff::Run& r : runs(p)) {
      for (uint64_t i = 0; i < r.bytes; ++i) bytes.push_back(static_cast<int64_t>(r.offset + i));
    }
    const std::vector<int64_t> expected = touched(p);
    ASSERT_EQ(bytes, expected);
    ASSERT_EQ(p.bytes(), expected.size());
    const auto [low, high] = std::minmax_element(expected.begin(), expected.end());
    ASSERT_TRUE(in_bounds(p, static_cast<uint64_t>(*high) + 1));
    ASSERT_FALSE(in_bounds(p, static_cast<uint64_t>(*high)));
    AccessPattern low_edge = p;
    low_edge.offset = p.offset - *low;
    ASSERT_TRUE(in_bounds(low_edge, 4096));
    low_edge.offset -= 1;
    ASSERT_FALSE(in_bounds(low_edge, 4096));
  }
}

TEST(AccessPattern, HugePatternsDoNotOverflow) {
  EXPECT_FALSE(make(0, {1ll << 40, 1ll << 40}, {1, 0}).checked_bytes());
  EXPECT_FALSE(make(0, {0}, {1}).checked_bytes());
  EXPECT_FALSE(make(0, {-4}, {1}).checked_bytes());
  EXPECT_FALSE(
      in_bounds(make(INT64_MAX, {INT64_MAX, INT64_MAX}, {INT64_MAX, INT64_MIN}), UINT64_MAX));
  EXPECT_TRUE(make(0, {1ll << 30, 1ll << 30}, {1, 0}).checked_bytes());
}

TEST(AccessPattern, StateBuffer) {
  const uint64_t v2 = sbuf_partition_bytes(2);
  EXPECT_EQ(v2, 192u * 1024);
  EXPECT_TRUE(in_state_buffer(make(512, {256, 128}, {1, 262144}), v2));
  EXPECT_FALSE(in_state_buffer(make(512, {256, 129}, {1, 262144}), v2));
  const auto last = static_cast<int64_t>(v2) - 256;
  EXPECT_TRUE(in_state_buffer(make(last, {256, 128}, {1, 262144}), v2));
  EXPECT_FALSE(in_state_buffer(make(last + 1, {256, 128}, {1, 262144}), v2));
  EXPECT_TRUE(in_state_buffer(make(last + 1, {256, 128}, {1, 262144}), sbuf_partition_bytes(3)));
  EXPECT_FALSE(in_state_buffer(make(262144 - 128, {256}, {1}), sbuf_partition_bytes(4)));
  // Partitions upwards, columns backwards.
  EXPECT_TRUE(in_state_buffer(make(12, {4, 4, 128}, {1, -4, 262144}), v2));
  EXPECT_FALSE(in_state_buffer(make(8, {4, 4, 128}, {1, -4, 262144}), v2));
  EXPECT_TRUE(in_state_buffer(make(0x2000000, {2048, 128}, {1, 0x8000}), v2));
  EXPECT_FALSE(in_state_buffer(make(0x2000000, {16385}, {1}), v2));
  EXPECT_FALSE(in_state_buffer(make(0x2000000, {4, 129}, {1, 0x8000}), v2));
  EXPECT_FALSE(in_state_buffer(make(-1, {1}, {1}), v2));
  // Diagonal: partition p at byte 4p.
  EXPECT_TRUE(in_state_buffer(make(0, {4, 128}, {1, 262148}), v2));
}

TEST(AccessPattern, PiecesPairBothSides) {
  // 4 rows of 6 bytes into 3 rows of 8.
  PieceCursor cursor(make(0, {6, 4}, {1, 10}), make(100, {8, 3}, {1, 20}));
  std::vector<std::vector<uint64_t>> pieces;
  Piece p{};
  while (cursor.next(&p)) pieces.push_back({p.from, p.to, p.bytes});
  EXPECT_EQ(
      pieces,
      (std::vector<std::vector<uint64_t>>{
          {0, 100, 6}, {10, 106, 2}, {12, 120, 4}, {20, 124, 4}, {24, 140, 2}, {30, 142, 6}}));
}

TEST(AccessPattern, PiecesAreAtMostOneDescriptorLong) {
  PieceCursor cursor(make(0, {200000}, {1}), make(0, {200000}, {1}));
  std::vector<uint64_t> sizes;
  Piece p{};
  while (cursor.next(&p)) sizes.push_back(p.bytes);
  EXPECT_EQ(sizes, (std::vector<uint64_t>{65536, 65536, 65536, 3392}));
}

}  // namespace
}  // namespace neff
