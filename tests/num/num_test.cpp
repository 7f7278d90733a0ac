// Numeric kernels against an independent reference that computes with exact doubles and enumerates
// the values of the small types.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/num/kernels.h"
#include "base/num/reduce.h"
#include "base/num/types.h"

namespace base::num {
namespace {

struct Format {
  Type type;
  int exponent, mantissa;
};
const Format kFormats[] = {{Type::kFp16, 5, 10},
                           {Type::kBf16, 8, 7},
                           {Type::kFp8E3, 3, 4},
                           {Type::kFp8E4, 4, 3},
                           {Type::kFp8E5, 5, 2}};

// Value of a code by the definition of an IEEE-like format, as an exact double.
double reference_value(const Format& f, uint32_t code) {
  const int bias = (1 << (f.exponent - 1)) - 1;
  const double sign = (code >> (f.exponent + f.mantissa)) != 0 ? -1 : 1;
  const int e = static_cast<int>(code >> f.mantissa) & ((1 << f.exponent) - 1);
  const int m = static_cast<int>(code) & ((1 << f.mantissa) - 1);
  if (e == (1 << f.exponent) - 1) {
    return m != 0 ? std::numeric_limits<double>::quiet_NaN()
                  : sign * std::numeric_limits<double>::infinity();
  }
  const double fraction = std::ldexp(m, -f.mantissa);
  return sign * (e == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, e - bias));
}

uint32_t code_of(Type type, const void* at) {
  uint32_t code = 0;
  std::memcpy(&code, at, size_of(type));
  return code;
}

uint32_t encode(Type type, float x) {
  uint8_t bytes[8] = {};
  store_float(type, x, bytes);
  return code_of(type, bytes);
}

float decode(Type type, uint32_t code) {
  return load_float(type, &code);
}

TEST(SmallFloats, EveryCodeHasItsValue) {
  for (const Format& f : kFormats) {
    for (uint32_t code = 0; code < 1u << (1 + f.exponent + f.mantissa); ++code) {
      const double expected = reference_value(f, code);
      const float got = decode(f.type, code);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(got)) << code;
      } else {
        ASSERT_EQ(static_cast<double>(got), expected) << code;
        ASSERT_EQ(std::signbit(got), std::signbit(expected)) << code;
        ASSERT_EQ(encode(f.type, got), code);  // and comes back
      }
    }
  }
}

TEST(SmallFloats, RoundToNearestEvenBetweenNeighbours) {
  for (const Format& f : kFormats) {
    const uint32_t infinity = ((1u << f.exponent) - 1) << f.mantissa;
    for (uint32_t code = 0; code < infinity; ++code) {
      const double low = reference_value(f, code);
      // Past the largest finite value the format goes on as if it had one more.
      const double step = low - (code == 0 ? -reference_value(f, 1) : reference_value(f, code - 1));
      const double high = code + 1 == infinity ? low + step : reference_value(f, code + 1);
      const auto middle = static_cast<float>((low + high) / 2);
      const auto sign = static_cast<uint32_t>(1) << (f.exponent + f.mantissa);
      const uint32_t even = (code & 1) == 0 ? code : code + 1;
      ASSERT_EQ(encode(f.type, middle), even) << code;
      ASSERT_EQ(encode(f.type, -middle), even | sign) << code;
      ASSERT_EQ(encode(f.type, std::nextafter(middle, 0.0F)), code) << code;
      ASSERT_EQ(encode(f.type, std::nextafter(middle, INFINITY)), code + 1) << code;
    }
  }
}

TEST(SmallFloats, SpecialValues) {
  for (const Format& f : kFormats) {
    const uint32_t infinity = ((1u << f.exponent) - 1) << f.mantissa;
    const uint32_t sign = 1u << (f.exponent + f.mantissa);
    const uint32_t nan = infinity | 1u << (f.mantissa - 1);
    EXPECT_EQ(encode(f.type, INFINITY), infinity);
    EXPECT_EQ(encode(f.type, -INFINITY), infinity | sign);
    EXPECT_EQ(encode(f.type, std::numeric_limits<float>::max()), infinity);
    EXPECT_EQ(encode(f.type, NAN), nan);
    EXPECT_EQ(encode(f.type, -NAN), nan);
    EXPECT_EQ(encode(f.type, decode(f.type, infinity + 1)), nan);
    EXPECT_EQ(encode(f.type, -0.0F), sign);
    EXPECT_EQ(encode(f.type, std::numeric_limits<float>::denorm_min()), 0u);
  }
}

const Type kIntegers[] = {Type::kInt8,  Type::kUint8,  Type::kInt16, Type::kUint16,
                          Type::kInt32, Type::kUint32, Type::kInt64, Type::kUint64};
const Type kFloats[] = {Type::kFp32,  Type::kFp32r, Type::kBf16, Type::kFp16,
                        Type::kFp8E3, Type::kFp8E4, Type::kFp8E5};

__int128 integer_at(Type type, const uint8_t* at) {
  switch (type) {
    case Type::kInt8:
      return *reinterpret_cast<const int8_t*>(at);
    case Type::kUint8:
      return *at;
    case Type::kInt16: {
      int16_t x;
      std::memcpy(&x, at, 2);
      return x;
    }
    case Type::kUint16: {
      uint16_t x;
      std::memcpy(&x, at, 2);
      return x;
    }
    case Type::kInt32: {
      int32_t x;
      std::memcpy(&x, at, 4);
      return x;
    }
    case Type::kUint32: {
      uint32_t x;
      std::memcpy(&x, at, 4);
      return x;
    }
    case Type::kInt64: {
      int64_t x;
      std::memcpy(&x, at, 8);
      return x;
    }
    default: {
      uint64_t x;
      std::memcpy(&x, at, 8);
      return x;
    }
  }
}
__int128 highest(Type t) {
  const int bits = 8 * static_cast<int>(size_of(t)) - (is_signed(t) ? 1 : 0);
  return (static_cast<__int128>(1) << bits) - 1;
}
__int128 lowest(Type t) {
  return is_signed(t) ? -highest(t) - 1 : 0;
}

TEST(FloatToInteger, RoundsToEvenAndSaturates) {
  const float values[] = {
      0.0F,      -0.0F,     0.5F,          1.5F,           2.5F,          -0.5F,   -1.5F,  126.5F,
      127.5F,    128.0F,    -128.5F,       -129.0F,        254.5F,        255.5F,  256.0F, 32767.5F,
      65535.5F,  -32768.5F, 2147483648.0F, -2147483648.0F, 4294967296.0F, 1e30F,   -1e30F, INFINITY,
      -INFINITY, NAN,       1e-40F,        9.2e18F,        1.9e19F,       -9.3e18F};
  for (const Type t : kIntegers) {
    for (const float x : values) {
      uint8_t bytes[8] = {};
      store_float(t, x, bytes);
      __int128 expected = 0;
      if (!std::isnan(x)) {
        const double rounded = std::nearbyint(static_cast<double>(x));
        expected = rounded >= 2e19 ? highest(t)
                   : rounded <= -2e19
                       ? lowest(t)
                       : std::clamp(static_cast<__int128>(rounded), lowest(t), highest(t));
      }
      EXPECT_TRUE(integer_at(t, bytes) == expected) << static_cast<int>(t) << " " << x;
    }
  }
}

TEST(IntegerToFloat, EveryEightAndSixteenBitValue) {
  for (const Type t : {Type::kInt8, Type::kUint8, Type::kInt16, Type::kUint16}) {
    for (uint32_t code = 0; code < 1u << (8 * size_of(t)); ++code) {
      uint8_t bytes[8] = {};
      std::memcpy(bytes, &code, sizeof code);
      ASSERT_EQ(decode(t, code), static_cast<float>(integer_at(t, bytes)));
    }
  }
}

TEST(Convert, IntegersSaturateExactly) {
  std::mt19937_64 rng(3);
  for (const Type from : kIntegers) {
    for (const Type to : kIntegers) {
      for (int i = 0; i < 200; ++i) {
        const uint64_t raw = i == 0 ? 0 : i == 1 ? ~0ull : i == 2 ? 1ull << 63 : rng() >> (i % 64);
        uint8_t in[8], out[8] = {};
        std::memcpy(in, &raw, 8);
        convert(from, in, to, out, 1);
        const __int128 expected = from == to
                                      ? integer_at(from, in)
                                      : std::clamp(integer_at(from, in), lowest(to), highest(to));
        ASSERT_TRUE(integer_at(to, out) == expected);
      }
    }
  }
}

// ---- reductions ------------------------------------------------------------------------------

float as_float(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}

// Interesting values of a type: random codes, with special ones in between.
std::vector<uint8_t> random_array(Type type, size_t n, std::mt19937_64& rng) {
  std::vector<uint8_t> bytes(n * size_of(type));
  for (auto& b : bytes) b = static_cast<uint8_t>(rng());
  if (is_integer(type)) return bytes;
  static const float special[] = {0.0F, -0.0F, INFINITY, -INFINITY, NAN, 1e-40F, -1.0F, 3.0e38F};
  for (size_t i = 0; i < n; ++i) {
    const auto x = static_cast<float>(static_cast<int64_t>(rng() % 2000) - 1000) / 64;
    store_float(type, rng() % 4 == 0 ? special[rng() % 8] : x, &bytes[i * size_of(type)]);
  }
  return bytes;
}

// One element, by the rules and nothing else.
void reference(const Reduction& r, size_t i, uint8_t* to) {
  const bool constant = r.has_constant && (r.op == Reduce::kMax || r.op == Reduce::kMin);
  const size_t size = size_of(r.source_type);
  if (is_integer(r.source_type) && is_integer(r.type) && r.op != Reduce::kFma &&
      !(constant && r.constant_kind == 0)) {
    __int128 acc = integer_at(r.source_type, r.sources[0] + i * size);
    if (constant) {
      const __int128 c = r.constant_kind == 1 ? static_cast<int32_t>(r.constant_bits)
                                              : static_cast<__int128>(r.constant_bits);
      acc = r.op == Reduce::kMax ? std::max(acc, c) : std::min(acc, c);
    }
    for (size_t k = 1; k < r.count; ++k) {
      const __int128 x = integer_at(r.source_type, r.sources[k] + i * size);
      acc = r.op == Reduce::kAdd   ? acc + x
            : r.op == Reduce::kMax ? std::max(acc, x)
                                   : std::min(acc, x);
    }
    const __int128 span = highest(r.source_type) - lowest(r.source_type) + 1;
    while (r.op == Reduce::kAdd && acc > highest(r.source_type)) acc -= span;
    while (r.op == Reduce::kAdd && acc < lowest(r.source_type)) acc += span;
    acc = std::clamp(acc, lowest(r.type), highest(r.type));
    const auto raw = static_cast<uint64_t>(acc);
    std::memcpy(to, &raw, size_of(r.type));
    return;
  }
  const auto source = [&](size_t k) { return load_float(r.source_type, r.sources[k] + i * size); };
  const auto scale = [&](size_t k) {
    return r.scale_bits != nullptr ? as_float(r.scale_bits[k]) : 1;
  };
  float acc = 0;
  if (r.op == Reduce::kFma) {
    acc = scale(0) * source(0);
    for (size_t k = 1; k < r.count; ++k) acc = std::fma(scale(k), source(k), acc);
  } else {
    acc = source(0);
    for (size_t k = constant ? 0 : 1; k < r.count; ++k) {
      const float x = source(k);
      if (constant && k == 0) {
        acc = r.constant_kind == 0   ? as_float(r.constant_bits)
              : r.constant_kind == 1 ? static_cast<float>(static_cast<int32_t>(r.constant_bits))
                                     : static_cast<float>(r.constant_bits);
      }
      if (r.op == Reduce::kAdd) {
        acc = acc + x;
      } else if (std::isnan(acc) || std::isnan(x)) {
        acc = NAN;
      } else {
        acc = r.op == Reduce::kMax ? (acc < x ? x : acc) : (x < acc ? x : acc);
      }
    }
  }
  if (std::isnan(acc)) acc = as_float(0x7FC00000);
  store_float(r.type, acc, to);
}

void check(Reduction r, size_t n, std::mt19937_64& rng, bool in_place) {
  std::vector<std::vector<uint8_t>> arrays;
  std::vector<const uint8_t*> pointers;
  for (size_t k = 0; k < r.count; ++k) {
    // An odd start address: nothing may rely on alignment.
    arrays.push_back(random_array(r.source_type, n + 1, rng));
    pointers.push_back(arrays.back().data() + size_of(r.source_type));
  }
  r.sources = pointers.data();
  const size_t size = size_of(r.type);
  std::vector<uint8_t> expected(n * size + 1), got(n * size + 8, 0xEE);
  for (size_t i = 0; i < n; ++i) reference(r, i, &expected[i * size]);
  uint8_t* to = got.data();
  if (in_place) to = const_cast<uint8_t*>(pointers[r.count - 1]);
  reduce(r, to, n);
  ASSERT_EQ(std::memcmp(to, expected.data(), n * size), 0)
      << "op " << static_cast<int>(r.op) << " " << static_cast<int>(r.source_type) << " to "
      << static_cast<int>(r.type) << " sources " << r.count << " n " << n;
  if (!in_place) {
    ASSERT_EQ(got[n * size], 0xEE);
  }
}

class ReducePair : public ::testing::TestWithParam<int> {};

TEST_P(ReducePair, AgreesWithTheReference) {
  const auto source = static_cast<Type>(GetParam());
  std::mt19937_64 rng(static_cast<uint64_t>(GetParam()));
  std::vector<Type> all(std::begin(kIntegers), std::end(kIntegers));
  all.insert(all.end(), std::begin(kFloats), std::end(kFloats));
  for (const Type type : all) {
    for (int op = 0; op < 4; ++op) {
      for (const size_t count : {1u, 2u, 3u, 16u}) {
        Reduction r;
        r.op = static_cast<Reduce>(op);
        r.source_type = source;
        r.type = type;
        r.count = count;
        check(r, 37, rng, false);
        if (size_of(source) == size_of(type)) check(r, 261, rng, true);
        uint32_t scales[16];
        for (auto& s : scales) {
          const float x = static_cast<float>(rng() % 7) - 3;
          std::memcpy(&s, &x, 4);
        }
        r.scale_bits = scales;
        r.has_constant = true;
        for (uint8_t kind = 0; kind < 3; ++kind) {
          r.constant_kind = kind;
          r.constant_bits = kind == 0 ? 0x40A00000 : kind == 1 ? 0xFFFFFFF0 : 0xFFFFFFF0;
          check(r, 5, rng, false);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ReducePair, ::testing::Range(1, 16));

TEST(Reduce, OddSizesOfTheFastPaths) {
  std::mt19937_64 rng(77);
  std::vector<Type> all(std::begin(kIntegers), std::end(kIntegers));
  all.insert(all.end(), std::begin(kFloats), std::end(kFloats));
  for (const Type type : all) {
    Reduction r;
    r.source_type = r.type = type;
    r.count = 2;
    for (const size_t n : {0u, 1u, 2u, 7u, 8u, 9u, 15u, 31u, 33u, 255u, 257u, 1023u}) {
      check(r, n, rng, false);
      check(r, n, rng, true);
    }
  }
}

// Both variants of the kernels give the same bits, whatever this processor selects.
TEST(Kernels, VariantsAgree) {
  if (&kernels() == &kKernelsBase) GTEST_SKIP() << "this processor has no second variant";
  std::mt19937_64 rng(5);
  for (int t = 1; t < 16; ++t) {
    const auto type = static_cast<Type>(t);
    const size_t n = 1003;
    const auto a = random_array(type, n, rng);
    const auto b = random_array(type, n, rng);
    std::vector<uint8_t> x(a.size()), y(a.size());
    kKernelsBase.add(type, x.data(), a.data(), b.data(), n);
    kernels().add(type, y.data(), a.data(), b.data(), n);
    EXPECT_EQ(x, y) << t;
    std::vector<float> f(n), g(n);
    kKernelsBase.to_float(type, a.data(), f.data(), n);
    kernels().to_float(type, a.data(), g.data(), n);
    EXPECT_EQ(std::memcmp(f.data(), g.data(), 4 * n), 0) << t;
    for (auto& v : f) v = as_float(static_cast<uint32_t>(rng()));
    kKernelsBase.from_float(type, f.data(), x.data(), n);
    kernels().from_float(type, f.data(), y.data(), n);
    EXPECT_EQ(x, y) << t;
    for (int op = 0; op < 6; ++op) {
      std::vector<float> p = f, q = f;
      kKernelsBase.fold(static_cast<Fold>(op), p.data(), g.data(), 1.7F, n);
      kernels().fold(static_cast<Fold>(op), q.data(), g.data(), 1.7F, n);
      for (size_t i = 0; i < n; ++i) {
        if (std::isnan(p[i]) && std::isnan(q[i])) continue;
        ASSERT_EQ(std::memcmp(&p[i], &q[i], 4), 0) << op << " " << i;
      }
    }
  }
}

TEST(Elementwise, OperatorsAndMixedTypes) {
  const float a[] = {1.5F, -2.0F, NAN, 100.0F, 0.25F};
  const int16_t b[] = {2, 3, 4, 300, -1};
  const struct {
    Binary op;
    float expected[5];
  } cases[] = {{Binary::kAdd, {3.5F, 1, NAN, 400, -0.75F}},
               {Binary::kSubtract, {-0.5F, -5, NAN, -200, 1.25F}},
               {Binary::kMultiply, {3, -6, NAN, 30000, -0.25F}},
               {Binary::kMin, {1.5F, -2, NAN, 100, -1}},
               {Binary::kMax, {2, 3, NAN, 300, 0.25F}}};
  for (const auto& c : cases) {
    float got[5];
    elementwise(c.op, Type::kFp32, a, Type::kInt16, b, Type::kFp32, got, 5);
    uint16_t bf16[5];
    elementwise(c.op, Type::kFp32, a, Type::kInt16, b, Type::kBf16, bf16, 5);
    for (int i = 0; i < 5; ++i) {
      if (std::isnan(c.expected[i])) {
        EXPECT_TRUE(std::isnan(got[i]));
        EXPECT_EQ(bf16[i], 0x7FC0);
      } else {
        EXPECT_EQ(got[i], c.expected[i]);
        EXPECT_EQ(bf16[i], encode(Type::kBf16, c.expected[i]));
      }
    }
  }
}

}  // namespace
}  // namespace base::num
