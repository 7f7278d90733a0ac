// Averages of the POOL x POOL windows of images x[C, H, W] in float32, STRIDE apart. An image must
// fit in a partition of SBUF twice, with its result.
//
//   average_pool C H W POOL STRIDE FILE.neff
#include <soma/kernel.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr int64_t kPartitions = 128;
constexpr auto kType = kernel::DType::kFloat32;

void average_pool(kernel::Kernel& k, int64_t channels, int64_t height, int64_t width, int64_t pool,
                  int64_t stride) {
  const kernel::View x = k.input("x", kType, {channels, height, width});
  const int64_t rows = (height - pool) / stride + 1;
  const int64_t columns = (width - pool) / stride + 1;
  const kernel::View y = k.output("y", kType, {channels, rows, columns});
  kernel::Ring in = k.ring(2, {kPartitions, height, width}, kType, "in");
  kernel::Ring out = k.ring(2, {kPartitions, rows, columns}, kType, "out");
  const double share = 1.0 / static_cast<double>(pool * pool);
  for (int64_t channel = 0; channel < channels; channel += kPartitions) {
    const int64_t n = std::min(kPartitions, channels - channel);
    const kernel::View image = in.next().slice(0, 0, n);
    const kernel::View result = out.next().slice(0, 0, n);
    k.load(image, x.slice(0, channel, n));
    // (n, rows, pool, columns, pool), then the places in the window innermost.
    const kernel::View windows = image.windows(2, pool, stride).windows(1, pool, stride);
    k.tensor_reduce(result, windows.permute({0, 1, 3, 2, 4}), kernel::Op::kAdd, 2);
    k.tensor_scalar(result, result, {kernel::Op::kMultiply, share});
    k.store(y.slice(0, channel, n), result);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) {
    std::fprintf(stderr, "usage: %s C H W POOL STRIDE FILE.neff\n", argv[0]);
    return 2;
  }
  const auto number = [&](int i) { return std::atoll(argv[i]); };
  kernel::Kernel k({"average_pool"});
  average_pool(k, number(1), number(2), number(3), number(4), std::max(number(5), 1ll));
  const base::Status saved = k.save(argv[6]);
  if (!saved) std::fprintf(stderr, "%s\n", saved.error().message().c_str());
  return saved ? 0 : 1;
}
