// c[M, N] = at[K, M] transposed times b[K, N], in the four steps of a published optimisation.
#include <algorithm>

#include "calibrate_kernels.h"

namespace calibration {
namespace {

using kernel::Kernel;
using kernel::Tile;
using kernel::View;

constexpr int64_t kBlockM = 2048;
constexpr int64_t kBlockN = 1024;
constexpr int64_t kBlockK = 1024;

kernel::Accumulate accumulate(int64_t i) {
  return i == 0 ? kernel::Accumulate::kOverwrite : kernel::Accumulate::kAdd;
}

struct Product {
  Product(Kernel& given, const Sizes& sizes)
      : k(given),
        type(dtype_of(sizes[0])),
        m(sizes[1]),
        kk(sizes[2]),
        n(sizes[3]),
        width(std::min(kBank, n)),
        at(k.input("at", type, {kk, m})),
        b(k.input("b", type, {kk, n})),
        c(k.output("c", kFloat, {m, n})),
        sums(k.ring(8, {kPartitions, width}, kFloat, "sum", kernel::Space::kPsum)),
        out(k.ring(2, {kPartitions, width}, kFloat, "out")) {}

  View at_tile(int64_t i, int64_t row, int64_t columns) const {
    return at.slice(0, i * kPartitions, kPartitions).slice(1, row, columns);
  }
  View b_tile(int64_t i, int64_t column, int64_t columns) const {
    return b.slice(0, i * kPartitions, kPartitions).slice(1, column, columns);
  }
  void store(const View& sum, int64_t row, int64_t column) {
    const View result = out.next();
    k.tensor_copy(result, sum);
    k.store(c.slice(0, row, kPartitions).slice(1, column, width), result);
  }

  Kernel& k;
  const kernel::DType type;
  const int64_t m, kk, n, width;
  View at, b, c;
  kernel::Ring sums, out;
};

// Each product loads both of its factors.
void naive(Kernel& k, const Sizes& sizes) {
  Product p(k, sizes);
  kernel::Ring ws = k.ring(4, {kPartitions, kPartitions}, p.type, "w");
  kernel::Ring xs = k.ring(4, {kPartitions, p.width}, p.type, "x");
  for (int64_t row = 0; row < p.m; row += kPartitions) {
    for (int64_t column = 0; column < p.n; column += p.width) {
      const View sum = p.sums.next();
      for (int64_t i = 0; i * kPartitions < p.kk; ++i) {
        const View w = ws.next();
        const View x = xs.next();
        k.load(w, p.at_tile(i, row, kPartitions), kernel::Engine::kScalar);
        k.load(x, p.b_tile(i, column, p.width));
        k.matmul(sum, w, x, accumulate(i));
      }
      p.store(sum, row, column);
    }
  }
}

// The stationary factors of a row of tiles are loaded once.
void hoisted(Kernel& k, const Sizes& sizes) {
  Product p(k, sizes);
  const int64_t deep = p.kk / kPartitions;
  kernel::Ring ws = k.ring(2, {kPartitions, deep, kPartitions}, p.type, "w");
  kernel::Ring xs =
      k.ring(static_cast<size_t>(std::min<int64_t>(deep, 48)), {kPartitions, p.width}, p.type, "x");
  for (int64_t row = 0; row < p.m; row += kPartitions) {
    const View w = ws.next();
    for (int64_t i = 0; i < deep; ++i) k.load(w.index(1, i), p.at_tile(i, row, kPartitions));
    for (int64_t column = 0; column < p.n; column += p.width) {
      const View sum = p.sums.next();
      for (int64_t i = 0; i < deep; ++i) {
        const View x = xs.next();
        k.load(x, p.b_tile(i, column, p.width),
               i % 2 == 0 ? kernel::Engine::kSync : kernel::Engine::kScalar);
        k.matmul(sum, w.index(1, i), x, accumulate(i));
      }
      p.store(sum, row, column);
    }
  }
}

// Blocks of 2 x 2 tiles of the result are added up at the same time.
void blocked_free(Kernel& k, const Sizes& sizes) {
  constexpr int64_t kTiles = 2;
  Product p(k, sizes);
  kernel::Ring ws = k.ring(8, {kPartitions, kTiles * kPartitions}, p.type, "w");
  kernel::Ring xs = k.ring(8, {kPartitions, kTiles * p.width}, p.type, "x");
  for (int64_t row = 0; row < p.m; row += kTiles * kPartitions) {
    for (int64_t column = 0; column < p.n; column += kTiles * p.width) {
      View sum[kTiles * kTiles];
      for (View& s : sum) s = p.sums.next();
      for (int64_t i = 0; i * kPartitions < p.kk; ++i) {
        const View w = ws.next();
        const View x = xs.next();
        k.load(w, p.at_tile(i, row, kTiles * kPartitions));
        k.load(x, p.b_tile(i, column, kTiles * p.width));
        for (int64_t t = 0; t < kTiles * kTiles; ++t) {
          k.matmul(sum[t], w.slice(1, t / kTiles * kPartitions, kPartitions),
                   x.slice(1, t % kTiles * p.width, p.width), accumulate(i));
        }
      }
      for (int64_t t = 0; t < kTiles * kTiles; ++t) {
        p.store(sum[t], row + t / kTiles * kPartitions, column + t % kTiles * p.width);
      }
    }
  }
}

// Blocks of K as well: a block of the result stays in SBUF while they pass by. Stationary blocks
// that do not fit twice are replaced tile by tile.
void blocked(Kernel& k, const Sizes& sizes) {
  Product p(k, sizes);
  const int64_t rows = std::min(kBlockM, p.m);
  const int64_t columns = std::min(kBlockN, p.n);
  const int64_t deep = std::min(kBlockK, p.kk) / kPartitions;
  const Tile sum = k.sbuf({kPartitions, rows / kPartitions, columns}, kFloat, "block");
  kernel::Ring xs = k.ring(2, {kPartitions, deep, columns}, p.type, "x");
  const int64_t bytes = deep * rows * (p.type == kFloat ? 4 : 2);
  const bool twice = 2 * bytes <= k.largest_free(kernel::Space::kSbuf);
  kernel::Ring ws = k.ring(twice ? 2 : 1, {kPartitions, deep, rows}, p.type, "w");
  const int64_t piece = twice ? rows : kPartitions;
  for (int64_t row = 0; row < p.m; row += rows) {
    for (int64_t column = 0; column < p.n; column += columns) {
      for (int64_t first = 0; first * kPartitions < p.kk; first += deep) {
        const View w = ws.next();
        const View x = xs.next();
        for (int64_t i = 0; i < deep; ++i) {
          k.load(x.index(1, i), p.b_tile(first + i, column, columns));
        }
        for (int64_t r = 0; r < rows; r += piece) {
          for (int64_t i = 0; i < deep; ++i) {
            k.load(w.index(1, i).slice(1, r, piece), p.at_tile(first + i, row + r, piece));
          }
        }
        for (int64_t r = 0; r < rows; r += kPartitions) {
          for (int64_t q = 0; q < columns; q += p.width) {
            const View s = p.sums.next();
            for (int64_t i = 0; i < deep; ++i) {
              k.matmul(s, w.index(1, i).slice(1, r, kPartitions),
                       x.index(1, i).slice(1, q, p.width), accumulate(i));
            }
            const View to = sum.index(1, r / kPartitions).slice(1, q, p.width);
            if (first == 0) {
              k.tensor_copy(to, s);
            } else {
              k.tensor_tensor(to, to, s, kernel::Op::kAdd);
            }
          }
        }
      }
      for (int64_t r = 0; r < rows; r += kPartitions) {
        k.store(p.c.slice(0, row + r, kPartitions).slice(1, column, columns),
                sum.index(1, r / kPartitions));
      }
    }
  }
}

}  // namespace

std::vector<Case> product_cases() {
  return {{"naive", "dtype m k n", naive},
          {"hoisted", "dtype m k n", hoisted},
          {"blocked_free", "dtype m k n", blocked_free},
          {"blocked", "dtype m k n", blocked}};
}

}  // namespace calibration
