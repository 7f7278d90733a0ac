#include "hw/core/lanes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/span.h"

namespace hw::lanes {

namespace isa = contract::isa;
using isa::DataType;
using isa::TensorOp;

namespace {

// A small float format with infinities and NaNs in its highest exponent (engine-isa.md 5.1).
struct Format {
  int exponent_bits;
  int mantissa_bits;
};
constexpr Format kFp16{5, 10};
constexpr Format kBf16{8, 7};
constexpr Format kE3{3, 4};
constexpr Format kE4{4, 3};  // legacy e4m3, largest finite value 240
constexpr Format kE5{5, 2};

float decode(uint32_t bits, Format f) {
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const uint32_t top = (1u << f.exponent_bits) - 1;
  const uint32_t mantissa = bits & ((1u << f.mantissa_bits) - 1);
  const uint32_t exponent = (bits >> f.mantissa_bits) & top;
  const bool negative = ((bits >> (f.mantissa_bits + f.exponent_bits)) & 1) != 0;
  float value;
  if (exponent == top) {
    value = mantissa != 0 ? std::numeric_limits<float>::quiet_NaN()
                          : std::numeric_limits<float>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(mantissa), 1 - bias - f.mantissa_bits);
  } else {
    value = std::ldexp(static_cast<float>(mantissa | 1u << f.mantissa_bits),
                       static_cast<int>(exponent) - bias - f.mantissa_bits);
  }
  return negative ? -value : value;
}

uint32_t encode(float value, Format f) {
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const uint32_t top = (1u << f.exponent_bits) - 1;
  const uint32_t sign = (std::signbit(value) ? 1u : 0u) << (f.exponent_bits + f.mantissa_bits);
  const uint32_t infinity = top << f.mantissa_bits;
  if (std::isnan(value)) return sign | infinity | 1u << (f.mantissa_bits - 1);
  if (std::isinf(value)) return sign | infinity;
  if (value == 0) return sign;
  const double magnitude = std::fabs(static_cast<double>(value));
  int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  // In units of the last place; exact, then rounded to nearest even.
  auto units =
      static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, f.mantissa_bits - exponent)));
  if (units >> (f.mantissa_bits + 1) != 0) {
    units >>= 1;
    ++exponent;
  }
  if (exponent > bias) return sign | infinity;
  if (units >> f.mantissa_bits == 0) return sign | units;  // subnormal
  return sign | static_cast<uint32_t>(exponent + bias) << f.mantissa_bits |
         (units & ((1u << f.mantissa_bits) - 1));
}

template <typename Int>
void load_int(const uint8_t* from, float* to, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    to[i] = static_cast<float>(base::load<Int>(from + i * sizeof(Int)));
  }
}

template <typename Int>
void store_int(const float* from, uint8_t* to, size_t n) {
  constexpr double kLow = static_cast<double>(std::numeric_limits<Int>::min());
  // The first double that is too large; a 64-bit maximum itself is not a double.
  const double high = std::ldexp(1.0, std::numeric_limits<Int>::digits);
  for (size_t i = 0; i < n; ++i) {
    const double rounded = std::nearbyint(static_cast<double>(from[i]));
    Int value = 0;
    if (rounded >= high) {
      value = std::numeric_limits<Int>::max();
    } else if (rounded <= kLow) {
      value = std::numeric_limits<Int>::min();
    } else if (!std::isnan(rounded)) {
      value = static_cast<Int>(rounded);
    }
    base::store(to + i * sizeof(Int), value);
  }
}

void load_small(const uint8_t* from, float* to, size_t n, Format f) {
  const size_t bytes = static_cast<size_t>(f.exponent_bits + f.mantissa_bits + 1) / 8;
  for (size_t i = 0; i < n; ++i) {
    to[i] = decode(bytes == 2 ? base::load<uint16_t>(from + 2 * i) : from[i], f);
  }
}

void store_small(const float* from, uint8_t* to, size_t n, Format f) {
  const size_t bytes = static_cast<size_t>(f.exponent_bits + f.mantissa_bits + 1) / 8;
  for (size_t i = 0; i < n; ++i) {
    const uint32_t bits = encode(from[i], f);
    if (bytes == 2) {
      base::store(to + 2 * i, static_cast<uint16_t>(bits));
    } else {
      to[i] = static_cast<uint8_t>(bits);
    }
  }
}

void load(DataType type, const uint8_t* from, float* to, size_t n) {
  switch (type) {
    case DataType::kFloat32:
    case DataType::kFloat32r:
      std::memcpy(to, from, 4 * n);
      return;
    case DataType::kBfloat16:
      for (size_t i = 0; i < n; ++i) {
        base::store(to + i, static_cast<uint32_t>(base::load<uint16_t>(from + 2 * i)) << 16);
      }
      return;
    case DataType::kFloat16:
      return load_small(from, to, n, kFp16);
    case DataType::kFloat8e3:
      return load_small(from, to, n, kE3);
    case DataType::kFloat8e4:
      return load_small(from, to, n, kE4);
    case DataType::kFloat8e5:
      return load_small(from, to, n, kE5);
    case DataType::kInt8:
      return load_int<int8_t>(from, to, n);
    case DataType::kUint8:
      return load_int<uint8_t>(from, to, n);
    case DataType::kInt16:
      return load_int<int16_t>(from, to, n);
    case DataType::kUint16:
      return load_int<uint16_t>(from, to, n);
    case DataType::kInt32:
      return load_int<int32_t>(from, to, n);
    case DataType::kUint32:
      return load_int<uint32_t>(from, to, n);
    case DataType::kInt64:
      return load_int<int64_t>(from, to, n);
    case DataType::kUint64:
      return load_int<uint64_t>(from, to, n);
  }
}

void store(DataType type, const float* from, uint8_t* to, size_t n) {
  switch (type) {
    case DataType::kFloat32:
    case DataType::kFloat32r:
      std::memcpy(to, from, 4 * n);
      return;
    case DataType::kBfloat16:
      return store_small(from, to, n, kBf16);
    case DataType::kFloat16:
      return store_small(from, to, n, kFp16);
    case DataType::kFloat8e3:
      return store_small(from, to, n, kE3);
    case DataType::kFloat8e4:
      return store_small(from, to, n, kE4);
    case DataType::kFloat8e5:
      return store_small(from, to, n, kE5);
    case DataType::kInt8:
      return store_int<int8_t>(from, to, n);
    case DataType::kUint8:
      return store_int<uint8_t>(from, to, n);
    case DataType::kInt16:
      return store_int<int16_t>(from, to, n);
    case DataType::kUint16:
      return store_int<uint16_t>(from, to, n);
    case DataType::kInt32:
      return store_int<int32_t>(from, to, n);
    case DataType::kUint32:
      return store_int<uint32_t>(from, to, n);
    case DataType::kInt64:
      return store_int<int64_t>(from, to, n);
    case DataType::kUint64:
      return store_int<uint64_t>(from, to, n);
  }
}

bool is_word_integer(DataType t) {
  return t == DataType::kInt8 || t == DataType::kUint8 || t == DataType::kInt16 ||
         t == DataType::kUint16 || t == DataType::kInt32 || t == DataType::kUint32;
}

int64_t load_word(const Input& in, size_t i) {
  switch (in.type) {
    case DataType::kInt8:
      return base::load<int8_t>(in.data + i);
    case DataType::kUint8:
      return in.data[i];
    case DataType::kInt16:
      return base::load<int16_t>(in.data + 2 * i);
    case DataType::kUint16:
      return base::load<uint16_t>(in.data + 2 * i);
    case DataType::kInt32:
      return base::load<int32_t>(in.data + 4 * i);
    default:
      return base::load<uint32_t>(in.data + 4 * i);
  }
}

template <typename T>
T apply(TensorOp op, T a, T b) {
  switch (op) {
    case TensorOp::kAdd:
      return a + b;
    case TensorOp::kSubtract:
      return a - b;
    case TensorOp::kMultiply:
      return a * b;
    case TensorOp::kMin:
      return b < a || b != b ? b : a;
    case TensorOp::kMax:
      return b > a || b != b ? b : a;
  }
  return a;
}

void combine_words(TensorOp op, const Input& a, const Input& b, const Output& out, size_t n) {
  const size_t bytes = isa::data_type_bytes(out.type);
  for (size_t i = 0; i < n; ++i) {
    // 33-bit values: products wrap in 64 bits without overflow when taken modulo 2^32.
    const int64_t x = load_word(a, i);
    const int64_t y = load_word(b, i);
    const uint64_t value = op == TensorOp::kMultiply
                               ? static_cast<uint64_t>(x) * static_cast<uint64_t>(y)
                               : static_cast<uint64_t>(apply(op, x, y));
    std::memcpy(out.data + i * bytes, &value, bytes);
  }
}

}  // namespace

void convert(DataType from_type, const uint8_t* from, DataType to_type, uint8_t* to, size_t n) {
  if (from_type == to_type) {
    std::memcpy(to, from, n * isa::data_type_bytes(to_type));
    return;
  }
  std::vector<float> values(n);
  load(from_type, from, values.data(), n);
  store(to_type, values.data(), to, n);
}

void combine(TensorOp op, const Input& a, const Input& b, const Output& out, size_t n,
             bool integer_unit) {
  if (integer_unit && is_word_integer(a.type) && is_word_integer(b.type) &&
      is_word_integer(out.type)) {
    return combine_words(op, a, b, out, n);
  }
  std::vector<float> x(n);
  std::vector<float> y(n);
  load(a.type, a.data, x.data(), n);
  load(b.type, b.data, y.data(), n);
  for (size_t i = 0; i < n; ++i) x[i] = apply(op, x[i], y[i]);
  store(out.type, x.data(), out.data, n);
}

}  // namespace hw::lanes
