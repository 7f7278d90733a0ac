// Groups of numbers with a common power of two. Source of truth: spec/engine-isa.md 5.6 (OCP
// microscaling). Four numbers make an element: bytes 0 to 3 of 32 bits, or bits 0, 4, 8 and 12 on
// of 16.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/num/types.h"

namespace base::num {

enum class Mx : uint8_t { kE5M2, kE4M3Fn, kE2M1 };
constexpr size_t kMxNumbers = 4;  // in an element

constexpr size_t mx_bytes(Mx format) {
  return format == Mx::kE2M1 ? 2 : 4;
}

// Number `which` of each of n elements, without its scale.
void unpack_mx(Mx format, const uint8_t* elements, size_t n, size_t which, float* to);

// 2^(byte - 127), exactly; NaN for 255.
float mx_scale(uint8_t byte);

// The scale of a group whose largest magnitude this is: 2^(floor(log2 x) - (e - 1)) with the
// exponent e of the format's largest number, so that the largest one cannot overflow by rounding.
// At least 2^-127, also for 0. 255 if x is infinite or NaN: the group has no scale.
// For formats of 8 bits.
uint8_t mx_scale_of(Mx format, float largest);

}  // namespace base::num
