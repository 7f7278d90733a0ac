// Transfers whose descriptors engines make, through the whole stack: each case writes a kernel,
// loads it with libnrt and compares what comes out:   check_dma [CASE] Exit status: 0 right, 1
// wrong data or a failed call, 2 wrong usage.
#include "kernel_case.h"

namespace {

using kernel::DType;
using kernel::Generate;
using kernel::Kernel;
using kernel::Transfer;
using kernel::View;
using kernel_case::bytes_of;
using kernel_case::Case;

constexpr DType kF32 = DType::kFloat32;
constexpr DType kU32 = DType::kUint32;
constexpr DType kU16 = DType::kUint16;

Transfer made(Generate generate) {
  Transfer how;
  how.generate = generate;
  return how;
}

std::vector<float> floats(size_t n, uint32_t seed) {
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<float>((i * 2654435761u + seed) >> 20);
  return out;
}
std::vector<uint16_t> halves(size_t n) {
  std::vector<uint16_t> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<uint16_t>(i * 40503 + 11);
  return out;
}

// ---- Cases ----

Case copies(Generate generate, kernel::Engine engine) {
  const std::vector<float> x = floats(200 * 96, 1);
  std::vector<float> y;
  for (size_t row = 30; row < 158; ++row) {
    y.insert(y.end(), x.begin() + static_cast<long>(row * 96),
             x.begin() + static_cast<long>(row * 96 + 64));
  }
  return {[=](Kernel& k) {
            const View in = k.input("x", kF32, {200, 96});
            const View out = k.output("y", kF32, {128, 64});
            const kernel::Tile t = k.sbuf({128, 64}, kF32, "t");
            Transfer how = made(generate);
            how.engine = engine;
            k.dma_copy(t, in.slice(0, 30, 128).slice(1, 0, 64), how);
            k.dma_copy(out, t, how);
          },
          {{"x", bytes_of(x)}},
          {{"y", bytes_of(y)}}};
}

// Six slices, by a register each; the last one lies behind the tensor.
Case dynamic(bool skip) {
  const std::vector<float> x = floats(40 * 10, 2);
  std::vector<float> y(6 * 4 * 10);
  const uint32_t nothing = 0xEEEE'EEEE;
  for (size_t i = 0; i < 6; ++i) {
    for (size_t e = 0; e < 40; ++e) {
      const size_t at = i * 80 + e;  // rows of ten
      if (at < x.size()) y[i * 40 + e] = x[at];
      if (at >= x.size()) std::memcpy(&y[i * 40 + e], &nothing, 4);
    }
  }
  return {[=](Kernel& k) {
            const View in = k.input("x", kF32, {40, 10});
            const View out = k.output("y", kF32, {24, 10});
            Transfer how = made(Generate::kHardware);
            how.offset_register = 7;
            how.skip = skip;
            for (int64_t i = 0; i < 6; ++i) {
              k.set_register(kernel::Engine::kSync, 7, static_cast<uint32_t>(8 * i));
              for (int64_t row = 0; row < 4; ++row) {
                k.dma_copy(out.slice(0, 4 * i + row, 1), in.slice(0, row, 1), how);
              }
            }
          },
          {{"x", bytes_of(x)}},
          {{"y", bytes_of(y)}}};
}

Case converts() {
  const std::vector<float> x = floats(128 * 20, 3);
  std::vector<int32_t> y;
  for (const float f : x) y.push_back(static_cast<int32_t>(f));
  return {[](Kernel& k) {
            const View in = k.input("x", kF32, {128, 20});
            const View out = k.output("y", DType::kInt32, {128, 20});
            k.dma_copy(out, in, made(Generate::kSoftware));
          },
          {{"x", bytes_of(x)}},
          {{"y", bytes_of(y)}}};
}

Case accumulates() {
  const std::vector<float> x = floats(128 * 20, 4);
  std::vector<float> y;
  for (const float f : x) y.push_back(3 * f);
  return {[](Kernel& k) {
            const View in = k.input("x", kF32, {128, 20});
            const View out = k.output("y", kF32, {128, 20});
            const kernel::Tile t = k.sbuf({128, 20}, kF32, "t");
            k.load(t, in);
            Transfer how = made(Generate::kSoftware);
            how.accumulate = true;
            k.dma_copy(t, in, how);
            how.generate = Generate::kStatic;
            k.dma_copy(t, in, how);
            k.store(out, t);
          },
          {{"x", bytes_of(x)}},
          {{"y", bytes_of(y)}}};
}

Case folds() {
  const std::vector<float> a = floats(64 * 33, 5);
  const std::vector<float> b = floats(64 * 33, 6);
  std::vector<float> sum, least;
  for (size_t i = 0; i < a.size(); ++i) {
    sum.push_back(0.5F * a[i] + 4 * b[i]);
    least.push_back(a[i] < b[i] ? a[i] : b[i]);
  }
  return {[](Kernel& k) {
            const View x = k.input("a", kF32, {64, 33});
            const View y = k.input("b", kF32, {64, 33});
            const View sums = k.output("sum", kF32, {64, 33});
            const View mins = k.output("least", kF32, {64, 33});
            const kernel::Tile t = k.sbuf({64, 33}, kF32, "t");
            k.dma_compute(t, {x, y}, {kernel::Op::kAdd, {0.5, 4.0}});
            k.dma_compute(mins, {x, y}, {kernel::Op::kMin, {}});
            k.store(sums, t);
          },
          {{"a", bytes_of(a)}, {"b", bytes_of(b)}},
          {{"sum", bytes_of(sum)}, {"least", bytes_of(least)}}};
}

std::vector<uint32_t> some_rows(size_t n, uint32_t of) {
  std::vector<uint32_t> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<uint32_t>((i * 37 + 5) % of);
  return out;
}

// With one index that the table does not have, and then what is asked for it.
Case gathers(bool bad, bool skip) {
  const std::vector<float> table = floats(90 * 50, 7);
  std::vector<uint32_t> index = some_rows(100, 90);
  if (bad) index[40] = 90;
  std::vector<float> y;
  for (const uint32_t row : index) {
    const size_t at = row < 90 ? row : 0;
    y.insert(y.end(), table.begin() + static_cast<long>(at * 50),
             table.begin() + static_cast<long>(at * 50 + 50));
  }
  if (bad) std::fill(&y[40 * 50], &y[41 * 50], 4.0F);
  Case out{[=](Kernel& k) {
             const View in = k.input("table", kF32, {90, 50});
             const View rows = k.input("index", kU32, {100, 1});
             const View result = k.output("y", kF32, {100, 50});
             const kernel::Tile i = k.sbuf({100, 1}, kU32, "i");
             const kernel::Tile t = k.sbuf({100, 50}, kF32, "t");
             k.memset(t, 4.0);
             k.load(i, rows);
             Transfer how;
             how.skip = skip;
             k.load_rows(t, in, i, how);
             k.store(result, t);
           },
           {{"table", bytes_of(table)}, {"index", bytes_of(index)}},
           {{"y", bytes_of(y)}}};
  if (bad && !skip) out.status = NRT_EXEC_OOB;
  return out;
}

// Rows of x to places in y, some of them twice.
Case scatters(bool add) {
  const std::vector<float> x = floats(64 * 24, 8);
  std::vector<uint32_t> index = some_rows(64, add ? 10 : 97);
  std::vector<float> y(100 * 24, 1.0F);
  for (size_t i = 0; i < 64; ++i) {
    for (size_t e = 0; e < 24; ++e) {
      float& place = y[index[i] * 24 + e];
      place = add ? place + x[i * 24 + e] : x[i * 24 + e];
    }
  }
  return {[=](Kernel& k) {
            const View in = k.input("x", kF32, {64, 24});
            const View rows = k.input("index", kU32, {64, 1});
            const View out = k.output("y", kF32, {100, 24});
            const kernel::Tile i = k.sbuf({64, 1}, kU32, "i");
            const kernel::Tile t = k.sbuf({64, 24}, kF32, "t");
            const kernel::Tile ones = k.sbuf({100, 24}, kF32, "ones");
            k.memset(ones, 1.0);
            k.store(out, ones);
            k.load(i, rows);
            k.load(t, in);
            Transfer how;
            how.accumulate = add;
            k.store_rows(out, t, i, how, add);
          },
          {{"x", bytes_of(x)}, {"index", bytes_of(index)}},
          {{"y", bytes_of(y)}}};
}

Case transposes() {
  const std::vector<uint16_t> x = halves(96 * 100);
  std::vector<uint16_t> y;
  for (size_t c = 0; c < 100; ++c) {
    for (size_t r = 0; r < 96; ++r) y.push_back(x[r * 100 + c]);
  }
  return {[](Kernel& k) {
            const View in = k.input("x", kU16, {96, 100});
            const View out = k.output("y", kU16, {100, 96});
            const kernel::Tile t = k.sbuf({100, 96}, kU16, "t");
            k.dma_transpose(t, in, made(Generate::kHardware));
            k.store(out, t);
          },
          {{"x", bytes_of(x)}},
          {{"y", bytes_of(y)}}};
}

// dst[d,b,c,a] = src[a,b,c,d] in float32, and a matrix of bfloat16 from tile to tile.
Case transposes_statically() {
  constexpr size_t kA = 7, kB = 2, kC = 3, kD = 50;
  const std::vector<float> x = floats(kA * kB * kC * kD, 9);
  const std::vector<uint16_t> m = halves(30 * 21);
  std::vector<float> y;
  std::vector<uint16_t> n;
  for (size_t d = 0; d < kD; ++d) {
    for (size_t i = 0; i < kB * kC; ++i) {
      for (size_t a = 0; a < kA; ++a) y.push_back(x[(a * kB * kC + i) * kD + d]);
    }
  }
  for (size_t c = 0; c < 21; ++c) {
    for (size_t r = 0; r < 30; ++r) n.push_back(m[r * 21 + c]);
  }
  return {[](Kernel& k) {
            const View in = k.input("x", kF32, {kA, kB, kC, kD});
            const View matrix = k.input("m", kU16, {30, 21});
            const View out = k.output("y", kF32, {kD, kB, kC, kA});
            const View turned = k.output("n", kU16, {21, 30});
            const kernel::Tile t = k.sbuf({kD, kB, kC, kA}, kF32, "t");
            const kernel::Tile from = k.sbuf({30, 21}, kU16, "from");
            const kernel::Tile to = k.sbuf({21, 30}, kU16, "to");
            k.dma_transpose(t, in);
            k.store(out, t);
            k.load(from, matrix);
            k.dma_transpose(to, from);
            k.store(turned, to);
          },
          {{"x", bytes_of(x)}, {"m", bytes_of(m)}},
          {{"y", bytes_of(y)}, {"n", bytes_of(n)}}};
}

Case transposes_rows() {
  const std::vector<uint16_t> table = halves(300 * 64);
  const std::vector<uint32_t> index = some_rows(256, 300);  // column by column
  std::vector<uint32_t> stored(256);
  for (size_t i = 0; i < 256; ++i) stored[i % 128 * 2 + i / 128] = index[i];
  std::vector<uint16_t> y;
  for (size_t c = 0; c < 64; ++c) {
    for (const uint32_t row : index) y.push_back(table[row * 64 + c]);
  }
  return {[](Kernel& k) {
            const View in = k.input("table", kU16, {300, 64});
            const View rows = k.input("index", kU32, {128, 2});
            const View out = k.output("y", kU16, {64, 256});
            const kernel::Tile i = k.sbuf({128, 2}, kU32, "i");
            const kernel::Tile t = k.sbuf({64, 256}, kU16, "t");
            k.load(i, rows);
            k.load_rows_transposed(t, in, i);
            k.store(out, t);
          },
          {{"table", bytes_of(table)}, {"index", bytes_of(stored)}},
          {{"y", bytes_of(y)}}};
}

// c[i] = a[i] + b[i] for as many i as a tensor says, up to ten; all of them in one tile, too.
Case loops(uint32_t turns) {
  constexpr size_t kMost = 10, kRows = 128, kColumns = 16, kBlock = kRows * kColumns;
  const std::vector<float> a = floats(kMost * kBlock, 12);
  const std::vector<float> b = floats(kMost * kBlock, 13);
  std::vector<float> c(kMost * kBlock);
  std::vector<float> all(kMost * kBlock, 0.0F);
  std::memset(c.data(), 0xEE, c.size() * sizeof(float));
  for (size_t i = 0; i < kMost && i < turns; ++i) {
    for (size_t e = 0; e < kBlock; ++e) {
      const size_t at = i * kBlock + e;
      c[at] = a[at] + b[at];
      all[e / kColumns * kMost * kColumns + i * kColumns + e % kColumns] = c[at];
    }
  }
  return {[](Kernel& k) {
            const View x = k.input("a", kF32, {kMost, kRows, kColumns});
            const View y = k.input("b", kF32, {kMost, kRows, kColumns});
            const View count = k.input("count", kU32, {2});
            const View out = k.output("c", kF32, {kMost, kRows, kColumns});
            const View sums = k.output("all", kF32, {kRows, kMost * kColumns});
            const kernel::Tile one = k.sbuf({kRows, kColumns}, kF32, "one");
            const kernel::Tile other = k.sbuf({kRows, kColumns}, kF32, "other");
            const kernel::Tile tile = k.sbuf({kRows, kMost * kColumns}, kF32, "tile");
            k.memset(tile, 0.0);
            k.for_loop({count.slice(0, 1, 1), kMost}, [&](const kernel::Index& i) {
              const View sum = tile.slice(1, i * kColumns, kColumns);
              k.load(one, x.slice(0, i, 1).reshape({kRows, kColumns}));
              k.load(other, y.slice(0, i, 1).reshape({kRows, kColumns}));
              k.tensor_tensor(sum, one, other, kernel::Op::kAdd);
              k.store(out.slice(0, i, 1).reshape({kRows, kColumns}), sum);
            });
            k.store(sums, tile);
          },
          {{"a", bytes_of(a)},
           {"b", bytes_of(b)},
           {"count", bytes_of(std::vector<uint32_t>{99, turns})}},
          {{"c", bytes_of(c)}, {"all", bytes_of(all)}}};
}

const std::map<std::string, Case>& cases() {
  using kernel::Engine;
  static const std::map<std::string, Case> all = {
      {"hardware", copies(Generate::kHardware, Engine::kAuto)},
      {"hardware_scalar", copies(Generate::kHardware, Engine::kScalar)},
      {"software", copies(Generate::kSoftware, Engine::kAuto)},
      {"dynamic", dynamic(true)},
      {"converts", converts()},
      {"accumulates", accumulates()},
      {"folds", folds()},
      {"gathers", gathers(false, false)},
      {"skips", gathers(true, true)},
      {"out_of_bounds", gathers(true, false)},
      {"scatters", scatters(false)},
      {"adds_rows", scatters(true)},
      {"transposes", transposes()},
      {"transposes_statically", transposes_statically()},
      {"transposes_rows", transposes_rows()},
      {"loops", loops(7)},
      {"loops_at_most", loops(11)},
      {"loops_never", loops(0)}};
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  return kernel_case::run_all(cases(), argc == 2 ? argv[1] : "", kernel::Generation::kV3);
}
