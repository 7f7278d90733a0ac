// Numbers with a common scale, and the 8-bit float without infinity, against tables and exact
// doubles.
#include "base/num/mx.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/num/kernels.h"
#include "base/num/random.h"

namespace base::num {
namespace {

constexpr uint32_t kMostCode = 0x7E;  // 448

double e4m3fn(uint32_t code) {
  const auto exponent = static_cast<int>(code >> 3 & 15);
  const auto mantissa = static_cast<int>(code & 7);
  if ((code & 0x7F) == 0x7F) return std::numeric_limits<double>::quiet_NaN();
  const double value =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return (code & 0x80) != 0 ? -value : value;
}

uint32_t encoded(float x) {
  uint8_t code = 0;
  store_float(Type::kFp8E4Fn, x, &code);
  return code;
}

TEST(E4M3Fn, EveryCodeHasItsValue) {
  for (uint32_t code = 0; code < 256; ++code) {
    const auto byte = static_cast<uint8_t>(code);
    const float got = load_float(Type::kFp8E4Fn, &byte);
    if ((code & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(got));
      continue;
    }
    EXPECT_EQ(static_cast<double>(got), e4m3fn(code)) << code;
    EXPECT_EQ(encoded(got), code);
  }
}

TEST(E4M3Fn, RoundsToNearestEvenAndSaturates) {
  for (uint32_t code = 0; code < kMostCode; ++code) {
    const auto middle = static_cast<float>((e4m3fn(code) + e4m3fn(code + 1)) / 2);
    EXPECT_EQ(encoded(middle), code + (code & 1)) << code;
    EXPECT_EQ(encoded(-middle), (code + (code & 1)) | 0x80) << code;
    EXPECT_EQ(encoded(std::nextafter(middle, 0.0F)), code) << code;
    EXPECT_EQ(encoded(std::nextafter(middle, INFINITY)), code + 1) << code;
  }
  for (const float x : {449.0F, 464.0F, 480.0F, 511.0F, 512.0F, 1e30F, INFINITY}) {
    EXPECT_EQ(encoded(x), kMostCode) << x;
    EXPECT_EQ(encoded(-x), kMostCode | 0x80) << x;
  }
  EXPECT_EQ(encoded(NAN), 0x7Fu);
  EXPECT_EQ(encoded(-NAN), 0x7Fu);
}

TEST(E4M3Fn, BothKernelsAgree) {
  std::vector<float> x;
  for (uint32_t i = 0; i < 20000; ++i) {
    const uint32_t bits = i * 214'013u + 2'531'011u * (i % 7);
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    x.push_back(value);
  }
  std::vector<uint8_t> a(x.size()), b(x.size());
  kernels().from_float(Type::kFp8E4Fn, x.data(), a.data(), x.size());
  kKernelsBase.from_float(Type::kFp8E4Fn, x.data(), b.data(), x.size());
  EXPECT_EQ(a, b);
}

TEST(E4M3Fn, StochasticRoundingIsRightOnAverage) {
  constexpr size_t kDraws = 40000;
  for (const float x : {1.3F, -0.7F, 0.0031F, 440.0F}) {
    const std::vector<float> from(kDraws, x);
    std::vector<uint8_t> to(kDraws);
    Xorwow random = Xorwow::seeded(3, 4);
    from_float_stochastic(Type::kFp8E4Fn, from.data(), to.data(), kDraws, &random);
    double sum = 0;
    for (const uint8_t code : to) sum += e4m3fn(code);
    EXPECT_NEAR(sum / kDraws, x, std::fabs(x) / 8 * 6 / std::sqrt(double{kDraws})) << x;
  }
  const float past = 460;  // between the largest number and what would be the next
  uint8_t code = 0;
  Xorwow random = Xorwow::seeded(0, 0);
  for (int i = 0; i < 100; ++i) {
    from_float_stochastic(Type::kFp8E4Fn, &past, &code, 1, &random);
    ASSERT_EQ(code, kMostCode);
  }
}

TEST(Mx, FourBytesAreFourNumbers) {
  const uint8_t elements[8] = {0x38, 0xB8, 0x7E, 0x01, 0x40, 0x00, 0x80, 0x08};
  const float expected[4][2] = {{1, 2}, {-1, 0}, {448, -0.0F}, {0x1p-9F, 0x1p-6F}};
  for (size_t which = 0; which < kMxNumbers; ++which) {
    float got[2];
    unpack_mx(Mx::kE4M3Fn, elements, 2, which, got);
    EXPECT_EQ(std::memcmp(got, expected[which], sizeof got), 0) << which;
  }
  float got[2];
  unpack_mx(Mx::kE5M2, elements, 2, 0, got);
  EXPECT_EQ(got[0], 0.5F);
  EXPECT_EQ(got[1], 2.0F);
}

TEST(Mx, SixteenBitsAreFourNumbersOfFourBits) {
  const std::vector<float> values = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  for (uint32_t code = 0; code < 16; ++code) {
    const auto word = static_cast<uint16_t>(code | (15 - code) << 4 | 2u << 8 | 0xAu << 12);
    uint8_t element[2] = {static_cast<uint8_t>(word), static_cast<uint8_t>(word >> 8)};
    float got[kMxNumbers];
    for (size_t which = 0; which < kMxNumbers; ++which) {
      unpack_mx(Mx::kE2M1, element, 1, which, &got[which]);
    }
    EXPECT_EQ(got[0], (code & 8) != 0 ? -values[code & 7] : values[code & 7]);
    EXPECT_EQ(std::signbit(got[0]), (code & 8) != 0);
    const uint32_t other = 15 - code;
    EXPECT_EQ(got[1], (other & 8) != 0 ? -values[other & 7] : values[other & 7]);
    EXPECT_EQ(got[2], 1);
    EXPECT_EQ(got[3], -1);
  }
}

TEST(Mx, Scales) {
  EXPECT_EQ(mx_scale(127), 1);
  EXPECT_EQ(mx_scale(0), 0x1p-127F);
  EXPECT_EQ(mx_scale(254), 0x1p127F);
  EXPECT_TRUE(std::isnan(mx_scale(255)));
  // The largest number becomes one of 2^7 to 2^8, or of 2^14 to 2^15.
  EXPECT_EQ(mx_scale_of(Mx::kE4M3Fn, 128.0F), 127);
  EXPECT_EQ(mx_scale_of(Mx::kE4M3Fn, 255.99F), 127);
  EXPECT_EQ(mx_scale_of(Mx::kE4M3Fn, 256.0F), 128);
  EXPECT_EQ(mx_scale_of(Mx::kE4M3Fn, 1.0F), 120);
  EXPECT_EQ(mx_scale_of(Mx::kE5M2, 1.0F), 113);
  EXPECT_EQ(mx_scale_of(Mx::kE4M3Fn, std::numeric_limits<float>::max()), 247);
  EXPECT_EQ(mx_scale_of(Mx::kE4M3Fn, 0.0F), 0);
  EXPECT_EQ(mx_scale_of(Mx::kE4M3Fn, 0x1p-126F), 0);
  EXPECT_EQ(mx_scale_of(Mx::kE4M3Fn, 0x1p-120F), 0);
  EXPECT_EQ(mx_scale_of(Mx::kE4M3Fn, 0x1p-119F), 1);
  EXPECT_EQ(mx_scale_of(Mx::kE5M2, INFINITY), 255);
  EXPECT_EQ(mx_scale_of(Mx::kE5M2, NAN), 255);
}

}  // namespace
}  // namespace base::num
