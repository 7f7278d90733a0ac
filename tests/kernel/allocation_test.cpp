#include "tests/kernel/built_kernel.h"

namespace {

using namespace kernel_test;  // NOLINT(google-build-using-namespace): names of the builder
using ::testing::Test;

TEST(Allocation, NamesWhatDidNotFit) {
  Kernel k({"memory"});
  const Tile weights = k.sbuf({128, 40000}, kF32, "weights");
  const int line = __LINE__ + 1;
  const Tile more = k.sbuf({128, 5057}, kF32, "activations");
  ASSERT_FALSE(k.status().ok());
  const base::Error error = k.status().error();
  EXPECT_EQ(error.fault, base::Fault::kResource);
  EXPECT_EQ(error.where, std::string(__FILE__) + ":" + std::to_string(line));
  EXPECT_EQ(error.what,
            "tile 'activations': 20228 bytes in each of 128 partitions do not fit in SBUF of "
            "180224: 160000 are allocated, the largest free piece has 20224; allocated: weights "
            "160000 at 0");
  EXPECT_FALSE(more);
  const auto file = k.finish();
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().what, error.what);
}

TEST(Allocation, MemoryComesBackWithTheTile) {
  Kernel k({"memory"});
  for (int i = 0; i < 10; ++i) {
    const Tile big = k.sbuf({128, 45056}, kF32, "big");
    EXPECT_EQ(k.largest_free(Space::kSbuf), 0);
  }
  EXPECT_EQ(k.largest_free(Space::kSbuf), k.capacity(Space::kSbuf));
  Tile a = k.sbuf({128, 45056}, kF32, "a");
  a.release();
  const Tile b = k.sbuf({128, 45056}, kF32, "b");
  EXPECT_TRUE(k.status().ok()) << mistake(k);
}

TEST(Allocation, GenerationsDiffer) {
  EXPECT_EQ(Kernel({"a", kernel::Generation::kV2}).capacity(Space::kSbuf), 180224);
  EXPECT_EQ(Kernel({"a", kernel::Generation::kV3}).capacity(Space::kSbuf), 212984);
  EXPECT_EQ(Kernel({"a", kernel::Generation::kV4}).capacity(Space::kSbuf), 245752);
  EXPECT_EQ(Kernel({"a"}).capacity(Space::kPsum), 16384);
}

TEST(Allocation, QuadrantsShareBytes) {
  Kernel k({"memory"});
  const Tile low = k.sbuf({64, 45056}, kF32, "low");
  const Tile high = k.sbuf({64, 45056}, kF32, "high", 64);
  EXPECT_TRUE(k.status().ok()) << mistake(k);
  const Tile none = k.sbuf({32, 1}, kF32, "none", 32);
  EXPECT_FALSE(k.status().ok());
}

TEST(Allocation, PsumTilesKeepToBanks) {
  Kernel k({"memory"});
  const Tile small = k.psum({128, 100}, kF32, "small");
  const Tile bank = k.psum({128, 512}, kF32, "bank");
  const Tile fits = k.psum({128, 400}, kF32, "fits");
  const Tile x = k.sbuf({128, 512}, kF32, "x");
  k.tensor_copy(small, x.slice(1, 0, 100));
  k.tensor_copy(bank, x);
  k.tensor_copy(fits, x.slice(1, 0, 400));
  const auto code = build(k).instructions(isa::Engine::kDve);
  EXPECT_EQ(code[0].operands.tensor_copy.dst.byte_offset, 0u);
  EXPECT_EQ(code[1].operands.tensor_copy.dst.byte_offset, 2048u);
  EXPECT_EQ(code[2].operands.tensor_copy.dst.byte_offset, 400u);
}

TEST(Allocation, RefusesImpossibleTiles) {
  Kernel k({"memory"});
  k.sbuf({129, 1}, kF32, "tall");
  EXPECT_EQ(mistake(k), "tile 'tall': 129 partitions from 0 on; there are 128");
  Kernel l({"memory"});
  l.sbuf({128, 0}, kF32, "empty");
  EXPECT_EQ(mistake(l), "tile 'empty': its shape is partitions, then positive sizes");
  Kernel m({"memory"});
  m.sbuf({1, int64_t{1} << 40, int64_t{1} << 40}, kF32, "huge");
  EXPECT_FALSE(m.status().ok());
}

TEST(Allocation, ReleasedTilesCannotBeUsed) {
  Kernel k({"memory"});
  Tile x = k.sbuf({128, 8}, kF32, "x");
  const View rows = x.slice(0, 0, 32);
  x.release();
  k.memset(rows, 0);
  EXPECT_EQ(mistake(k), "memset: dst is a view of a tile that was released");
}

TEST(Allocation, TensorsHaveNamesOfTheirOwn) {
  Kernel k({"memory"});
  k.input("a", kF32, {4});
  k.output("a", kF32, {4});
  EXPECT_EQ(mistake(k),
            "tensor 'a': a name has 1 to 255 printable characters of ASCII and is used once");
  Kernel m({"memory"});
  m.input("\xff", kF32, {4});
  EXPECT_FALSE(m.status().ok());
  Kernel l({"memory"});
  const float two[2] = {1, 2};
  l.constant("c", kF32, {3}, two, sizeof two);
  EXPECT_EQ(mistake(l), "tensor 'c': 8 bytes are given, its shape takes 12");
}

}  // namespace
