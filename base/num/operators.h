// Element-wise operators of the compute engines on arrays of float32 and of 32-bit words. Source of
// truth: spec/engine-isa.md 5.3.
//
// Every operator rounds once, to nearest even. A NaN operand gives NaN, also in maxima and minima;
// comparisons with NaN are false, but for kNotEqual; a NaN counts as true. Results depend on the
// operands only: not on the host's processor, nor on how arrays are cut.
#pragma once

#include <cstddef>
#include <cstdint>

namespace base::num {

enum class Operator : uint8_t {
  kBypass,  // the first operand
  kAdd,
  kSubtract,
  kMultiply,
  kMax,
  kMin,
  kLogicalAnd,  // 1.0 or 0.0, as all that follow up to kGreater
  kLogicalOr,
  kLogicalXor,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreaterEqual,
  kGreater,
  kPower,   // as pow() of the C library
  kAbsMax,  // the operand of larger magnitude, with its sign; of equal ones the second
  kAbsMin,
  // Of the first operand alone.
  kAbs,
  kSquare,
  kRelu,
  kRsqrt,
  kReciprocal,
};

enum class BitOperator : uint8_t {
  kNot,  // of the first operand alone
  kAnd,
  kOr,
  kXor,
  kShiftLeft,  // shifts by 32 and more give 0
  kShiftRight,
};

// y[i] = a[i] op b[i]; unary operators do not read `b`. `y` may be exactly `a` or `b`.
void apply(Operator op, const float* a, const float* b, float* y, size_t n);
void apply(BitOperator op, const uint32_t* a, const uint32_t* b, uint32_t* y, size_t n);

// Folds each of `rows` rows of n values, `stride` values apart, into accumulators[row], from left
// to right: the order that the engines promise (spec/engine-isa.md 5.3). op: add, subtract,
// multiply, max, min, a logical operator, kAbsMax or kAbsMin.
void fold_rows(Operator op, const float* x, size_t rows, size_t stride, size_t n,
               float* accumulators);

}  // namespace base::num
