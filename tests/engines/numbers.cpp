#include "tests/engines/numbers.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace engine_reference {

using isa::DataType;
using isa::TensorOp;

namespace {

struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool finite = false;  // no infinity, and the last code alone is a NaN
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint64_t special() const { return (uint64_t{1} << exponent_bits) - 1; }
};

Format format_of(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return {5, 10};
    case DataType::kBfloat16:
      return {8, 7};
    case DataType::kFloat8e3:
      return {3, 4};
    case DataType::kFloat8e4:
      return {4, 3};
    case DataType::kFloat8e5:
      return {5, 2};
    case DataType::kFloat8e4fn:
      return {4, 3, true};
    default:
      return {8, 23};
  }
}

double decode(const Format& f, uint64_t bits) {
  const uint64_t exponent = (bits >> f.mantissa_bits) & f.special();
  const uint64_t mantissa = bits & ((uint64_t{1} << f.mantissa_bits) - 1);
  const bool negative = ((bits >> (f.mantissa_bits + f.exponent_bits)) & 1) != 0;
  double value = 0;
  const bool last = exponent == f.special() && mantissa + 1 == uint64_t{1} << f.mantissa_bits;
  if (f.finite && last) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == f.special() && !f.finite) {
    value = mantissa == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<double>(mantissa), 1 - f.bias() - f.mantissa_bits);
  } else {
    value = std::ldexp(static_cast<double>(mantissa + (uint64_t{1} << f.mantissa_bits)),
                       static_cast<int>(exponent) - f.bias() - f.mantissa_bits);
  }
  return negative ? -value : value;
}

uint64_t encode(const Format& f, double value) {
  const uint64_t last = (uint64_t{1} << (f.mantissa_bits + f.exponent_bits)) - 1;
  // What overflows.
  const uint64_t infinity = f.finite ? last - 1 : f.special() << f.mantissa_bits;
  if (std::isnan(value)) {
    return f.finite ? last : infinity | (uint64_t{1} << (f.mantissa_bits - 1));
  }
  const uint64_t sign =
      std::signbit(value) ? uint64_t{1} << (f.mantissa_bits + f.exponent_bits) : uint64_t{0};
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  if (std::isinf(magnitude)) return sign | infinity;
  int exponent = std::ilogb(magnitude);
  if (exponent < 1 - f.bias()) exponent = 1 - f.bias();
  const auto digits = static_cast<uint64_t>(
      std::nearbyint(std::ldexp(magnitude, f.mantissa_bits - exponent)));  // nearest even
  const uint64_t hidden = uint64_t{1} << f.mantissa_bits;
  if (digits < hidden) return sign | digits;  // subnormal
  // A carry out of the mantissa raises the exponent.
  const uint64_t bits =
      (static_cast<uint64_t>(exponent + f.bias()) << f.mantissa_bits) + (digits - hidden);
  return sign | (bits < infinity ? bits : infinity);
}

unsigned bits_in(DataType type) {
  return 8 * isa::data_type_bytes(type);
}

double smallest(DataType type) {
  return is_signed(type) ? -std::ldexp(1.0, static_cast<int>(bits_in(type)) - 1) : 0.0;
}

// Orders float32 by value, -0 before +0; no NaN.
int64_t rank(float value) {
  const uint32_t bits = bits_of(value);
  const int64_t magnitude = bits & 0x7FFF'FFFF;
  return (bits >> 31) != 0 ? -magnitude - 1 : magnitude;
}

float of_rank(int64_t rank) {
  return float_of(rank < 0 ? static_cast<uint32_t>(-rank - 1) | 0x8000'0000
                           : static_cast<uint32_t>(rank));
}

float truth(bool value) {
  return value ? 1.0f : 0.0f;
}

bool yields_truth(TensorOp op) {
  return (op >= TensorOp::kLogicalAnd && op <= TensorOp::kGreater);
}

float rounded(long double value) {
  return static_cast<float>(value);
}

Range least_or_most(bool most, float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return Range::exactly(canonical_nan());
  if (a == 0 && b == 0 && std::signbit(a) != std::signbit(b)) return Range::from_to(-0.0f, 0.0f);
  return Range::exactly((a < b) != most ? a : b);
}

Range arithmetic(TensorOp op, float a, float b) {
  const double x = a;
  const double y = b;
  switch (op) {
    case TensorOp::kAdd:
      return Range::exactly(static_cast<float>(x + y));
    case TensorOp::kSubtract:
      return Range::exactly(static_cast<float>(x - y));
    case TensorOp::kMultiply:
      return Range::exactly(static_cast<float>(x * y));
    case TensorOp::kMin:
      return least_or_most(false, a, b);
    case TensorOp::kMax:
      return least_or_most(true, a, b);
    case TensorOp::kPower: {
      // Not in long double: the C library's pow(-inf, -2^63) is infinite there.
      const auto p = static_cast<float>(std::pow(x, y));
      return std::isinf(p) || a == 1 || b == 0 ? Range::exactly(p) : Range::around(p);
    }
    case TensorOp::kAbsMax:
    case TensorOp::kAbsMin: {
      if (std::isnan(a) || std::isnan(b)) return Range::exactly(canonical_nan());
      const bool first =
          op == TensorOp::kAbsMax ? std::fabs(a) > std::fabs(b) : std::fabs(a) < std::fabs(b);
      return Range::exactly(first ? a : b);
    }
    case TensorOp::kAbs:
      return Range::exactly(std::fabs(a));
    case TensorOp::kSquare:
      return Range::exactly(static_cast<float>(x * x));
    case TensorOp::kRelu:
      if (a == 0) return Range::from_to(a, 0.0f);
      return Range::exactly(a < 0 ? 0.0f : a);
    case TensorOp::kRsqrt:
      return Range::exactly(rounded(1.0L / std::sqrt(static_cast<long double>(a))));
    case TensorOp::kReciprocal:
      return Range::exactly(static_cast<float>(1.0 / x));
    default:
      return Range::exactly(a);  // BYPASS
  }
}

bool compare(TensorOp op, float a, float b) {
  switch (op) {
    case TensorOp::kLogicalAnd:
      return a != 0 && b != 0;
    case TensorOp::kLogicalOr:
      return a != 0 || b != 0;
    case TensorOp::kLogicalXor:
      return (a != 0) != (b != 0);
    case TensorOp::kEqual:
      return a == b;
    case TensorOp::kNotEqual:
      return a != b;
    case TensorOp::kLess:
      return a < b;
    case TensorOp::kLessEqual:
      return a <= b;
    case TensorOp::kGreaterEqual:
      return a >= b;
    default:
      return a > b;
  }
}

Range operated(TensorOp op, float a, float b) {
  return yields_truth(op) ? Range::exactly(truth(compare(op, a, b))) : arithmetic(op, a, b);
}

float least_magnitude(const Range& r) {
  return r.low < 0 && r.high > 0 ? 0.0f : std::min(std::fabs(r.low), std::fabs(r.high));
}
float most_magnitude(const Range& r) {
  return std::max(std::fabs(r.low), std::fabs(r.high));
}

// Of two ranges: one wins as a whole, or either may.
Range abs_select(TensorOp op, const Range& a, const Range& b) {
  Range result{0, 0, false, a.nan || b.nan};
  if (!a.number || !b.number) return result;
  const bool a_larger = least_magnitude(a) > most_magnitude(b);
  const bool b_larger = least_magnitude(b) > most_magnitude(a);
  const bool most = op == TensorOp::kAbsMax;
  if (most ? !b_larger : !a_larger) result.include(a);
  if (most ? !a_larger : !b_larger) result.include(b);
  result.nan = a.nan || b.nan;
  return result;
}

}  // namespace

uint64_t load_bits(DataType type, const uint8_t* from) {
  uint64_t bits = 0;
  std::memcpy(&bits, from, isa::data_type_bytes(type));
  return bits;
}

void store_bits(DataType type, uint64_t bits, uint8_t* to) {
  std::memcpy(to, &bits, isa::data_type_bytes(type));
}

bool is_integer(DataType type) {
  switch (type) {
    case DataType::kUint8:
    case DataType::kUint16:
    case DataType::kUint32:
    case DataType::kUint64:
      return true;
    default:
      return is_signed(type);
  }
}

bool is_signed(DataType type) {
  return type == DataType::kInt8 || type == DataType::kInt16 || type == DataType::kInt32 ||
         type == DataType::kInt64;
}

bool is_word(DataType type) {
  return is_integer(type) && bits_in(type) <= 32;
}

float to_float(DataType type, uint64_t bits) {
  if (type == DataType::kUint64) return static_cast<float>(static_cast<long double>(bits));
  if (is_integer(type)) return static_cast<float>(to_integer(type, bits));
  return static_cast<float>(decode(format_of(type), bits));
}

uint64_t from_float(DataType type, float value) {
  if (!is_integer(type)) return encode(format_of(type), value);
  if (std::isnan(value)) return 0;
  const double whole = std::nearbyint(static_cast<double>(value));  // nearest even
  const double past = std::ldexp(1.0, static_cast<int>(bits_in(type)) - (is_signed(type) ? 1 : 0));
  const uint64_t most =
      bits_in(type) == 64 && !is_signed(type) ? ~uint64_t{0} : static_cast<uint64_t>(past) - 1;
  if (whole >= past) return most;
  if (whole <= smallest(type)) {
    return is_signed(type) ? truncated(type, uint64_t{1} << (bits_in(type) - 1)) : 0;
  }
  const uint64_t magnitude = static_cast<uint64_t>(std::fabs(whole));
  return truncated(type, whole < 0 ? uint64_t{0} - magnitude : magnitude);
}

int64_t to_integer(DataType type, uint64_t bits) {
  if (!is_signed(type) || bits_in(type) == 64) return static_cast<int64_t>(bits);
  const uint64_t sign = uint64_t{1} << (bits_in(type) - 1);
  return static_cast<int64_t>(bits ^ sign) - static_cast<int64_t>(sign);
}

uint64_t from_integer(DataType type, int64_t value) {
  if (!is_integer(type)) return from_float(type, static_cast<float>(value));
  if (!is_signed(type) && value < 0) return 0;
  if (bits_in(type) == 64) return static_cast<uint64_t>(value);
  const int64_t past = int64_t{1} << (bits_in(type) - (is_signed(type) ? 1 : 0));
  if (value >= past) return truncated(type, static_cast<uint64_t>(past - 1));
  if (is_signed(type) && value < -past) return truncated(type, static_cast<uint64_t>(-past));
  return truncated(type, static_cast<uint64_t>(value));
}

double mx_number(DataType type, uint64_t bits, unsigned which) {
  switch (type) {
    case DataType::kFloat8e5x4:
      return decode(format_of(DataType::kFloat8e5), bits >> (8 * which) & 0xFF);
    case DataType::kFloat8e4fnx4:
      return decode(format_of(DataType::kFloat8e4fn), bits >> (8 * which) & 0xFF);
    default: {
      const uint64_t code = bits >> (4 * which) & 0xF;
      const double mantissa = (code & 6) == 0 ? static_cast<double>(code & 1) / 2
                                              : 1 + static_cast<double>(code & 1) / 2;
      const double value =
          std::ldexp(mantissa, (code & 6) < 4 ? 0 : static_cast<int>(code >> 1 & 3) - 1);
      return (code & 8) != 0 ? -value : value;
    }
  }
}

double mx_scale(uint64_t byte) {
  return byte == 255 ? std::numeric_limits<double>::quiet_NaN()
                     : std::ldexp(1.0, static_cast<int>(byte) - 127);
}

uint64_t truncated(DataType type, uint64_t word) {
  return bits_in(type) == 64 ? word : word & ((uint64_t{1} << bits_in(type)) - 1);
}

float rounded_to_10_bits(float value) {
  const Format tf32{8, 10};
  return static_cast<float>(decode(tf32, encode(tf32, value)));
}

float float_of(uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

uint32_t bits_of(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

float canonical_nan() {
  return float_of(0x7FC0'0000);
}

float above(float value) {
  return value == std::numeric_limits<float>::infinity() ? value : of_rank(rank(value) + 1);
}

float below(float value) {
  return value == -std::numeric_limits<float>::infinity() ? value : of_rank(rank(value) - 1);
}

Range Range::exactly(float value) {
  if (std::isnan(value)) return {0, 0, false, true};
  return {value, value, true, false};
}

// The two zeros are no distance apart.
Range Range::around(float value) {
  if (std::isnan(value)) return exactly(value);
  if (value == 0) return {below(-0.0f), above(0.0f), true, false};
  return {below(value), above(value), true, false};
}

bool Range::exact() const {
  return nan != number && (nan || bits_of(low) == bits_of(high));
}

void Range::include(float value) {
  include(exactly(value));
}

void Range::include(const Range& other) {
  nan = nan || other.nan;
  if (!other.number) return;
  if (!number || rank(other.low) < rank(low)) low = other.low;
  if (!number || rank(other.high) > rank(high)) high = other.high;
  number = true;
}

bool admits(DataType type, const Range& range, uint64_t bits) {
  if (range.nan && bits == from_float(type, canonical_nan())) return true;
  if (!range.number) return false;
  const uint64_t low = from_float(type, range.low);
  const uint64_t high = from_float(type, range.high);
  if (bits == low || bits == high) return true;
  if (type == DataType::kUint64) return bits > low && bits < high;
  if (is_integer(type)) {
    return to_integer(type, bits) > to_integer(type, low) &&
           to_integer(type, bits) < to_integer(type, high);
  }
  const float value = to_float(type, bits);
  return !std::isnan(value) && rank(value) > rank(to_float(type, low)) &&
         rank(value) < rank(to_float(type, high));
}

// Every operator is monotonic in each operand but where its operands are 0 or 1, so the corners
// bound it; a truth value that inexact operands leave open may be either.
Range operate(TensorOp op, const Range& a, const Range& b) {
  const bool unary = op == TensorOp::kBypass || (op >= TensorOp::kAbs && !on_bits(op));
  if (a.exact() && (unary || b.exact())) return operated(op, a.nominal(), unary ? 0 : b.nominal());
  if (yields_truth(op)) return Range::from_to(0, 1);
  if (op == TensorOp::kAbsMax || op == TensorOp::kAbsMin) return abs_select(op, a, b);
  // The power of a negative base turns with every step of the exponent.
  if (op == TensorOp::kPower && a.number && a.low <= 0) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    return {-kInfinity, kInfinity, true, true};
  }
  Range result{0, 0, false, false};
  const Range* const sides[] = {&a, &b};
  float corners[2][6] = {};
  size_t count[2] = {0, 0};
  for (int s = 0; s < 2; ++s) {
    const Range& side = *sides[s];
    if (side.nan) corners[s][count[s]++] = canonical_nan();
    if (!side.number) continue;
    corners[s][count[s]++] = side.low;
    corners[s][count[s]++] = side.high;
    for (const float between : {-0.0f, 0.0f, 1.0f}) {  // to the power of NaN, one is one
      if (rank(side.low) < rank(between) && rank(between) < rank(side.high)) {
        corners[s][count[s]++] = between;
      }
    }
  }
  for (size_t i = 0; i < count[0]; ++i) {
    for (size_t j = 0; j < (unary ? 1 : count[1]); ++j) {
      result.include(operated(op, corners[0][i], corners[1][j]));
    }
  }
  return result;
}

uint32_t operate_bits(TensorOp op, uint32_t a, uint32_t b) {
  switch (op) {
    case TensorOp::kNot:
      return ~a;
    case TensorOp::kAnd:
      return a & b;
    case TensorOp::kOr:
      return a | b;
    case TensorOp::kXor:
      return a ^ b;
    case TensorOp::kShiftLeft:
      return b >= 32 ? 0 : a << b;
    case TensorOp::kShiftRight:
      return b >= 32 ? 0 : a >> b;
    default:
      return a;  // BYPASS
  }
}

bool operate_integers(TensorOp op, int64_t a, int64_t b, uint64_t* result) {
  const auto x = static_cast<uint64_t>(a);
  const auto y = static_cast<uint64_t>(b);
  switch (op) {
    case TensorOp::kAdd:
      *result = x + y;
      return true;
    case TensorOp::kSubtract:
      *result = x - y;
      return true;
    case TensorOp::kMultiply:
      *result = x * y;
      return true;
    case TensorOp::kMin:
      *result = a < b ? x : y;
      return true;
    case TensorOp::kMax:
      *result = a > b ? x : y;
      return true;
    case TensorOp::kBypass:
      *result = x;
      return true;
    case TensorOp::kAbsMax:
      *result = std::abs(a) > std::abs(b) ? x : y;
      return true;
    case TensorOp::kAbsMin:
      *result = std::abs(a) < std::abs(b) ? x : y;
      return true;
    case TensorOp::kAbs:
      *result = a < 0 ? uint64_t{0} - x : x;
      return true;
    case TensorOp::kSquare:
      *result = x * x;
      return true;
    case TensorOp::kRelu:
      *result = a < 0 ? 0 : x;
      return true;
    case TensorOp::kLogicalAnd:
      *result = a != 0 && b != 0;
      return true;
    case TensorOp::kLogicalOr:
      *result = a != 0 || b != 0;
      return true;
    case TensorOp::kLogicalXor:
      *result = (a != 0) != (b != 0);
      return true;
    case TensorOp::kEqual:
      *result = a == b;
      return true;
    case TensorOp::kNotEqual:
      *result = a != b;
      return true;
    case TensorOp::kLess:
      *result = a < b;
      return true;
    case TensorOp::kLessEqual:
      *result = a <= b;
      return true;
    case TensorOp::kGreaterEqual:
      *result = a >= b;
      return true;
    case TensorOp::kGreater:
      *result = a > b;
      return true;
    default:
      return false;  // POWER, RSQRT, RECIPROCAL
  }
}

float identity(TensorOp op) {
  switch (op) {
    case TensorOp::kMultiply:
    case TensorOp::kLogicalAnd:
      return 1.0f;
    case TensorOp::kMax:
      return -std::numeric_limits<float>::infinity();
    case TensorOp::kMin:
    case TensorOp::kAbsMin:
      return std::numeric_limits<float>::infinity();
    default:
      return 0.0f;
  }
}

}  // namespace engine_reference
