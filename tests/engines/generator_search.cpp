// Searches, gathers, statistics, and folds over partitions: inputs are small whole numbers, so that
// values are found, sums are exact, and indices are inside.
#include <algorithm>
#include <utility>

#include "tests/engines/generator.h"

namespace engine_reference {

using isa::DataType;
using isa::Memory;
using isa::Opcode;
using isa::ScalarOperand;
using isa::TensorOp;

namespace {

constexpr DataType kIndexTypes[] = {DataType::kUint16, DataType::kUint32};
constexpr DataType kCountTypes[] = {DataType::kFloat32, DataType::kInt32};

}  // namespace

void Generator::make(isa::Max8* t, const Shape& s) {
  t->partitions = s.partitions;
  t->src = tensor(float_type(), memory(), s.partitions, 8 + s.elements);
  t->dst = apart(float_type(), s.partitions, 8);
}

void Generator::make(isa::FindIndex8* t, const Shape& s) {
  t->partitions = s.partitions;
  t->src = tensor(float_type(), memory(), s.partitions, s.elements);
  t->values = tensor(DataType::kFloat32, memory(), s.partitions, 8);
  t->dst = apart(random_.of(kIndexTypes), s.partitions, 8);
}

void Generator::make(isa::MatchReplace8* t, const Shape& s) {
  t->partitions = s.partitions;
  t->src = tensor(float_type(), memory(), s.partitions, s.elements);
  t->values = tensor(DataType::kFloat32, memory(), s.partitions, 8);
  t->fill = bits_of(number(Values::kTame));
  t->dst = apart(float_type(), s.partitions, s.elements);
  if (random_.chance(50)) return;
  t->index.kind = ScalarOperand::kTile;
  t->index.tile = apart(random_.of(kIndexTypes), s.partitions, 8);
}

void Generator::make(isa::NGather* t, const Shape& s) {
  t->partitions = s.partitions;
  t->src = tensor(type(), Memory::kSbuf, s.partitions, 1 + random_.below(20));
  t->index = tensor(DataType::kUint32, Memory::kSbuf, s.partitions, s.elements);
  t->dst = tensor(t->src.dtype, Memory::kSbuf, s.partitions, s.elements);
}

void Generator::make(isa::LocalGather* t) {
  t->partitions = static_cast<uint8_t>(16 * (1 + random_.below(8)));
  t->width = static_cast<uint8_t>(1 << random_.below(3));
  t->count = static_cast<uint16_t>(1 + random_.below(20));
  t->src = tensor(type(), Memory::kSbuf, t->partitions, t->width + random_.below(20));
  t->index = tensor(DataType::kUint16, Memory::kSbuf, t->partitions,
                    (t->count + 15u) / 16 + random_.below(2));
  t->dst = tensor(t->src.dtype, Memory::kSbuf, t->partitions, uint32_t{t->count} * t->width);
}

void Generator::make(isa::SequenceBounds* t) {
  t->partitions = 1;
  const uint32_t n = 1 + random_.below(40);
  t->src = tensor(random_.of(kCountTypes), Memory::kSbuf, 1, n);
  t->dst = apart(random_.of(kCountTypes), 1, 2 * n);
}

void Generator::make(isa::Topk* t) {
  t->partitions = static_cast<uint8_t>(16 * (1 + random_.below(4)));
  t->n = static_cast<uint16_t>(8 + random_.below(200));
  const uint32_t k = 1 + random_.below(t->n < 40 ? t->n : 40);
  t->src = apart(DataType::kBfloat16, t->partitions, (t->n + 15u) / 16);
  t->dst = apart(DataType::kBfloat16, t->partitions, k);
  const auto reach = [&](const isa::TensorOperand& operand) {
    const std::vector<uint32_t> places = places_of(operand, registers_);
    const auto ends = std::minmax_element(places.begin(), places.end());
    return std::pair(*ends.first, *ends.second + isa::data_type_bytes(operand.dtype));
  };
  const auto [begin, end] = reach(t->dst);
  for (;;) {  // which of the two is written last is not specified
    t->index = apart(DataType::kUint32, t->partitions, k);
    const auto [first, last] = reach(t->index);
    if (first >= end || last <= begin) return;
  }
}

void Generator::make(isa::NonzeroWithCount* t) {
  t->partitions = static_cast<uint8_t>(16 * (1 + random_.below(8)));
  const uint32_t n = 1 + random_.below(30);
  t->offset = random_.below(100);
  t->padding = static_cast<uint32_t>(random_.bits());
  t->src = tensor(random_.of(kCountTypes), Memory::kSbuf, t->partitions, n);
  t->dst = apart(DataType::kInt32, t->partitions, n + 1);
}

void Generator::make(isa::PartitionReduce* t, const Shape& s) {
  static constexpr TensorOp kOperators[] = {TensorOp::kAdd, TensorOp::kMax, TensorOp::kAnd,
                                            TensorOp::kOr};
  t->op = random_.of(kOperators);
  const bool bits = t->op == TensorOp::kAnd || t->op == TensorOp::kOr;
  t->average = t->op == TensorOp::kAdd && random_.chance(40) ? 1 : 0;
  t->partitions = s.partitions;
  t->to = 1;
  t->src = tensor(bits ? integer_type() : type(), Memory::kSbuf, s.partitions, s.elements);
  t->dst = tensor(bits ? integer_type() : type(), Memory::kSbuf, 1, s.elements);
}

void Generator::make(isa::BnStats* t, const Shape& s) {
  t->partitions = s.partitions;
  t->src = tensor(float_type(), memory(), s.partitions, s.elements);
  t->dst = apart(DataType::kFloat32, s.partitions, 6);
}

void Generator::make(isa::BnAggregate* t, const Shape& s) {
  t->partitions = s.partitions;
  t->src = apart(DataType::kFloat32, s.partitions, 3 * (1 + s.elements / 3));
  t->dst = apart(DataType::kFloat32, s.partitions, 2);
}

// Of element `index` in this lane of an input; nothing: any value will do.
std::optional<uint64_t> Generator::searched(const isa::Instruction& in,
                                            const isa::TensorOperand* tensor, unsigned lane,
                                            size_t index) {
  const isa::Operands& o = in.operands;
  const auto below_limit = [&](uint64_t limit) {
    return uint64_t{random_.below(static_cast<uint32_t>(limit))};
  };
  switch (in.opcode) {
    case Opcode::kMatmul:  // for transposes a number in each column
      if (o.matmul.transpose == 0 || tensor != &o.matmul.moving) return std::nullopt;
      return from_integer(tensor->dtype, lane == index * 5 % o.matmul.rows ? 1 : 0);
    case Opcode::kNGather:
      if (tensor != &o.n_gather.index) return std::nullopt;
      return below_limit(isa::element_count(o.n_gather.src));
    case Opcode::kLocalGather:
      if (tensor != &o.local_gather.index) return std::nullopt;
      return below_limit(isa::element_count(o.local_gather.src) - o.local_gather.width + 1);
    case Opcode::kSequenceBounds: {
      const size_t run = index / 3;
      return from_integer(tensor->dtype, run % 3 == 0 ? 0 : static_cast<int64_t>(run));
    }
    case Opcode::kTopk: {  // all different
      const size_t number = 16 * index + lane % 16;
      return from_integer(tensor->dtype, static_cast<int64_t>(number * 37 % 251) - 125);
    }
    case Opcode::kBnAggregate:  // counts, means, sums of squares
      return from_integer(tensor->dtype,
                          index % 3 == 1 ? random_.between(-8, 8) : random_.between(1, 8));
    case Opcode::kMax8:
    case Opcode::kFindIndex8:
    case Opcode::kMatchReplace8:
    case Opcode::kNonzeroWithCount:
    case Opcode::kPartitionReduce:
    case Opcode::kBnStats:
      return from_integer(tensor->dtype, random_.between(-6, 6));
    default:
      return std::nullopt;
  }
}

}  // namespace engine_reference
