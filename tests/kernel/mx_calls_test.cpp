// Calls of NeuronCore v4: types of MX, quantization, products with scales.
#include "tests/kernel/built_kernel.h"

namespace {

using namespace kernel_test;  // NOLINT(google-build-using-namespace): names of the builder
using isa::Engine;

class MxCalls : public ::testing::Test {
 protected:
  Kernel k_{{"mx", kernel::Generation::kV4}};
  Tile raw_ = k_.sbuf({128, 4, 64}, DType::kBfloat16, "raw");
  Tile packed_ = k_.sbuf({128, 64}, DType::kFloat8e4fnx4, "packed");
  Tile scale_ = k_.sbuf({128, 64}, DType::kFloat8e8, "scale");
  Tile sum_ = k_.psum({64, 64}, kF32, "sum");
};

TEST_F(MxCalls, Instructions) {
  k_.quantize_mx(packed_, scale_, raw_.permute({0, 2, 1}));
  k_.matmul_mx(sum_, packed_, scale_, packed_.slice(1, 0, 32), scale_.slice(1, 0, 32));
  EXPECT_NE(mistake(k_), "");  // dst has 64 columns
  Kernel k({"mx", kernel::Generation::kV4});
  const Tile raw = k.sbuf({128, 4, 64}, DType::kBfloat16, "raw");
  const Tile packed = k.sbuf({128, 64}, DType::kFloat8e4fnx4, "packed");
  const Tile scale = k.sbuf({128, 64}, DType::kFloat8e8, "scale");
  const Tile sum = k.psum({64, 64}, kF32, "sum");
  k.quantize_mx(packed, scale, raw.permute({0, 2, 1}));
  k.matmul_mx(sum, packed, scale, packed, scale, kernel::Accumulate::kStart);
  const Built built = build(k);
  EXPECT_EQ(built.lines(Engine::kDve)[0],
            "QUANTIZE_MX $S[3]++@complete dst=fp8e4fnx4@512[1][64] src=bf16@0[64,1][4,64] "
            "scale=fp8e8@768[1][64] "
            "partitions=0..127 scale_rows=0..99");
  const auto array = built.lines(Engine::kPe);
  EXPECT_EQ(array[0],
            "LDWEIGHTS_MX $S[3]>=1 src=fp8e4fnx4@512[1][64] scale=fp8e8@768[1][64] rows=0..127 "
            "scale_rows=0..99");
  EXPECT_EQ(array[1],
            "MATMUL_MX accumulate=START dst=fp32@psum:0[1][64] moving=fp8e4fnx4@512[1][64] "
            "scale=fp8e8@768[1][64] rows=0..127 columns=0..63 scale_rows=0..99");
}

// Several scale tiles share a quadrant.
TEST_F(MxCalls, PlacesOfScales) {
  const Tile four = k_.sbuf({4, 8}, DType::kUint8, "four", 32 + 8);
  const Tile most = k_.sbuf({100, 64}, DType::kFloat8e8, "most", 12);
  k_.quantize_mx(packed_.slice(0, 32, 32).slice(1, 0, 8), four,
                 raw_.slice(0, 32, 32).slice(2, 0, 8).permute({0, 2, 1}));
  k_.quantize_mx(packed_, most, raw_.permute({0, 2, 1}));
  const auto text = build(k_).lines(Engine::kDve);
  EXPECT_NE(text[0].find("partitions=32..63 "), std::string::npos) << text[0];
  EXPECT_NE(text[0].find("scale_rows=40..43"), std::string::npos) << text[0];
  EXPECT_NE(text[1].find("scale_rows=12..111"), std::string::npos) << text[1];
}

TEST_F(MxCalls, ScalesElsewhereAreAMistake) {
  k_.quantize_mx(packed_.slice(0, 32, 32), scale_.slice(0, 64, 32),
                 raw_.slice(0, 32, 32).permute({0, 2, 1}));
  EXPECT_EQ(mistake(k_),
            "quantize_mx: scale (SBUF 'scale') are no scales of data with 32 partitions from 32 "
            "on: one byte for each element and 8 partitions, in as many partitions or 28 fewer, "
            "from 0, 4, 8 or 12 in the same quadrant on; data have a multiple of 32 partitions");
}

TEST_F(MxCalls, WeightsWithoutScalesAreOfAnotherKind) {
  k_.load_weights(raw_.index(1, 0));
  k_.multiply_mx(sum_, packed_, scale_);
  EXPECT_EQ(mistake(k_),
            "matmul_mx: no weights with scales begin at row 0, where moving begins, and column 0, "
            "where dst does");
}

TEST_F(MxCalls, TheTwoE4m3DoNotMultiply) {
  const Tile legacy = k_.sbuf({128, 64}, DType::kFloat8e4, "legacy");
  const Tile ocp = k_.sbuf({128, 64}, DType::kFloat8e4fn, "ocp");
  k_.matmul(sum_, legacy, ocp);
  EXPECT_EQ(mistake(k_), "matmul: float8e4 and float8e4fn do not multiply");
}

TEST_F(MxCalls, TypesOfMxAreMovedOnly) {
  const View words = k_.input("words", DType::kUint32, {128, 64});
  k_.load(packed_, words);
  k_.memset(packed_, 0);
  k_.tensor_copy(packed_, packed_);
  EXPECT_EQ(mistake(k_), "");
  k_.tensor_copy(raw_.slice(1, 0, 1), packed_);
  EXPECT_EQ(mistake(k_),
            "tensor_copy: the Vector engine of NeuronCore v4 takes no float8e4fnx4 in TENSOR_COPY");
}

TEST_F(MxCalls, TransfersDoNotConvert) {
  const View floats = k_.input("floats", kF32, {128, 64});
  k_.load(packed_, floats);
  EXPECT_EQ(mistake(k_), "load: transfers do not convert from float32 to float8e4fnx4");
}

TEST_F(MxCalls, MemsetIsZero) {
  k_.memset(packed_, 1);
  EXPECT_EQ(mistake(k_), "memset: types of MX are set to nothing but 0");
}

TEST_F(MxCalls, TensorsInHbmHaveOtherTypes) {
  k_.input("x", DType::kFloat8e4fn, {128});
  EXPECT_EQ(mistake(k_),
            "tensor 'x': tensors in HBM have none of the types of MX; take integers of as many "
            "bytes");
}

class IndirectCalls : public ::testing::Test {
 protected:
  Kernel k_{{"indirect", kernel::Generation::kV4}};
  Tile x_ = k_.sbuf({32, 100}, kF32, "x");
  Tile y_ = k_.sbuf({32, 32}, kF32, "y");
  Tile index_ = k_.sbuf({32, 2}, DType::kUint16, "index");
};

TEST_F(IndirectCalls, LoadTheirIndices) {
  k_.tensor_copy(y_, x_.indirect(index_));
  k_.tensor_tensor(y_.slice(1, 0, 20), x_.indirect(index_, 20), y_.slice(1, 0, 20), Op::kAdd);
  k_.tensor_copy(x_.indirect(index_), x_.indirect(index_));
  const auto text = build(k_).lines(Engine::kDve);
  EXPECT_EQ(text[0], "LOAD_INDEX operand=1 src=uint16@528[1][2] partitions=0..31");
  EXPECT_EQ(text[1], "TENSOR_COPY dst=fp32@400[1][32] src=fp32@0[1][32] partitions=0..31");
  EXPECT_EQ(text[2], "LOAD_INDEX operand=1 src=uint16@528[1][2] partitions=0..31");
  EXPECT_EQ(text[3],
            "TENSOR_TENSOR op=ADD dst=fp32@400[1][20] src0=fp32@0[1][20] src1=fp32@400[1][20] "
            "partitions=0..31");
  EXPECT_EQ(text[4], "LOAD_INDEX operand=0 src=uint16@528[1][2] partitions=0..31");
  EXPECT_EQ(text[5], "LOAD_INDEX operand=1 src=uint16@528[1][2] partitions=0..31");
  EXPECT_EQ(text[6], "TENSOR_COPY dst=fp32@0[1][32] src=fp32@0[1][32] partitions=0..31");
}

// Any element of the view may be the one that is read.
TEST_F(IndirectCalls, WaitForAllThatTheyMayTouch) {
  k_.memset(x_.slice(1, 90, 5), 0, kernel::Engine::kGpSimd);
  k_.tensor_copy(y_, x_.indirect(index_));
  const auto text = build(k_).lines(Engine::kDve);
  EXPECT_EQ(text[1].substr(0, 21), "TENSOR_COPY $S[2]>=1 ");
}

TEST_F(IndirectCalls, Mistakes) {
  k_.reciprocal(y_, x_.indirect(index_));
  EXPECT_EQ(mistake(k_),
            "reciprocal: tensor 1 of RECIPROCAL (SBUF 'x') cannot go by these indices on the "
            "Vector engine; docs/kernels.md says which can, and where indices begin");
  Kernel k({"v3", kernel::Generation::kV3});
  const Tile x = k.sbuf({32, 100}, kF32, "x");
  const Tile index = k.sbuf({32, 2}, DType::kUint16, "index");
  k.tensor_copy(x.slice(1, 0, 32), x.indirect(index));
  EXPECT_EQ(mistake(k), "tensor_copy: LOAD_INDEX does not exist on NeuronCore v3");
  Kernel f({"float", kernel::Generation::kV4});
  const Tile z = f.sbuf({32, 100}, kF32, "z");
  f.tensor_copy(z, z.indirect(z));
  EXPECT_EQ(mistake(f),
            "indirect: a tile of partitions and one dimension goes by a tile of uint16 or uint32 "
            "of partitions and one dimension");
}

TEST(EarlierGenerations, HaveNoneOfIt) {
  Kernel k({"v3", kernel::Generation::kV3});
  const Tile a = k.sbuf({128, 64}, DType::kFloat8e4fn, "a");
  const Tile b = k.sbuf({128, 64}, kF32, "b");
  k.tensor_copy(b, a);
  EXPECT_EQ(mistake(k),
            "tensor_copy: the Vector engine of NeuronCore v3 takes no float8e4fn in TENSOR_COPY");
}

TEST(Operands, BitsAndWideIntegers) {
  Kernel k({"bits"});
  const Tile x = k.sbuf({128, 64}, DType::kUint32, "x");
  const Tile f = k.sbuf({128, 1}, kF32, "f");
  k.tensor_scalar(x, x, {Op::kAnd, f});
  EXPECT_EQ(mistake(k),
            "tensor_scalar: the first operand (SBUF 'f') of an operator on bits is no integer");
  Kernel wide({"wide"});
  const Tile y = wide.sbuf({128, 64}, DType::kInt64, "y");
  wide.tensor_copy(y, y);
  EXPECT_EQ(mistake(wide),
            "tensor_copy: the Vector engine of NeuronCore v2 takes no int64 in TENSOR_COPY");
  Kernel psum({"psum"});
  const Tile z = psum.psum({128, 8192}, DType::kUint8, "z");
  psum.memset(z, 0);
  EXPECT_EQ(mistake(psum),
            "memset: dst (PSUM 'z') has 1 dimensions that are not contiguous and 8192 elements in "
            "a partition; up to 4 and 4096 are possible");
}

}  // namespace
