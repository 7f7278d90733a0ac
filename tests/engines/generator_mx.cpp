// Instructions of numbers with scales of groups (spec/engine-isa.md 5.6).
#include "tests/engines/generator.h"

namespace engine_reference {

using isa::DataType;
using isa::Memory;
using isa::TensorOperand;

namespace {

constexpr DataType kPackedTypes[] = {DataType::kFloat8e5x4, DataType::kFloat8e4fnx4,
                                     DataType::kFloat4e2fnx4};

}  // namespace

// In the quadrant of the data, at one of its four places.
TensorOperand Generator::scales_of(const TensorOperand& data) {
  TensorOperand t = tensor(random_.chance(50) ? DataType::kFloat8e8 : DataType::kUint8,
                           Memory::kSbuf, 1, static_cast<uint32_t>(isa::element_count(data)));
  t.start_partition = static_cast<uint8_t>(data.start_partition / 32 * 32 + 4 * random_.below(4));
  return t;
}

void Generator::make(isa::QuantizeMx* t) {
  t->partitions = static_cast<uint8_t>(32 * (1 + random_.below(4)));
  t->scale_rows = static_cast<uint8_t>(t->partitions - 28);
  const uint32_t elements = 1 + random_.below(12);
  t->dst = tensor(random_.chance(50) ? DataType::kFloat8e5x4 : DataType::kFloat8e4fnx4,
                  Memory::kSbuf, t->partitions, elements);
  t->src = tensor(random_.chance(50) ? DataType::kBfloat16 : DataType::kFloat16, Memory::kSbuf,
                  t->partitions, 4 * elements);
  t->scale = scales_of(t->dst);
}

void Generator::make(isa::LdweightsMx* t) {
  t->rows = static_cast<uint8_t>(32 * (1 + random_.below(4)));
  t->scale_rows = static_cast<uint8_t>(t->rows - 28);
  const uint32_t columns = 2 * (1 + random_.below(random_.chance(10) ? 64 : 6));
  t->src = tensor(random_.of(kPackedTypes), Memory::kSbuf, t->rows, columns);
  t->scale = scales_of(t->src);
}

void Generator::make(isa::MatmulMx* t) {
  t->rows = weights_mx_.rows;
  t->scale_rows = weights_mx_.scale_rows;
  t->columns = static_cast<uint8_t>(isa::element_count(weights_mx_.src));
  t->accumulate = static_cast<isa::Accumulate>(random_.below(4));
  const uint32_t elements = 1 + random_.below(16);
  t->moving = tensor(random_.of(kPackedTypes), Memory::kSbuf, t->rows, elements);
  t->moving.start_partition = weights_mx_.src.start_partition;
  t->scale = scales_of(t->moving);
  t->dst = tensor(random_.chance(30) ? DataType::kBfloat16 : DataType::kFloat32, Memory::kPsum,
                  t->columns, elements);
  t->dst.start_partition = 0;
}

// Mostly numbers that are no NaN, and scales around 1.
uint64_t Generator::mx_bits(DataType type, bool any) {
  const uint64_t bits = random_.bits();
  if (type == DataType::kFloat8e8) {
    return any ? bits & 0xFF : 120 + random_.below(15);
  }
  const uint64_t tame = type == DataType::kFloat4e2fnx4 ? ~uint64_t{0} : 0xBFBF'BFBF;
  return truncated(type, any ? bits : bits & tame);
}

}  // namespace engine_reference
