// Element-wise reduction of up to 16 arrays, and element-wise operations of two arrays.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/num/types.h"

namespace base::num {

enum class Reduce : uint8_t { kAdd = 0, kFma = 1, kMax = 2, kMin = 3 };

// result[i] = fold over sources, in order. All-integer sums, minima and maxima are exact (sums wrap
// in the source type, then saturate to a different result type); everything else is float32,
// rounded once per step and once to the result. fma adds scale * source with a fused multiply-add.
// NaN propagates.
struct Reduction {
  Reduce op = Reduce::kAdd;
  Type source_type = Type::kInvalid;
  Type type = Type::kInvalid;
  const uint8_t* const* sources = nullptr;
  size_t count = 0;                      // of sources, at least 1
  const uint32_t* scale_bits = nullptr;  // fma: float32 per source; null means 1.0
  bool has_constant = false;             // max, min: the fold starts with it
  uint8_t constant_kind = 0;             // 0 float32, 1 int32, 2 uint32
  uint32_t constant_bits = 0;
};
// `to` may be exactly one of the sources (equal element sizes); other overlap is not allowed.
void reduce(const Reduction& reduction, void* to, size_t elements);

// The arithmetic operators of tensor_tensor on compute engines: operands are converted to float32,
// the result is converted once. `to` may be exactly `a` or `b`.
enum class Binary : uint8_t { kAdd = 0, kSubtract = 1, kMultiply = 2, kMin = 3, kMax = 4 };
void elementwise(Binary op, Type a_type, const void* a, Type b_type, const void* b, Type type,
                 void* to, size_t elements);

}  // namespace base::num
