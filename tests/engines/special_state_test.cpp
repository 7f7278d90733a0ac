// Rules of instructions that leave something behind, with literal results: accumulators
// (spec/engine-isa.md 10), the Tensor engine (7, 5.5), and the Scalar engine's functions (5.4).
#include <cmath>

#include "tests/engines/special.h"

namespace engine_reference {
namespace {

using contract::Gen;
using isa::Accumulate;
using isa::ActFunction;
using isa::DataType;
using isa::Engine;
using isa::Opcode;
using isa::Operands;
using isa::ReduceCmd;
using isa::TensorOp;
using Bits = std::vector<uint64_t>;
using Floats = std::vector<float>;

class AccumulatorTest : public SpecialTest {
 protected:
  // The Vector engine adds 0 to `values` and folds them.
  void fold(TensorOp op, ReduceCmd command, const Floats& values, float initial = 0) {
    const auto n = static_cast<uint16_t>(values.size());
    isa::TensorScalarReduce t{};
    t.op = TensorOp::kBypass;
    t.reduce_op = op;
    t.reduce_cmd = command;
    t.src = sbuf(DataType::kFloat32, 0, n);
    t.dst = sbuf(DataType::kInt8, 64, n);  // what is folded is not what is stored
    t.operand = immediate(0);
    t.initial = immediate(initial);
    t.partitions = 1;
    put(t.src, values);
    run(Engine::kDve, Opcode::kTensorScalarReduce, &Operands::tensor_scalar_reduce, t);
  }
  // The same on the Scalar engine, which has more operators.
  void activate(TensorOp op, ReduceCmd command, const Floats& values) {
    const auto n = static_cast<uint16_t>(values.size());
    isa::Activate t{};
    t.reduce_op = op;
    t.reduce_cmd = command;
    t.src = sbuf(DataType::kFloat32, 0, n);
    t.dst = sbuf(DataType::kInt8, 64, n);
    t.scale = immediate(1);
    t.partitions = 1;
    put(t.src, values);
    run(Engine::kAct, Opcode::kActivate, &Operands::activate, t);
  }
  float read(Engine engine, bool negate = false) {
    const isa::TensorOperand dst = sbuf(DataType::kFloat32, 128, 1);
    run(engine, Opcode::kReadAccumulator, &Operands::read_accumulator,
        isa::ReadAccumulator{dst, negate ? uint8_t{1} : uint8_t{0}, 1});
    return get<float>(dst, 1)[0];
  }
};

TEST_F(AccumulatorTest, Commands) {
  EXPECT_EQ(bits_of(read(Engine::kDve)), 0u);
  fold(TensorOp::kAdd, ReduceCmd::kResetReduce, {1.5f, 2.25f, 200});
  EXPECT_EQ(read(Engine::kDve), 203.75f);
  fold(TensorOp::kAdd, ReduceCmd::kReduce, {1});
  EXPECT_EQ(read(Engine::kDve), 204.75f);
  fold(TensorOp::kAdd, ReduceCmd::kIdle, {1});
  EXPECT_EQ(read(Engine::kDve, true), -204.75f);
  fold(TensorOp::kMax, ReduceCmd::kReset, {1});
  EXPECT_EQ(read(Engine::kDve), -kInfinity);
  fold(TensorOp::kMultiply, ReduceCmd::kLoadReduce, {2, 4}, 10);
  EXPECT_EQ(read(Engine::kDve), 80);
  EXPECT_EQ(read(Engine::kAct), 0);  // has a file of its own
}

TEST_F(AccumulatorTest, Identities) {
  const std::pair<TensorOp, float> rows[] = {
      {TensorOp::kAdd, 0.0f},        {TensorOp::kMultiply, 1.0f},   {TensorOp::kMax, -kInfinity},
      {TensorOp::kMin, kInfinity},   {TensorOp::kSubtract, 0.0f},   {TensorOp::kLogicalAnd, 1.0f},
      {TensorOp::kLogicalOr, 0.0f},  {TensorOp::kLogicalXor, 0.0f}, {TensorOp::kAbsMax, 0.0f},
      {TensorOp::kAbsMin, kInfinity}};
  for (const auto& [op, identity] : rows) {
    activate(op, ReduceCmd::kReset, {7});
    EXPECT_EQ(bits_of(read(Engine::kAct)), bits_of(identity)) << static_cast<int>(op);
  }
}

TEST_F(AccumulatorTest, Folds) {
  const struct {
    TensorOp op;
    Floats values;
    float result;
  } rows[] = {{TensorOp::kAdd, {16'777'216, 1, 1}, 16'777'216},
              {TensorOp::kAdd, {-0.0f}, 0.0f},
              {TensorOp::kSubtract, {1, 2}, -3},
              {TensorOp::kMax, {-5, -3, -4}, -3},
              {TensorOp::kMin, {5, 3, 4}, 3},
              {TensorOp::kLogicalAnd, {5, 3}, 1},
              {TensorOp::kLogicalAnd, {5, 0}, 0},
              {TensorOp::kLogicalXor, {5, 3, canonical_nan()}, 1},
              {TensorOp::kAbsMax, {3, -3, 2}, -3},
              {TensorOp::kAbsMin, {-3, 3, 4}, 3}};
  for (const auto& row : rows) {
    activate(row.op, ReduceCmd::kResetReduce, row.values);
    EXPECT_EQ(bits_of(read(Engine::kAct)), bits_of(row.result)) << static_cast<int>(row.op);
  }
  activate(TensorOp::kMax, ReduceCmd::kResetReduce, {1, canonical_nan(), 2});
  EXPECT_EQ(bits_of(read(Engine::kAct)), 0x7FC0'0000u);
}

// Lanes that take no part keep theirs, and lanes count from an operand's first partition.
TEST_F(AccumulatorTest, OfLanes) {
  isa::TensorScalarReduce t{};
  t.op = TensorOp::kAdd;
  t.reduce_op = TensorOp::kAdd;
  t.reduce_cmd = ReduceCmd::kResetReduce;
  t.src = sbuf(DataType::kFloat32, 0, 1);
  t.dst = sbuf(DataType::kFloat32, 64, 1);
  t.dst.start_partition = 32;
  t.operand = immediate(1);
  t.partitions = 3;
  run(Engine::kDve, Opcode::kTensorScalarReduce, &Operands::tensor_scalar_reduce, t);
  t.partitions = 2;
  t.reduce_cmd = ReduceCmd::kReduce;
  run(Engine::kDve, Opcode::kTensorScalarReduce, &Operands::tensor_scalar_reduce, t);
  const isa::TensorOperand dst = sbuf(DataType::kFloat32, 128, 1);
  run(Engine::kDve, Opcode::kReadAccumulator, &Operands::read_accumulator,
      isa::ReadAccumulator{dst, 0, 4});
  for (const auto& [lane, value] : {std::pair(0u, 2.0f), {1u, 2.0f}, {2u, 1.0f}, {3u, 0.0f}}) {
    EXPECT_EQ(get<float>(dst, 1, lane)[0], value) << lane;
  }
}

class ProductTest : public SpecialTest {
 protected:
  // Row k of a 4-byte operand in partition k.
  static isa::TensorOperand rows_at(uint32_t byte, size_t columns,
                                    DataType type = DataType::kFloat32) {
    return sbuf(type, byte, static_cast<uint16_t>(columns));
  }
  void array_load(const isa::TensorOperand& src, uint8_t rows, uint8_t column = 0,
                  uint8_t double_row = 0) {
    isa::Ldweights t{};
    t.src = src;
    t.rows = rows;
    t.column = column;
    t.double_row = double_row;
    run(Engine::kPe, Opcode::kLdweights, &Operands::ldweights, t);
  }
  void product(Accumulate mode, const isa::TensorOperand& dst, const isa::TensorOperand& moving,
               uint8_t rows, uint8_t columns, uint8_t double_row = 0) {
    isa::Matmul t{};
    t.double_row = double_row;
    t.accumulate = mode;
    t.dst = dst;
    t.moving = moving;
    t.rows = rows;
    t.columns = columns;
    run(Engine::kPe, Opcode::kMatmul, &Operands::matmul, t);
  }
  void load(const std::vector<Floats>& weights, DataType type = DataType::kFloat32,
            uint8_t column = 0) {
    const isa::TensorOperand src = rows_at(0, weights[0].size(), type);
    for (size_t k = 0; k < weights.size(); ++k) put(src, weights[k], static_cast<uint32_t>(k));
    array_load(src, static_cast<uint8_t>(weights.size()), column);
  }
  void multiply(Accumulate mode, const isa::TensorOperand& dst, const std::vector<Floats>& moving,
                uint8_t columns = 1, DataType type = DataType::kFloat32) {
    const isa::TensorOperand src = rows_at(1024, moving[0].size(), type);
    for (size_t k = 0; k < moving.size(); ++k) put(src, moving[k], static_cast<uint32_t>(k));
    product(mode, dst, src, static_cast<uint8_t>(moving.size()), columns);
  }
};

TEST_F(ProductTest, RowsAndColumns) {
  load({{1, 2, 3}, {10, 20, 30}}, DataType::kFloat32, 32);
  isa::TensorOperand dst = psum(DataType::kFloat32, 8, 2);
  dst.start_partition = 32;
  multiply(Accumulate::kOverwrite, dst, {{1, 5}, {1, 7}}, 3);
  EXPECT_EQ(get<float>(dst, 2, 0), (Floats{11, 75}));
  EXPECT_EQ(get<float>(dst, 2, 1), (Floats{22, 150}));
  EXPECT_EQ(get<float>(dst, 2, 2), (Floats{33, 225}));
}

TEST_F(ProductTest, SumsInOrderOfRows) {
  const isa::TensorOperand dst = psum(DataType::kFloat32, 0, 2);
  load({{1}, {1}, {1}});
  multiply(Accumulate::kOverwrite, dst, {{16'777'216, 1}, {1, 1}, {1, 16'777'216}});
  EXPECT_EQ(get<float>(dst, 2), (Floats{16'777'216, 16'777'218}));
  // Fused: the product is not rounded before it is added.
  load({{-1 - 1.0f / 2048}, {1 + 1.0f / 4096}});
  multiply(Accumulate::kOverwrite, dst, {{1, 1}, {1 + 1.0f / 4096, 0}});
  EXPECT_EQ(get<float>(dst, 1)[0], std::ldexp(1.0f, -24));
  // The old value is added after the sum: 2^24 + (1 + 1).
  put<float>(dst, {16'777'216});
  load({{1}, {1}});
  multiply(Accumulate::kAdd, psum(DataType::kFloat32, 0, 1), {{1}, {1}});
  EXPECT_EQ(get<float>(dst, 1)[0], 16'777'218);
}

TEST_F(ProductTest, Specials) {
  const isa::TensorOperand dst = psum(DataType::kFloat32, 0, 4);
  load({{0}, {1}});
  multiply(Accumulate::kOverwrite, dst,
           {{kInfinity, 1, float_of(kOddNan), -1}, {1, kInfinity, 1, -0.0f}});
  EXPECT_EQ(bits(dst, 4), (Bits{0x7FC0'0000, 0x7F80'0000, 0x7FC0'0000, 0}));
}

// 10 mantissa bits, nearest even, on both sides.
TEST_F(ProductTest, ReducedPrecision) {
  const float half_a_step = 1.0f / 2048;
  const isa::TensorOperand dst = psum(DataType::kFloat32, 0, 4);
  load({{1 + half_a_step}}, DataType::kFloat32r);
  multiply(Accumulate::kOverwrite, dst,
           {{1, 1 + 3 * half_a_step, 1 + half_a_step + 1e-6f, -1 - half_a_step}}, 1,
           DataType::kFloat32r);
  EXPECT_EQ(get<float>(dst, 4), (Floats{1, 1 + 4 * half_a_step, 1 + 2 * half_a_step, -1}));
}

TEST_F(ProductTest, Accumulation) {
  const isa::TensorOperand dst = psum(DataType::kFloat32, 100, 2);
  load({{1}});
  put<float>(dst, {50, 60});
  multiply(Accumulate::kAdd, dst, {{1, 2}});  // also to what no product has written
  EXPECT_EQ(get<float>(dst, 2), (Floats{51, 62}));
  multiply(Accumulate::kFirstWrite, dst, {{1, 2}});
  EXPECT_EQ(get<float>(dst, 2), (Floats{52, 64}));
  multiply(Accumulate::kOverwrite, dst, {{1, 2}});
  EXPECT_EQ(get<float>(dst, 2), (Floats{1, 2}));
  multiply(Accumulate::kStart, dst, {{3, 4}});
  EXPECT_EQ(get<float>(dst, 2), (Floats{3, 4}));
  multiply(Accumulate::kFirstWrite, dst, {{3, 4}});
  EXPECT_EQ(get<float>(dst, 2), (Floats{6, 8}));
}

// What a product has written is known element by element, bank by bank.
TEST_F(ProductTest, FirstWrites) {
  load({{1}});
  const isa::TensorOperand four = psum(DataType::kFloat32, 2048, 4);
  const isa::TensorOperand other_bank = psum(DataType::kFloat32, 2040, 2);
  put<float>(four, {7, 7, 7, 7});
  multiply(Accumulate::kStart, other_bank, {{1, 1}});
  multiply(Accumulate::kFirstWrite, psum(DataType::kFloat32, 2052, 2), {{1, 1}});
  multiply(Accumulate::kFirstWrite, four, {{1, 1, 1, 1}});
  EXPECT_EQ(get<float>(four, 4), (Floats{1, 2, 2, 1}));
  multiply(Accumulate::kStart, psum(DataType::kFloat32, 2048 + 1024, 1), {{1}});  // the same bank
  multiply(Accumulate::kFirstWrite, four, {{5, 5, 5, 5}});
  multiply(Accumulate::kFirstWrite, other_bank, {{1, 1}});
  EXPECT_EQ(get<float>(four, 4), (Floats{5, 5, 5, 5}));
  EXPECT_EQ(get<float>(other_bank, 2), (Floats{2, 2}));
}

TEST_F(ProductTest, ElementsThatMeetAgain) {
  load({{1}});
  isa::TensorOperand dst = psum(DataType::kFloat32, 64, 3);
  dst.dims[0] = {0, 3};
  multiply(Accumulate::kStart, dst, {{1, 10, 100}});
  EXPECT_EQ(get<float>(dst, 1)[0], 111);
  multiply(Accumulate::kOverwrite, dst, {{1, 10, 100}});
  EXPECT_EQ(get<float>(dst, 1)[0], 100);
  multiply(Accumulate::kAdd, dst, {{1, 10, 100}});
  EXPECT_EQ(get<float>(dst, 1)[0], 211);
}

TEST_F(ProductTest, NarrowTypes) {
  const isa::TensorOperand weights = sbuf(DataType::kFloat8e4, 0, 1);
  const isa::TensorOperand moving = sbuf(DataType::kBfloat16, 64, 2);
  const isa::TensorOperand dst = psum(DataType::kFloat32, 0, 2);
  put<uint8_t>(weights, {0x39});            // 1.125
  put<uint16_t>(moving, {0x3F81, 0x8001});  // 1 + 2^-7, -2^-133
  array_load(weights, 1);
  product(Accumulate::kOverwrite, dst, moving, 1, 1);
  EXPECT_EQ(get<float>(dst, 1)[0], 1.125f * 1.0078125f);
  EXPECT_EQ(bits(dst, 2)[1], 0x8001'2000u);  // subnormal and exact
}

// Tiles of the array keep weights of their own (spec/engine-isa.md 7).
TEST_F(ProductTest, Tiles) {
  isa::TensorOperand lower = rows_at(0, 1);
  isa::TensorOperand upper = rows_at(0, 1);
  upper.start_partition = 32;
  put<float>(lower, {3});
  put<float>(upper, {5});
  array_load(lower, 1, 0);
  array_load(upper, 1, 64);
  isa::TensorOperand dst = psum(DataType::kFloat32, 0, 1);
  put<float>(upper, {10});
  product(Accumulate::kOverwrite, dst, lower, 1, 1);
  EXPECT_EQ(get<float>(dst, 1)[0], 9);
  dst.start_partition = 64;
  product(Accumulate::kOverwrite, dst, upper, 1, 1);
  EXPECT_EQ(get<float>(dst, 1)[0], 50);
}

// Two rows of 8-bit numbers in each lane: row 128 x slice + lane of the sum.
TEST_F(ProductTest, DoubleRows) {
  const isa::TensorOperand weights = sbuf(DataType::kFloat8e5, 0, 4);  // 2 slices of 2 columns
  const isa::TensorOperand moving = sbuf(DataType::kFloat8e4, 64, 2);  // 2 slices of 1 column
  const isa::TensorOperand dst = psum(DataType::kFloat32, 0, 1);
  put<uint8_t>(weights, {0x3C, 0x40, 0x44, 0x48}, 0);  // 1 2, 4 8
  put<uint8_t>(weights, {0x3C, 0x3C, 0x3C, 0xBC}, 1);  // 1 1, 1 -1
  put<uint8_t>(moving, {0x38, 0x40}, 0);               // 1, 2
  put<uint8_t>(moving, {0x48, 0x50}, 1);               // 4, 8
  array_load(weights, 2, 0, 1);
  product(Accumulate::kOverwrite, dst, moving, 2, 2, 1);
  EXPECT_EQ(get<float>(dst, 1, 0)[0], 1 * 1 + 1 * 4 + 4 * 2 + 1 * 8);
  EXPECT_EQ(get<float>(dst, 1, 1)[0], 2 * 1 + 1 * 4 + 8 * 2 - 1 * 8);
}

// v4 adds in float32 and rounds what it stores.
TEST_F(ProductTest, SumsInBfloat16) {
  const isa::TensorOperand dst = psum(DataType::kBfloat16, 6, 1);
  load({{1}});
  multiply(Accumulate::kStart, dst, {{256}});
  multiply(Accumulate::kFirstWrite, dst, {{1}});  // 257: a tie, to even
  EXPECT_EQ(bits(dst, 1), Bits{0x4380});
  multiply(Accumulate::kFirstWrite, dst, {{1.5f}});
  EXPECT_EQ(bits(dst, 1), Bits{0x4381});
}

class ActivateTest : public SpecialTest {
 protected:
  isa::Activate activation(ActFunction function, const Floats& values) {
    const auto n = static_cast<uint16_t>(values.size());
    isa::Activate t{};
    t.function = function;
    t.src = sbuf(DataType::kFloat32, 0, n);
    t.dst = sbuf(DataType::kFloat32, 256, n);
    t.scale = immediate(1);
    t.partitions = 1;
    put(t.src, values);
    return t;
  }
  Bits results(const isa::Activate& t) {
    run(Engine::kAct, Opcode::kActivate, &Operands::activate, t);
    return bits(t.dst, t.src.dims[0].count);
  }
};

TEST_F(ActivateTest, ScaleAndBias) {
  isa::Activate t = activation(ActFunction::kCopy, {1 + 1.0f / 4096, -0.0f});
  t.scale = immediate(1 + 1.0f / 4096);
  t.bias = immediate(-(1 + 1.0f / 2048));  // two roundings, not one
  EXPECT_EQ(results(t)[0], 0u);
  t.bias = {};  // an immediate +0 is not added
  EXPECT_EQ(results(t)[1], 0x8000'0000u);
  const isa::TensorOperand zero = sbuf(DataType::kFloat16, 512, 1);
  put<uint16_t>(zero, {0});
  t.bias = tile(zero);
  EXPECT_EQ(results(t)[1], 0u);
  t.bias = immediate(-0.0f);
  EXPECT_EQ(results(t)[1], 0x8000'0000u);
}

TEST_F(ActivateTest, ScaleOfEveryLane) {
  isa::Activate t = activation(ActFunction::kSquare, {3});
  put<float>(t.src, {3}, 1);
  const isa::TensorOperand scale = sbuf(DataType::kFloat32, 512, 1);
  put<float>(scale, {2}, 0);
  put<float>(scale, {-1}, 1);
  t.scale = tile(scale);
  t.partitions = 2;
  EXPECT_EQ(results(t)[0], bits_of(36));
  EXPECT_EQ(get<float>(t.dst, 1, 1)[0], 9);
}

// Values of tables, to a unit in the last place.
TEST_F(ActivateTest, Functions) {
  const struct {
    ActFunction function;
    float x;
    double y;
  } rows[] = {{ActFunction::kSigmoid, 1, 0.7310585786300049},
              {ActFunction::kGelu, 1, 0.8413447460685429},
              {ActFunction::kGelu, -2, -0.04550026389635842},
              {ActFunction::kGeluDx, 0.5, 0.8674951246561629},
              {ActFunction::kGeluTanh, 1, 0.8411919906082768},
              {ActFunction::kGeluSigmoid, 1, 0.8457957659328212},
              {ActFunction::kGeluSigmoidDx, 1, 1.067779606556334},
              {ActFunction::kSilu, 1, 0.7310585786300049},
              {ActFunction::kSilu, -100, -3.720076e-42},
              {ActFunction::kSiluDx, 1, 0.9276705118714867},
              {ActFunction::kTanh, 1, 0.7615941559557649},
              {ActFunction::kSoftplus, 0, 0.6931471805599453},
              {ActFunction::kSoftplus, 100, 100},
              {ActFunction::kMish, 1, 0.8650983882673103},
              {ActFunction::kErf, 1, 0.8427007929497149},
              {ActFunction::kErfDx, 0, 1.1283791670955126},
              {ActFunction::kExp, 1, 2.718281828459045},
              {ActFunction::kExp, -100, 3.783505853677006e-44},
              {ActFunction::kLog, 2, 0.6931471805599453},
              {ActFunction::kSin, 1, 0.8414709848078965},
              {ActFunction::kArctan, 1, 0.7853981633974483},
              {ActFunction::kSqrt, 2, 1.4142135623730951},
              {ActFunction::kRsqrt, 2, 0.7071067811865476},
              {ActFunction::kReciprocal, 3, 0.3333333333333333}};
  for (const auto& row : rows) {
    const float got =
        float_of(static_cast<uint32_t>(results(activation(row.function, {row.x}))[0]));
    const auto y = static_cast<float>(row.y);
    EXPECT_GE(got, below(y)) << static_cast<int>(row.function) << " of " << row.x;
    EXPECT_LE(got, above(y)) << static_cast<int>(row.function) << " of " << row.x;
  }
}

TEST_F(ActivateTest, ExactFunctions) {
  const Floats x = {-2, 3, -kInfinity, canonical_nan()};
  constexpr uint64_t kNan = 0x7FC0'0000;
  EXPECT_EQ(results(activation(ActFunction::kAbs, x)),
            (Bits{0x4000'0000, 0x4040'0000, 0x7F80'0000, kNan}));
  EXPECT_EQ(results(activation(ActFunction::kSign, x)),
            (Bits{0xBF80'0000, 0x3F80'0000, 0xBF80'0000, kNan}));
  EXPECT_EQ(results(activation(ActFunction::kRelu, x)), (Bits{0, 0x4040'0000, 0, kNan}));
  EXPECT_EQ(results(activation(ActFunction::kSquare, x)),
            (Bits{0x4080'0000, 0x4110'0000, 0x7F80'0000, kNan}));
  isa::Activate prelu = activation(ActFunction::kPrelu, x);
  prelu.parameter = bits_of(0.25f);
  EXPECT_EQ(results(prelu), (Bits{0xBF00'0000, 0x4040'0000, 0xFF80'0000, kNan}));
}

TEST_F(ActivateTest, LimitsOfFunctions) {
  const struct {
    ActFunction function;
    float x;
    float y;
  } rows[] = {{ActFunction::kExp, kInfinity, kInfinity}, {ActFunction::kExp, 89, kInfinity},
              {ActFunction::kExp, -kInfinity, 0},        {ActFunction::kLog, 0, -kInfinity},
              {ActFunction::kSigmoid, -kInfinity, 0},    {ActFunction::kSigmoid, 200, 1},
              {ActFunction::kTanh, kInfinity, 1},        {ActFunction::kTanh, -30, -1},
              {ActFunction::kErf, -kInfinity, -1},       {ActFunction::kSilu, kInfinity, kInfinity},
              {ActFunction::kSilu, -kInfinity, 0},       {ActFunction::kGelu, -kInfinity, 0},
              {ActFunction::kGeluDx, kInfinity, 1},      {ActFunction::kSoftplus, -kInfinity, 0},
              {ActFunction::kMish, -kInfinity, 0},       {ActFunction::kSqrt, kInfinity, kInfinity},
              {ActFunction::kRsqrt, 0, kInfinity},       {ActFunction::kReciprocal, -kInfinity, 0}};
  for (const auto& row : rows) {
    const float got =
        float_of(static_cast<uint32_t>(results(activation(row.function, {row.x}))[0]));
    EXPECT_EQ(got, row.y) << static_cast<int>(row.function) << " of " << row.x;
  }
  for (const ActFunction f : {ActFunction::kLog, ActFunction::kSqrt, ActFunction::kRsqrt}) {
    EXPECT_EQ(results(activation(f, {-1})), Bits{0x7FC0'0000});
  }
  EXPECT_EQ(results(activation(ActFunction::kSin, {kInfinity})), Bits{0x7FC0'0000});
}

// The reference's own folds against sums in long double: n roundings, each of half a unit.
TEST(Reference, FoldsWithinTheBound) {
  uint64_t state = 1;
  for (int round = 0; round < 200; ++round) {
    Range sum = Range::exactly(0);
    long double exact = 0;
    long double magnitude = 0;
    const int n = 1 + round;
    for (int i = 0; i < n; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const auto term = static_cast<float>(static_cast<int32_t>(state >> 32)) / 65536.0f;
      sum = operate(TensorOp::kAdd, sum, Range::exactly(term));
      exact += term;
      magnitude += std::fabs(term);
    }
    EXPECT_LE(std::fabs(sum.nominal() - exact), n * std::ldexp(1.0L, -24) * magnitude);
  }
}

}  // namespace
}  // namespace engine_reference
