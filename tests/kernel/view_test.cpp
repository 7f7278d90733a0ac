#include "tests/kernel/built_kernel.h"

namespace {

using namespace kernel_test;  // NOLINT(google-build-using-namespace): names of the builder

// "steps/counts, innermost first" of a copy's operands in SBUF.
class Views : public ::testing::Test {
 protected:
  std::string source(const View& view) {
    Kernel::Sizes shape = view.shape();
    if (shape.size() == 1) shape.push_back(1);
    const Tile dst = k_.sbuf(shape, view.dtype(), "dst");
    k_.tensor_copy(dst, view);
    const std::string line = build(k_).lines(isa::Engine::kDve)[0];
    const size_t at = line.find("src=");
    return line.substr(at, line.find(' ', at) - at);
  }

  Kernel k_{{"views"}};
  Tile x_ = k_.sbuf({128, 4, 6}, kF32, "x");
};

TEST_F(Views, ContiguousDimensionsAreOne) {
  EXPECT_EQ(source(x_), "src=fp32@0[1][24]");
}
TEST_F(Views, Slice) {
  EXPECT_EQ(source(x_.slice(1, 1, 2).slice(2, 1, 2, 2)), "src=fp32@28[2,6][2,2]");
}
TEST_F(Views, Index) {
  EXPECT_EQ(source(x_.index(1, 2)), "src=fp32@48[1][6]");
}
TEST_F(Views, Permute) {
  EXPECT_EQ(source(x_.permute({0, 2, 1})), "src=fp32@0[6,1][4,6]");
}
TEST_F(Views, Broadcast) {
  EXPECT_EQ(source(x_.index(1, 1).unsqueeze(1).broadcast(1, 3)), "src=fp32@24[1,0][6,3]");
}
TEST_F(Views, Reshape) {
  EXPECT_EQ(source(x_.reshape({128, 2, 12}).index(1, 1)), "src=fp32@48[1][12]");
}
TEST_F(Views, ReshapeOfATransposedViewThatNeedsNoCopy) {
  const View t = x_.permute({0, 2, 1});
  EXPECT_EQ(source(t.reshape({128, 3, 2, 4}).index(2, 1)), "src=fp32@4[6,2][4,3]");
}
TEST_F(Views, Windows) {
  EXPECT_EQ(source(x_.index(1, 0).windows(1, 3, 2)), "src=fp32@0[1,2][3,2]");
}
TEST_F(Views, PatternsOfTheWholeTile) {
  EXPECT_EQ(source(x_.index(1, 2).pattern({{12, 2}, {1, 3}}, 5)), "src=fp32@20[1,12][3,2]");
}
TEST_F(Views, PatternsThatMeetElementsAgain) {
  EXPECT_EQ(source(x_.pattern({{1, 4}, {1, 3}}, 0)), "src=fp32@0[1,1][3,4]");
}
TEST_F(Views, PatternsCountInTheirType) {
  EXPECT_EQ(source(x_.as(DType::kUint16).pattern({{2, 24}}, 1)), "src=uint16@2[2][24]");
}
TEST_F(Views, PatternsOfTensors) {
  const View a = k_.input("a", kF32, {10, 20});
  k_.load(k_.sbuf({5, 4}, kF32, "five"), a.slice(0, 3, 1).pattern({{21, 5}, {2, 4}}, 7));
  const Built built = build(k_);
  const neff::DmaTransfer& t = built.program(isa::Engine::kSp)->dma[0].transfers[0];
  EXPECT_EQ(t.sources[0].pattern.offset, 28);
  EXPECT_EQ(t.sources[0].pattern.steps[1], 8);
  EXPECT_EQ(t.sources[0].pattern.steps[2], 84);
}
TEST_F(Views, OtherTypes) {
  EXPECT_EQ(source(x_.as(DType::kUint8).slice(2, 4, 8)), "src=uint8@4[1,24][8,4]");
}
TEST_F(Views, PartitionsAreSliced) {
  const Tile dst = k_.sbuf({32, 4, 6}, kF32, "dst");
  k_.tensor_copy(dst, x_.slice(0, 64, 32));
  const auto code = build(k_).instructions(isa::Engine::kDve);
  EXPECT_EQ(code[0].operands.tensor_copy.src.start_partition, 64);
  EXPECT_EQ(code[0].operands.tensor_copy.partitions, 32);
}

TEST_F(Views, Mistakes) {
  const auto expect = [](const char* what, auto make) {
    Kernel k({"views"});
    const Tile x = k.sbuf({128, 4, 6}, kF32, "x");
    EXPECT_FALSE(make(x));
    EXPECT_EQ(mistake(k), what);
  };
  expect("slice: 4 indices from 3 on, 1 apart, leave dimension 2 of (128, 4, 6)",
         [](const View& x) { return x.slice(2, 3, 4); });
  expect("slice: there is no dimension 3 in (128, 4, 6)",
         [](const View& x) { return x.slice(3, 0, 1); });
  expect("slice: partitions have no stride", [](const View& x) { return x.slice(0, 0, 2, 2); });
  expect("reshape: (128, 4, 6) as (128, 5): different numbers of elements", [](const View& x) {
    return x.reshape({128, 5});
  });
  expect("reshape: (128, 4, 6) as (64, 48): dimension 0 are partitions, they stay",
         [](const View& x) {
           return x.reshape({64, 48});
         });
  expect("reshape: (128, 6, 4) as (128, 8, 3): the elements are not apart evenly; copy them first",
         [](const View& x) {
           return x.permute({0, 2, 1}).reshape({128, 8, 3});
         });
  expect("permute: dimension 0 are partitions, they stay; see Kernel::transpose",
         [](const View& x) {
           return x.permute({1, 0, 2});
         });
  expect("broadcast: dimension 1 of (128, 4, 6) is not of size 1, or 3 is no count",
         [](const View& x) { return x.broadcast(1, 3); });
  expect("windows: a window of 7 that moves by 1 does not fit dimension 2 of (128, 4, 6)",
         [](const View& x) { return x.windows(2, 7, 1); });
  expect(
      "pattern: steps and counts from element 0 on leave the 24 elements of a partition of the "
      "tile",
      [](const View& x) {
        return x.pattern({{6, 4}, {1, 7}}, 0);
      });
  expect("as: (128, 6, 4) elements of 4 bytes are no whole, contiguous ones of 2",
         [](const View& x) {
           return x.permute({0, 2, 1}).as(DType::kUint16);
         });
}

TEST_F(Views, TheMistakeHasTheLineOfItsCall) {
  const int line = __LINE__ + 1;
  const View v = x_.slice(2, 0, 7);
  k_.memset(v, 0);
  EXPECT_EQ(k_.status().error().where, std::string(__FILE__) + ":" + std::to_string(line));
}

}  // namespace
