#include "hw/core/lanes.h"

#include <algorithm>
#include <cstring>

#include "base/num/kernels.h"
#include "base/num/reduce.h"
#include "base/span.h"
#include "hw/num_type.h"

namespace hw::lanes {

namespace isa = contract::isa;
namespace num = base::num;
using isa::DataType;
using isa::TensorOp;

namespace {

static_assert(static_cast<uint8_t>(num::Binary::kMax) == static_cast<uint8_t>(TensorOp::kMax));

bool is_word_integer(DataType t) {
  return num::is_integer(num_type(t)) && isa::data_type_bytes(t) <= 4;
}

// Sign- or zero-extended.
int64_t load_word(const Input& in, size_t i) {
  const size_t bytes = isa::data_type_bytes(in.type);
  uint64_t raw = 0;
  std::memcpy(&raw, in.data + i * bytes, bytes);
  if (!num::is_signed(num_type(in.type))) return static_cast<int64_t>(raw);
  const size_t shift = 64 - 8 * bytes;
  return static_cast<int64_t>(raw << shift) >> shift;
}

// Modulo 2^64, of which the destination keeps its low bits.
uint64_t combine_words(TensorOp op, int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(a);
  const auto y = static_cast<uint64_t>(b);
  switch (op) {
    case TensorOp::kAdd:
      return x + y;
    case TensorOp::kSubtract:
      return x - y;
    case TensorOp::kMultiply:
      return x * y;
    case TensorOp::kMin:
      return static_cast<uint64_t>(std::min(a, b));
    case TensorOp::kMax:
      return static_cast<uint64_t>(std::max(a, b));
  }
  return 0;
}

}  // namespace

void convert(DataType from_type, const uint8_t* from, DataType to_type, uint8_t* to, size_t n) {
  const size_t from_bytes = isa::data_type_bytes(from_type);
  const size_t to_bytes = isa::data_type_bytes(to_type);
  if (from_type == to_type) {
    std::memcpy(to, from, n * to_bytes);
    return;
  }
  float values[1024];
  for (size_t at = 0; at < n;) {
    const size_t count = std::min(n - at, std::size(values));
    num::kernels().to_float(num_type(from_type), from + at * from_bytes, values, count);
    num::kernels().from_float(num_type(to_type), values, to + at * to_bytes, count);
    at += count;
  }
}

void combine(TensorOp op, const Input& a, const Input& b, const Output& out, size_t n,
             bool integer_unit) {
  if (integer_unit && is_word_integer(a.type) && is_word_integer(b.type) &&
      is_word_integer(out.type)) {
    const size_t bytes = isa::data_type_bytes(out.type);
    for (size_t i = 0; i < n; ++i) {
      const uint64_t value = combine_words(op, load_word(a, i), load_word(b, i));
      std::memcpy(out.data + i * bytes, &value, bytes);
    }
    return;
  }
  num::elementwise(static_cast<num::Binary>(op), num_type(a.type), a.data, num_type(b.type), b.data,
                   num_type(out.type), out.data, n);
}

}  // namespace hw::lanes
