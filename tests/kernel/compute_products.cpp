// Products in the array's modes.
#include "compute_cases.h"

namespace kernel_case {
namespace {

// e4m3 of small integers.
uint8_t to_e4m3(float value) {
  const uint8_t sign = value < 0 ? 0x80 : 0;
  const float size = value < 0 ? -value : value;
  if (size == 0) return 0;
  int exponent = 0;
  float mantissa = size;
  while (mantissa >= 2) mantissa /= 2, ++exponent;
  return static_cast<uint8_t>(sign | (exponent + 7) << 3 | static_cast<int>((mantissa - 1) * 8));
}

Case multiplies_double_rows() {
  constexpr size_t kK = 100, kM = 40, kN = 70;
  const std::vector<float> s = numbers(kK * 2 * kM, 12, 16);
  const std::vector<float> m = numbers(kK * 2 * kN, 13, 16);
  std::vector<uint8_t> s8;
  std::vector<uint8_t> m8;
  for (const float v : s) s8.push_back(to_e4m3(v));
  for (const float v : m) m8.push_back(to_e4m3(v));
  std::vector<float> y(kM * kN);
  for (size_t k = 0; k < kK; ++k) {
    for (size_t j = 0; j < 2; ++j) {
      for (size_t i = 0; i < kM * kN; ++i) {
        y[i] += s[(k * 2 + j) * kM + i / kN] * m[(k * 2 + j) * kN + i % kN];
      }
    }
  }
  return {[](Kernel& k) {
            const Tile stationary = loaded(k, "s", kU8, {kK, 2, kM});
            const Tile moving = loaded(k, "m", kU8, {kK, 2, kN});
            const Tile out = k.sbuf({kM, kN}, kF32, "out");
            const Tile product = k.psum({kM, kN}, kF32, "product");
            kernel::Product how;
            how.double_row = true;
            k.matmul(product, stationary.as(DType::kFloat8e4), moving.as(DType::kFloat8e4), how);
            k.tensor_copy(out, product);
            stored(k, "y", out);
          },
          {{"s", bytes_of(s8)}, {"m", bytes_of(m8)}},
          {{"y", bytes_of(y)}}};
}

struct Sizes {
  size_t k, m, n;
};

// y = s transposed times m, of small integers.
Case multiplies(const std::vector<float>& s, const std::vector<float>& m, Sizes size,
                kernel::Product how) {
  std::vector<float> y(size.m * size.n);
  for (size_t k = 0; k < size.k; ++k) {
    for (size_t i = 0; i < y.size(); ++i) {
      y[i] += s[k * size.m + i / size.n] * m[k * size.n + i % size.n];
    }
  }
  return {[=](Kernel& k) {
            const auto rows = static_cast<int64_t>(size.m);
            const auto columns = static_cast<int64_t>(size.n);
            const auto deep = static_cast<int64_t>(size.k);
            const Tile stationary = loaded(k, "s", kF32, {deep, rows});
            const Tile moving = loaded(k, "m", kF32, {deep, columns});
            const Tile out = k.sbuf({rows, columns}, kF32, "out");
            const Tile product = k.psum({rows, columns}, kF32, "product");
            k.matmul(product, stationary, moving, how);
            k.tensor_copy(out, product);
            stored(k, "y", out);
          },
          {{"s", bytes_of(s)}, {"m", bytes_of(m)}},
          {{"y", bytes_of(y)}}};
}

Case multiplies_ones() {
  constexpr size_t kK = 64, kM = 32, kN = 48;
  std::vector<float> s(kK * kM);
  for (size_t i = 0; i < s.size(); ++i) s[i] = i * 13 % 5 < 2 ? 1.0F : 0.0F;
  kernel::Product how;
  how.stationary_onezero = true;
  return multiplies(s, numbers(kK * kN, 14), {kK, kM, kN}, how);
}

// Over all banks of PSUM.
Case multiplies_widely() {
  constexpr size_t kK = 16, kM = 32, kN = 4096;
  return multiplies(numbers(kK * kM, 15, 16), numbers(kK * kN, 16, 16), {kK, kM, kN}, {});
}

}  // namespace

Cases product_cases(Generation generation) {
  Cases all = {{"multiplies_ones", multiplies_ones()}};
  if (generation == Generation::kV2) return all;
  all["multiplies_double_rows"] = multiplies_double_rows();
  if (generation == Generation::kV4) all["multiplies_widely"] = multiplies_widely();
  return all;
}

}  // namespace kernel_case
