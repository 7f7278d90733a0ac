#include "tests/engines/generator.h"

#include <algorithm>
#include <iterator>

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

// spec/engine-isa.md 10.1, 10.2.
bool Generator::makes(Opcode opcode, Engine engine, Gen gen) {
  const isa::OpInfo* op = isa::find_op(opcode);
  if (op == nullptr || !knows(opcode) || !op->runs_on(engine)) return false;
  const bool later = opcode == Opcode::kActivate2 || opcode == Opcode::kExponential ||
                     opcode == Opcode::kQuantizeMx || opcode == Opcode::kLdweightsMx ||
                     opcode == Opcode::kMatmulMx;
  if (later && gen != Gen::kV4) return false;
  const bool since_v3 = opcode == Opcode::kRangeSelect || opcode == Opcode::kNonzeroWithCount;
  if (since_v3 && gen == Gen::kV2) return false;
  return engine != Engine::kAct || gen != Gen::kV2 ||
         (opcode != Opcode::kTensorCopy && opcode != Opcode::kTensorScalar);
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
TensorOp Generator::foldable() {
  return random_.of(kFolds);
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
  t->op = bits ? random_.of(kBitFolds) : foldable();
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

}  // namespace engine_reference
