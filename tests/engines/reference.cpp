#include "tests/engines/reference.h"

#include <stdexcept>

namespace engine_reference {

using contract::Gen;
using isa::AffineOperand;
using isa::DataType;
using isa::Engine;
using isa::Memory;
using isa::Opcode;
using isa::ReduceCmd;
using isa::ScalarOperand;
using isa::TensorOp;
using isa::TensorOperand;

namespace {

// One pass over four dimensions, the first fastest.
template <typename Count, typename Body>
void walk(const Count& count, const Body& body) {
  for (uint32_t w = 0; w < count(3); ++w) {
    for (uint32_t z = 0; z < count(2); ++z) {
      for (uint32_t y = 0; y < count(1); ++y) {
        for (uint32_t x = 0; x < count(0); ++x) body(x, y, z, w);
      }
    }
  }
}

// A lane's values in stream order, in int32 arithmetic that wraps.
std::vector<int32_t> values_of(const AffineOperand& a, unsigned lane) {
  std::vector<int32_t> values;
  const auto step = [&a](int d) { return static_cast<uint32_t>(a.step[d]); };
  const uint32_t start =
      static_cast<uint32_t>(a.offset) + lane * static_cast<uint32_t>(a.multiplier);
  walk([&a](int d) { return a.count[d] == 0 ? 1u : a.count[d]; },
       [&](uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
         values.push_back(
             static_cast<int32_t>(start + x * step(0) + y * step(1) + z * step(2) + w * step(3)));
       });
  return values;
}

bool against_zero(TensorOp op, int32_t value) {
  switch (op) {
    case TensorOp::kEqual:
      return value == 0;
    case TensorOp::kNotEqual:
      return value != 0;
    case TensorOp::kLess:
      return value < 0;
    case TensorOp::kLessEqual:
      return value <= 0;
    case TensorOp::kGreaterEqual:
      return value >= 0;
    default:
      return value > 0;
  }
}

bool folds_truth(TensorOp op) {
  return op >= TensorOp::kLogicalAnd && op <= TensorOp::kLogicalXor;
}

Range apply(TensorOp op, const Range& a, const Range& b, bool swapped = false) {
  return swapped ? operate(op, b, a) : operate(op, a, b);
}

uint32_t apply_bits(TensorOp op, uint32_t a, uint32_t b, bool swapped) {
  return swapped ? operate_bits(op, b, a) : operate_bits(op, a, b);
}

Range negative(const Range& value) {
  return operate(TensorOp::kMultiply, value, Range::exactly(-1.0f));
}

}  // namespace

Reference::Reference(Gen gen) : gen_(gen), by_product_(isa::kPartitions * kPsumHalfwords) {
  for (const Memory m : {Memory::kSbuf, Memory::kPsum}) {
    memories_[static_cast<size_t>(m)].resize(static_cast<size_t>(isa::kPartitions) *
                                             partition_bytes(m));
  }
}

uint32_t Reference::sbuf_bytes(Gen gen) {
  return (gen == Gen::kV2 ? 192u : gen == Gen::kV3 ? 224u : 256u) * 1024;
}

std::vector<uint32_t> places_of(const TensorOperand& t, const Registers& registers) {
  int64_t start = t.byte_offset;
  if (t.offset_register != isa::kNoRegister) start += registers[t.offset_register];
  const int64_t bytes = isa::data_type_bytes(t.dtype);
  std::vector<uint32_t> places;
  walk([&t](int d) { return t.dims[d].count == 0 ? 1u : t.dims[d].count; },
       [&](int64_t x, int64_t y, int64_t z, int64_t w) {
         places.push_back(
             static_cast<uint32_t>(start + bytes * (x * t.dims[0].step + y * t.dims[1].step +
                                                    z * t.dims[2].step + w * t.dims[3].step)));
       });
  return places;
}

Reference::View Reference::view(const TensorOperand& tensor) const {
  return {tensor, places_of(tensor, *registers_)};
}

Reference::ScalarView Reference::view(const ScalarOperand& s) const {
  View tile{s.tile, {}};
  if (s.kind == ScalarOperand::kTile) tile.places = places_of(s.tile, *registers_);
  return {s, tile};
}

uint64_t Reference::element(const View& v, unsigned lane, size_t index) {
  return load_bits(v.tensor.dtype,
                   at(v.tensor.memory, v.tensor.start_partition + lane, v.places[index]));
}

Range Reference::number(const View& v, unsigned lane, size_t index) {
  return Range::exactly(to_float(v.tensor.dtype, element(v, lane, index)));
}

// Sign- or zero-extended.
uint32_t Reference::word(const View& v, unsigned lane, size_t index) {
  return static_cast<uint32_t>(to_integer(v.tensor.dtype, element(v, lane, index)));
}

Range Reference::number(const ScalarView& s, unsigned lane) {
  if (s.scalar.kind == ScalarOperand::kTile) return number(s.tile, lane, 0);
  return Range::exactly(float_of(word(s, lane)));
}

uint32_t Reference::word(const ScalarView& s, unsigned lane) {
  if (s.scalar.kind == ScalarOperand::kTile) return word(s.tile, lane, 0);
  return s.scalar.kind == ScalarOperand::kRegister ? (*registers_)[s.scalar.bits] : s.scalar.bits;
}

void Reference::put_bits(const View& dst, unsigned lane, size_t index, uint64_t bits) {
  const TensorOperand& t = dst.tensor;
  written_.push_back({t.memory, static_cast<uint8_t>(lane),
                      static_cast<uint8_t>(t.start_partition + lane), t.dtype,
                      static_cast<uint32_t>(index), dst.places[index], bits, Range{}, false});
}

void Reference::put(const View& dst, unsigned lane, size_t index, const Range& value) {
  put_bits(dst, lane, index, from_float(dst.tensor.dtype, value.nominal()));
  if (value.exact()) return;
  written_.back().range = value;
  written_.back().ranged = true;
}

// Equal types move bits, but for the Scalar engine of v2 (spec/engine-isa.md 5.2).
void Reference::copy(const View& dst, const View& src, unsigned lane, size_t index) {
  const bool through_float = engine_ == Engine::kAct && gen_ == Gen::kV2;
  if (src.tensor.dtype == dst.tensor.dtype && !through_float) {
    put_bits(dst, lane, index, element(src, lane, index));
  } else {
    put(dst, lane, index, number(src, lane, index));
  }
}

void Reference::fold(TensorOp op, ReduceCmd command, const Range& initial, unsigned lane,
                     const std::vector<Range>& values) {
  Range& accumulator = accumulators_[static_cast<size_t>(engine_)][lane];
  if (command == ReduceCmd::kReset || command == ReduceCmd::kResetReduce) {
    accumulator = Range::exactly(identity(op));
  }
  if (command == ReduceCmd::kLoadReduce) accumulator = initial;
  if (command == ReduceCmd::kIdle || command == ReduceCmd::kReset) return;
  for (const Range& value : values) accumulator = operate(op, accumulator, value);
}

void Reference::execute(Engine engine, const isa::Instruction& in, const Registers& registers) {
  engine_ = engine;
  registers_ = &registers;
  written_.clear();
  const isa::Operands& o = in.operands;
  switch (in.opcode) {
    case Opcode::kTensorTensor:
      run(o.tensor_tensor);
      break;
    case Opcode::kTensorCopy:
      run(o.tensor_copy);
      break;
    case Opcode::kTensorReduce:
      run(o.tensor_reduce);
      break;
    case Opcode::kTensorScalar:
      run(o.tensor_scalar);
      break;
    case Opcode::kMemset:
      run(o.memset);
      break;
    case Opcode::kIota:
      run(o.iota);
      break;
    case Opcode::kTensorScalarReduce:
      run(o.tensor_scalar_reduce);
      break;
    case Opcode::kScalarTensorTensor:
      run(o.scalar_tensor_tensor);
      break;
    case Opcode::kTensorTensorScan:
      run(o.tensor_tensor_scan);
      break;
    case Opcode::kReciprocal:
      run(o.reciprocal);
      break;
    case Opcode::kReadAccumulator:
      run(o.read_accumulator);
      break;
    case Opcode::kAffineSelect:
      run(o.affine_select);
      break;
    case Opcode::kLdweights:
      run(o.ldweights);
      break;
    case Opcode::kMatmul:
      run(o.matmul);
      break;
    case Opcode::kMax8:
      run(o.max8);
      break;
    case Opcode::kFindIndex8:
      run(o.find_index8);
      break;
    case Opcode::kMatchReplace8:
      run(o.match_replace8);
      break;
    case Opcode::kNGather:
      run(o.n_gather);
      break;
    case Opcode::kLocalGather:
      run(o.local_gather);
      break;
    case Opcode::kSequenceBounds:
      run(o.sequence_bounds);
      break;
    case Opcode::kTopk:
      run(o.topk);
      break;
    case Opcode::kNonzeroWithCount:
      run(o.nonzero_with_count);
      break;
    case Opcode::kPartitionReduce:
      run(o.partition_reduce);
      break;
    case Opcode::kBnStats:
      run(o.bn_stats);
      break;
    case Opcode::kBnAggregate:
      run(o.bn_aggregate);
      break;
    case Opcode::kLdweightsMx:
      run(o.ldweights_mx);
      break;
    case Opcode::kMatmulMx:
      run(o.matmul_mx);
      break;
    case Opcode::kQuantizeMx:
      run(o.quantize_mx);
      break;
    case Opcode::kActivate:
      run(o.activate);
      break;
    case Opcode::kActivate2:
      run(o.activate2);
      break;
    case Opcode::kTensorScalarCumulative:
      run(o.tensor_scalar_cumulative);
      break;
    case Opcode::kExponential:
      run(o.exponential);
      break;
    case Opcode::kCopyPredicated:
      run(o.copy_predicated);
      break;
    case Opcode::kSelectReduce:
      run(o.select_reduce);
      break;
    case Opcode::kRangeSelect:
      run(o.range_select);
      break;
    case Opcode::kStreamShuffle:
      run(o.stream_shuffle);
      break;
    case Opcode::kTranspose:
      run(o.transpose);
      break;
    default:
      throw std::logic_error("the reference does not know this instruction");
  }
  for (const Expected& e : written_) {
    store_bits(e.dtype, e.bits, at(e.memory, e.partition, e.byte));
  }
}

void Reference::run(const isa::TensorTensor& t) {
  const View dst = view(t.dst);
  const View src0 = view(t.src0);
  const View src1 = view(t.src1);
  const bool integers = engine_ == Engine::kPool && is_word(t.dst.dtype) && is_word(t.src0.dtype) &&
                        is_word(t.src1.dtype);
  for (unsigned lane = 0; lane < t.partitions; ++lane) {
    for (size_t i = 0; i < dst.size(); ++i) {
      uint64_t bits = 0;
      if (on_bits(t.op)) {
        bits = operate_bits(t.op, word(src0, lane, i), word(src1, lane, i));
        put_bits(dst, lane, i, truncated(t.dst.dtype, bits));
      } else if (integers &&
                 operate_integers(t.op, to_integer(t.src0.dtype, element(src0, lane, i)),
                                  to_integer(t.src1.dtype, element(src1, lane, i)), &bits)) {
        put_bits(dst, lane, i, truncated(t.dst.dtype, bits));
      } else {
        put(dst, lane, i, operate(t.op, number(src0, lane, i), number(src1, lane, i)));
      }
    }
  }
}

void Reference::run(const isa::TensorCopy& t) {
  const View dst = view(t.dst);
  const View src = view(t.src);
  const bool integers = engine_ == Engine::kPool && is_word(t.src.dtype) && is_word(t.dst.dtype);
  for (unsigned lane = 0; lane < t.partitions; ++lane) {
    for (size_t i = 0; i < dst.size(); ++i) {
      if (integers && t.src.dtype != t.dst.dtype) {
        const int64_t value = to_integer(t.src.dtype, element(src, lane, i));
        put_bits(dst, lane, i, from_integer(t.dst.dtype, value));
      } else {
        copy(dst, src, lane, i);
      }
    }
  }
}

void Reference::run(const isa::TensorReduce& t) {
  const View dst = view(t.dst);
  const View src = view(t.src);
  const size_t inner = src.size() / dst.size();
  for (unsigned lane = 0; lane < t.partitions; ++lane) {
    for (size_t i = 0; i < dst.size(); ++i) {
      const size_t first = i * inner;
      if (on_bits(t.op)) {
        uint32_t bits = word(src, lane, first);
        for (size_t j = 1; j < inner; ++j) {
          bits = operate_bits(t.op, bits, word(src, lane, first + j));
        }
        put_bits(dst, lane, i, truncated(t.dst.dtype, bits));
        continue;
      }
      Range sum = number(src, lane, first);
      if (folds_truth(t.op)) sum = operate(TensorOp::kNotEqual, sum, Range::exactly(0));
      for (size_t j = 1; j < inner; ++j) sum = operate(t.op, sum, number(src, lane, first + j));
      put(dst, lane, i, t.negate != 0 ? negative(sum) : sum);
    }
  }
}

void Reference::run(const isa::TensorScalar& t) {
  const View dst = view(t.dst);
  const View src = view(t.src);
  const ScalarView scalar0 = view(t.operand0);
  const ScalarView scalar1 = view(t.operand1);
  const bool swap0 = (t.reverse & 1) != 0;
  const bool swap1 = (t.reverse & 2) != 0;
  for (unsigned lane = 0; lane < t.partitions; ++lane) {
    for (size_t i = 0; i < dst.size(); ++i) {
      if (on_bits(t.op0) || on_bits(t.op1)) {
        const uint32_t bits = apply_bits(t.op0, word(src, lane, i), word(scalar0, lane), swap0);
        put_bits(dst, lane, i,
                 truncated(t.dst.dtype, apply_bits(t.op1, bits, word(scalar1, lane), swap1)));
      } else {
        const Range value = apply(t.op0, number(src, lane, i), number(scalar0, lane), swap0);
        put(dst, lane, i, apply(t.op1, value, number(scalar1, lane), swap1));
      }
    }
  }
}

void Reference::run(const isa::Memset& t) {
  const View dst = view(t.dst);
  for (unsigned lane = 0; lane < t.partitions; ++lane) {
    for (size_t i = 0; i < dst.size(); ++i) {
      put_bits(dst, lane, i, truncated(t.dst.dtype, t.value));
    }
  }
}

void Reference::run(const isa::Iota& t) {
  const View dst = view(t.dst);
  for (unsigned lane = 0; lane < t.partitions; ++lane) {
    const std::vector<int32_t> values = values_of(t.pattern, lane);
    for (size_t i = 0; i < dst.size(); ++i) {
      put_bits(dst, lane, i, from_integer(t.dst.dtype, values[i]));
    }
  }
}

void Reference::run(const isa::TensorScalarReduce& t) {
  const View dst = view(t.dst);
  const View src = view(t.src);
  const ScalarView scalar = view(t.operand);
  const ScalarView initial = view(t.initial);
  for (unsigned lane = 0; lane < t.partitions; ++lane) {
    std::vector<Range> values;
    for (size_t i = 0; i < dst.size(); ++i) {
      values.push_back(operate(t.op, number(src, lane, i), number(scalar, lane)));
      put(dst, lane, i, values.back());
    }
    fold(t.reduce_op, t.reduce_cmd, number(initial, lane), lane, values);
  }
}

void Reference::run(const isa::ScalarTensorTensor& t) {
  const View dst = view(t.dst);
  const View src0 = view(t.src0);
  const View src1 = view(t.src1);
  const ScalarView scalar = view(t.operand);
  for (unsigned lane = 0; lane < t.partitions; ++lane) {
    for (size_t i = 0; i < dst.size(); ++i) {
      const Range value =
          apply(t.op0, number(src0, lane, i), number(scalar, lane), (t.reverse & 1) != 0);
      put(dst, lane, i, apply(t.op1, value, number(src1, lane, i), (t.reverse & 2) != 0));
    }
  }
}

void Reference::run(const isa::TensorTensorScan& t) {
  const View dst = view(t.dst);
  const View src0 = view(t.src0);
  const View src1 = view(t.src1);
  const ScalarView initial = view(t.initial);
  for (unsigned lane = 0; lane < t.partitions; ++lane) {
    Range r = number(initial, lane);
    for (size_t i = 0; i < dst.size(); ++i) {
      r = apply(t.op0, number(src0, lane, i), r, (t.reverse & 1) != 0);
      r = apply(t.op1, r, number(src1, lane, i), (t.reverse & 2) != 0);
      put(dst, lane, i, r);
    }
  }
}

void Reference::run(const isa::Reciprocal& t) {
  const View dst = view(t.dst);
  const View src = view(t.src);
  for (unsigned lane = 0; lane < t.partitions; ++lane) {
    for (size_t i = 0; i < dst.size(); ++i) {
      put(dst, lane, i, operate(TensorOp::kReciprocal, number(src, lane, i), Range{}));
    }
  }
}

void Reference::run(const isa::ReadAccumulator& t) {
  const View dst = view(t.dst);
  for (unsigned lane = 0; lane < t.partitions; ++lane) {
    const Range& value = accumulators_[static_cast<size_t>(engine_)][lane];
    put(dst, lane, 0, t.negate != 0 ? negative(value) : value);
  }
}

void Reference::run(const isa::AffineSelect& t) {
  const View dst = view(t.dst);
  const View src = view(t.src);
  for (unsigned lane = 0; lane < t.partitions; ++lane) {
    const std::vector<int32_t> values = values_of(t.pattern, lane);
    for (size_t i = 0; i < dst.size(); ++i) {
      if (against_zero(t.op, values[i])) {
        copy(dst, src, lane, i);
      } else {
        put(dst, lane, i, Range::exactly(float_of(t.fill)));
      }
    }
  }
}

void Reference::run(const isa::Activate& t) {
  const View dst = view(t.dst);
  const View src = view(t.src);
  const ScalarView scale = view(t.scale);
  const ScalarView bias = view(t.bias);
  const bool biased = t.bias.kind != ScalarOperand::kImmediate || t.bias.bits != 0;
  for (unsigned lane = 0; lane < t.partitions; ++lane) {
    std::vector<Range> values;
    for (size_t i = 0; i < dst.size(); ++i) {
      Range x = operate(TensorOp::kMultiply, number(src, lane, i), number(scale, lane));
      if (biased) x = operate(TensorOp::kAdd, x, number(bias, lane));
      values.push_back(activate(t.function, x, float_of(t.parameter)));
      put(dst, lane, i, values.back());
    }
    fold(t.reduce_op, t.reduce_cmd, Range::exactly(0), lane, values);
  }
}

void Reference::run(const isa::Activate2& t) {
  const View dst = view(t.dst);
  const View src = view(t.src);
  const ScalarView scalar0 = view(t.operand0);
  const ScalarView scalar1 = view(t.operand1);
  for (unsigned lane = 0; lane < t.partitions; ++lane) {
    std::vector<Range> values;
    for (size_t i = 0; i < dst.size(); ++i) {
      Range x = apply(t.op0, number(src, lane, i), number(scalar0, lane), (t.reverse & 1) != 0);
      x = apply(t.op1, x, number(scalar1, lane), (t.reverse & 2) != 0);
      values.push_back(activate(t.function, x, float_of(t.parameter)));
      put(dst, lane, i, values.back());
    }
    fold(t.reduce_op, t.reduce_cmd, Range::exactly(0), lane, values);
  }
}

void Reference::run(const isa::TensorScalarCumulative& t) {
  const View dst = view(t.dst);
  const View src = view(t.src);
  const ScalarView scalar = view(t.operand);
  const ScalarView initial = view(t.initial);
  for (unsigned lane = 0; lane < t.partitions; ++lane) {
    Range& sum = accumulators_[static_cast<size_t>(engine_)][lane];
    if (t.reduce_cmd == ReduceCmd::kResetReduce) sum = Range::exactly(identity(t.op1));
    if (t.reduce_cmd == ReduceCmd::kLoadReduce) sum = number(initial, lane);
    for (size_t i = 0; i < dst.size(); ++i) {
      sum = operate(t.op1, operate(t.op0, number(src, lane, i), number(scalar, lane)), sum);
      put(dst, lane, i, sum);
    }
  }
}

void Reference::run(const isa::Exponential& t) {
  const View dst = view(t.dst);
  const View src = view(t.src);
  const ScalarView maximum = view(t.maximum);
  const ScalarView initial = view(t.initial);
  for (unsigned lane = 0; lane < t.partitions; ++lane) {
    std::vector<Range> values;
    for (size_t i = 0; i < dst.size(); ++i) {
      const Range x = operate(TensorOp::kSubtract, number(src, lane, i), number(maximum, lane));
      values.push_back(activate(isa::ActFunction::kExp, x, 0));
      put(dst, lane, i, values.back());
    }
    fold(TensorOp::kAdd, t.reduce_cmd, number(initial, lane), lane, values);
  }
}

}  // namespace engine_reference
