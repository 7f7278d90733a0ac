#include "tests/collectives/reference_fold.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/span.h"

namespace ccl {
namespace {

using contract::DType;

struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
};

// FP8 formats as IEEE-like minifloats without special treatment: the tests use values far from the
// ends of the range.
FloatFormat format_of(DType dtype) {
  switch (dtype) {
    case DType::kBf16:
      return {8, 7, 127};
    case DType::kFp16:
      return {5, 10, 15};
    case DType::kFp8E3:
      return {3, 4, 3};
    case DType::kFp8E4:
      return {4, 3, 7};
    case DType::kFp8E5:
      return {5, 2, 15};
    default:
      return {8, 23, 127};
  }
}

template <typename T>
void fold_integers(contract::ReduceOp op, const std::vector<const uint8_t*>& sources,
                   uint64_t bytes, uint8_t* out) {
  for (uint64_t at = 0; at < bytes; at += sizeof(T)) {
    T value = base::load<T>(sources[0] + at);
    for (size_t k = 1; k < sources.size(); ++k) {
      const T next = base::load<T>(sources[k] + at);
      if (op == contract::ReduceOp::kAdd) {
        value = static_cast<T>(static_cast<uint64_t>(value) + static_cast<uint64_t>(next));
      } else {
        value = op == contract::ReduceOp::kMax ? std::max(value, next) : std::min(value, next);
      }
    }
    base::store(out + at, value);
  }
}

}  // namespace

bool is_float(DType dtype) {
  switch (dtype) {
    case DType::kBf16:
    case DType::kFp16:
    case DType::kFp32:
    case DType::kFp32r:
    case DType::kFp8E3:
    case DType::kFp8E4:
    case DType::kFp8E5:
      return true;
    default:
      return false;
  }
}

double decode_float(DType dtype, const uint8_t* from) {
  const FloatFormat f = format_of(dtype);
  uint32_t bits = 0;
  std::memcpy(&bits, from, contract::dtype_size(dtype));
  const uint32_t mantissa = bits & ((1u << f.mantissa_bits) - 1);
  const int exponent = static_cast<int>(bits >> f.mantissa_bits) & ((1 << f.exponent_bits) - 1);
  const bool negative = ((bits >> (f.mantissa_bits + f.exponent_bits)) & 1) != 0;
  const double scale = std::ldexp(1.0, -f.mantissa_bits);
  const double value = exponent == 0 ? std::ldexp(mantissa * scale, 1 - f.bias)
                                     : std::ldexp(1.0 + mantissa * scale, exponent - f.bias);
  return negative ? -value : value;
}

void encode_float(DType dtype, double value, uint8_t* to) {
  const FloatFormat f = format_of(dtype);
  const bool negative = std::signbit(value);
  uint32_t bits = 0;
  if (value != 0) {
    int exponent = std::max(std::ilogb(value), 1 - f.bias);
    double units = std::nearbyint(std::ldexp(std::fabs(value), f.mantissa_bits - exponent));
    if (units >= std::ldexp(2.0, f.mantissa_bits)) {
      units /= 2;
      ++exponent;
    }
    auto whole = static_cast<uint32_t>(units);
    const uint32_t hidden = 1u << f.mantissa_bits;
    bits = whole < hidden
               ? whole
               : static_cast<uint32_t>(exponent + f.bias) << f.mantissa_bits | (whole - hidden);
  }
  if (negative) bits |= 1u << (f.mantissa_bits + f.exponent_bits);
  std::memcpy(to, &bits, contract::dtype_size(dtype));
}

void reference_fold(const contract::DmaCompute& op, const std::vector<const uint8_t*>& sources,
                    uint64_t bytes, uint8_t* out) {
  std::vector<uint8_t> result(bytes);
  switch (op.src) {
    case DType::kInt8:
      fold_integers<int8_t>(op.op, sources, bytes, result.data());
      break;
    case DType::kUint8:
      fold_integers<uint8_t>(op.op, sources, bytes, result.data());
      break;
    case DType::kInt16:
      fold_integers<int16_t>(op.op, sources, bytes, result.data());
      break;
    case DType::kUint16:
      fold_integers<uint16_t>(op.op, sources, bytes, result.data());
      break;
    case DType::kInt32:
      fold_integers<int32_t>(op.op, sources, bytes, result.data());
      break;
    case DType::kUint32:
      fold_integers<uint32_t>(op.op, sources, bytes, result.data());
      break;
    case DType::kInt64:
      fold_integers<int64_t>(op.op, sources, bytes, result.data());
      break;
    case DType::kUint64:
      fold_integers<uint64_t>(op.op, sources, bytes, result.data());
      break;
    default: {
      const uint32_t size = contract::dtype_size(op.src);
      for (uint64_t at = 0; at < bytes; at += size) {
        auto value = static_cast<float>(decode_float(op.src, sources[0] + at));
        for (size_t k = 1; k < sources.size(); ++k) {
          const auto next = static_cast<float>(decode_float(op.src, sources[k] + at));
          value = op.op == contract::ReduceOp::kAdd   ? value + next
                  : op.op == contract::ReduceOp::kMax ? std::max(value, next)
                                                      : std::min(value, next);
        }
        encode_float(op.src, static_cast<double>(value), result.data() + at);
      }
    }
  }
  std::copy(result.begin(), result.end(), out);
}

}  // namespace ccl
