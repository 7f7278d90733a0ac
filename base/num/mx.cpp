#include "base/num/mx.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/num/kernels.h"

namespace base::num {
namespace {

constexpr int kMxBias = 127;
constexpr uint8_t kNoScale = 255;

// One sign, two exponent bits, one of mantissa.
constexpr float kE2M1Values[16] = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                   -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};

}  // namespace

void unpack_mx(Mx format, const uint8_t* elements, size_t n, size_t which, float* to) {
  if (format == Mx::kE2M1) {
    const size_t byte = which / 2;
    const unsigned shift = which % 2 * 4;
    for (size_t i = 0; i < n; ++i) {
      to[i] = kE2M1Values[elements[mx_bytes(format) * i + byte] >> shift & 0xF];
    }
    return;
  }
  constexpr size_t kBlock = 256;
  uint8_t bytes[kBlock];
  const Type type = format == Mx::kE5M2 ? Type::kFp8E5 : Type::kFp8E4Fn;
  for (size_t done = 0; done < n;) {
    const size_t m = std::min(kBlock, n - done);
    for (size_t i = 0; i < m; ++i) bytes[i] = elements[mx_bytes(format) * (done + i) + which];
    kernels().to_float(type, bytes, to + done, m);
    done += m;
  }
}

float mx_scale(uint8_t byte) {
  if (byte == kNoScale) return std::numeric_limits<float>::quiet_NaN();
  return std::ldexp(1.0F, int{byte} - kMxBias);
}

uint8_t mx_scale_of(Mx format, float largest) {
  if (!std::isfinite(largest)) return kNoScale;
  if (largest == 0) return 0;
  const int most = format == Mx::kE5M2 ? 15 : 8;
  return static_cast<uint8_t>(std::max(std::ilogb(largest) - (most - 1) + kMxBias, 0));
}

}  // namespace base::num
