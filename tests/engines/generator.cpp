#include "tests/engines/generator.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "arch/contract/isa.h"
#include "arch/contract/isa_rules.h"

namespace engine_reference {

using contract::Gen;
using isa::DataType;
using isa::Engine;
using isa::Instruction;
using isa::Memory;
using isa::Opcode;
using isa::ScalarOperand;
using isa::TensorOp;
using isa::TensorOperand;

namespace {

constexpr DataType kIntegers[] = {DataType::kInt8,   DataType::kUint8, DataType::kInt16,
                                  DataType::kUint16, DataType::kInt32, DataType::kUint32};
constexpr DataType kFloats[] = {DataType::kFloat32,  DataType::kFloat32,  DataType::kFloat32,
                                DataType::kFloat16,  DataType::kBfloat16, DataType::kBfloat16,
                                DataType::kFloat8e3, DataType::kFloat8e4, DataType::kFloat8e5,
                                DataType::kFloat32r};
// Also of the Tensor engine, without e3m4, which that of v4 lacks, and with what v4 adds.
constexpr DataType kFloatsOfV4[] = {DataType::kFloat32,  DataType::kFloat32,    DataType::kFloat32,
                                    DataType::kFloat16,  DataType::kBfloat16,   DataType::kBfloat16,
                                    DataType::kFloat8e4, DataType::kFloat8e4fn, DataType::kFloat8e5,
                                    DataType::kFloat32r};
constexpr DataType kBytes[] = {DataType::kFloat8e3, DataType::kFloat8e4, DataType::kFloat8e5};
constexpr DataType kBytesOfV4[] = {DataType::kFloat8e4, DataType::kFloat8e4fn, DataType::kFloat8e5};
constexpr TensorOp kArithmetic[] = {
    TensorOp::kAdd,        TensorOp::kSubtract,     TensorOp::kMultiply,   TensorOp::kMin,
    TensorOp::kMax,        TensorOp::kBypass,       TensorOp::kLogicalAnd, TensorOp::kLogicalOr,
    TensorOp::kLogicalXor, TensorOp::kEqual,        TensorOp::kNotEqual,   TensorOp::kLess,
    TensorOp::kLessEqual,  TensorOp::kGreaterEqual, TensorOp::kGreater,    TensorOp::kPower,
    TensorOp::kAbsMax,     TensorOp::kAbsMin,       TensorOp::kAbs,        TensorOp::kSquare,
    TensorOp::kRelu,       TensorOp::kRsqrt,        TensorOp::kReciprocal};
constexpr TensorOp kBits[] = {TensorOp::kNot, TensorOp::kAnd,       TensorOp::kOr,
                              TensorOp::kXor, TensorOp::kShiftLeft, TensorOp::kShiftRight};
constexpr TensorOp kFolds[] = {TensorOp::kAdd,       TensorOp::kSubtract,   TensorOp::kMultiply,
                               TensorOp::kMin,       TensorOp::kMax,        TensorOp::kLogicalAnd,
                               TensorOp::kLogicalOr, TensorOp::kLogicalXor, TensorOp::kAbsMax,
                               TensorOp::kAbsMin};

bool executable(const Instruction& in, Engine engine, Gen gen) {
  uint8_t records[16 * isa::kRecordBytes];
  if (isa::encode(in, records, sizeof(records)) == 0) return false;
  return isa::executes(in, engine, gen) && isa::foreign_type(in, engine, gen) < 0;
}

}  // namespace

uint64_t Random::bits() {
  uint64_t z = state_ += 0x9E37'79B9'7F4A'7C15;
  z = (z ^ (z >> 30)) * 0xBF58'476D'1CE4'E5B9;
  z = (z ^ (z >> 27)) * 0x94D0'49BB'1331'11EB;
  return z ^ (z >> 31);
}

// The window touches the end of a partition in one case of three, and crosses a bank of PSUM in the
// others.
Generator::Generator(Gen gen, Engine engine, uint64_t seed)
    : gen_(gen), engine_(engine), random_(seed) {
  const uint32_t last = Reference::sbuf_bytes(gen) - kWindow;
  const uint32_t starts[] = {0, last, random_.below(last)};
  window_[0] = random_.of(starts);
  window_[1] = random_.chance(33) ? 16 * 1024 - kWindow : 2048 * (1 + random_.below(7)) - 512;
  new_registers();
}

void Generator::new_registers() {
  for (size_t r = 0; r < registers_.size(); ++r) {
    registers_[r] = r % 2 == 0 ? random_.below(300)
                    : random_.chance(50)
                        ? bits_of(number(random_.chance(50) ? Values::kTame : Values::kAny))
                        : random_.below(40);
  }
}

bool Generator::knows(Opcode opcode) {
  static constexpr Opcode kKnown[] = {Opcode::kTensorTensor,
                                      Opcode::kTensorCopy,
                                      Opcode::kTensorReduce,
                                      Opcode::kTensorScalar,
                                      Opcode::kMemset,
                                      Opcode::kIota,
                                      Opcode::kTensorScalarReduce,
                                      Opcode::kScalarTensorTensor,
                                      Opcode::kTensorTensorScan,
                                      Opcode::kReciprocal,
                                      Opcode::kReadAccumulator,
                                      Opcode::kAffineSelect,
                                      Opcode::kLdweights,
                                      Opcode::kMatmul,
                                      Opcode::kMax8,
                                      Opcode::kFindIndex8,
                                      Opcode::kMatchReplace8,
                                      Opcode::kNGather,
                                      Opcode::kLocalGather,
                                      Opcode::kSequenceBounds,
                                      Opcode::kTopk,
                                      Opcode::kNonzeroWithCount,
                                      Opcode::kPartitionReduce,
                                      Opcode::kBnStats,
                                      Opcode::kBnAggregate,
                                      Opcode::kLdweightsMx,
                                      Opcode::kMatmulMx,
                                      Opcode::kQuantizeMx,
                                      Opcode::kActivate,
                                      Opcode::kActivate2,
                                      Opcode::kTensorScalarCumulative,
                                      Opcode::kExponential,
                                      Opcode::kCopyPredicated,
                                      Opcode::kSelectReduce,
                                      Opcode::kRangeSelect,
                                      Opcode::kStreamShuffle,
                                      Opcode::kTranspose};
  return std::find(std::begin(kKnown), std::end(kKnown), opcode) != std::end(kKnown);
}

Instruction Generator::next(Opcode opcode) {
  for (;;) {
    const Instruction in = attempt(opcode);
    if (!executable(in, engine_, gen_)) continue;
    if (opcode == Opcode::kLdweights) weights_ = in.operands.ldweights;
    if (opcode == Opcode::kLdweightsMx) weights_mx_ = in.operands.ldweights_mx;
    return in;
  }
}

Instruction Generator::attempt(Opcode opcode) {
  Instruction in{};
  in.opcode = opcode;
  const Shape s = shape();
  isa::Operands& o = in.operands;
  switch (opcode) {
    case Opcode::kTensorTensor:
      make(&o.tensor_tensor, s);
      break;
    case Opcode::kTensorCopy:
      make(&o.tensor_copy, s);
      break;
    case Opcode::kTensorReduce:
      make(&o.tensor_reduce, s);
      break;
    case Opcode::kTensorScalar:
      make(&o.tensor_scalar, s);
      break;
    case Opcode::kMemset:
      make(&o.memset, s);
      break;
    case Opcode::kIota:
      make(&o.iota, s);
      break;
    case Opcode::kTensorScalarReduce:
      make(&o.tensor_scalar_reduce, s);
      break;
    case Opcode::kScalarTensorTensor:
      make(&o.scalar_tensor_tensor, s);
      break;
    case Opcode::kTensorTensorScan:
      make(&o.tensor_tensor_scan, s);
      break;
    case Opcode::kReciprocal:
      make(&o.reciprocal, s);
      break;
    case Opcode::kReadAccumulator:
      make(&o.read_accumulator, s);
      break;
    case Opcode::kAffineSelect:
      make(&o.affine_select, s);
      break;
    case Opcode::kLdweights:
      make(&o.ldweights);
      break;
    case Opcode::kMatmul:
      make(&o.matmul);
      break;
    case Opcode::kMax8:
      make(&o.max8, s);
      break;
    case Opcode::kFindIndex8:
      make(&o.find_index8, s);
      break;
    case Opcode::kMatchReplace8:
      make(&o.match_replace8, s);
      break;
    case Opcode::kNGather:
      make(&o.n_gather, s);
      break;
    case Opcode::kLocalGather:
      make(&o.local_gather);
      break;
    case Opcode::kSequenceBounds:
      make(&o.sequence_bounds);
      break;
    case Opcode::kTopk:
      make(&o.topk);
      break;
    case Opcode::kNonzeroWithCount:
      make(&o.nonzero_with_count);
      break;
    case Opcode::kPartitionReduce:
      make(&o.partition_reduce, s);
      break;
    case Opcode::kBnStats:
      make(&o.bn_stats, s);
      break;
    case Opcode::kBnAggregate:
      make(&o.bn_aggregate, s);
      break;
    case Opcode::kLdweightsMx:
      make(&o.ldweights_mx);
      break;
    case Opcode::kMatmulMx:
      make(&o.matmul_mx);
      break;
    case Opcode::kQuantizeMx:
      make(&o.quantize_mx);
      break;
    case Opcode::kActivate:
      make(&o.activate, s);
      break;
    case Opcode::kActivate2:
      make(&o.activate2, s);
      break;
    case Opcode::kTensorScalarCumulative:
      make(&o.tensor_scalar_cumulative, s);
      break;
    case Opcode::kExponential:
      make(&o.exponential, s);
      break;
    case Opcode::kCopyPredicated:
      make(&o.copy_predicated, s);
      break;
    case Opcode::kSelectReduce:
      make(&o.select_reduce, s);
      break;
    case Opcode::kRangeSelect:
      make(&o.range_select, s);
      break;
    case Opcode::kStreamShuffle:
      make(&o.stream_shuffle);
      break;
    case Opcode::kTranspose:
      make(&o.transpose);
      break;
    default:
      break;
  }
  return in;
}

// Few elements in all: what differs from lane to lane or from block to block shows with few.
Generator::Shape Generator::shape() {
  static constexpr uint8_t kEdges[] = {31, 32, 33, 63, 64, 65, 127, 128};
  Shape s;
  if (random_.chance(12)) {
    s.partitions = random_.of(kEdges);
    s.elements = 1 + random_.below(4);
  } else {
    s.partitions = static_cast<uint8_t>(1 + random_.below(5));
    s.elements = 1 + random_.below(random_.chance(20) ? 80 : 20);
  }
  return s;
}

Memory Generator::memory() {
  return engine_ != Engine::kPool && random_.chance(25) ? Memory::kPsum : Memory::kSbuf;
}

DataType Generator::integer_type() {
  return random_.of(kIntegers);
}
DataType Generator::float_type() {
  const bool e3 = gen_ != Gen::kV4 || (engine_ != Engine::kPe && random_.chance(50));
  return e3 ? random_.of(kFloats) : random_.of(kFloatsOfV4);
}
DataType Generator::byte_type() {
  return gen_ == Gen::kV4 ? random_.of(kBytesOfV4) : random_.of(kBytes);
}
DataType Generator::type() {
  return random_.chance(35) ? integer_type() : float_type();
}

TensorOp Generator::arithmetic() {
  return random_.of(kArithmetic);
}
TensorOp Generator::bit_operator() {
  return random_.of(kBits);
}

uint8_t Generator::start_partition(uint8_t partitions) {
  if (partitions > 64) return 0;
  if (partitions > 32) return static_cast<uint8_t>(64 * random_.below(2));
  return static_cast<uint8_t>(32 * random_.below(4));
}

// Puts the elements somewhere into the window; false: they do not fit.
bool Generator::place(TensorOperand* t) {
  int64_t low = 0;
  int64_t high = 0;
  for (const isa::PatternDim& d : t->dims) {
    if (d.count == 0) continue;
    const int64_t reach = int64_t{d.step} * (d.count - 1);
    (reach < 0 ? low : high) += reach;
  }
  const int64_t bytes = isa::data_type_bytes(t->dtype);
  const int64_t room = int64_t{kWindow} - (high - low + 1) * bytes;
  if (room < 0) return false;
  auto start = static_cast<uint32_t>(random_.below(static_cast<uint32_t>(room) + 1) - low * bytes);
  if (t->memory == Memory::kPsum || random_.chance(70)) {
    const auto first = static_cast<uint32_t>(-low * bytes);
    start = first + (start - first) / 4 * 4;
  }
  start += window(t->memory);
  const auto r = static_cast<uint8_t>(2 * random_.below(isa::kRegisters / 2));
  if (random_.chance(25) && registers_[r] <= start) {
    t->offset_register = r;
    start -= registers_[r];
  }
  t->byte_offset = start;
  return true;
}

TensorOperand Generator::tensor(DataType type, Memory memory, uint8_t partitions,
                                uint32_t elements) {
  TensorOperand t{};
  t.memory = memory;
  t.dtype = type;
  t.start_partition = start_partition(partitions);
  t.offset_register = isa::kNoRegister;
  for (int tries = 0;; ++tries) {
    const uint32_t rank = 1 + random_.below(4);
    uint32_t rest = elements;
    int32_t contiguous = 1;
    for (isa::PatternDim& d : t.dims) d = {0, 0};
    for (uint32_t i = 0; i < rank; ++i) {
      uint32_t count = i + 1 == rank ? rest : 1 + random_.below(std::min(rest, 8u));
      while (rest % count != 0) --count;
      rest /= count;
      int32_t step = contiguous;
      if (tries < 4 && random_.chance(30)) step = random_.between(-6, 6);
      if (random_.chance(15)) step = -step;
      if (tries < 4 && random_.chance(8)) step = 0;
      contiguous *= static_cast<int32_t>(count);
      t.dims[i] = {static_cast<int16_t>(step), static_cast<uint16_t>(count)};
    }
    if (place(&t)) return t;
  }
}

TensorOperand Generator::destination(const TensorOperand& source, DataType type, uint8_t partitions,
                                     uint32_t elements) {
  const bool fits = isa::data_type_bytes(type) == isa::data_type_bytes(source.dtype);
  if (!fits || random_.chance(70)) return tensor(type, memory(), partitions, elements);
  TensorOperand t = source;
  t.dtype = type;
  return t;
}

ScalarOperand Generator::scalar(uint8_t partitions, bool bits) {
  ScalarOperand s{};
  switch (random_.below(3)) {
    case 0:
      s.kind = ScalarOperand::kImmediate;
      s.bits =
          bits ? (random_.chance(50) ? random_.below(40) : static_cast<uint32_t>(random_.bits()))
               : bits_of(number(random_.chance(60) ? Values::kTame : Values::kAny));
      break;
    case 1:
      s.kind = ScalarOperand::kRegister;
      s.bits = 2 * random_.below(isa::kRegisters / 2) + 1;
      break;
    default:
      s.kind = ScalarOperand::kTile;
      s.tile = tensor(bits                 ? integer_type()
                      : random_.chance(80) ? DataType::kFloat32
                                           : type(),
                      memory(), partitions, 1);
      break;
  }
  return s;
}

isa::AffineOperand Generator::affine(uint32_t elements) {
  isa::AffineOperand a{};
  const bool large = random_.chance(15);
  const auto draw = [&](int32_t bound) {
    return large ? static_cast<int32_t>(random_.bits()) : random_.between(-bound, bound);
  };
  a.offset = draw(50);
  a.multiplier = draw(5);
  const uint32_t rank = 1 + random_.below(4);
  for (uint32_t i = 0; i < rank; ++i) {
    uint32_t count = i + 1 == rank ? elements : 1 + random_.below(std::min(elements, 8u));
    while (elements % count != 0) --count;
    elements /= count;
    a.step[i] = draw(5);
    a.count[i] = static_cast<uint16_t>(count);
  }
  return a;
}

void Generator::make(isa::TensorTensor* t, const Shape& s) {
  const bool bits = random_.chance(20);
  const bool integers = bits || random_.chance(engine_ == Engine::kPool ? 50 : 10);
  const auto draw = [&] { return integers ? integer_type() : type(); };
  t->op = bits ? bit_operator() : arithmetic();
  t->partitions = s.partitions;
  t->src0 = tensor(draw(), memory(), s.partitions, s.elements);
  t->src1 = tensor(random_.chance(50) ? t->src0.dtype : draw(), memory(), s.partitions, s.elements);
  t->dst = destination(random_.chance(50) ? t->src0 : t->src1,
                       random_.chance(40) ? t->src0.dtype : draw(), s.partitions, s.elements);
}

void Generator::make(isa::TensorCopy* t, const Shape& s) {
  const bool integers = random_.chance(30);
  const auto draw = [&] { return integers ? integer_type() : type(); };
  t->partitions = s.partitions;
  t->src = tensor(draw(), memory(), s.partitions, s.elements);
  t->dst =
      destination(t->src, random_.chance(30) ? t->src.dtype : draw(), s.partitions, s.elements);
}

void Generator::make(isa::TensorReduce* t, const Shape& s) {
  static constexpr TensorOp kBitFolds[] = {TensorOp::kAnd, TensorOp::kOr, TensorOp::kXor};
  const bool bits = random_.chance(15);
  t->op = bits ? random_.of(kBitFolds) : random_.of(kFolds);
  t->negate = !bits && random_.chance(25) ? 1 : 0;
  t->partitions = s.partitions;
  t->src = tensor(bits ? integer_type() : type(), memory(), s.partitions, s.elements);
  t->dims = static_cast<uint8_t>(1 + random_.below(4));
  uint32_t kept = 1;
  for (int i = t->dims; i < 4; ++i) kept *= t->src.dims[i].count == 0 ? 1u : t->src.dims[i].count;
  t->dst = tensor(bits ? integer_type() : type(), memory(), s.partitions, kept);
}

void Generator::make(isa::TensorScalar* t, const Shape& s) {
  const bool bits = engine_ == Engine::kDve && random_.chance(25);
  t->partitions = s.partitions;
  t->op0 = bits ? bit_operator() : arithmetic();
  t->op1 = random_.chance(30) ? TensorOp::kBypass : bits ? bit_operator() : arithmetic();
  if (engine_ == Engine::kAct) {
    t->op0 = random_.chance(30) ? TensorOp::kAdd : TensorOp::kMultiply;
    t->op1 = random_.chance(50) ? TensorOp::kAdd : TensorOp::kBypass;
  } else if (engine_ == Engine::kPool) {
    t->op0 = TensorOp::kRsqrt;
    t->op1 = TensorOp::kBypass;
  }
  t->reverse = random_.chance(50) ? static_cast<uint8_t>(random_.below(4)) : uint8_t{0};
  t->operand0 = scalar(s.partitions, bits);
  t->operand1 = scalar(s.partitions, bits);
  t->src = tensor(bits ? integer_type() : type(), memory(), s.partitions, s.elements);
  t->dst = destination(t->src, bits ? integer_type() : type(), s.partitions, s.elements);
}

void Generator::make(isa::Memset* t, const Shape& s) {
  t->partitions = s.partitions;
  t->dst = tensor(random_.chance(50) ? integer_type() : float_type(), memory(), s.partitions,
                  s.elements);
  t->value = random_.chance(20) ? 0 : static_cast<uint32_t>(random_.bits());
}

void Generator::make(isa::Iota* t, const Shape& s) {
  t->partitions = s.partitions;
  t->pattern = affine(s.elements);
  t->dst =
      tensor(random_.chance(60) ? integer_type() : type(), Memory::kSbuf, s.partitions, s.elements);
}

void Generator::make(isa::TensorScalarReduce* t, const Shape& s) {
  static constexpr TensorOp kReductions[] = {TensorOp::kAdd, TensorOp::kMultiply, TensorOp::kMax,
                                             TensorOp::kMin};
  t->op = arithmetic();
  t->reduce_op = random_.of(kReductions);
  t->reduce_cmd = static_cast<isa::ReduceCmd>(random_.below(5));
  t->partitions = s.partitions;
  t->operand = scalar(s.partitions, false);
  t->initial = scalar(s.partitions, false);
  t->src = tensor(type(), memory(), s.partitions, s.elements);
  t->dst = destination(t->src, type(), s.partitions, s.elements);
}

void Generator::make(isa::ScalarTensorTensor* t, const Shape& s) {
  t->op0 = arithmetic();
  t->op1 = arithmetic();
  t->reverse = static_cast<uint8_t>(random_.below(4));
  t->partitions = s.partitions;
  t->operand = scalar(s.partitions, false);
  t->src0 = tensor(type(), memory(), s.partitions, s.elements);
  t->src1 = tensor(type(), memory(), s.partitions, s.elements);
  t->dst = destination(random_.chance(50) ? t->src0 : t->src1, type(), s.partitions, s.elements);
}

void Generator::make(isa::TensorTensorScan* t, const Shape& s) {
  t->op0 = arithmetic();
  t->op1 = arithmetic();
  t->reverse = static_cast<uint8_t>(random_.below(4));
  t->partitions = s.partitions;
  t->initial = scalar(s.partitions, false);
  t->src0 = tensor(type(), memory(), s.partitions, s.elements);
  t->src1 = tensor(type(), memory(), s.partitions, s.elements);
  t->dst = destination(random_.chance(50) ? t->src0 : t->src1, type(), s.partitions, s.elements);
}

void Generator::make(isa::Reciprocal* t, const Shape& s) {
  t->partitions = s.partitions;
  t->src = tensor(type(), memory(), s.partitions, s.elements);
  t->dst = destination(t->src, type(), s.partitions, s.elements);
}

void Generator::make(isa::ReadAccumulator* t, const Shape& s) {
  t->partitions = s.partitions;
  t->negate = random_.chance(30) ? 1 : 0;
  t->dst = tensor(type(), memory(), s.partitions, 1);
}

void Generator::make(isa::AffineSelect* t, const Shape& s) {
  static constexpr TensorOp kComparisons[] = {TensorOp::kEqual,        TensorOp::kNotEqual,
                                              TensorOp::kLess,         TensorOp::kLessEqual,
                                              TensorOp::kGreaterEqual, TensorOp::kGreater};
  t->op = random_.of(kComparisons);
  t->partitions = s.partitions;
  t->pattern = affine(s.elements);
  t->fill = bits_of(number(Values::kAny));
  const bool integers = random_.chance(30);
  const auto draw = [&] { return integers ? integer_type() : type(); };
  t->src = tensor(draw(), Memory::kSbuf, s.partitions, s.elements);
  t->dst =
      destination(t->src, random_.chance(40) ? t->src.dtype : draw(), s.partitions, s.elements);
}

void Generator::make(isa::Ldweights* t) {
  const bool large = random_.chance(10);
  t->rows = static_cast<uint8_t>(1 + random_.below(large ? 128 : 12));
  t->double_row = random_.chance(15) ? 1 : 0;
  t->onezero = random_.chance(20) ? 1 : 0;  // a hint
  const uint32_t columns = 1 + random_.below(large ? 128 : 12);
  t->column = start_partition(static_cast<uint8_t>(columns));  // that of the product
  if (gen_ == Gen::kV2) t->column = static_cast<uint8_t>(t->column / 64 * 64);
  t->src = tensor(t->double_row != 0 ? byte_type() : float_type(), Memory::kSbuf, t->rows,
                  columns * (1u + t->double_row));
}

// spec/engine-isa.md 10.4: 4-byte types pair only with themselves; 7: double rows are of bytes;
// 2: one bank, and float32, before v4.
void Generator::make(isa::Matmul* t) {
  static constexpr DataType kNarrow[] = {DataType::kFloat16, DataType::kBfloat16};
  const bool wide = isa::data_type_bytes(weights_.src.dtype) == 4;
  const uint32_t slices = 1u + weights_.double_row;
  t->double_row = weights_.double_row;
  t->rows = weights_.rows;
  t->columns = static_cast<uint8_t>(isa::element_count(weights_.src) / slices);
  t->accumulate = static_cast<isa::Accumulate>(random_.below(4));
  const uint32_t elements = 1 + random_.below(16);
  t->moving = tensor(wide                                       ? weights_.src.dtype
                     : t->double_row != 0 || random_.chance(50) ? byte_type()
                                                                : random_.of(kNarrow),
                     Memory::kSbuf, t->rows, elements * slices);
  const bool legacy = weights_.src.dtype == DataType::kFloat8e4;
  if (legacy && t->moving.dtype == DataType::kFloat8e4fn) t->moving.dtype = DataType::kFloat8e5;
  if (weights_.src.dtype == DataType::kFloat8e4fn && t->moving.dtype == DataType::kFloat8e4) {
    t->moving.dtype = DataType::kFloat8e4fn;
  }
  t->onezero = random_.chance(20) ? 1 : 0;  // a hint
  const bool brief = gen_ == Gen::kV4 && random_.chance(30);
  DataType result = brief ? DataType::kBfloat16 : DataType::kFloat32;
  if (gen_ != Gen::kV2 && slices == 1 && random_.chance(20)) {
    const unsigned bytes = isa::data_type_bytes(weights_.src.dtype);
    t->transpose = 1;
    t->accumulate = isa::Accumulate::kOverwrite;
    do {
      t->moving = apart(t->moving.dtype, t->rows, elements);
    } while (t->moving.memory != Memory::kSbuf);
    result = bytes == 4   ? DataType::kFloat32
             : bytes == 2 ? weights_.src.dtype
                          : random_.of(kNarrow);
  }
  t->moving.start_partition = weights_.src.start_partition;
  for (;;) {
    t->dst = tensor(result, Memory::kPsum, t->columns, elements);
    t->dst.start_partition = weights_.column;
    const std::vector<uint32_t> places = places_of(t->dst, registers_);
    const auto range = std::minmax_element(places.begin(), places.end());
    if (gen_ == Gen::kV4 || *range.first / 2048 == *range.second / 2048) return;
  }
}

// v2 takes its bias from a tile, and only adds up results (spec/engine-isa.md 10.2).
void Generator::make(isa::Activate* t, const Shape& s) {
  t->function = static_cast<isa::ActFunction>(random_.below(26));
  t->reduce_op = gen_ == Gen::kV2 ? TensorOp::kAdd : random_.of(kFolds);
  t->reduce_cmd = static_cast<isa::ReduceCmd>(random_.below(4));
  t->partitions = s.partitions;
  t->parameter = t->function == isa::ActFunction::kPrelu ? bits_of(number(Values::kTame)) : 0;
  t->scale = scalar(s.partitions, false);
  if (random_.chance(40)) t->scale = {ScalarOperand::kImmediate, bits_of(1.0f), {}};
  t->bias = scalar(s.partitions, false);
  if (random_.chance(40)) t->bias = {};
  t->src = tensor(type(), memory(), s.partitions, s.elements);
  t->dst = destination(t->src, type(), s.partitions, s.elements);
}

void Generator::make(isa::Activate2* t, const Shape& s) {
  static constexpr std::pair<TensorOp, TensorOp> kOperators[] = {
      {TensorOp::kMultiply, TensorOp::kAdd},    {TensorOp::kMultiply, TensorOp::kSubtract},
      {TensorOp::kMultiply, TensorOp::kBypass}, {TensorOp::kAdd, TensorOp::kBypass},
      {TensorOp::kSubtract, TensorOp::kBypass}, {TensorOp::kBypass, TensorOp::kBypass}};
  static constexpr TensorOp kReductions[] = {TensorOp::kAdd, TensorOp::kMax, TensorOp::kMin,
                                             TensorOp::kAbsMax, TensorOp::kAbsMin};
  t->function = static_cast<isa::ActFunction>(random_.below(26));
  const std::pair<TensorOp, TensorOp>& operators = random_.of(kOperators);
  t->op0 = operators.first;
  t->op1 = operators.second;
  t->reverse = static_cast<uint8_t>(random_.below(4));
  t->reduce_op = random_.of(kReductions);
  t->reduce_cmd = static_cast<isa::ReduceCmd>(random_.below(4));
  t->partitions = s.partitions;
  t->parameter = t->function == isa::ActFunction::kPrelu ? bits_of(number(Values::kTame)) : 0;
  t->operand0 = scalar(s.partitions, false);
  t->operand1 = scalar(s.partitions, false);
  t->src = tensor(type(), memory(), s.partitions, s.elements);
  t->dst = destination(t->src, type(), s.partitions, s.elements);
}

void Generator::make(isa::TensorScalarCumulative* t, const Shape& s) {
  static constexpr TensorOp kReductions[] = {TensorOp::kAdd, TensorOp::kSubtract,
                                             TensorOp::kMultiply, TensorOp::kMax, TensorOp::kMin};
  t->op0 = arithmetic();
  t->op1 = random_.of(kReductions);
  t->reduce_cmd = static_cast<isa::ReduceCmd>(2 + random_.below(3));
  t->partitions = s.partitions;
  t->operand = scalar(s.partitions, false);
  t->initial = scalar(s.partitions, false);
  t->src = tensor(type(), memory(), s.partitions, s.elements);
  t->dst = destination(t->src, type(), s.partitions, s.elements);
}

void Generator::make(isa::Exponential* t, const Shape& s) {
  t->reduce_cmd = static_cast<isa::ReduceCmd>(random_.below(5));
  t->partitions = s.partitions;
  t->maximum = scalar(s.partitions, false);
  t->initial = scalar(s.partitions, false);
  t->src = tensor(type(), memory(), s.partitions, s.elements);
  t->dst = destination(t->src, type(), s.partitions, s.elements);
}

float Generator::number(Values values) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kEdges[] = {0.0f,
                              -0.0f,
                              1.0f,
                              -1.0f,
                              kInfinity,
                              -kInfinity,
                              std::numeric_limits<float>::max(),
                              std::numeric_limits<float>::lowest(),
                              std::numeric_limits<float>::min(),
                              std::numeric_limits<float>::denorm_min(),
                              240.0f,
                              248.0f,  // between the largest e4m3 and infinity
                              65504.0f,
                              65520.0f,
                              127.5f,
                              -128.5f,
                              255.5f,
                              16777216.0f,
                              2147483648.0f,
                              4294967296.0f};
  switch (values == Values::kAny ? static_cast<Values>(random_.below(3)) : values) {
    case Values::kTame:
      return static_cast<float>(random_.between(-40000, 40000)) / 10000.0f;
    case Values::kWhole:  // and halves: ties
      return static_cast<float>(random_.between(-600, 600)) / 2.0f;
    default:
      if (random_.chance(40)) return random_.of(kEdges);
      if (random_.chance(10)) return canonical_nan();
      return std::ldexp(static_cast<float>(random_.between(-16777215, 16777215)),
                        random_.between(-170, 105));
  }
}

uint64_t Generator::value(DataType type, Values values) {
  if (!isa::has_dtype(type) && type != DataType::kFloat8e4fn) {
    return mx_bits(type, values == Values::kAny);
  }
  if (values == Values::kAny || (values == Values::kWild && random_.chance(25))) {
    return truncated(type, random_.bits());
  }
  if (is_integer(type) && values == Values::kTame) {
    if (random_.chance(25)) return 0;  // of predicates
    return truncated(type, static_cast<uint64_t>(int64_t{random_.between(-20, 20)}));
  }
  return from_float(type, number(values));
}

// All lanes of an operand have values of one kind, mostly tame ones: results then are numbers.
void Generator::fill(const Instruction& in, Reference* reference) {
  for (const isa::TensorUse& use : isa::tensors_of(in)) {
    if (use.access != isa::Access::kRead) continue;
    static constexpr Values kKinds[] = {Values::kTame,  Values::kTame, Values::kWhole,
                                        Values::kWhole, Values::kWild, Values::kAny};
    // One NaN of the Tensor engine's operands is in many sums.
    const bool tame = engine_ == Engine::kPe && random_.chance(85);
    const Values kind = tame ? Values::kTame : random_.of(kKinds);
    size_t index = 0;
    for (const uint32_t byte : places_of(*use.tensor, registers_)) {
      for (unsigned lane = 0; lane < use.partitions; ++lane) {
        const std::optional<uint64_t> wanted = searched(in, use.tensor, lane, index);
        store_bits(use.tensor->dtype, wanted ? *wanted : value(use.tensor->dtype, kind),
                   reference->at(use.tensor->memory, use.tensor->start_partition + lane, byte));
      }
      ++index;
    }
  }
}

}  // namespace engine_reference
