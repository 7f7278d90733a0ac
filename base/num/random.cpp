#include "base/num/random.h"

#include <algorithm>
#include <cmath>

#include "base/num/kernels.h"

namespace base::num {
namespace {

// Of a type's normal numbers.
struct Format {
  int mantissa;  // bits behind the point
  int least_exponent;
};

bool format_of(Type type, Format* format) {
  switch (type) {
    case Type::kBf16:
      *format = {7, -126};
      return true;
    case Type::kFp16:
      *format = {10, -14};
      return true;
    case Type::kFp8E3:
      *format = {4, -2};
      return true;
    case Type::kFp8E4:
    case Type::kFp8E4Fn:
      *format = {3, -6};
      return true;
    case Type::kFp8E5:
      *format = {2, -14};
      return true;
    default:
      return false;
  }
}

// A neighbour of x that the format holds, but for its range.
float round_stochastic(float x, const Format& format, uint32_t random) {
  if (!std::isfinite(x) || x == 0) return x;
  int exponent = 0;
  std::frexp(x, &exponent);  // |x| in [1/2, 1) * 2^exponent
  const int unit = std::max(exponent - 1, format.least_exponent) - format.mantissa;
  // Exact: a float32 divided by a power of two.
  const double units = std::ldexp(static_cast<double>(x < 0 ? -x : x), -unit);
  const double below = std::floor(units);
  const double up = units - below > static_cast<double>(random) * 0x1p-32 ? 1 : 0;
  // Infinity of float32 for bfloat16's overflow; narrower formats find it when they convert.
  const auto rounded = static_cast<float>(std::ldexp(below + up, unit));
  return x < 0 ? -rounded : rounded;
}

}  // namespace

Xorwow Xorwow::seeded(uint32_t seed, uint32_t lane) {
  // SplitMix64 fills the register; it gives no run of zeros.
  Xorwow out;
  uint64_t state = uint64_t{lane} << 32 | seed;
  for (uint32_t& word : out.words) {
    state += 0x9E3779B97F4A7C15;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    word = static_cast<uint32_t>((z ^ (z >> 31)) >> 32);
  }
  return out;
}

void from_float_stochastic(Type type, const float* from, uint8_t* to, size_t n, Xorwow* random) {
  Format format{};
  const bool rounds = format_of(type, &format);
  constexpr size_t kBlock = 256;
  float block[kBlock];
  for (size_t done = 0; done < n;) {
    const size_t m = n - done < kBlock ? n - done : kBlock;
    for (size_t i = 0; i < m; ++i) {
      const uint32_t r = random->next();
      block[i] = rounds ? round_stochastic(from[done + i], format, r) : from[done + i];
    }
    kernels().from_float(type, block, to + done * size_of(type), m);
    done += m;
  }
}

}  // namespace base::num
