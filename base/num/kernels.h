// Block kernels, compiled once for every x86-64 and once for x86-64-v3; chosen at run time. Both
// give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/num/functions.h"
#include "base/num/operators.h"
#include "base/num/types.h"

namespace base::num {

enum class Fold : uint8_t { kAdd, kFma, kMax, kMin, kSubtract, kMultiply };

struct Kernels {
  // Any type but the 64-bit integers is at least as fast as memory; these are scalar.
  void (*to_float)(Type type, const uint8_t* from, float* to, size_t n);
  void (*from_float)(Type type, const float* from, uint8_t* to, size_t n);
  // acc = acc op x, element by element; scale is used by kFma only.
  void (*fold)(Fold op, float* acc, const float* x, float scale, size_t n);
  // to = a + b of one type: floats through float32, integers wrapping. `to` may be `a` or `b`.
  void (*add)(Type type, uint8_t* to, const uint8_t* a, const uint8_t* b, size_t n);
  // base/num/functions.h, operators.h, matmul.h.
  void (*function)(Function f, const float* x, float parameter, float* y, size_t n);
  void (*operate)(Operator op, const float* a, const float* b, float* y, size_t n);
  void (*operate_bits)(BitOperator op, const uint32_t* a, const uint32_t* b, uint32_t* y, size_t n);
  void (*fold_rows)(Operator op, const float* x, size_t rows, size_t stride, size_t n,
                    float* accumulators);
  void (*multiply)(const float* a, const float* b, float* c, size_t k, size_t m, size_t n);
};

extern const Kernels kKernelsBase;
extern const Kernels kKernelsV3;
const Kernels& kernels();  // the best that this processor can run

}  // namespace base::num
