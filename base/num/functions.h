// The Scalar engine's functions. Source of truth: spec/engine-isa.md 5.4.
// Approximate: the hardware has piecewise polynomials on a part of the numbers; these are the exact
// functions, everywhere, within 0.51 units in the last place of float32. Results depend on the
// argument only: computed in double precision from additions, multiplications, divisions and square
// roots, which every processor rounds alike.
#pragma once

#include <cstddef>
#include <cstdint>

namespace base::num {

enum class Function : uint8_t {
  kCopy,
  kSquare,
  kSigmoid,
  kRelu,
  kPrelu,  // x for x >= 0, else parameter * x
  kGelu,
  kGeluDx,
  kGeluTanh,       // x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
  kGeluSigmoid,    // x sigmoid(1.702 x)
  kGeluSigmoidDx,  // its derivative
  kSilu,
  kSiluDx,
  kTanh,
  kSoftplus,
  kMish,
  kErf,
  kErfDx,
  kExp,
  kLog,
  kSin,
  kArctan,
  kSqrt,
  kRsqrt,
  kReciprocal,
  kSign,
  kAbs,
};
constexpr size_t kFunctions = static_cast<size_t>(Function::kAbs) + 1;

// y[i] = f(x[i]). `y` may be exactly `x`.
void apply(Function f, const float* x, float parameter, float* y, size_t n);

// Whether the hardware's approximation holds for x.
bool in_domain(Function f, float x);

}  // namespace base::num
