// The Scalar engine's functions (spec/engine-isa.md 5.4), from their formulas in long double. Those
// that float32 can hold exactly, or that need one rounding, are exact; the others may be one unit
// in the last place off.
#include <cmath>
#include <limits>

#include "tests/engines/numbers.h"

namespace engine_reference {

using isa::ActFunction;

namespace {

using Wide = long double;

Wide pi() {
  return 4 * std::atan(Wide{1});
}
Wide sigmoid(Wide x) {
  return 1 / (1 + std::exp(-x));
}
Wide softplus(Wide x) {
  return x > 80 ? x + std::exp(-x) : std::log1p(std::exp(x));
}
// Share of the normal distribution below x, and its density.
Wide normal_share(Wide x) {
  return std::erfc(-x / std::sqrt(Wide{2})) / 2;
}
Wide normal_density(Wide x) {
  return std::exp(-x * x / 2) / std::sqrt(2 * pi());
}
// x f(x) where f falls faster than x grows.
Wide damped(Wide x, Wide f) {
  return f == 0 ? std::copysign(Wide{0}, x) : x * f;
}
// Derivative of x sigmoid(slope x).
Wide swish_dx(Wide x, Wide slope) {
  const Wide u = slope * x;
  return sigmoid(u) + damped(u, sigmoid(u) * sigmoid(-u));
}

Wide smooth(ActFunction function, Wide x) {
  switch (function) {
    case ActFunction::kSigmoid:
      return sigmoid(x);
    case ActFunction::kGelu:
      return damped(x, normal_share(x));
    case ActFunction::kGeluDx:
      return normal_share(x) + damped(x, normal_density(x));
    case ActFunction::kGeluTanh: {
      const Wide u = std::sqrt(2 / pi()) * (x + Wide{0.044715L} * x * x * x);
      return damped(x, sigmoid(2 * u));  // (1 + tanh u) / 2 = sigmoid(2 u)
    }
    case ActFunction::kGeluSigmoid:
      return damped(x, sigmoid(Wide{1.702L} * x));
    case ActFunction::kGeluSigmoidDx:
      return swish_dx(x, 1.702L);
    case ActFunction::kSilu:
      return damped(x, sigmoid(x));
    case ActFunction::kSiluDx:
      return swish_dx(x, 1);
    case ActFunction::kTanh:
      return std::tanh(x);
    case ActFunction::kSoftplus:
      return softplus(x);
    case ActFunction::kMish:
      return damped(x, std::tanh(softplus(x)));
    case ActFunction::kErf:
      return std::erf(x);
    case ActFunction::kErfDx:
      return 2 / std::sqrt(pi()) * std::exp(-x * x);
    case ActFunction::kExp:
      return std::exp(x);
    case ActFunction::kLog:
      return std::log(x);
    case ActFunction::kSin:
      return std::sin(x);
    case ActFunction::kArctan:
      return std::atan(x);
    case ActFunction::kSqrt:
      return std::sqrt(x);
    case ActFunction::kRsqrt:
      return 1 / std::sqrt(x);
    default:
      return 1 / x;  // RECIPROCAL
  }
}

Range activated(ActFunction function, float x, float parameter) {
  if (std::isnan(x)) return Range::exactly(x);
  switch (function) {
    case ActFunction::kCopy:
      return Range::exactly(x);
    case ActFunction::kSquare:
      return operate(isa::TensorOp::kSquare, Range::exactly(x), Range{});
    case ActFunction::kRelu:
      return operate(isa::TensorOp::kRelu, Range::exactly(x), Range{});
    case ActFunction::kPrelu:
      if (x >= 0) return Range::exactly(x);
      return operate(isa::TensorOp::kMultiply, Range::exactly(x), Range::exactly(parameter));
    case ActFunction::kSign:
      if (x == 0) return Range::from_to(-0.0f, 0.0f);
      return Range::exactly(x < 0 ? -1.0f : 1.0f);
    case ActFunction::kAbs:
      return Range::exactly(std::fabs(x));
    default: {
      const auto value = static_cast<float>(smooth(function, x));
      return std::isinf(value) ? Range::exactly(value) : Range::around(value);
    }
  }
}

}  // namespace

// The functions are smooth and x, where inexact, is known to a unit or two.
Range activate(ActFunction function, const Range& x, float parameter) {
  Range result = activated(function, x.nominal(), parameter);
  if (!x.exact()) {
    if (x.number) result.include(activated(function, x.high, parameter));
    if (x.nan) result.include(canonical_nan());
  }
  return result;
}

}  // namespace engine_reference
