// The compute engines' arithmetic, by the kernels for this processor.
#include "base/num/functions.h"
#include "base/num/kernels.h"
#include "base/num/matmul.h"
#include "base/num/operators.h"

namespace base::num {

void apply(Operator op, const float* a, const float* b, float* y, size_t n) {
  kernels().operate(op, a, b, y, n);
}

void apply(BitOperator op, const uint32_t* a, const uint32_t* b, uint32_t* y, size_t n) {
  kernels().operate_bits(op, a, b, y, n);
}

void fold_rows(Operator op, const float* x, size_t rows, size_t stride, size_t n,
               float* accumulators) {
  kernels().fold_rows(op, x, rows, stride, n, accumulators);
}

void apply(Function f, const float* x, float parameter, float* y, size_t n) {
  kernels().function(f, x, parameter, y, n);
}

void multiply(const float* a, const float* b, float* c, size_t k, size_t m, size_t n) {
  kernels().multiply(a, b, c, k, m, n);
}

bool in_domain(Function f, float x) {
  // spec/engine-isa.md 5.4.
  constexpr float kPi = 3.14159265F;
  const float magnitude = x < 0 ? -x : x;
  switch (f) {
    case Function::kLog:
      return x >= 0x1p-64F && x <= 0x1p64F;
    case Function::kSin:
      return magnitude <= kPi;
    case Function::kArctan:
      return magnitude <= kPi / 2;
    case Function::kSqrt:
      return x >= 0x1p-116F && x <= 0x1p118F;
    case Function::kRsqrt:
      return x >= 0x1p-87F && x <= 0x1p97F;
    case Function::kReciprocal:
      return magnitude >= 0x1p-42F && magnitude <= 0x1p42F;
    default:
      return true;
  }
}

}  // namespace base::num
