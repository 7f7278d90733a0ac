// Element-wise rules of spec/engine-isa.md 5 and 10.1 to 10.3, with literal results.
#include "tests/engines/special.h"

namespace engine_reference {
namespace {

using contract::Gen;
using isa::DataType;
using isa::Engine;
using isa::Memory;
using isa::Opcode;
using isa::Operands;
using isa::TensorOp;
using Bits = std::vector<uint64_t>;

constexpr uint64_t kOne = 0x3F80'0000;
constexpr uint64_t kNan = 0x7FC0'0000;

TEST_F(SpecialTest, FloatsNarrow) {
  const struct {
    DataType type;
    std::vector<float> from;
    Bits to;
  } rows[] = {
      {DataType::kBfloat16,
       {1.00390625f, 1.01171875f, 1.00390637f, 3.4e38f, -0.0f, 1e-40f, 4.5e-41f, kInfinity},
       {0x3F80, 0x3F82, 0x3F81, 0x7F80, 0x8000, 0x0001, 0x0000, 0x7F80}},
      {DataType::kFloat16,
       {65504, 65519.996f, 65520, -65520, 5.9604645e-8f, 2.9802322e-8f, 2.9802326e-8f, 2049},
       {0x7BFF, 0x7BFF, 0x7C00, 0xFC00, 0x0001, 0x0000, 0x0001, 0x6800}},
      {DataType::kFloat8e3,
       {15.5f, 15.75f, 15.7f, 1, -0.25f, 0.015625f, 0.0078125f, 1.03125f},
       {0x6F, 0x70, 0x6F, 0x30, 0x90, 0x01, 0x00, 0x30}},
      {DataType::kFloat8e4,
       {240, 248, 247.9f, -1e9f, 1, 0.001953125f, 0.0009765625f, 1.0625f},
       {0x77, 0x78, 0x77, 0xF8, 0x38, 0x01, 0x00, 0x38}},
      {DataType::kFloat8e5,
       {57344, 61440, 61439, 1, 1.125f, 1.375f, 1.52587890625e-5f, 7.6e-6f},
       {0x7B, 0x7C, 0x7B, 0x3C, 0x3C, 0x3E, 0x01, 0x00}},
  };
  for (const auto& row : rows) {
    const isa::TensorOperand src = sbuf(DataType::kFloat32, 0, 8);
    const isa::TensorOperand dst = sbuf(row.type, 64, 8);
    put(src, row.from);
    for (const Engine e : {Engine::kDve, Engine::kPool, Engine::kAct}) {
      copy(e, dst, src);
      EXPECT_EQ(bits(dst, 8), row.to) << static_cast<int>(row.type);
    }
  }
}

TEST_F(SpecialTest, FloatsBecomeIntegers) {
  const struct {
    DataType type;
    std::vector<float> from;
    std::vector<int64_t> to;
  } rows[] = {
      {DataType::kInt8,
       {0.5f, 1.5f, -2.5f, 127.5f, -128.5f, 1e20f, -kInfinity, canonical_nan()},
       {0, 2, -2, 127, -128, 127, -128, 0}},
      {DataType::kUint8,
       {0.5f, 254.5f, 255.5f, -0.4f, -7, 1e20f, kInfinity, canonical_nan()},
       {0, 254, 255, 0, 0, 255, 255, 0}},
      {DataType::kInt16,
       {32766.5f, 32767.5f, -32768.5f, -1.5f, 2.5f, 1e20f, -1e20f, 0},
       {32766, 32767, -32768, -2, 2, 32767, -32768, 0}},
      {DataType::kUint32,
       {4294967040.0f, 4294967296.0f, -1, 16777216, 3.5f, 4.5f, -0.0f, 0.49f},
       {4294967040, 4294967295, 0, 16777216, 4, 4, 0, 0}},
      {DataType::kInt32,
       {2147483520.0f, 2147483648.0f, -2147483648.0f, -3e9f, 2.5f, -0.5f, 1, 0},
       {2147483520, 2147483647, -2147483648, -2147483648, 2, 0, 1, 0}},
  };
  for (const auto& row : rows) {
    const isa::TensorOperand src = sbuf(DataType::kFloat32, 0, 8);
    const isa::TensorOperand dst = sbuf(row.type, 64, 8);
    put(src, row.from);
    copy(Engine::kDve, dst, src);
    for (size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(to_integer(row.type, bits(dst, 8)[i]), row.to[i])
          << static_cast<int>(row.type) << " element " << i;
    }
  }
}

TEST_F(SpecialTest, NanIsCanonicalUnlessCopied) {
  const isa::TensorOperand src = sbuf(DataType::kFloat32, 0, 1);
  put<uint32_t>(src, {kOddNan});
  for (const Engine e : {Engine::kDve, Engine::kPool, Engine::kAct}) {
    const isa::TensorOperand same = sbuf(DataType::kFloat32, 64, 1);
    copy(e, same, src);
    EXPECT_EQ(bits(same, 1), Bits{kOddNan});
    const std::pair<DataType, uint64_t> others[] = {
        {DataType::kBfloat16, 0x7FC0}, {DataType::kFloat16, 0x7E00}, {DataType::kFloat8e3, 0x78},
        {DataType::kFloat8e4, 0x7C},   {DataType::kFloat8e5, 0x7E},  {DataType::kInt32, 0}};
    for (const auto& [type, nan] : others) {
      const isa::TensorOperand dst = sbuf(type, 128, 1);
      copy(e, dst, src);
      EXPECT_EQ(bits(dst, 1), Bits{nan}) << static_cast<int>(type);
    }
  }
  for (const TensorOp op : {TensorOp::kBypass, TensorOp::kAbs, TensorOp::kAdd, TensorOp::kMax}) {
    EXPECT_EQ(pairs(op, {float_of(kOddNan)}, {1}), Bits{kNan});
  }
}

TEST_F(SpecialTest, CopiesOfIntegers) {
  const isa::TensorOperand src = sbuf(DataType::kInt32, 0, 4);
  put<int32_t>(src, {16'777'217, -1, 40'000, std::numeric_limits<int32_t>::min()});
  const isa::TensorOperand same = sbuf(DataType::kInt32, 64, 4);
  copy(Engine::kAct, same, src);
  EXPECT_EQ(get<int32_t>(same, 4), get<int32_t>(src, 4));
  const isa::TensorOperand unsigned_words = sbuf(DataType::kUint32, 64, 4);
  copy(Engine::kPool, unsigned_words, src);  // exactly, saturating
  EXPECT_EQ(bits(unsigned_words, 4), (Bits{16'777'217, 0, 40'000, 0}));
  copy(Engine::kDve, unsigned_words, src);  // through float32
  EXPECT_EQ(bits(unsigned_words, 4), (Bits{16'777'216, 0, 40'000, 0}));
  const isa::TensorOperand narrow = sbuf(DataType::kInt16, 64, 4);
  copy(Engine::kPool, narrow, src);
  EXPECT_EQ(get<int16_t>(narrow, 4), (std::vector<int16_t>{32767, -1, 32767, -32768}));
}

// spec/engine-isa.md 5.2: Scalar of v2 always goes through float32.
TEST_F(SpecialTest, ScalarOfV2LosesBits) {
  use(Gen::kV2);
  const isa::TensorOperand src = sbuf(DataType::kInt32, 0, 1);
  const isa::TensorOperand dst = sbuf(DataType::kInt32, 64, 1);
  put<int32_t>(src, {16'777'217});
  isa::Activate a{};
  a.dst = dst;
  a.src = src;
  a.scale = immediate(1);
  a.partitions = 1;
  run(Engine::kAct, Opcode::kActivate, &Operands::activate, a);
  EXPECT_EQ(get<int32_t>(dst, 1)[0], 16'777'216);
}

// The engine rounds to float32 before it rounds to the destination.
TEST_F(SpecialTest, RoundsTwice) {
  const isa::TensorOperand a = sbuf(DataType::kFloat32, 0, 2);
  const isa::TensorOperand b = sbuf(DataType::kFloat32, 64, 2);
  const isa::TensorOperand dst = sbuf(DataType::kFloat16, 128, 2);
  const float factor = 1 + 1.0f / 4096;  // its square is just above the middle of two float16
  put<float>(a, {factor, 1});
  put<float>(b, {factor, 1});
  combine(Engine::kDve, TensorOp::kMultiply, dst, a, b);
  EXPECT_EQ(bits(dst, 2), (Bits{0x3C00, 0x3C00}));
  put<float>(b, {1.0f / 2048 + 1e-9f, 1.0f / 2048});
  put<float>(a, {1, 1});
  combine(Engine::kDve, TensorOp::kAdd, dst, a, b);
  EXPECT_EQ(bits(dst, 2), (Bits{0x3C00, 0x3C00}));
}

TEST_F(SpecialTest, OperatorsOnFloats) {
  const float nan = canonical_nan();
  EXPECT_EQ(pairs(TensorOp::kAdd, {kInfinity, 3e38f, 1e-45f}, {-kInfinity, 3e38f, 1e-45f}),
            (Bits{kNan, 0x7F80'0000, 2}));
  EXPECT_EQ(pairs(TensorOp::kMultiply, {0, 1e-30f, -1e-30f}, {kInfinity, 1e-30f, 1e-10f}),
            (Bits{kNan, 0, 0x8001'16C2}));
  EXPECT_EQ(pairs(TensorOp::kMin, {nan, 1, -kInfinity}, {1, nan, nan}), (Bits{kNan, kNan, kNan}));
  EXPECT_EQ(pairs(TensorOp::kMax, {nan, 1, -kInfinity}, {1, nan, 1}), (Bits{kNan, kNan, kOne}));
  EXPECT_EQ(pairs(TensorOp::kEqual, {nan, 0, 1}, {nan, -0.0f, 2}), (Bits{0, kOne, 0}));
  EXPECT_EQ(pairs(TensorOp::kNotEqual, {nan, 0, 1}, {nan, -0.0f, 2}), (Bits{kOne, 0, kOne}));
  for (const TensorOp op :
       {TensorOp::kLess, TensorOp::kLessEqual, TensorOp::kGreater, TensorOp::kGreaterEqual}) {
    EXPECT_EQ(pairs(op, {nan, 1, nan}, {1, nan, nan}), (Bits{0, 0, 0}));
  }
  EXPECT_EQ(pairs(TensorOp::kLogicalAnd, {nan, nan, 1e-45f}, {2, 0, -1}), (Bits{kOne, 0, kOne}));
  EXPECT_EQ(pairs(TensorOp::kLogicalOr, {nan, -0.0f, 0}, {0, 0, kInfinity}), (Bits{kOne, 0, kOne}));
  EXPECT_EQ(pairs(TensorOp::kLogicalXor, {nan, nan, 0}, {0, 1, 0}), (Bits{kOne, 0, 0}));
}

TEST_F(SpecialTest, SelectionByMagnitude) {
  const float nan = canonical_nan();
  EXPECT_EQ(pairs(TensorOp::kAbsMax, {-3, 3, 2, nan}, {2, -3, -kInfinity, 1}),
            (Bits{0xC040'0000, 0xC040'0000, 0xFF80'0000, kNan}));
  EXPECT_EQ(pairs(TensorOp::kAbsMin, {-3, 3, 0, 1}, {-2, -3, -0.0f, nan}),
            (Bits{0xC000'0000, 0xC040'0000, 0x8000'0000, kNan}));
}

TEST_F(SpecialTest, UnaryOperators) {
  EXPECT_EQ(pairs(TensorOp::kReciprocal, {0, -0.0f, kInfinity, 3}, {7, 7, 7, 7}),
            (Bits{0x7F80'0000, 0xFF80'0000, 0, 0x3EAA'AAAB}));
  EXPECT_EQ(pairs(TensorOp::kRsqrt, {4, 0, kInfinity, -1}, {7, 7, 7, 7}),
            (Bits{0x3F00'0000, 0x7F80'0000, 0, kNan}));
  EXPECT_EQ(pairs(TensorOp::kRelu, {-4, 4, -kInfinity, canonical_nan()}, {7, 7, 7, 7}),
            (Bits{0, 0x4080'0000, 0, kNan}));
  EXPECT_EQ(pairs(TensorOp::kSquare, {-3, 1e30f, 1e-30f, -0.0f}, {7, 7, 7, 7}),
            (Bits{0x4110'0000, 0x7F80'0000, 0, 0}));
  EXPECT_EQ(pairs(TensorOp::kPower, {2, 0, 1, 9}, {-1, 0, canonical_nan(), 0.5f}),
            (Bits{0x3F00'0000, kOne, kOne, 0x4040'0000}));
}

TEST_F(SpecialTest, IntegersOfGpsimd) {
  const isa::TensorOperand a = sbuf(DataType::kInt32, 0, 4);
  const isa::TensorOperand b = sbuf(DataType::kInt32, 64, 4);
  const isa::TensorOperand dst = sbuf(DataType::kInt32, 128, 4);
  put<int32_t>(a, {16'777'217, 2'147'483'647, -2'147'483'647, 65'537});
  put<int32_t>(b, {1, 1, 2, 65'537});
  combine(Engine::kPool, TensorOp::kAdd, dst, a, b);
  EXPECT_EQ(get<int32_t>(dst, 4),
            (std::vector<int32_t>{16'777'218, -2'147'483'647 - 1, -2'147'483'645, 131'074}));
  combine(Engine::kPool, TensorOp::kMultiply, dst, a, b);
  EXPECT_EQ(get<int32_t>(dst, 4), (std::vector<int32_t>{16'777'217, 2'147'483'647, 2, 131'073}));
  combine(Engine::kPool, TensorOp::kGreater, dst, a, b);
  EXPECT_EQ(get<int32_t>(dst, 4), (std::vector<int32_t>{1, 1, 0, 0}));
  combine(Engine::kDve, TensorOp::kAdd, dst, a, b);  // in float32, saturating
  EXPECT_EQ(get<int32_t>(dst, 4),
            (std::vector<int32_t>{16'777'216, 2'147'483'647, -2'147'483'648, 131'074}));
  isa::TensorOperand narrow = sbuf(DataType::kInt8, 0, 1);
  put<int8_t>(narrow, {100});
  combine(Engine::kPool, TensorOp::kAdd, narrow, narrow, narrow);
  EXPECT_EQ(get<int8_t>(narrow, 1)[0], -56);  // wraps
}

TEST_F(SpecialTest, SignOfIntegersDecides) {
  for (const bool is_signed : {true, false}) {
    const DataType type = is_signed ? DataType::kInt32 : DataType::kUint32;
    const isa::TensorOperand a = sbuf(type, 0, 1);
    const isa::TensorOperand b = sbuf(type, 64, 1);
    const isa::TensorOperand dst = sbuf(type, 128, 1);
    put<uint32_t>(a, {0x8000'0001});
    put<uint32_t>(b, {1});
    combine(Engine::kPool, TensorOp::kMax, dst, a, b);
    EXPECT_EQ(bits(dst, 1), Bits{is_signed ? 1u : 0x8000'0001u});
    combine(Engine::kPool, TensorOp::kMin, dst, a, b);
    EXPECT_EQ(bits(dst, 1), Bits{is_signed ? 0x8000'0001u : 1u});
  }
}

TEST_F(SpecialTest, OperatorsOnBits) {
  const isa::TensorOperand bytes = sbuf(DataType::kInt8, 0, 4);
  const isa::TensorOperand counts = sbuf(DataType::kUint32, 64, 4);
  const isa::TensorOperand words = sbuf(DataType::kUint32, 128, 4);
  const isa::TensorOperand low = sbuf(DataType::kUint8, 192, 4);
  put<int8_t>(bytes, {-1, -128, 127, 1});
  put<uint32_t>(counts, {4, 31, 32, 0xFFFF'FFFF});
  combine(Engine::kDve, TensorOp::kShiftRight, words, bytes, counts);  // logical, of 32 bits
  EXPECT_EQ(bits(words, 4), (Bits{0x0FFF'FFFF, 1, 0, 0}));
  combine(Engine::kDve, TensorOp::kShiftRight, low, bytes, counts);
  EXPECT_EQ(bits(low, 4), (Bits{0xFF, 1, 0, 0}));
  combine(Engine::kDve, TensorOp::kShiftLeft, words, bytes, counts);
  EXPECT_EQ(bits(words, 4), (Bits{0xFFFF'FFF0, 0, 0, 0}));
  combine(Engine::kPool, TensorOp::kNot, words, bytes, counts);
  EXPECT_EQ(bits(words, 4), (Bits{0, 127, 0xFFFF'FF80, 0xFFFF'FFFE}));
  combine(Engine::kDve, TensorOp::kXor, low, bytes, counts);
  EXPECT_EQ(bits(low, 4), (Bits{0xFB, 0x9F, 0x5F, 0xFE}));
}

TEST_F(SpecialTest, ScalarsOfBits) {
  const isa::TensorOperand src = sbuf(DataType::kInt16, 0, 2);
  const isa::TensorOperand mask = sbuf(DataType::kInt8, 64, 1);
  const isa::TensorOperand dst = sbuf(DataType::kUint32, 128, 2);
  put<int16_t>(src, {-2, 0x1234});
  put<int8_t>(mask, {-16});
  set_register(Engine::kDve, 7, 4);
  isa::TensorScalar t{};
  t.op0 = TensorOp::kAnd;
  t.op1 = TensorOp::kShiftRight;
  t.dst = dst;
  t.src = src;
  t.operand0 = tile(mask);  // sign-extended
  t.operand1 = {isa::ScalarOperand::kRegister, 7, {}};
  t.partitions = 1;
  run(Engine::kDve, Opcode::kTensorScalar, &Operands::tensor_scalar, t);
  EXPECT_EQ(bits(dst, 2), (Bits{0x0FFF'FFFF, 0x123}));
  t.op0 = TensorOp::kShiftLeft;
  t.op1 = TensorOp::kBypass;
  t.operand0 = word(3);
  t.operand1 = word(0);
  t.reverse = 1;  // 3 << src
  put<int16_t>(src, {1, 33});
  run(Engine::kDve, Opcode::kTensorScalar, &Operands::tensor_scalar, t);
  EXPECT_EQ(bits(dst, 2), (Bits{6, 0}));
}

TEST_F(SpecialTest, TensorScalarReverses) {
  const isa::TensorOperand src = sbuf(DataType::kFloat32, 0, 2);
  const isa::TensorOperand dst = sbuf(DataType::kFloat32, 64, 2);
  put<float>(src, {1, 5});
  isa::TensorScalar t{};
  t.op0 = TensorOp::kSubtract;
  t.op1 = TensorOp::kSubtract;
  t.dst = dst;
  t.src = src;
  t.operand0 = immediate(10);
  t.operand1 = immediate(100);
  t.partitions = 1;
  const std::vector<float> expected[] = {{-109, -105}, {-91, -95}, {109, 105}, {91, 95}};
  for (uint8_t reverse = 0; reverse < 4; ++reverse) {
    t.reverse = reverse;
    run(Engine::kDve, Opcode::kTensorScalar, &Operands::tensor_scalar, t);
    EXPECT_EQ(get<float>(dst, 2), expected[reverse]) << int{reverse};
  }
}

// Product and sum round one after the other.
TEST_F(SpecialTest, TensorScalarIsNotFused) {
  const isa::TensorOperand src = sbuf(DataType::kFloat32, 0, 1);
  const isa::TensorOperand dst = sbuf(DataType::kFloat32, 64, 1);
  put<float>(src, {1 + 1.0f / 4096});
  isa::TensorScalar t{};
  t.op0 = TensorOp::kMultiply;
  t.op1 = TensorOp::kAdd;
  t.dst = dst;
  t.src = src;
  t.operand0 = immediate(1 + 1.0f / 4096);
  t.operand1 = immediate(-(1 + 1.0f / 2048));
  t.partitions = 1;
  for (const Engine e : {Engine::kDve, Engine::kAct}) {
    run(e, Opcode::kTensorScalar, &Operands::tensor_scalar, t);
    EXPECT_EQ(bits(dst, 1), Bits{0});
  }
}

TEST_F(SpecialTest, ScalarTensorTensor) {
  const isa::TensorOperand a = sbuf(DataType::kFloat32, 0, 3);
  const isa::TensorOperand b = sbuf(DataType::kBfloat16, 64, 3);
  const isa::TensorOperand dst = sbuf(DataType::kInt16, 128, 3);
  put<float>(a, {1, 2, 3});
  put<uint16_t>(b, {0x3F00, 0x4000, 0xBF80});  // 0.5 2 -1
  isa::ScalarTensorTensor t{};
  t.op0 = TensorOp::kSubtract;
  t.op1 = TensorOp::kMultiply;
  t.dst = dst;
  t.src0 = a;
  t.operand = immediate(10);
  t.src1 = b;
  t.reverse = 1;
  t.partitions = 1;
  run(Engine::kDve, Opcode::kScalarTensorTensor, &Operands::scalar_tensor_tensor, t);
  EXPECT_EQ(get<int16_t>(dst, 3), (std::vector<int16_t>{4, 16, -7}));  // 4.5 to even
}

TEST_F(SpecialTest, ScanKeepsFloat32) {
  const isa::TensorOperand a = sbuf(DataType::kFloat32, 0, 4);
  const isa::TensorOperand b = sbuf(DataType::kFloat32, 64, 4);
  const isa::TensorOperand dst = sbuf(DataType::kInt8, 128, 4);
  put<float>(a, {1, 1, 1, 2});
  put<float>(b, {0.3f, 0.3f, 0.3f, 200});
  isa::TensorTensorScan t{};
  t.op0 = TensorOp::kMultiply;
  t.op1 = TensorOp::kAdd;
  t.dst = dst;
  t.src0 = a;
  t.initial = immediate(1);
  t.src1 = b;
  t.partitions = 1;
  run(Engine::kDve, Opcode::kTensorTensorScan, &Operands::tensor_tensor_scan, t);
  // 1.3 1.6 1.9 203.8: what is stored does not go on.
  EXPECT_EQ(get<int8_t>(dst, 4), (std::vector<int8_t>{1, 2, 2, 127}));
  t.op0 = TensorOp::kSubtract;
  t.reverse = 1;  // r - src0
  t.dst = sbuf(DataType::kFloat32, 192, 4);
  put<float>(b, {0, 0, 0, 0});
  run(Engine::kDve, Opcode::kTensorTensorScan, &Operands::tensor_tensor_scan, t);
  EXPECT_EQ(get<float>(t.dst, 4), (std::vector<float>{0, -1, -2, -4}));
}

TEST_F(SpecialTest, ReductionsGoLeftToRight) {
  const isa::TensorOperand dst = sbuf(DataType::kFloat32, 256, 1);
  const auto reduce = [&](TensorOp op, const std::vector<float>& values, bool negate = false) {
    const auto n = static_cast<uint16_t>(values.size());
    const isa::TensorOperand src = sbuf(DataType::kFloat32, 0, n);
    put(src, values);
    run(Engine::kDve, Opcode::kTensorReduce, &Operands::tensor_reduce,
        isa::TensorReduce{op, dst, src, 1, negate ? uint8_t{1} : uint8_t{0}, 1});
    return bits(dst, 1)[0];
  };
  EXPECT_EQ(reduce(TensorOp::kAdd, {16'777'216, 1, 1}), bits_of(16'777'216));
  EXPECT_EQ(reduce(TensorOp::kAdd, {1, 1, 16'777'216}), bits_of(16'777'218));
  EXPECT_EQ(reduce(TensorOp::kAdd, {-0.0f}), bits_of(-0.0f));  // begins with the first element
  EXPECT_EQ(reduce(TensorOp::kSubtract, {10, 1, 2}), bits_of(7));
  EXPECT_EQ(reduce(TensorOp::kSubtract, {10, 1, 2}, true), bits_of(-7));
  EXPECT_EQ(reduce(TensorOp::kAdd, {1, -1}, true), bits_of(-0.0f));
  EXPECT_EQ(reduce(TensorOp::kLogicalAnd, {5}), kOne);
  EXPECT_EQ(reduce(TensorOp::kLogicalOr, {canonical_nan()}), kOne);
  EXPECT_EQ(reduce(TensorOp::kLogicalXor, {5, 3}), 0u);
  EXPECT_EQ(reduce(TensorOp::kMax, {-3, -1, -2}), bits_of(-1));
  EXPECT_EQ(reduce(TensorOp::kMin, {1, canonical_nan(), 0}), kNan);
  EXPECT_EQ(reduce(TensorOp::kAbsMax, {3, -3, 2}), bits_of(-3));
  EXPECT_EQ(reduce(TensorOp::kAbsMin, {-3, 3, 4}), bits_of(3));
}

TEST_F(SpecialTest, ReductionsOfTheInnerDimensions) {
  isa::TensorOperand src = sbuf(DataType::kUint8, 0, 2);
  src.dims[1] = {2, 3};
  put<uint8_t>(src, {1, 2, 4, 8, 16, 255});
  isa::TensorOperand dst = sbuf(DataType::kUint8, 64, 3);
  isa::TensorReduce t{TensorOp::kAdd, dst, src, 1, 0, 1};
  run(Engine::kDve, Opcode::kTensorReduce, &Operands::tensor_reduce, t);
  EXPECT_EQ(get<uint8_t>(dst, 3), (std::vector<uint8_t>{3, 12, 255}));  // saturates
  t.dims = 2;
  t.op = TensorOp::kXor;
  t.dst = sbuf(DataType::kUint8, 64, 1);
  run(Engine::kDve, Opcode::kTensorReduce, &Operands::tensor_reduce, t);
  EXPECT_EQ(get<uint8_t>(dst, 3), (std::vector<uint8_t>{0xE0, 12, 255}));
}

TEST_F(SpecialTest, Memset) {
  const isa::TensorOperand dst = sbuf(DataType::kUint8, 3, 3);
  run(Engine::kPool, Opcode::kMemset, &Operands::memset, isa::Memset{dst, 0x1234'5678, 1});
  EXPECT_EQ(get<uint8_t>(sbuf(DataType::kUint8, 2, 5), 5),
            (std::vector<uint8_t>{0, 0x78, 0x78, 0x78, 0}));
  const isa::TensorOperand halves = psum(DataType::kBfloat16, 8, 2);
  run(Engine::kDve, Opcode::kMemset, &Operands::memset, isa::Memset{halves, 0x1234'5678, 1});
  EXPECT_EQ(bits(halves, 2), (Bits{0x5678, 0x5678}));
}

TEST_F(SpecialTest, Iota) {
  isa::Iota t{};
  t.pattern.offset = 10;
  t.pattern.multiplier = 100;
  t.pattern.step[0] = -20;
  t.pattern.count[0] = 2;
  t.pattern.step[1] = 1;
  t.pattern.count[1] = 2;
  t.dst = sbuf(DataType::kUint8, 0, 4);
  t.dst.start_partition = 32;
  t.partitions = 3;
  run(Engine::kPool, Opcode::kIota, &Operands::iota, t);
  EXPECT_EQ(get<uint8_t>(t.dst, 4, 0), (std::vector<uint8_t>{10, 0, 11, 0}));
  EXPECT_EQ(get<uint8_t>(t.dst, 4, 1), (std::vector<uint8_t>{110, 90, 111, 91}));
  EXPECT_EQ(get<uint8_t>(t.dst, 4, 2), (std::vector<uint8_t>{210, 190, 211, 191}));
  t.pattern.offset = std::numeric_limits<int32_t>::max();
  t.pattern.step[0] = 1;
  t.partitions = 1;
  t.dst.dtype = DataType::kInt32;
  run(Engine::kPool, Opcode::kIota, &Operands::iota, t);
  EXPECT_EQ(bits(t.dst, 4), (Bits{0x7FFF'FFFF, 0x8000'0000, 0x8000'0000, 0x8000'0001}));
  t.pattern.offset = 16'777'217;
  t.pattern.step[0] = 2;
  t.dst.dtype = DataType::kFloat32;
  run(Engine::kPool, Opcode::kIota, &Operands::iota, t);
  EXPECT_EQ(get<float>(t.dst, 4),
            (std::vector<float>{16'777'216, 16'777'220, 16'777'218, 16'777'220}));
}

TEST_F(SpecialTest, AffineSelect) {
  isa::AffineSelect t{};
  t.op = TensorOp::kGreaterEqual;  // lane - column >= 0: a causal mask
  t.pattern.multiplier = 1;
  t.pattern.step[0] = -1;
  t.pattern.count[0] = 3;
  t.fill = bits_of(-kInfinity);
  t.src = sbuf(DataType::kFloat32, 0, 3);
  t.dst = sbuf(DataType::kFloat32, 64, 3);
  t.partitions = 2;
  for (uint32_t lane = 0; lane < 2; ++lane) put<uint32_t>(t.src, {kOddNan, 5, 6}, lane);
  run(Engine::kPool, Opcode::kAffineSelect, &Operands::affine_select, t);
  EXPECT_EQ(bits(t.dst, 3, 0), (Bits{kOddNan, 0xFF80'0000, 0xFF80'0000}));
  EXPECT_EQ(bits(t.dst, 3, 1), (Bits{kOddNan, 5, 0xFF80'0000}));
  t.src.dtype = DataType::kInt32;  // through float32
  t.dst.dtype = DataType::kUint32;
  put<int32_t>(t.src, {16'777'217, 0, 0});
  t.fill = bits_of(2.5f);
  run(Engine::kPool, Opcode::kAffineSelect, &Operands::affine_select, t);
  EXPECT_EQ(bits(t.dst, 3, 0), (Bits{16'777'216, 2, 2}));
  t.src.dtype = DataType::kBfloat16;  // a NaN that is converted is canonical
  t.dst.dtype = DataType::kFloat32;
  put<uint16_t>(t.src, {0x7F9F, 0, 0});
  run(Engine::kPool, Opcode::kAffineSelect, &Operands::affine_select, t);
  EXPECT_EQ(bits(t.dst, 1, 0), Bits{kNan});
}

TEST_F(SpecialTest, Reciprocal) {
  const isa::TensorOperand src = sbuf(DataType::kFloat32, 0, 5);
  const isa::TensorOperand dst = psum(DataType::kFloat32, 0, 5);
  put<float>(src, {3, -0.0f, 1e-45f, 3e38f, canonical_nan()});
  run(Engine::kDve, Opcode::kReciprocal, &Operands::reciprocal, isa::Reciprocal{dst, src, 1});
  EXPECT_EQ(bits(dst, 5), (Bits{0x3EAA'AAAB, 0xFF80'0000, 0x7F80'0000, 0x0024'4BFA, kNan}));
}

// All inputs are read before the first result is written.
TEST_F(SpecialTest, OverlappingOperands) {
  const isa::TensorOperand src = sbuf(DataType::kInt32, 0, 4);
  put<int32_t>(src, {1, 2, 3, 4});
  copy(Engine::kDve, sbuf(DataType::kInt32, 4, 4), src);
  EXPECT_EQ(get<int32_t>(src, 5), (std::vector<int32_t>{1, 1, 2, 3, 4}));
  isa::TensorOperand reversed = sbuf(DataType::kInt32, 12, 4);
  reversed.dims[0] = {-1, 4};
  copy(Engine::kPool, src, reversed);
  EXPECT_EQ(get<int32_t>(src, 5), (std::vector<int32_t>{3, 2, 1, 1, 4}));
  combine(Engine::kDve, TensorOp::kAdd, sbuf(DataType::kInt32, 4, 4), src, src);
  EXPECT_EQ(get<int32_t>(src, 5), (std::vector<int32_t>{3, 6, 4, 2, 2}));
  isa::TensorOperand same_place = sbuf(DataType::kInt32, 64, 1);
  same_place.dims[0] = {0, 4};
  copy(Engine::kDve, same_place, src);  // the last one stays
  EXPECT_EQ(get<int32_t>(same_place, 1)[0], 2);
}

}  // namespace
}  // namespace engine_reference
