// Which types an engine takes where, and instructions that came with MX: errors and times.
#include "arch/contract/isa_rules.h"
#include "hw/core/issue.h"
#include "tests/hw_core/nc_bench.h"

namespace {

using contract::EngineError;
using contract::EngineStatus;
using contract::Gen;
using contract::kAct;
using contract::kDve;
using contract::kPe;
using contract::kPool;
using hw_test::copy;
using hw_test::op;
using hw_test::tensor;
using hw_test::isa::DataType;
using hw_test::isa::Memory;
using hw_test::isa::Opcode;
namespace isa = hw_test::isa;
namespace reg = contract::engine;

isa::Instruction quantize(DataType to, DataType from, uint16_t n, uint8_t partitions = 32) {
  isa::Instruction i = op(Opcode::kQuantizeMx);
  i.operands.quantize_mx = {tensor(to, 0, n), tensor(from, 4096, static_cast<uint16_t>(4 * n)),
                            tensor(DataType::kFloat8e8, 65536, n), partitions,
                            static_cast<uint8_t>(partitions - 28)};
  return i;
}
isa::Instruction weights_mx(uint16_t columns, uint8_t rows = 128) {
  isa::Instruction i = op(Opcode::kLdweightsMx);
  i.operands.ldweights_mx = {tensor(DataType::kFloat8e4fnx4, 0, columns),
                             tensor(DataType::kFloat8e8, 65536, columns), rows,
                             static_cast<uint8_t>(rows - 28)};
  return i;
}
isa::Instruction product_mx(uint16_t n, uint8_t columns, uint8_t rows = 128) {
  isa::Instruction i = op(Opcode::kMatmulMx);
  i.operands.matmul_mx = {isa::Accumulate::kOverwrite,
                          tensor(DataType::kFloat32, 0, n, Memory::kPsum),
                          tensor(DataType::kFloat4e2fnx4, 8192, n),
                          tensor(DataType::kUint8, 65536, n),
                          rows,
                          columns,
                          static_cast<uint8_t>(rows - 28)};
  return i;
}
isa::Instruction product(DataType moving) {
  isa::Instruction i = op(Opcode::kMatmul);
  i.operands.matmul.dst = tensor(DataType::kFloat32, 0, 1, Memory::kPsum);
  i.operands.matmul.moving = tensor(moving, 64, 1);
  i.operands.matmul.rows = i.operands.matmul.columns = 1;
  return i;
}
isa::Instruction weights(DataType type) {
  isa::Instruction i = op(Opcode::kLdweights);
  i.operands.ldweights.src = tensor(type, 0, 1);
  i.operands.ldweights.rows = 1;
  return i;
}

bool encodes(const isa::Instruction& in) {
  uint8_t records[4 * isa::kRecordBytes];
  return isa::encode(in, records, sizeof records) != 0;
}

// The engine's error code and info after these, or {0, 0}.
std::pair<EngineError, uint32_t> error_of(Gen gen, contract::Engine e,
                                          std::vector<isa::Instruction> program) {
  hw_test::NcBench bench(gen);
  program.push_back(op(Opcode::kHalt));
  bench.load(e, program);
  bench.start(e);
  bench.queue.run_all();
  if (bench.status(e) == EngineStatus::kHalted) return {EngineError::kNone, 0};
  return {static_cast<EngineError>(bench.get(e, reg::kErrorCode)), bench.get(e, reg::kErrorInfo)};
}
constexpr std::pair<EngineError, uint32_t> kFine{EngineError::kNone, 0};
std::pair<EngineError, uint32_t> bad_tensor(uint32_t number) {
  return {EngineError::kBadOperand, number};
}

TEST(ComputeTypes, IntegersOf64BitsAreForTransfers) {
  const auto word = tensor(DataType::kInt32, 0, 1);
  for (const DataType wide : {DataType::kInt64, DataType::kUint64}) {
    for (const contract::Engine e : {kDve, kPool, kAct}) {
      EXPECT_EQ(error_of(Gen::kV3, e, {copy(tensor(wide, 64, 1), word, 1)}), bad_tensor(0));
      EXPECT_EQ(error_of(Gen::kV3, e, {copy(word, tensor(wide, 64, 1), 1)}), bad_tensor(1));
    }
  }
}

TEST(ComputeTypes, OcpTypesCameWithV4) {
  const auto move = copy(tensor(DataType::kFloat32, 0, 1), tensor(DataType::kFloat8e4fn, 64, 1), 1);
  EXPECT_EQ(error_of(Gen::kV3, kDve, {move}), bad_tensor(1));
  EXPECT_EQ(error_of(Gen::kV4, kDve, {move}), kFine);
  EXPECT_EQ(error_of(Gen::kV3, kPe, {weights(DataType::kFloat8e4fn)}), bad_tensor(0));
  EXPECT_EQ(error_of(Gen::kV4, kPe, {weights(DataType::kFloat8e4fn)}), kFine);
  EXPECT_EQ(error_of(Gen::kV3, kPe, {weights(DataType::kFloat8e3)}), kFine);
  EXPECT_EQ(error_of(Gen::kV4, kPe, {weights(DataType::kFloat8e3)}), bad_tensor(0));
  EXPECT_EQ(error_of(Gen::kV3, kDve, {quantize(DataType::kFloat8e5x4, DataType::kBfloat16, 4)}),
            (std::pair{EngineError::kBadInstruction, uint32_t{100}}));
}

TEST(ComputeTypes, TypesOfMxOnlyMove) {
  for (const DataType type : {DataType::kFloat8e8, DataType::kFloat8e5x4, DataType::kFloat8e4fnx4,
                              DataType::kFloat4e2fnx4}) {
    const auto a = tensor(type, 0, 4);
    const auto b = tensor(type, 64, 4);
    EXPECT_EQ(error_of(Gen::kV4, kDve, {copy(b, a, 1)}), kFine);
    EXPECT_EQ(error_of(Gen::kV4, kDve, {copy(tensor(DataType::kFloat32, 64, 4), a, 1)}),
              bad_tensor(1));
    EXPECT_EQ(error_of(Gen::kV4, kDve, {hw_test::add(a, a, b, 1)}), bad_tensor(0));
    isa::Instruction set = op(Opcode::kMemset);
    set.operands.memset = {a, 0, 1};
    EXPECT_EQ(error_of(Gen::kV4, kDve, {set}), kFine);
    set.operands.memset.value = 1;
    EXPECT_EQ(encodes(set), type == DataType::kFloat8e8);
  }
}

TEST(ComputeTypes, TheTwoE4m3DoNotMultiply) {
  const DataType legacy = DataType::kFloat8e4;
  const DataType ocp = DataType::kFloat8e4fn;
  for (const auto& [w, m, fits] : {std::tuple(legacy, ocp, false),
                                   {ocp, legacy, false},
                                   {ocp, ocp, true},
                                   {legacy, DataType::kFloat8e5, true},
                                   {DataType::kBfloat16, ocp, true}}) {
    EXPECT_EQ(error_of(Gen::kV4, kPe, {weights(w), product(m)}), fits ? kFine : bad_tensor(2));
  }
}

TEST(Mx, ProductsNeedWeightsOfTheirKind) {
  EXPECT_EQ(error_of(Gen::kV4, kPe, {product_mx(4, 2)}), bad_tensor(3));
  EXPECT_EQ(error_of(Gen::kV4, kPe, {weights_mx(2), product_mx(4, 2)}), kFine);
  EXPECT_EQ(error_of(Gen::kV4, kPe, {weights_mx(4), product_mx(4, 2)}), bad_tensor(3));
  EXPECT_EQ(error_of(Gen::kV4, kPe, {weights_mx(2, 64), product_mx(4, 2)}), bad_tensor(3));
}

TEST(Mx, ScalesLieInTheQuadrantOfTheirData) {
  const auto at = [](unsigned partition, DataType type = DataType::kFloat8e8) {
    isa::Instruction i = quantize(DataType::kFloat8e5x4, DataType::kFloat16, 8, 64);
    i.operands.quantize_mx.scale.start_partition = static_cast<uint8_t>(partition);
    i.operands.quantize_mx.scale.dtype = type;
    return i;
  };
  for (const unsigned good : {0u, 4u, 8u, 12u}) EXPECT_TRUE(encodes(at(good))) << good;
  for (const unsigned bad : {1u, 2u, 16u, 28u, 32u, 36u}) EXPECT_FALSE(encodes(at(bad))) << bad;
  EXPECT_TRUE(encodes(at(4, DataType::kUint8)));
  EXPECT_FALSE(encodes(at(4, DataType::kInt8)));
  isa::Instruction i = at(0);
  i.operands.quantize_mx.scale_rows = 64;
  EXPECT_FALSE(encodes(i));
  i = quantize(DataType::kFloat8e5x4, DataType::kFloat32, 8);
  EXPECT_FALSE(encodes(i));
  i = quantize(DataType::kFloat4e2fnx4, DataType::kBfloat16, 8);
  EXPECT_FALSE(encodes(i));  // 8-bit floats only
  i = quantize(DataType::kFloat8e5x4, DataType::kBfloat16, 8, 48);
  EXPECT_FALSE(encodes(i));
  EXPECT_FALSE(encodes(weights_mx(3)));  // an odd number of columns
}

TEST(Mx, Times) {
  hw::TimingParams params;
  params.clk_dve = {12, 10000};
  params.clk_pe = {24, 10000};
  const hw::EngineTiming vector(params, Gen::kV4, kDve);
  const auto cycles = [&](uint16_t n) {
    const auto time = vector.of(quantize(DataType::kFloat8e5x4, DataType::kBfloat16, n)).interval;
    return (time * 12 + 9999) / 10000;
  };
  EXPECT_EQ(cycles(1000), 1000u);  // N / 4, N = 4000
  EXPECT_EQ(cycles(10), 64u);
  // Products: max(min(64, columns), N), as without scales.
  const hw::EngineTiming array(params, Gen::kV4, kPe);
  hw::PeSchedule schedule(array);
  const base::Ps loaded = schedule.begin(weights_mx(128), 0).interval;
  EXPECT_EQ((loaded * 24 + 9999) / 10000, 32u);
  const base::Ps start = schedule.earliest(product_mx(512, 128), 0);
  EXPECT_EQ(start, loaded);
  const base::Ps time = schedule.begin(product_mx(512, 128), start).interval;
  EXPECT_EQ((time * 24 + 9999) / 10000, 512u);
}

TEST(OperandRules, OperatorsOnBitsTakeIntegerTiles) {
  isa::Instruction i = op(Opcode::kTensorScalar);
  isa::TensorScalar& t = i.operands.tensor_scalar;
  t.op0 = isa::TensorOp::kAnd;
  t.op1 = isa::TensorOp::kBypass;
  t.dst = t.src = tensor(DataType::kUint32, 0, 4);
  t.partitions = 1;
  t.operand0 = {isa::ScalarOperand::kTile, 0, tensor(DataType::kFloat32, 64, 1)};
  EXPECT_FALSE(encodes(i));
  t.operand0.tile.dtype = DataType::kInt8;
  EXPECT_TRUE(encodes(i));
  t.op0 = isa::TensorOp::kNot;  // has none
  t.operand0.tile.dtype = DataType::kFloat32;
  EXPECT_TRUE(encodes(i));
  t.op1 = isa::TensorOp::kShiftLeft;
  t.operand1 = t.operand0;
  EXPECT_FALSE(encodes(i));
}

TEST(OperandRules, ElementsInAPartition) {
  const auto narrow = [](uint16_t n, Memory memory) {
    return tensor(DataType::kUint8, 0, n, memory);
  };
  EXPECT_TRUE(encodes(copy(narrow(4096, Memory::kPsum), narrow(4096, Memory::kSbuf), 1)));
  EXPECT_FALSE(encodes(copy(narrow(4097, Memory::kSbuf), narrow(4097, Memory::kPsum), 1)));
  EXPECT_TRUE(encodes(copy(narrow(65535, Memory::kSbuf), narrow(65535, Memory::kSbuf), 1)));
  // A product fills PSUM: 8192 bfloat16.
  isa::Instruction i = op(Opcode::kMatmul);
  i.operands.matmul.dst = tensor(DataType::kBfloat16, 0, 8192, Memory::kPsum);
  i.operands.matmul.moving = tensor(DataType::kBfloat16, 0, 8192);
  i.operands.matmul.rows = i.operands.matmul.columns = 1;
  EXPECT_TRUE(encodes(i));
  EXPECT_EQ(error_of(Gen::kV4, kPe, {weights(DataType::kBfloat16), i}), kFine);
  i.operands.matmul.dst.dtype = DataType::kFloat32;
  EXPECT_FALSE(encodes(i));
}

// spec/engine-isa.md 6.2: the first use of a function loads its table; LOAD_ACT_FUNC_SET does it
// before.
TEST(ActivationTable, IsLoadedOnce) {
  const auto load = [](isa::ActFunction f) {
    isa::Instruction i = op(Opcode::kLoadActFuncSet);
    i.operands.load_act_func_set.function = f;
    return i;
  };
  const auto activate = [](isa::ActFunction f) {
    isa::Instruction i = op(Opcode::kActivate);
    i.operands.activate.function = f;
    i.operands.activate.dst = tensor(DataType::kFloat32, 0, 1);
    i.operands.activate.src = tensor(DataType::kFloat32, 64, 1);
    i.operands.activate.partitions = 1;
    return i;
  };
  const auto time_of = [](std::vector<isa::Instruction> program) {
    hw_test::NcBench bench(Gen::kV3);
    program.push_back(op(Opcode::kHalt));
    bench.load(kAct, program);
    bench.start(kAct);
    bench.queue.run_all();
    EXPECT_EQ(bench.status(kAct), EngineStatus::kHalted);
    return bench.queue.now();
  };
  using isa::ActFunction;
  const hw::TimingParams params;
  const base::Ps plain = time_of({activate(ActFunction::kCopy)});
  const base::Ps control = time_of({load(ActFunction::kCopy), activate(ActFunction::kCopy)});
  EXPECT_EQ(time_of({activate(ActFunction::kExp)}), plain + params.act_table_load);
  EXPECT_EQ(time_of({load(ActFunction::kExp), activate(ActFunction::kExp)}),
            control + params.act_table_load);
  EXPECT_EQ(time_of({load(ActFunction::kTanh), activate(ActFunction::kExp)}),
            control + 2 * params.act_table_load);
}

TEST(Hints, ChangeNothing) {
  isa::Instruction hint = op(Opcode::kBranchPrefetchHint);
  hint.operands.branch_prefetch_hint.target = -3;
  isa::Instruction mode = op(Opcode::kSetOrderingMode);
  mode.operands.set_ordering_mode.mode = 2;
  EXPECT_EQ(error_of(Gen::kV2, kPe, {hint, mode, hint}), kFine);
}

}  // namespace
