// Operands that go by indices (spec/engine-isa.md 3 rule 9): gathers and scatters along the free
// dimension, what is refused, and what they cost.
#include "tests/hw_core/nc_bench.h"

namespace {

using contract::EngineError;
using contract::EngineStatus;
using contract::Gen;
using contract::kAct;
using contract::kDve;
using contract::kPe;
using contract::kPool;
using hw_test::add;
using hw_test::copy;
using hw_test::op;
using hw_test::tensor;
using hw_test::isa::DataType;
using hw_test::isa::Memory;
using hw_test::isa::Opcode;
namespace isa = hw_test::isa;
namespace reg = contract::engine;

constexpr uint32_t kIndex = 8192;  // bytes
constexpr uint32_t kOther = 12288;
constexpr uint32_t kTo = 4096;

class Indirect : public ::testing::Test {
 protected:
  hw_test::NcBench bench_{Gen::kV4};
  using Error = std::pair<EngineError, uint32_t>;

  static isa::Instruction indices(uint8_t operand, uint16_t columns, uint8_t partitions,
                                  uint32_t byte = kIndex, uint8_t start = 0) {
    isa::Instruction i = op(Opcode::kLoadIndex);
    i.operands.load_index = {operand, tensor(DataType::kUint16, byte, columns), partitions};
    i.operands.load_index.src.start_partition = start;
    return i;
  }
  // Index number i of lane group g of `lanes` is value(g, i).
  template <typename Value>
  void put_indices(uint32_t lanes, uint32_t groups, uint32_t columns, Value&& value,
                   uint32_t byte = kIndex) {
    for (uint32_t g = 0; g < groups; ++g) {
      for (uint32_t i = 0; i < columns * lanes; ++i) {
        bench_.sbuf<uint16_t>(g * lanes + i % lanes, byte)[i / lanes] =
            static_cast<uint16_t>(value(g, i));
      }
    }
  }
  // Element i of partition p is 1000 p + i.
  void fill(uint32_t partitions, uint32_t count) {
    for (uint32_t p = 0; p < partitions; ++p) {
      for (uint32_t i = 0; i < count; ++i) {
        bench_.sbuf<float>(p, 0)[i] = static_cast<float>(1000 * p + i);
      }
    }
  }
  Error run(contract::Engine e, std::vector<isa::Instruction> program) {
    program.push_back(op(Opcode::kHalt));
    bench_.put(e, reg::kControl, reg::kControlReset.mask());
    bench_.load(e, program);
    bench_.start(e);
    bench_.queue.run_all();
    if (bench_.status(e) == EngineStatus::kHalted) return {EngineError::kNone, 0};
    return {static_cast<EngineError>(bench_.get(e, reg::kErrorCode)),
            bench_.get(e, reg::kErrorInfo)};
  }
  static constexpr Error kFine{EngineError::kNone, 0};
  static Error bad_tensor(uint32_t number) { return {EngineError::kBadOperand, number}; }
};

TEST_F(Indirect, GathersByGroupsOfSixteenLanes) {
  fill(48, 100);
  const auto place = [](uint32_t g, uint32_t i) { return (i * 7 + g * 13) % 100; };
  put_indices(16, 3, 2, place);
  const auto from = tensor(DataType::kFloat32, 0, 30);  // of 32 that there are
  const auto to = tensor(DataType::kFloat32, kTo, 30);
  for (const contract::Engine e : {kDve, kAct}) {
    ASSERT_EQ(run(e, {indices(1, 2, 48), copy(to, from, 48)}), kFine);
    for (uint32_t p = 0; p < 48; ++p) {
      for (uint32_t i = 0; i < 30; ++i) {
        ASSERT_EQ(bench_.sbuf<float>(p, kTo)[i], 1000 * p + place(p / 16, i)) << p << " " << i;
      }
    }
  }
  // The next instruction has none.
  ASSERT_EQ(run(kDve, {indices(1, 2, 48), copy(to, from, 48), copy(to, from, 48)}), kFine);
  EXPECT_EQ(bench_.sbuf<float>(20, kTo)[29], 20029);
}

TEST_F(Indirect, ScattersAndBothAtOnce) {
  fill(16, 64);
  const auto from_place = [](uint32_t, uint32_t i) { return 3 * i % 64; };
  const auto to_place = [](uint32_t, uint32_t i) { return 2 * (15 - i); };
  put_indices(16, 1, 1, from_place);
  put_indices(16, 1, 1, to_place, kOther);
  auto to = tensor(DataType::kBfloat16, kTo, 16);
  to.dims[0].step = 3;  // places are 3 apart
  for (uint32_t i = 0; i < 100; ++i) bench_.sbuf<uint16_t>(5, kTo)[i] = 0xFFFF;
  ASSERT_EQ(run(kDve, {indices(1, 1, 16), indices(0, 1, 16, kOther),
                       copy(to, tensor(DataType::kFloat32, 0, 16), 16)}),
            kFine);
  uint32_t touched = 0;
  for (uint32_t i = 0; i < 100; ++i) {
    if (bench_.sbuf<uint16_t>(5, kTo)[i] != 0xFFFF) ++touched;
  }
  EXPECT_EQ(touched, 16u);
  for (uint32_t i = 0; i < 16; ++i) {
    const auto value = static_cast<float>(5000 + from_place(0, i));
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    const uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    EXPECT_EQ(bench_.sbuf<uint16_t>(5, kTo)[3 * to_place(0, i)], rounded) << i;
  }
}

// The Tensor engine: groups of 32 lanes; weights, what moves, and the result.
TEST_F(Indirect, Products) {
  for (uint32_t p = 0; p < 32; ++p) {
    for (uint32_t i = 0; i < 8; ++i) {
      bench_.sbuf<uint16_t>(p, 0)[i] = p == i ? 0x3F80 : 0;  // an identity of 8 columns
      bench_.sbuf<uint16_t>(p, 64)[i] = static_cast<uint16_t>(p == 0 ? 0x3F80 + 0x80 * i : 0);
    }
  }
  put_indices(32, 1, 1, [](uint32_t, uint32_t i) { return 7 - i % 8; });
  put_indices(
      32, 1, 1, [](uint32_t, uint32_t i) { return 2 * i; }, kOther);
  isa::Instruction load = op(Opcode::kLdweights);
  load.operands.ldweights.src = tensor(DataType::kBfloat16, 0, 8);
  load.operands.ldweights.rows = 32;
  isa::Instruction multiply = op(Opcode::kMatmul);
  multiply.operands.matmul.dst = tensor(DataType::kFloat32, 0, 8, Memory::kPsum);
  multiply.operands.matmul.moving = tensor(DataType::kBfloat16, 64, 8);
  multiply.operands.matmul.rows = 32;
  multiply.operands.matmul.columns = 8;
  ASSERT_EQ(
      run(kPe, {indices(0, 1, 32), load, indices(1, 1, 32), indices(0, 1, 32, kOther), multiply}),
      kFine);
  // Weights: column m is row 7 - m; row 0 moves, so only m = 7 gets it, reversed, at even places.
  for (uint32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(bench_.psum<float>(7, 0)[2 * i], static_cast<float>(1u << (7 - i))) << i;
    EXPECT_EQ(bench_.psum<float>(6, 0)[2 * i], 0) << i;
  }
  load.operands.ldweights.src.dtype = DataType::kFloat32;
  EXPECT_EQ(run(kPe, {indices(0, 1, 32), load}), bad_tensor(0));
  load.operands.ldweights.src.dtype = DataType::kBfloat16;
  load.operands.ldweights.column = 32;  // a tile of the array
  EXPECT_EQ(run(kPe, {indices(0, 1, 32), load}), bad_tensor(0));
  EXPECT_EQ(run(kPe, {indices(0, 1, 16), load}),
            (Error{EngineError::kBadInstruction, uint32_t{37}}));
}

// Data and scales go by the same indices.
TEST_F(Indirect, NumbersWithScales) {
  for (uint32_t p = 0; p < 32; ++p) {
    for (uint32_t i = 0; i < 8; ++i) {
      bench_.sbuf<uint32_t>(p, 0)[i] = p == 0 ? 0x38 : 0;  // 1, then zeros
      bench_.sbuf<uint8_t>(p, 64)[i] = static_cast<uint8_t>(127 + i);
    }
  }
  put_indices(32, 1, 1, [](uint32_t, uint32_t i) { return (i * 3) % 8; });
  isa::Instruction load = op(Opcode::kLdweightsMx);
  load.operands.ldweights_mx = {tensor(DataType::kFloat8e4fnx4, 0, 2),
                                tensor(DataType::kUint8, 64, 2), 32, 4};
  isa::Instruction multiply = op(Opcode::kMatmulMx);
  multiply.operands.matmul_mx = {isa::Accumulate::kOverwrite,
                                 tensor(DataType::kFloat32, 0, 6, Memory::kPsum),
                                 tensor(DataType::kFloat8e4fnx4, 0, 6),
                                 tensor(DataType::kUint8, 64, 6),
                                 32,
                                 2,
                                 4};
  ASSERT_EQ(run(kPe, {load, indices(1, 1, 32), multiply}), kFine);
  for (uint32_t i = 0; i < 6; ++i) {
    EXPECT_EQ(bench_.psum<float>(0, 0)[i], static_cast<float>(1u << (i * 3 % 8))) << i;
  }
  EXPECT_EQ(run(kPe, {load, indices(2, 1, 32), multiply}), bad_tensor(2));
  isa::TensorOperand& scale = multiply.operands.matmul_mx.scale;
  scale.dims[0].count = 3;
  scale.dims[1] = {3, 2};
  EXPECT_EQ(run(kPe, {load, indices(1, 1, 32), multiply}), bad_tensor(2));
}

TEST_F(Indirect, EveryOtherOperandIsRefused) {
  const auto a = tensor(DataType::kFloat32, 0, 16);
  const auto b = tensor(DataType::kFloat32, 1024, 16);
  const auto c = tensor(DataType::kFloat32, kTo, 16);
  put_indices(16, 1, 1, [](uint32_t, uint32_t i) { return i; });
  EXPECT_EQ(run(kDve, {indices(0, 1, 16), add(c, a, b, 16)}), kFine);
  EXPECT_EQ(run(kDve, {indices(1, 1, 16), add(c, a, b, 16)}), kFine);
  EXPECT_EQ(run(kDve, {indices(2, 1, 16), add(c, a, b, 16)}), bad_tensor(2));
  EXPECT_EQ(run(kPool, {indices(1, 1, 16), add(c, a, b, 16)}), kFine);
  EXPECT_EQ(run(kPool, {indices(1, 1, 16), copy(c, a, 16)}), bad_tensor(1));
  EXPECT_EQ(run(kDve, {indices(3, 1, 16), copy(c, a, 16)}), bad_tensor(3));
  isa::Instruction memset = op(Opcode::kMemset);
  memset.operands.memset = {a, 0, 16};
  EXPECT_EQ(run(kDve, {indices(0, 1, 16), memset}), bad_tensor(0));
  isa::Instruction bits = op(Opcode::kTensorScalar);
  bits.operands.tensor_scalar.op0 = isa::TensorOp::kAnd;
  bits.operands.tensor_scalar.op1 = isa::TensorOp::kBypass;
  bits.operands.tensor_scalar.dst = bits.operands.tensor_scalar.src =
      tensor(DataType::kUint32, 0, 16);
  bits.operands.tensor_scalar.partitions = 16;
  EXPECT_EQ(run(kDve, {indices(1, 1, 16), bits}), bad_tensor(1));
  bits.operands.tensor_scalar.op0 = isa::TensorOp::kAdd;
  EXPECT_EQ(run(kDve, {indices(1, 1, 16), bits}), kFine);
}

TEST_F(Indirect, Places) {
  put_indices(16, 1, 1, [](uint32_t, uint32_t i) { return i; });
  const auto a = tensor(DataType::kFloat32, 0, 16);
  const auto in_psum = tensor(DataType::kFloat32, 0, 16, Memory::kPsum);
  auto elsewhere = a;
  elsewhere.start_partition = 32;
  EXPECT_EQ(run(kDve, {indices(1, 1, 16), copy(elsewhere, a, 16)}), kFine);
  EXPECT_EQ(run(kDve, {indices(1, 1, 16), copy(a, elsewhere, 16)}), bad_tensor(1));
  EXPECT_EQ(run(kDve, {indices(0, 1, 16), copy(a, elsewhere, 16)}), bad_tensor(0));
  EXPECT_EQ(run(kDve, {indices(0, 1, 16), copy(elsewhere, a, 16)}), kFine);
  EXPECT_EQ(run(kDve, {indices(0, 1, 16), copy(in_psum, a, 16)}), kFine);
  EXPECT_EQ(run(kAct, {indices(0, 1, 16), copy(in_psum, a, 16)}), bad_tensor(0));
  EXPECT_EQ(run(kAct, {indices(1, 1, 16), copy(a, in_psum, 16)}), kFine);
  // More elements, lanes or dimensions than there are indices for; an index outside.
  const auto longer = tensor(DataType::kFloat32, 0, 17);
  EXPECT_EQ(run(kDve, {indices(1, 1, 16), copy(longer, longer, 16)}), bad_tensor(1));
  EXPECT_EQ(run(kDve, {indices(1, 1, 16), copy(a, a, 17)}), bad_tensor(1));
  auto square = a;
  square.dims[0].count = 4;
  square.dims[1] = {4, 4};
  EXPECT_EQ(run(kDve, {indices(1, 1, 16), copy(a, square, 16)}), bad_tensor(1));
  bench_.sbuf<uint16_t>(3, kIndex)[0] = 65535;
  EXPECT_EQ(run(kDve, {indices(1, 1, 16), copy(a, a, 16)}), kFine);  // the last of the partition
  EXPECT_EQ(run(kDve, {indices(1, 1, 16), copy(a, tensor(DataType::kFloat32, 4, 16), 16)}),
            bad_tensor(1));
}

TEST_F(Indirect, CostsTheLoadOfTheIndices) {
  put_indices(16, 1, 1, [](uint32_t, uint32_t i) { return i; });
  const auto a = tensor(DataType::kFloat32, 0, 16);
  const auto c = tensor(DataType::kFloat32, kTo, 16);
  const auto time_of = [&](const std::vector<isa::Instruction>& program) {
    const base::Ps begin = bench_.queue.now();
    EXPECT_EQ(run(kDve, program), kFine);
    return bench_.queue.now() - begin;
  };
  const base::Ps plain = time_of({copy(c, a, 16)});
  const hw::TimingParams params;
  const hw::EngineTiming timing(params, Gen::kV4, kDve);
  EXPECT_EQ(time_of({indices(1, 1, 16), copy(c, a, 16)}),
            plain + timing.cycles(params.eng_min_ii_cycles));
}

TEST(IndirectBefore, V4) {
  hw_test::NcBench bench(Gen::kV3);
  isa::Instruction i = op(Opcode::kLoadIndex);
  i.operands.load_index = {1, tensor(DataType::kUint16, 0, 1), 16};
  bench.load(kDve, {i, op(Opcode::kHalt)});
  bench.start(kDve);
  bench.queue.run_all();
  EXPECT_EQ(static_cast<EngineError>(bench.get(kDve, reg::kErrorCode)),
            EngineError::kBadInstruction);
}

}  // namespace
