// c[M, N] = at[K, M] transposed times b[K, N] in float32 or bfloat16, c in float32, for any K, M,
// N.
//
// Blocks of c stay in SBUF while blocks of at and b pass by, so that each of them is loaded once
// for many products; tiles of 128 x 128 by 128 x 512 are added up in PSUM over the K of a block,
// and in SBUF over blocks.
//
//   matmul float32|bfloat16 M K N FILE.neff
#include <soma/kernel.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "stages.h"

namespace {

constexpr int64_t kBlockM = 2048;  // of c, with
constexpr int64_t kBlockN = 1024;  // 64 KiB in each partition
constexpr int64_t kBlockK = 512;   // of at and b, 24 KiB in float32, twice
using stages::kBank;
using stages::kFloat;
using stages::kTile;
using stages::View;

class Product {
 public:
  Product(kernel::Kernel& k, kernel::DType type)
      : k_(k),
        stationary_(k.ring(2, {kTile, kBlockK / kTile, kBlockM}, type, "at")),
        moving_(k.ring(2, {kTile, kBlockK / kTile, kBlockN}, type, "b")),
        sums_(k.sbuf({kTile, kBlockM / kTile, kBlockN}, kFloat, "sum")),
        products_(k.ring(8, {kTile, kBank}, kFloat, "product", kernel::Space::kPsum)) {}

  void block(const View& at, const View& b, const View& c) {
    const int64_t k_size = at.size(0);
    for (int64_t first = 0; first < k_size; first += kBlockK) {
      const int64_t ks = std::min(kBlockK, k_size - first);
      const View w = stationary_.next();
      const View x = moving_.next();
      stages::load_rows(k_, w, at.slice(0, first, ks));
      stages::load_rows(k_, x, b.slice(0, first, ks));
      for (int64_t m = 0; m < c.size(0); m += kTile) {
        const int64_t ms = std::min(kTile, c.size(0) - m);
        for (int64_t n = 0; n < c.size(1); n += kBank) {
          const int64_t ns = std::min(kBank, c.size(1) - n);
          const View product = multiply(w.slice(2, m, ms), x.slice(2, n, ns), ks);
          const View sum = sums_.index(1, m / kTile).slice(0, 0, ms).slice(1, n, ns);
          if (first == 0) {
            k_.tensor_copy(sum, product);
          } else {
            k_.tensor_tensor(sum, sum, product, kernel::Op::kAdd);
          }
        }
        if (first + ks < k_size) continue;
        k_.store(c.slice(0, m, ms),
                 sums_.index(1, m / kTile).slice(0, 0, ms).slice(1, 0, c.size(1)));
      }
    }
  }

 private:
  View multiply(const View& w, const View& x, int64_t ks) {
    const View product = products_.next().slice(0, 0, w.size(2)).slice(1, 0, x.size(2));
    for (int64_t i = 0; i * kTile < ks; ++i) {
      const int64_t rows = std::min(kTile, ks - i * kTile);
      k_.matmul(product, w.index(1, i).slice(0, 0, rows), x.index(1, i).slice(0, 0, rows),
                i == 0 ? kernel::Accumulate::kOverwrite : kernel::Accumulate::kAdd);
    }
    return product;
  }

  kernel::Kernel& k_;
  kernel::Ring stationary_, moving_;
  kernel::Tile sums_;
  kernel::Ring products_;
};

void matmul(kernel::Kernel& k, kernel::DType type, int64_t m_size, int64_t k_size, int64_t n_size) {
  const View at = k.input("at", type, {k_size, m_size});
  const View b = k.input("b", type, {k_size, n_size});
  const View c = k.output("c", kFloat, {m_size, n_size});
  Product product(k, type);
  for (int64_t m = 0; m < m_size; m += kBlockM) {
    const int64_t ms = std::min(kBlockM, m_size - m);
    for (int64_t n = 0; n < n_size; n += kBlockN) {
      const int64_t ns = std::min(kBlockN, n_size - n);
      product.block(at.slice(1, m, ms), b.slice(1, n, ns), c.slice(0, m, ms).slice(1, n, ns));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool bfloat16 = argc == 6 && std::strcmp(argv[1], "bfloat16") == 0;
  if (argc != 6 || (!bfloat16 && std::strcmp(argv[1], "float32") != 0)) {
    std::fprintf(stderr, "usage: %s float32|bfloat16 M K N FILE.neff\n", argv[0]);
    return 2;
  }
  kernel::Kernel k({"matmul"});
  matmul(k, bfloat16 ? kernel::DType::kBfloat16 : kFloat, std::atoll(argv[2]), std::atoll(argv[3]),
         std::atoll(argv[4]));
  const base::Status saved = k.save(argv[5]);
  if (!saved) std::fprintf(stderr, "%s\n", saved.error().message().c_str());
  return saved ? 0 : 1;
}
