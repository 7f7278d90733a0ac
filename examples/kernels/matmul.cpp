// c[M, N] = at[K, M] transposed times b[K, N] in float32, for any K, M and N: products of tiles of
// 128 x 128 by 128 x 512, added up over K in PSUM.
//
//   matmul M K N FILE.neff
#include <soma/kernel.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr int64_t kRows = 128;     // of the array: K
constexpr int64_t kColumns = 128;  // of the array: M
constexpr int64_t kBank = 512;     // float32 of a bank of PSUM: N
constexpr auto kType = kernel::DType::kFloat32;

void matmul(kernel::Kernel& k, int64_t m_size, int64_t k_size, int64_t n_size) {
  using kernel::Accumulate;
  const kernel::View at = k.input("at", kType, {k_size, m_size});
  const kernel::View b = k.input("b", kType, {k_size, n_size});
  const kernel::View c = k.output("c", kType, {m_size, n_size});
  kernel::Ring stationary = k.ring(4, {kRows, kColumns}, kType, "at");
  kernel::Ring moving = k.ring(4, {kRows, kBank}, kType, "b");
  kernel::Ring products = k.ring(2, {kColumns, kBank}, kType, "product", kernel::Space::kPsum);
  kernel::Ring results = k.ring(2, {kColumns, kBank}, kType, "result");
  for (int64_t m = 0; m < m_size; m += kColumns) {
    const int64_t ms = std::min(kColumns, m_size - m);
    for (int64_t n = 0; n < n_size; n += kBank) {
      const int64_t ns = std::min(kBank, n_size - n);
      const kernel::View product = products.next().slice(0, 0, ms).slice(1, 0, ns);
      for (int64_t i = 0; i < k_size; i += kRows) {
        const int64_t ks = std::min(kRows, k_size - i);
        const kernel::View w = stationary.next().slice(0, 0, ks).slice(1, 0, ms);
        const kernel::View x = moving.next().slice(0, 0, ks).slice(1, 0, ns);
        k.load(w, at.slice(0, i, ks).slice(1, m, ms));
        k.load(x, b.slice(0, i, ks).slice(1, n, ns));
        k.matmul(product, w, x, i == 0 ? Accumulate::kOverwrite : Accumulate::kAdd);
      }
      const kernel::View result = results.next().slice(0, 0, ms).slice(1, 0, ns);
      k.tensor_copy(result, product);
      k.store(c.slice(0, m, ms).slice(1, n, ns), result);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: %s M K N FILE.neff\n", argv[0]);
    return 2;
  }
  kernel::Kernel k({"matmul"});
  matmul(k, std::atoll(argv[1]), std::atoll(argv[2]), std::atoll(argv[3]));
  const base::Status saved = k.save(argv[4]);
  if (!saved) std::fprintf(stderr, "%s\n", saved.error().message().c_str());
  return saved ? 0 : 1;
}
