// Weights and products of the Tensor engine.
#include <algorithm>

#include "tests/engines/generator.h"

namespace engine_reference {

using contract::Gen;
using isa::DataType;
using isa::Memory;

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

}  // namespace engine_reference
