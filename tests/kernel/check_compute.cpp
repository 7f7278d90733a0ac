// Instructions and control, through the whole stack, against references that are written here from
// the specification:   check_compute v2|v3|v4 [CASE]   (kernel_case.h says what comes out).
#include <algorithm>
#include <cstdint>

#include "kernel_case.h"

namespace {

using kernel::DType;
using kernel::Engine;
using kernel::Generation;
using kernel::Index;
using kernel::Kernel;
using kernel::Op;
using kernel::Reduce;
using kernel::Register;
using kernel::Tile;
using kernel::View;
using kernel_case::bytes_of;
using kernel_case::Case;

constexpr DType kF32 = DType::kFloat32;
constexpr DType kBf16 = DType::kBfloat16;
constexpr DType kI32 = DType::kInt32;
constexpr DType kU32 = DType::kUint32;
constexpr DType kU16 = DType::kUint16;
constexpr DType kU8 = DType::kUint8;
constexpr size_t kLanes = 128;

// Small integers, many of them equal.
std::vector<float> numbers(size_t n, uint32_t seed, uint32_t most = 1000) {
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i) {
    const uint32_t hash = (static_cast<uint32_t>(i) + seed) * 2654435761u;
    out[i] = static_cast<float>(static_cast<int32_t>((hash >> 12) % most) -
                                static_cast<int32_t>(most / 2));
  }
  return out;
}

// Of small integers: exact.
std::vector<uint16_t> to_bf16(const std::vector<float>& x) {
  std::vector<uint16_t> out;
  for (const float value : x) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    out.push_back(static_cast<uint16_t>(bits >> 16));
  }
  return out;
}

// A tile from and to tensors of the same size.
Tile loaded(Kernel& k, const std::string& name, DType dtype, const View::Sizes& shape) {
  const View tensor = k.input(name, dtype, shape);
  Tile tile = k.sbuf(shape, dtype, "tile of " + name);
  k.load(tile, tensor);
  return tile;
}
void stored(Kernel& k, const std::string& name, const View& tile) {
  k.store(k.output(name, tile.dtype(), tile.shape()), tile);
}

// ---- Lanes ----

Case shuffles() {
  const std::vector<float> x = numbers(kLanes * 40, 1);
  std::vector<float> y(kLanes * 40, 7.0F);
  std::vector<uint8_t> mask;
  for (uint8_t i = 0; i < 32; ++i)
    mask.push_back(i % 5 == 4 ? 255 : static_cast<uint8_t>(i * 7 % 32));
  for (size_t lane = 0; lane < kLanes; ++lane) {
    if (mask[lane % 32] == 255) continue;
    const size_t from = lane / 32 * 32 + mask[lane % 32];
    std::copy_n(x.begin() + static_cast<long>(from * 40), 40,
                y.begin() + static_cast<long>(lane * 40));
  }
  return {[=](Kernel& k) {
            const Tile in = loaded(k, "x", kF32, {128, 40});
            const Tile out = k.sbuf({128, 40}, kF32, "out");
            k.memset(out, 7.0);
            k.stream_shuffle(out, in, mask);
            stored(k, "y", out);
          },
          {{"x", bytes_of(x)}},
          {{"y", bytes_of(y)}}};
}

Case turns_blocks() {
  const std::vector<float> x = numbers(kLanes * 64, 2);
  const std::vector<float> small = numbers(8 * 20, 3);
  std::vector<float> y(kLanes * 64);
  std::vector<float> turned(20 * 8);
  for (size_t r = 0; r < kLanes; ++r) {
    for (size_t c = 0; c < 64; ++c) {
      y[(r / 32 * 32 + c % 32) * 64 + c / 32 * 32 + r % 32] = x[r * 64 + c];
    }
  }
  for (size_t r = 0; r < 8; ++r) {
    for (size_t c = 0; c < 20; ++c) turned[c * 8 + r] = small[r * 20 + c];
  }
  return {[](Kernel& k) {
            const Tile in = loaded(k, "x", kF32, {128, 64});
            const Tile few = loaded(k, "small", kF32, {8, 20});
            const Tile out = k.sbuf({128, 64}, kF32, "out");
            const Tile back = k.sbuf({20, 8}, kF32, "back");
            k.transpose_blocks(out, in);
            k.transpose_blocks(back, few);
            stored(k, "y", out);
            stored(k, "turned", back);
          },
          {{"x", bytes_of(x)}, {"small", bytes_of(small)}},
          {{"y", bytes_of(y)}, {"turned", bytes_of(turned)}}};
}

Case gathers_locally() {
  const std::vector<float> x = numbers(kLanes * 50, 4);
  std::vector<uint16_t> index(kLanes * 2);
  for (size_t i = 0; i < index.size(); ++i) index[i] = static_cast<uint16_t>(i * 37 % 47);
  std::vector<float> y(kLanes * 24 * 4);
  for (size_t lane = 0; lane < kLanes; ++lane) {
    for (size_t j = 0; j < 24; ++j) {
      const size_t from = index[(lane / 16 * 16 + j % 16) * 2 + j / 16];
      for (size_t t = 0; t < 4; ++t) {
        y[lane * 96 + j * 4 + t] = from + t < 50 ? x[lane * 50 + from + t] : 0;
      }
    }
  }
  return {[](Kernel& k) {
            const Tile in = loaded(k, "x", kF32, {128, 50});
            const Tile places = loaded(k, "index", kU16, {128, 2});
            const Tile out = k.sbuf({128, 96}, kF32, "out");
            k.local_gather(out, in, places, 4);
            stored(k, "y", out);
          },
          {{"x", bytes_of(x)}, {"index", bytes_of(index)}},
          {{"y", bytes_of(y)}}};
}

// ---- Selections and searches ----

Case selects() {
  const std::vector<float> x = numbers(kLanes * 30, 5);
  std::vector<uint8_t> mask(kLanes * 30);
  for (size_t i = 0; i < mask.size(); ++i) mask[i] = i * 5 % 3 == 0 ? static_cast<uint8_t>(i) : 0;
  std::vector<float> y;
  std::vector<float> z;
  std::vector<float> most(kLanes, -1e30F);
  for (size_t i = 0; i < x.size(); ++i) {
    y.push_back(mask[i] != 0 ? x[i] : -600.0F);
    z.push_back(mask[i] == 0 ? 2.5F : x[i]);
    most[i / 30] = std::max(most[i / 30], y[i]);
  }
  return {[](Kernel& k) {
            const Tile in = loaded(k, "x", kF32, {128, 30});
            const Tile chosen = loaded(k, "mask", kU8, {128, 30});
            const Tile out = k.sbuf({128, 30}, kF32, "out");
            const Tile largest = k.sbuf({128, 1}, kF32, "largest");
            k.select_reduce(out, chosen, in, -600.0, false, Reduce::kResetReduce);
            k.read_accumulator(largest, Engine::kVector);
            k.copy_predicated(in, 2.5, chosen, true);
            stored(k, "y", out);
            stored(k, "z", in);
            stored(k, "most", largest);
          },
          {{"x", bytes_of(x)}, {"mask", bytes_of(mask)}},
          {{"y", bytes_of(y)}, {"z", bytes_of(z)}, {"most", bytes_of(most)}}};
}

// A causal mask: lane p of block 1 sees columns up to 128 + p.
Case selects_ranges() {
  const std::vector<float> x = numbers(kLanes * 200, 6);
  std::vector<float> y;
  std::vector<float> most(kLanes, -1e30F);
  std::vector<float> last(kLanes);
  for (size_t lane = 0; lane < kLanes; ++lane) last[lane] = static_cast<float>(64 + lane);
  for (size_t i = 0; i < x.size(); ++i) {
    const auto column = static_cast<float>(i % 200);
    y.push_back(column + 3 >= 20 && column + 3 <= last[i / 200] ? x[i] : -4096.0F);
    most[i / 200] = std::max(most[i / 200], y[i]);
  }
  return {[](Kernel& k) {
            const Tile in = loaded(k, "x", kF32, {128, 200});
            const Tile bound = loaded(k, "last", kF32, {128, 1});
            const Tile out = k.sbuf({128, 200}, kF32, "out");
            const Tile largest = k.sbuf({128, 1}, kF32, "largest");
            k.range_select(out, in, {Op::kGreaterEqual, 20, Op::kLessEqual, bound, 3, -4096});
            k.read_accumulator(largest, Engine::kVector);
            stored(k, "y", out);
            stored(k, "most", largest);
          },
          {{"x", bytes_of(x)}, {"last", bytes_of(last)}},
          {{"y", bytes_of(y)}, {"most", bytes_of(most)}}};
}

// The sixteen largest of each row, by two searches, and where they are.
Case replaces() {
  const std::vector<float> x = numbers(kLanes * 90, 7, 1 << 20);
  std::vector<float> best(kLanes * 16);
  std::vector<uint32_t> places(kLanes * 8);
  for (size_t lane = 0; lane < kLanes; ++lane) {
    std::vector<float> row(x.begin() + static_cast<long>(lane * 90),
                           x.begin() + static_cast<long>(lane * 90 + 90));
    std::vector<float> sorted = row;
    std::sort(sorted.rbegin(), sorted.rend());
    std::copy_n(sorted.begin(), 16, best.begin() + static_cast<long>(lane * 16));
    // From the last value to the first: the earliest place is that of the last equal value.
    for (size_t i = 8; i-- > 0;) {
      const auto at = std::find(row.begin(), row.end(), sorted[i]);
      places[lane * 8 + i] = static_cast<uint32_t>(at - row.begin());
      *at = -1e30F;
    }
  }
  return {[](Kernel& k) {
            const Tile in = loaded(k, "x", kF32, {128, 90});
            const Tile found = k.sbuf({128, 16}, kF32, "found");
            const Tile where = k.sbuf({128, 8}, kU32, "where");
            k.max8(found.slice(1, 0, 8), in);
            k.match_replace8(in, in, found.slice(1, 0, 8), -1e30, where);
            k.max8(found.slice(1, 8, 8), in);
            stored(k, "best", found);
            stored(k, "places", where);
          },
          {{"x", bytes_of(x)}},
          {{"best", bytes_of(best)}, {"places", bytes_of(places)}}};
}

Case searches() {
  constexpr size_t kN = 150, kK = 6;  // of each group of 16 lanes, 10 columns
  std::vector<float> x(kLanes * 10);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 251);
  std::vector<float> largest(kLanes * kK);
  std::vector<uint32_t> index(kLanes * kK);
  for (size_t group = 0; group < kLanes; group += 16) {
    std::vector<std::pair<float, uint32_t>> all;
    for (uint32_t i = 0; i < kN; ++i) all.push_back({x[(group + i % 16) * 10 + i / 16], i});
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return a.first < b.first || (a.first == b.first && a.second > b.second);
    });
    for (size_t lane = group; lane < group + 16; ++lane) {
      for (size_t i = 0; i < kK; ++i) {
        largest[lane * kK + i] = all[kN - kK + i].first;
        index[lane * kK + i] = all[kN - kK + i].second;
      }
    }
  }
  const std::vector<float> ids = {0, 1, 1, 2, 2, 2, 0, 3, 3};
  const std::vector<int32_t> bounds = {9, 1, 1, 3, 3, 3, 9, 7, 7, -1, 3, 3, 6, 6, 6, -1, 9, 9};
  return {[=](Kernel& k) {
            const Tile in = loaded(k, "x", kBf16, {128, 10});
            const Tile runs = loaded(k, "ids", kF32, {1, 9});
            const Tile values = k.sbuf({128, kK}, kBf16, "values");
            const Tile where = k.sbuf({128, kK}, kU32, "where");
            const Tile ends = k.sbuf({1, 18}, kI32, "ends");
            k.topk(values, where, in, kN);
            k.sequence_bounds(ends, runs);
            stored(k, "largest", values);
            stored(k, "index", where);
            stored(k, "bounds", ends);
          },
          {{"x", bytes_of(to_bf16(x))}, {"ids", bytes_of(ids)}},
          {{"largest", bytes_of(to_bf16(largest))},
           {"index", bytes_of(index)},
           {"bounds", bytes_of(bounds)}}};
}

Case finds_nonzeros() {
  std::vector<int32_t> x(kLanes * 12);
  for (size_t i = 0; i < x.size(); ++i) x[i] = i * 11 % 4 == 0 ? static_cast<int32_t>(i) : 0;
  std::vector<int32_t> y(kLanes * 13, 77);
  for (size_t lane = 0; lane < kLanes; lane += 16) {
    int32_t* row = &y[lane * 13];
    std::fill_n(row, 12, -2);
    int32_t count = 0;
    for (int32_t i = 0; i < 12; ++i) {
      if (x[lane * 12 + static_cast<size_t>(i)] != 0) row[count++] = i + 100;
    }
    row[12] = count;
  }
  return {[](Kernel& k) {
            const Tile in = loaded(k, "x", kI32, {128, 12});
            const Tile out = k.sbuf({128, 13}, kI32, "out");
            k.memset(out, 77);
            k.nonzero_with_count(out, in, 100, -2);
            stored(k, "y", out);
          },
          {{"x", bytes_of(x)}},
          {{"y", bytes_of(y)}}};
}

// ---- Element by element ----

Case scans_in_reverse() {
  const std::vector<float> x = numbers(kLanes * 20, 8, 16);
  std::vector<float> y;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    float r = 1;
    for (size_t i = 0; i < 20; ++i) {
      const float v = x[lane * 20 + i];
      r = v - (r - v);  // b reversed-subtract (r reversed-subtract a)
      y.push_back(r);
    }
  }
  return {[](Kernel& k) {
            const Tile in = loaded(k, "x", kF32, {128, 20});
            const Tile out = k.sbuf({128, 20}, kF32, "out");
            k.tensor_tensor_scan(out, in, in, 1.0, Op::kSubtract, Op::kSubtract, true, true);
            stored(k, "y", out);
          },
          {{"x", bytes_of(x)}},
          {{"y", bytes_of(y)}}};
}

// relu(b - 2 x) and its largest; exp of what is 0 or infinitely small, and its sum.
Case activates() {
  const std::vector<float> x = numbers(kLanes * 25, 9);
  const std::vector<float> b = numbers(kLanes, 10);
  std::vector<float> y;
  std::vector<float> most(kLanes, -1e30F);
  std::vector<float> e;
  std::vector<float> sum(kLanes, 3.0F);
  for (size_t i = 0; i < x.size(); ++i) {
    y.push_back(std::max(0.0F, b[i / 25] - 2 * x[i]));
    most[i / 25] = std::max(most[i / 25], y[i]);
    e.push_back(y[i] == 0 ? 1.0F : 0.0F);
    sum[i / 25] += e[i];
  }
  return {
      [](Kernel& k) {
        const Tile in = loaded(k, "x", kF32, {128, 25});
        const Tile bias = loaded(k, "b", kF32, {128, 1});
        const Tile out = k.sbuf({128, 25}, kF32, "out");
        const Tile in_psum = k.psum({128, 25}, kF32, "in psum");
        const Tile powers = k.sbuf({128, 25}, kF32, "powers");
        const Tile largest = k.sbuf({128, 1}, kF32, "largest");
        const Tile total = k.sbuf({128, 1}, kF32, "total");
        kernel::Activation2 what;
        what.function = kernel::Function::kRelu;
        what.first = {Op::kMultiply, 2.0};
        what.second = {Op::kSubtract, bias, true};
        what.reduce = Reduce::kResetReduce;
        what.reduce_op = Op::kMax;
        k.activation2(out, in, what);
        k.read_accumulator(largest, Engine::kScalar);
        k.tensor_scalar(in_psum, out, {Op::kMultiply, -1000.0}, {Op::kAdd, 5.0});
        k.exponential(powers, in_psum, 5.0, Reduce::kLoadReduce, 3.0);
        k.read_accumulator(total, Engine::kVector);
        stored(k, "y", out);
        stored(k, "most", largest);
        stored(k, "e", powers);
        stored(k, "sum", total);
      },
      {{"x", bytes_of(x)}, {"b", bytes_of(b)}},
      {{"y", bytes_of(y)}, {"most", bytes_of(most)}, {"e", bytes_of(e)}, {"sum", bytes_of(sum)}}};
}

// ---- Random numbers ----

// The same seed gives the same bits; dropping nothing, and everything, is exact.
Case seeds() {
  const std::vector<uint32_t> seed = {4711};
  const std::vector<float> x = numbers(kLanes * 64, 11);
  return {[](Kernel& k) {
            const Tile s = loaded(k, "seed", kU32, {1, 1});
            const Tile in = loaded(k, "x", kF32, {128, 64});
            const Tile a = k.sbuf({128, 64}, kU32, "a");
            const Tile b = k.sbuf({128, 64}, kU32, "b");
            const Tile c = k.sbuf({128, 64}, kU32, "c");
            const Tile equal = k.sbuf({128, 64}, kU8, "equal");
            k.set_rng_seed(s);
            k.rng(a);
            k.rng(c);
            k.set_rng_seed(s);
            k.rng(b);
            k.tensor_tensor(b, a, b, Op::kXor);
            k.tensor_tensor(c, a, c, Op::kXor);
            stored(k, "same", b);
            // Two times 32 bits are hardly equal anywhere.
            k.tensor_scalar(equal, c.as(kI32), {Op::kEqual, 0.0});
            stored(k, "differs", equal);
            const Tile all = k.sbuf({128, 64}, kF32, "all");
            const Tile none = k.sbuf({128, 64}, kF32, "none");
            k.dropout(all, in, 0.0);
            k.dropout(none, in, 1.0);
            stored(k, "all", all);
            stored(k, "none", none);
          },
          {{"seed", bytes_of(seed)}, {"x", bytes_of(x)}},
          {{"same", bytes_of(std::vector<uint32_t>(kLanes * 64))},
           {"differs", bytes_of(std::vector<uint8_t>(kLanes * 64))},
           {"all", bytes_of(x)},
           {"none", bytes_of(std::vector<float>(kLanes * 64))}}};
}

Case states(bool vector) {
  return {[=](Kernel& k) {
            const Engine engine = vector ? Engine::kVector : Engine::kGpSimd;
            const Tile state = k.sbuf({128, vector ? 24 : 6}, kU32, "state");
            const Tile a = k.sbuf({128, 48}, kU32, "a");
            const Tile b = k.sbuf({128, 48}, kU32, "b");
            k.rand_get_state(state, engine);
            k.rng(a, engine);
            k.rand_set_state(state, engine);
            k.rng(b, engine);
            k.tensor_tensor(b, a, b, Op::kXor);
            stored(k, "same", b);
          },
          {},
          {{"same", bytes_of(std::vector<uint32_t>(kLanes * 48))}}};
}

Case is_uniform() {
  return {[](Kernel& k) {
            const Tile x = k.sbuf({128, 512}, kF32, "x");
            const Tile inside = k.sbuf({128, 512}, kU8, "inside");
            const Tile above = k.sbuf({128, 512}, kU8, "above");
            k.rand2(x, 0.1, 0.7);
            k.tensor_scalar(inside, x, {Op::kGreaterEqual, 0.1});
            k.tensor_scalar(above, x, {Op::kGreaterEqual, 0.7});
            stored(k, "inside", inside);
            stored(k, "above", above);
          },
          {},
          {{"inside", bytes_of(std::vector<uint8_t>(kLanes * 512, 1))},
           {"above", bytes_of(std::vector<uint8_t>(kLanes * 512))}}};
}

// ---- Products ----

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

Case multiplies_ones() {
  constexpr size_t kK = 64, kM = 32, kN = 48;
  std::vector<float> s(kK * kM);
  for (size_t i = 0; i < s.size(); ++i) s[i] = i * 13 % 5 < 2 ? 1.0F : 0.0F;
  const std::vector<float> m = numbers(kK * kN, 14);
  std::vector<float> y(kM * kN);
  for (size_t k = 0; k < kK; ++k) {
    for (size_t i = 0; i < kM * kN; ++i) y[i] += s[k * kM + i / kN] * m[k * kN + i % kN];
  }
  return {[](Kernel& k) {
            const Tile stationary = loaded(k, "s", kF32, {kK, kM});
            const Tile moving = loaded(k, "m", kF32, {kK, kN});
            const Tile out = k.sbuf({kM, kN}, kF32, "out");
            const Tile product = k.psum({kM, kN}, kF32, "product");
            kernel::Product how;
            how.stationary_onezero = true;
            k.matmul(product, stationary, moving, how);
            k.tensor_copy(out, product);
            stored(k, "y", out);
          },
          {{"s", bytes_of(s)}, {"m", bytes_of(m)}},
          {{"y", bytes_of(y)}}};
}

// Over all banks of PSUM.
Case multiplies_widely() {
  constexpr size_t kK = 16, kM = 32, kN = 4096;
  const std::vector<float> s = numbers(kK * kM, 15, 16);
  const std::vector<float> m = numbers(kK * kN, 16, 16);
  std::vector<float> y(kM * kN);
  for (size_t k = 0; k < kK; ++k) {
    for (size_t i = 0; i < kM * kN; ++i) y[i] += s[k * kM + i / kN] * m[k * kN + i % kN];
  }
  return {[](Kernel& k) {
            const Tile stationary = loaded(k, "s", kF32, {kK, kM});
            const Tile moving = loaded(k, "m", kF32, {kK, kN});
            const Tile out = k.sbuf({kM, kN}, kF32, "out");
            const Tile product = k.psum({kM, kN}, kF32, "product");
            k.matmul(product, stationary, moving);
            k.tensor_copy(out, product);
            stored(k, "y", out);
          },
          {{"s", bytes_of(s)}, {"m", bytes_of(m)}},
          {{"y", bytes_of(y)}}};
}

// ---- Registers, loops, branches ----

// Slices that numbers in a tile and in a tensor name, from and to tiles and tensors.
Case goes_by_registers() {
  const std::vector<float> x = numbers(kLanes * 64, 17);
  const std::vector<float> rows = numbers(6 * kLanes * 8, 18);
  const std::vector<uint16_t> places = {5, 60, 0, 31};
  const std::vector<uint32_t> row = {9, 4, 2};
  std::vector<float> y;
  std::vector<float> z(kLanes * 8 * 3, 0.0F);
  for (size_t lane = 0; lane < kLanes; ++lane) {
    for (const uint16_t place : places) {
      for (size_t i = 0; i < 4; ++i) y.push_back(x[lane * 64 + place + i]);
    }
    for (size_t i = 0; i < 8; ++i) z[lane * 24 + 8 + i] = rows[4 * kLanes * 8 + lane * 8 + i];
  }
  // 5 * 60 + 31, stored as 16 bits in a tile, and times 2^32 as 64 bits in a tensor.
  const std::vector<uint16_t> sum = {331};
  const std::vector<uint64_t> wide = {uint64_t{331} << 32};
  return {
      [](Kernel& k) {
        const Tile in = loaded(k, "x", kF32, {128, 64});
        const Tile index = loaded(k, "places", kU16, {1, 4});
        const View table = k.input("rows", kF32, {6, 128, 8});
        const View number = k.input("row", kU32, {3});
        const View out64 = k.output("wide", DType::kUint64, {1});
        const Tile out = k.sbuf({128, 16}, kF32, "out");
        const Tile three = k.sbuf({128, 24}, kF32, "three");
        const Tile total = k.sbuf({1, 1}, kU16, "total");
        k.memset(three, 0.0);
        for (int i = 0; i < 4; ++i) {
          k.register_load(Engine::kVector, Register{1}, index.slice(1, i, 1));
          k.tensor_copy(out.slice(1, 4 * i, 4), in.slice(1, Register{1}, 4));
        }
        // GpSimd makes transfers on every generation.
        kernel::Transfer how;
        how.generate = kernel::Generate::kSoftware;
        k.register_load(Engine::kGpSimd, Register{2}, number.slice(0, 1, 1));
        k.set_register(Engine::kGpSimd, 3, 1);
        k.dma_copy(three.reshape({128, 3, 8}).slice(1, Register{3}, 1).reshape({128, 8}),
                   table.slice(0, Register{2}, 1).reshape({128, 8}), how);
        using kernel::Alu;
        k.register_load(Engine::kSync, Register{4}, index.slice(1, 0, 1));
        k.register_load(Engine::kSync, Register{5}, index.slice(1, 1, 1));
        k.register_load(Engine::kSync, Register{6}, index.slice(1, 3, 1));
        k.register_alu(Engine::kSync, Register{4}, Alu::kMultiply, Register{4}, Register{5});
        k.register_alu(Engine::kSync, Register{4}, Alu::kAdd, Register{4}, Register{6});
        k.register_store(Engine::kSync, total, Register{4});
        k.set_register(Engine::kSync, 5, 0);
        k.register_alu64(Engine::kSync, Register{8}, Alu::kShiftLeft, Register{4}, 32);
        k.register_store(Engine::kSync, out64, Register{8});
        stored(k, "y", out);
        stored(k, "z", three);
        stored(k, "sum", total);
      },
      {{"x", bytes_of(x)},
       {"places", bytes_of(places)},
       {"rows", bytes_of(rows)},
       {"row", bytes_of(row)}},
      {{"y", bytes_of(y)}, {"z", bytes_of(z)}, {"sum", bytes_of(sum)}, {"wide", bytes_of(wide)}}};
}

// Loops in a loop: c[i, j] = a[i] + b[j], in a tile, with a static transfer in each outer turn, and
// counts of the inner turns that differ from turn to turn.
Case loops_in_loops() {
  constexpr size_t kI = 3, kJ = 4, kN = 5;
  const std::vector<float> a = numbers(kI * kLanes * kN, 19);
  const std::vector<float> b = numbers(kJ * kLanes * kN, 20);
  const std::vector<float> one = numbers(kLanes * kN, 21);
  const std::vector<uint32_t> count = {4, 0, 2};
  std::vector<float> c(kLanes * kI * kJ * kN);
  for (size_t at = 0; at < c.size(); ++at) {
    const size_t n = at % kN, j = at / kN % kJ, i = at / (kN * kJ) % kI, lane = at / (kN * kJ * kI);
    if (j >= count[i]) continue;
    c[at] = a[(i * kLanes + lane) * kN + n] + b[(j * kLanes + lane) * kN + n] + one[lane * kN + n];
  }
  return {
      [](Kernel& k) {
        const View x = k.input("a", kF32, {kI, 128, kN});
        const View y = k.input("b", kF32, {kJ, 128, kN});
        const View z = k.input("one", kF32, {128, kN});
        const View number = k.input("count", kU32, {kI});
        const Tile from_x = k.sbuf({128, kN}, kF32, "from x");
        const Tile from_y = k.sbuf({128, kN}, kF32, "from y");
        const Tile out = k.sbuf({128, kI * kJ * kN}, kF32, "out");
        k.memset(out, 0.0);
        k.for_loop(kI, [&](const Index& i) {
          k.dma_compute(from_x, {z});  // the same in each turn
          k.load(from_y, x.slice(0, i, 1).reshape({128, kN}));
          k.tensor_tensor(from_x, from_x, from_y, Op::kAdd);
          k.for_loop({number.slice(0, i, 1), kJ}, [&](const Index& j) {
            k.load(from_y, y.slice(0, j, 1).reshape({128, kN}));
            k.tensor_tensor(out.slice(1, i * (kJ * kN), kJ * kN).slice(1, j * kN, kN), from_x,
                            from_y, Op::kAdd);
          });
        });
        stored(k, "c", out);
      },
      {{"a", bytes_of(a)}, {"b", bytes_of(b)}, {"one", bytes_of(one)}, {"count", bytes_of(count)}},
      {{"c", bytes_of(c)}}};
}

// Doubles x until it is past the limit, which a tile says; then goes one way or the other.
Case decides(int32_t limit) {
  int32_t n = 3;
  int32_t turns = 0;
  while (n < limit && turns < 20) n *= 2, ++turns;
  const std::vector<int32_t> start = {3};
  const std::vector<int32_t> stop = {limit};
  const std::vector<int32_t> way = {turns > 4 ? 111 : 222};
  const std::vector<int32_t> last = {limit < 0 ? 1 : 0};
  return {[](Kernel& k) {
            const View bound = k.input("limit", kI32, {1});
            const Tile x = loaded(k, "start", kI32, {1, 1});
            const Tile top = k.sbuf({1, 1}, kI32, "top");
            const Tile less = k.sbuf({1, 1}, kI32, "less");
            const Tile turns = k.sbuf({1, 1}, kI32, "turns");
            const Tile way = k.sbuf({1, 1}, kI32, "way");
            const Tile negative = k.sbuf({1, 1}, kI32, "negative");
            k.load(top, bound.reshape({1, 1}));
            k.memset(turns, 0);
            k.memset(negative, 0);
            k.tensor_tensor(less, x, top, Op::kLess, Engine::kVector);
            k.while_loop({less}, 20, [&](const Index&) {
              k.tensor_tensor(x, x, x, Op::kAdd);
              k.tensor_scalar(turns, turns, {Op::kAdd, 1.0});
              k.tensor_tensor(less, x, top, Op::kLess, Engine::kVector);
            });
            k.branch(
                {turns, Op::kGreater, 4}, [&] { k.memset(way, 111); }, [&] { k.memset(way, 222); });
            k.branch({bound, Op::kLess, 0}, [&] { k.memset(negative, 1); });
            stored(k, "n", x);
            stored(k, "turned", turns);
            stored(k, "way", way);
            stored(k, "negative", negative);
          },
          {{"start", bytes_of(start)}, {"limit", bytes_of(stop)}},
          {{"n", bytes_of(std::vector<int32_t>{n})},
           {"turned", bytes_of(std::vector<int32_t>{turns})},
           {"way", bytes_of(way)},
           {"negative", bytes_of(last)}}};
}

std::map<std::string, Case> cases(Generation generation) {
  std::map<std::string, Case> all = {{"shuffles", shuffles()},
                                     {"turns_blocks", turns_blocks()},
                                     {"gathers_locally", gathers_locally()},
                                     {"selects", selects()},
                                     {"replaces", replaces()},
                                     {"searches", searches()},
                                     {"scans_in_reverse", scans_in_reverse()},
                                     {"seeds", seeds()},
                                     {"multiplies_ones", multiplies_ones()},
                                     {"goes_by_registers", goes_by_registers()},
                                     {"loops_in_loops", loops_in_loops()},
                                     {"decides", decides(1000)},
                                     {"decides_soon", decides(20)},
                                     {"decides_at_once", decides(-5)}};
  if (generation == Generation::kV2) return all;
  all["selects_ranges"] = selects_ranges();
  all["finds_nonzeros"] = finds_nonzeros();
  all["states_of_gpsimd"] = states(false);
  all["multiplies_double_rows"] = multiplies_double_rows();
  if (generation == Generation::kV3) return all;
  all["activates"] = activates();
  all["is_uniform"] = is_uniform();
  all["states_of_vector"] = states(true);
  all["multiplies_widely"] = multiplies_widely();
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, Generation> generations = {
      {"v2", Generation::kV2}, {"v3", Generation::kV3}, {"v4", Generation::kV4}};
  if (argc < 2 || argc > 3 || generations.count(argv[1]) == 0) {
    std::fprintf(stderr, "usage: %s v2|v3|v4 [CASE]\n", argv[0]);
    return 2;
  }
  const Generation generation = generations.at(argv[1]);
  return kernel_case::run_all(cases(generation), argc == 3 ? argv[2] : "", generation);
}
