// Instructions that choose or move elements.
#include <algorithm>

#include "tests/engines/generator.h"

namespace engine_reference {

using isa::DataType;
using isa::ScalarOperand;
using isa::TensorOp;

isa::TensorOperand Generator::apart(DataType type, uint8_t partitions, uint32_t elements) {
  const isa::Memory where = memory();
  for (;;) {
    const isa::TensorOperand t = tensor(type, where, partitions, elements);
    std::vector<uint32_t> places = places_of(t, registers_);
    std::sort(places.begin(), places.end());
    const uint32_t bytes = isa::data_type_bytes(type);
    const auto meet = [bytes](uint32_t a, uint32_t b) { return b - a < bytes; };
    if (std::adjacent_find(places.begin(), places.end(), meet) == places.end()) return t;
  }
}

void Generator::make(isa::CopyPredicated* t, const Shape& s) {
  t->reverse = random_.chance(30) ? 1 : 0;
  t->partitions = s.partitions;
  t->predicate = tensor(integer_type(), memory(), s.partitions, s.elements);
  t->dst = apart(type(), s.partitions, s.elements);
  if (random_.chance(30)) {
    t->src = scalar(s.partitions, false);
    if (t->src.kind != ScalarOperand::kTile) return;
  }
  t->src.kind = ScalarOperand::kTile;
  t->src.tile = tensor(t->dst.dtype, memory(), s.partitions, random_.chance(20) ? 1 : s.elements);
}

void Generator::make(isa::SelectReduce* t, const Shape& s) {
  static constexpr DataType kPredicates[] = {DataType::kInt8, DataType::kUint8, DataType::kInt16,
                                             DataType::kUint16};
  t->reduce_cmd = static_cast<isa::ReduceCmd>(random_.below(4));
  t->reverse = random_.chance(30) ? 1 : 0;
  t->partitions = s.partitions;
  t->predicate = tensor(random_.of(kPredicates), memory(), s.partitions, s.elements);
  t->on_true = tensor(type(), memory(), s.partitions, s.elements);
  t->on_false = scalar(s.partitions, false);
  t->dst = destination(t->on_true, type(), s.partitions, s.elements);
}

void Generator::make(isa::RangeSelect* t, const Shape& s) {
  static constexpr TensorOp kComparisons[] = {TensorOp::kEqual, TensorOp::kLess,
                                              TensorOp::kLessEqual, TensorOp::kGreaterEqual,
                                              TensorOp::kGreater};
  t->op0 = random_.of(kComparisons);
  t->op1 = random_.of(kComparisons);
  t->reduce_cmd = static_cast<isa::ReduceCmd>(random_.below(4));
  t->partitions = s.partitions;
  t->start = bits_of(static_cast<float>(random_.below(20)));
  t->fill = bits_of(number(Values::kAny));
  t->bound0 = scalar(s.partitions, false);
  t->bound1 = scalar(s.partitions, false);
  if (random_.chance(70)) {
    t->bound0 = {ScalarOperand::kImmediate, bits_of(static_cast<float>(random_.below(30))), {}};
    t->bound1 = {ScalarOperand::kImmediate, bits_of(static_cast<float>(random_.below(60))), {}};
  }
  t->src = tensor(float_type(), memory(), s.partitions, s.elements);
  t->dst = destination(t->src, type(), s.partitions, s.elements);
}

void Generator::make(isa::StreamShuffle* t) {
  t->partitions = static_cast<uint8_t>(32 * (1 + random_.below(4)));
  uint64_t* const words[] = {&t->mask0, &t->mask1, &t->mask2, &t->mask3};
  for (uint64_t* word : words) {
    for (int i = 0; i < 8; ++i) {
      const uint64_t lane = random_.chance(10) ? 255 : random_.below(32);
      *word |= lane << (8 * i);
    }
  }
  const uint32_t elements = 1 + random_.below(5);
  t->src = tensor(type(), memory(), t->partitions, elements);
  t->dst = destination(t->src, t->src.dtype, t->partitions, elements);
}

void Generator::make(isa::Transpose* t) {
  const DataType any = type();
  uint32_t columns = 1 + random_.below(32);
  t->rows = static_cast<uint8_t>(1 + random_.below(32));
  t->columns = static_cast<uint8_t>(columns);
  uint32_t rows = t->rows;
  if (random_.chance(10)) {
    t->rows = t->columns = static_cast<uint8_t>(32 * (1 + random_.below(4)));
    rows = columns = 32 * (1 + random_.below(2));
  }
  t->src = tensor(any, memory(), t->rows, columns);
  t->dst = apart(any, t->columns, rows);
}

}  // namespace engine_reference
