// What a matrix product costs on this processor, one thread: bench_blas N prints nanoseconds of a
// product of N x N float32 matrices by OpenBLAS, best of some rounds.
#include <cblas.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  constexpr int kRounds = 5;
  const int n = argc == 2 ? std::atoi(argv[1]) : 0;
  if (n <= 0) {
    std::fprintf(stderr, "usage: %s N\n", argv[0]);
    return 2;
  }
  const size_t size = static_cast<size_t>(n) * static_cast<size_t>(n);
  const std::vector<float> a(size, 1.5F);
  const std::vector<float> b(size, 0.25F);
  std::vector<float> c(size);
  openblas_set_num_threads(1);
  double best = 1e30;
  for (int i = 0; i < kRounds; ++i) {
    const auto begin = Clock::now();
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, a.data(), n, b.data(), n, 0,
                c.data(), n);
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::printf("%.0f\n", 1e9 * best);
  return c[0] == 0.375F * static_cast<float>(n) ? 0 : 1;
}
