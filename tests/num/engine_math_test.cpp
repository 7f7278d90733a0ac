// Arithmetic of the compute engines against the C library in long double, and against plain loops.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "base/num/functions.h"
#include "base/num/kernels.h"
#include "base/num/matmul.h"
#include "base/num/operators.h"
#include "base/num/random.h"

namespace base::num {
namespace {

using Long = long double;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const std::vector<float> kSpecial = {0.0F, -0.0F,  1.0F,    -1.0F,   0.5F,    -2.0F,
                                     3.0F, 1e-45F, -1e-45F, 1e-38F,  3.4e38F, -3.4e38F,
                                     kInf, -kInf,  kNan,    16777216};

bool same(float a, float b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b));
}

// Every float is a sample whose code is a multiple of `step`.
std::vector<float> samples(uint64_t step) {
  std::vector<float> out = kSpecial;
  for (uint64_t code = 0; code < uint64_t{1} << 32; code += step) {
    const auto bits = static_cast<uint32_t>(code);
    float x = 0;
    std::memcpy(&x, &bits, sizeof x);
    out.push_back(x);
  }
  return out;
}

std::vector<float> random_floats(size_t n, std::mt19937* rng) {
  std::normal_distribution<float> normal;
  std::vector<float> out(n);
  for (float& x : out) x = normal(*rng);
  return out;
}

Long sigmoid(Long x) {
  return 1 / (1 + expl(-x));
}
const Long kPi = acosl(-1);
constexpr float kParameter = 0.25F;

// The definitions of spec/engine-isa.md 5.4.
Long definition(Function f, Long x) {
  switch (f) {
    case Function::kCopy:
      return x;
    case Function::kSquare:
      return x * x;
    case Function::kSigmoid:
      return sigmoid(x);
    case Function::kRelu:
      return x > 0 ? x : x * 0;
    case Function::kPrelu:
      return x >= 0 ? x : kParameter * x;
    case Function::kGelu:
      return x * erfcl(-x / sqrtl(2)) / 2;
    case Function::kGeluDx:
      return erfcl(-x / sqrtl(2)) / 2 + x * expl(-x * x / 2) / sqrtl(2 * kPi);
    case Function::kGeluTanh:  // (1 + tanh(u)) / 2 is sigmoid(2 u)
      return x * sigmoid(2 * sqrtl(2 / kPi) * (x + 0.044715L * x * x * x));
    case Function::kGeluSigmoid:
      return x * sigmoid(1.702L * x);
    case Function::kGeluSigmoidDx:
      return sigmoid(1.702L * x) + 1.702L * x * sigmoid(1.702L * x) * sigmoid(-1.702L * x);
    case Function::kSilu:
      return x * sigmoid(x);
    case Function::kSiluDx:
      return sigmoid(x) * (1 + x * sigmoid(-x));
    case Function::kTanh:
      return tanhl(x);
    case Function::kSoftplus:
      return (x > 0 ? x : 0) + log1pl(expl(-fabsl(x)));
    case Function::kMish:
      return x * tanhl(log1pl(expl(x)));
    case Function::kErf:
      return erfl(x);
    case Function::kErfDx:
      return 2 / sqrtl(kPi) * expl(-x * x);
    case Function::kExp:
      return expl(x);
    case Function::kLog:
      return logl(x);
    case Function::kSin:
      return sinl(x);
    case Function::kArctan:
      return atanl(x);
    case Function::kSqrt:
      return sqrtl(x);
    case Function::kRsqrt:
      return 1 / sqrtl(x);
    case Function::kReciprocal:
      return 1 / x;
    case Function::kSign:
      return x > 0 ? 1 : x < 0 ? -1 : x;
    case Function::kAbs:
      return fabsl(x);
  }
  return 0;
}

// Distance of y from the true value in units in the last place of the float nearest to that.
Long error_of(float y, Long value) {
  const auto nearest = static_cast<float>(value);
  if (same(y, nearest)) return 0;
  if (!std::isfinite(nearest) || !std::isfinite(y)) return kInf;
  const float magnitude = std::fabs(nearest);
  const Long unit = std::nextafter(magnitude, kInf) - magnitude;
  return fabsl(y - value) / unit;
}

TEST(Functions, AreExactToTheLastPlace) {
  const std::vector<float> x = samples(65537);
  std::vector<float> y(x.size());
  for (size_t f = 0; f < kFunctions; ++f) {
    const auto function = static_cast<Function>(f);
    apply(function, x.data(), kParameter, y.data(), x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      if (!std::isfinite(x[i])) continue;
      ASSERT_LE(error_of(y[i], definition(function, x[i])), 0.51L)
          << "function " << f << " of " << x[i] << ": " << y[i];
    }
  }
}

// Where the definition says infinity times zero, the limit.
TEST(Functions, AtInfinityTheirLimits) {
  const struct {
    Function f;
    float below, above;
  } limits[] = {{Function::kSquare, kInf, kInf},
                {Function::kSigmoid, 0, 1},
                {Function::kRelu, 0, kInf},
                {Function::kGelu, -0.0F, kInf},
                {Function::kGeluDx, 0, 1},
                {Function::kGeluTanh, -0.0F, kInf},
                {Function::kGeluSigmoid, -0.0F, kInf},
                {Function::kSilu, -0.0F, kInf},
                {Function::kSiluDx, -0.0F, 1},
                {Function::kTanh, -1, 1},
                {Function::kSoftplus, 0, kInf},
                {Function::kMish, -0.0F, kInf},
                {Function::kErf, -1, 1},
                {Function::kErfDx, 0, 0},
                {Function::kExp, 0, kInf},
                {Function::kLog, kNan, kInf},
                {Function::kSin, kNan, kNan},
                {Function::kReciprocal, -0.0F, 0},
                {Function::kSqrt, kNan, kInf},
                {Function::kRsqrt, kNan, 0}};
  for (const auto& c : limits) {
    float y[3] = {-kInf, kInf, kNan};
    apply(c.f, y, kParameter, y, 3);
    EXPECT_TRUE(same(y[0], c.below)) << static_cast<int>(c.f) << ": " << y[0];
    EXPECT_TRUE(same(y[1], c.above)) << static_cast<int>(c.f) << ": " << y[1];
    EXPECT_TRUE(std::isnan(y[2])) << static_cast<int>(c.f);
  }
}

TEST(Functions, DomainsOfTheHardware) {
  EXPECT_TRUE(in_domain(Function::kSin, 3.14F));
  EXPECT_FALSE(in_domain(Function::kSin, -3.15F));
  EXPECT_TRUE(in_domain(Function::kLog, 0x1p-64F));
  EXPECT_FALSE(in_domain(Function::kLog, 0));
  EXPECT_FALSE(in_domain(Function::kArctan, 1.6F));
  EXPECT_FALSE(in_domain(Function::kSqrt, kNan));
  EXPECT_FALSE(in_domain(Function::kReciprocal, -0x1p43F));
  EXPECT_TRUE(in_domain(Function::kExp, kInf));
}

// Both sets of kernels, and any way to cut an array, give the same bits.
TEST(EngineKernels, VariantsAgree) {
  if (&kernels() == &kKernelsBase) GTEST_SKIP() << "this processor has no second variant";
  const std::vector<float> x = samples(1000003);
  const size_t n = x.size();
  std::vector<float> y(n), z(n);
  const auto agree = [&](const char* what, size_t number) {
    for (size_t i = 0; i < n; ++i) {
      ASSERT_TRUE(same(y[i], z[i])) << what << " " << number << " of " << x[i];
    }
  };
  for (size_t f = 0; f < kFunctions; ++f) {
    kKernelsBase.function(static_cast<Function>(f), x.data(), kParameter, y.data(), n);
    kernels().function(static_cast<Function>(f), x.data(), kParameter, z.data(), 7);
    kernels().function(static_cast<Function>(f), x.data() + 7, kParameter, z.data() + 7, n - 7);
    agree("function", f);
  }
  for (size_t op = 0; op <= static_cast<size_t>(Operator::kReciprocal); ++op) {
    const std::vector<float> second(x.rbegin(), x.rend());
    kKernelsBase.operate(static_cast<Operator>(op), x.data(), second.data(), y.data(), n);
    kernels().operate(static_cast<Operator>(op), x.data(), second.data(), z.data(), n);
    agree("operator", op);
  }
}

float reference(Operator op, float a, float b) {
  const bool nan = std::isnan(a) || std::isnan(b);
  switch (op) {
    case Operator::kBypass:
      return a;
    case Operator::kAdd:
      return static_cast<float>(Long{a} + b);
    case Operator::kSubtract:
      return static_cast<float>(Long{a} - b);
    case Operator::kMultiply:
      return static_cast<float>(Long{a} * b);
    case Operator::kMax:
      return nan ? kNan : std::max(a, b);
    case Operator::kMin:
      return nan ? kNan : std::min(a, b);
    case Operator::kLogicalAnd:
      return a != 0 && b != 0 ? 1 : 0;
    case Operator::kLogicalOr:
      return a != 0 || b != 0 ? 1 : 0;
    case Operator::kLogicalXor:
      return (a != 0) != (b != 0) ? 1 : 0;
    case Operator::kEqual:
      return a == b ? 1 : 0;
    case Operator::kNotEqual:
      return a != b ? 1 : 0;
    case Operator::kLess:
      return a < b ? 1 : 0;
    case Operator::kLessEqual:
      return a <= b ? 1 : 0;
    case Operator::kGreaterEqual:
      return a >= b ? 1 : 0;
    case Operator::kGreater:
      return a > b ? 1 : 0;
    case Operator::kPower:
      return static_cast<float>(powl(a, b));
    case Operator::kAbsMax:
      return nan ? kNan : std::fabs(a) > std::fabs(b) ? a : b;
    case Operator::kAbsMin:
      return nan ? kNan : std::fabs(a) < std::fabs(b) ? a : b;
    case Operator::kAbs:
      return std::fabs(a);
    case Operator::kSquare:
      return a * a;
    case Operator::kRelu:
      return a <= 0 ? 0 : a;
    case Operator::kRsqrt:
      return static_cast<float>(1 / sqrtl(a));
    case Operator::kReciprocal:
      return static_cast<float>(1 / Long{a});
  }
  return 0;
}

TEST(Operators, EveryPairOfSpecialNumbers) {
  std::mt19937 rng(3);
  std::vector<float> numbers = kSpecial;
  for (const float x : random_floats(20, &rng)) numbers.push_back(x * 10);
  for (const float x : {2.0F, 5.0F, -7.0F, 0.25F}) numbers.push_back(x);
  for (size_t op = 0; op <= static_cast<size_t>(Operator::kReciprocal); ++op) {
    for (const float a : numbers) {
      for (const float b : numbers) {
        const auto kind = static_cast<Operator>(op);
        float y = 0;
        apply(kind, &a, &b, &y, 1);
        const float want = reference(kind, a, b);
        if ((kind == Operator::kMax || kind == Operator::kMin) && a == b) {
          EXPECT_EQ(y, want);  // of zeros of both signs either
          continue;
        }
        EXPECT_TRUE(same(y, want)) << op << ": " << a << ", " << b << ": " << y << " not " << want;
      }
    }
  }
}

TEST(Operators, OfOneOperandReadNoSecond) {
  float x[] = {-4, 0.25F};
  apply(Operator::kRsqrt, x + 1, nullptr, x + 1, 1);
  apply(Operator::kAbs, x, nullptr, x, 1);
  EXPECT_EQ(x[0], 4);
  EXPECT_EQ(x[1], 2);
}

TEST(Operators, Bits) {
  const uint32_t a[] = {0xF0F0'1234, 0xFFFF'FFFF, 1, 0x8000'0001};
  const uint32_t b[] = {0x00FF'FF00, 32, 31, 1};
  const struct {
    BitOperator op;
    uint32_t want[4];
  } cases[] = {{BitOperator::kNot, {0x0F0F'EDCB, 0, 0xFFFF'FFFE, 0x7FFF'FFFE}},
               {BitOperator::kAnd, {0x00F0'1200, 32, 1, 1}},
               {BitOperator::kOr, {0xF0FF'FF34, 0xFFFF'FFFF, 31, 0x8000'0001}},
               {BitOperator::kXor, {0xF00F'ED34, 0xFFFF'FFDF, 30, 0x8000'0000}},
               {BitOperator::kShiftLeft, {0, 0, 0x8000'0000, 2}},
               {BitOperator::kShiftRight, {0, 0, 0, 0x4000'0000}}};
  for (const auto& c : cases) {
    uint32_t y[4];
    apply(c.op, a, b, y, 4);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(y[i], c.want[i]) << static_cast<int>(c.op) << " " << i;
  }
}

TEST(Folds, FromLeftToRight) {
  std::mt19937 rng(4);
  for (const Operator op : {Operator::kAdd, Operator::kSubtract, Operator::kMultiply,
                            Operator::kMax, Operator::kLogicalXor, Operator::kAbsMin}) {
    for (const size_t rows : {0u, 1u, 7u, 8u, 9u, 128u}) {
      for (const size_t n : {0u, 1u, 33u}) {
        const size_t stride = n + 3;
        const std::vector<float> x = random_floats(rows * stride, &rng);
        std::vector<float> y = random_floats(rows, &rng);
        std::vector<float> want = y;
        for (size_t r = 0; r < rows; ++r) {
          for (size_t i = 0; i < n; ++i) want[r] = reference(op, want[r], x[r * stride + i]);
        }
        fold_rows(op, x.data(), rows, stride, n, y.data());
        EXPECT_EQ(y, want) << static_cast<int>(op) << " " << rows << " x " << n;
      }
    }
  }
}

TEST(Products, AreChainsOfFusedMultiplyAdds) {
  std::mt19937 rng(6);
  for (const size_t k : {0u, 1u, 2u, 127u, 128u, 129u, 300u}) {
    for (const size_t m : {1u, 5u, 6u, 7u, 133u}) {
      for (const size_t n : {1u, 15u, 16u, 33u}) {
        std::vector<float> a = random_floats(k * m, &rng);
        const std::vector<float> b = random_floats(k * n, &rng);
        if (k > 1) a[m] = 1e-30F;  // a product that float32 does not hold
        std::vector<float> c(m * n, 5), want(m * n), base(m * n, 7);
        for (size_t i = 0; i < m; ++i) {
          for (size_t j = 0; j < n; ++j) {
            for (size_t l = 0; l < k; ++l) {
              want[i * n + j] = std::fma(a[l * m + i], b[l * n + j], want[i * n + j]);
            }
          }
        }
        multiply(a.data(), b.data(), c.data(), k, m, n);
        kKernelsBase.multiply(a.data(), b.data(), base.data(), k, m, n);
        ASSERT_EQ(c, want) << k << " " << m << " " << n;
        ASSERT_EQ(base, want) << k << " " << m << " " << n;
      }
    }
  }
}

// The generator of Marsaglia, Xorshift RNGs (2003), section 3.1, with its seeds.
TEST(Random, IsXorwow) {
  Xorwow random{{5783321, 88675123, 521288629, 362436069, 123456789, 6615241}};
  uint32_t x = 123456789, y = 362436069, z = 521288629, w = 88675123, v = 5783321, d = 6615241;
  for (int i = 0; i < 1000; ++i) {
    const uint32_t t = x ^ (x >> 2);
    x = y;
    y = z;
    z = w;
    w = v;
    v = (v ^ (v << 4)) ^ (t ^ (t << 1));
    ASSERT_EQ(random.next(), (d += 362437) + v);
  }
  EXPECT_NE(Xorwow::seeded(0, 0).next(), Xorwow::seeded(0, 1).next());
  EXPECT_NE(Xorwow::seeded(0, 0).next(), Xorwow::seeded(1, 0).next());
}

TEST(StochasticRounding, ToNeighboursAndRightOnAverage) {
  constexpr size_t kDraws = 40000;
  for (const Type type : {Type::kBf16, Type::kFp16, Type::kFp8E3, Type::kFp8E4, Type::kFp8E5}) {
    for (const float x : {1.3F, -0.7F, 3.1F, 1e-6F, 0.0031F}) {
      const std::vector<float> from(kDraws, x);
      std::vector<uint8_t> to(kDraws * size_of(type));
      Xorwow random = Xorwow::seeded(7, 3);
      from_float_stochastic(type, from.data(), to.data(), kDraws, &random);
      double sum = 0;
      float low = kInf, high = -kInf;
      for (size_t i = 0; i < kDraws; ++i) {
        const float y = load_float(type, &to[i * size_of(type)]);
        sum += y;
        low = std::min(low, y);
        high = std::max(high, y);
      }
      const float step = high - low;
      const double deviation = 6 * step / std::sqrt(double{kDraws});  // of the mean, generous
      EXPECT_NEAR(sum / kDraws, x, deviation + 1e-12) << static_cast<int>(type) << " " << x;
      EXPECT_LE(low, x);
      EXPECT_GE(high, x);
      // Nothing lies between the two.
      uint8_t code[8] = {};
      store_float(type, low + step * 0.4F, code);
      const float between = load_float(type, code);
      EXPECT_TRUE(between == low || between == high) << static_cast<int>(type) << " " << x;
    }
  }
}

TEST(StochasticRounding, WhatTheTypeHoldsStays) {
  const std::vector<float> x = {0.0F, -0.0F, 1.5F, -2.0F, kInf, -kInf, kNan, 65536, 1e30F};
  for (const Type type : {Type::kFp16, Type::kFp8E5, Type::kFp32, Type::kInt16}) {
    std::vector<uint8_t> nearest(x.size() * size_of(type)), to(nearest.size());
    Xorwow random = Xorwow::seeded(1, 0);
    kernels().from_float(type, x.data(), nearest.data(), x.size());
    from_float_stochastic(type, x.data(), to.data(), x.size(), &random);
    EXPECT_EQ(to, nearest) << static_cast<int>(type);
  }
}

}  // namespace
}  // namespace base::num
