// RMSNorm and LayerNorm of the rows of a float32 matrix:
//   rms:   y = x / sqrt(mean(x^2) + eps) * gamma
//   layer: y = (x - mean(x)) / sqrt(variance(x) + eps) * gamma + beta
//
//   norm rms|layer ROWS COLUMNS FILE.neff
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "stages.h"

namespace {

constexpr int64_t kPartitions = 128;
constexpr double kEpsilon = 1e-5;
constexpr auto kType = kernel::DType::kFloat32;
using kernel::Op;

// A row that every partition needs, loaded once.
kernel::Tile everywhere(kernel::Kernel& k, const char* name, int64_t columns) {
  const kernel::View row = k.input(name, kType, {columns});
  kernel::Tile tile = k.sbuf({kPartitions, columns}, kType, name);
  k.load(tile, row.unsqueeze(0).broadcast(0, kPartitions));
  return tile;
}

void norm(kernel::Kernel& k, bool layer, int64_t rows, int64_t columns) {
  const double share = 1.0 / static_cast<double>(columns);
  const kernel::View x = k.input("x", kType, {rows, columns});
  const kernel::View y = k.output("y", kType, {rows, columns});
  const kernel::Tile gamma = everywhere(k, "gamma", columns);
  kernel::Tile beta;
  if (layer) beta = everywhere(k, "beta", columns);
  const kernel::Tile epsilon = k.sbuf({kPartitions, 1}, kType, "epsilon");
  k.memset(epsilon, kEpsilon);
  kernel::Ring in = k.ring(2, {kPartitions, columns}, kType, "in");
  kernel::Ring out = k.ring(2, {kPartitions, columns}, kType, "out");
  kernel::Ring scalars = k.ring(4, {kPartitions, 1}, kType, "scalar");
  for (int64_t row = 0; row < rows; row += kPartitions) {
    const int64_t n = std::min(kPartitions, rows - row);
    const kernel::View data = in.next().slice(0, 0, n);
    const kernel::View result = out.next().slice(0, 0, n);
    const kernel::View mean = scalars.next().slice(0, 0, n);
    const kernel::View scale = scalars.next().slice(0, 0, n);
    k.load(data, x.slice(0, row, n));
    if (layer) {
      k.tensor_reduce(mean, data, Op::kAdd);
      k.tensor_scalar(mean, mean, {Op::kMultiply, share});
      k.tensor_scalar(data, data, {Op::kSubtract, mean});
    }
    stages::inverse_rms(k, scale, result, data, epsilon.slice(0, 0, n));
    k.scalar_tensor_tensor(result, data, {Op::kMultiply, scale}, Op::kMultiply,
                           gamma.slice(0, 0, n));
    if (layer) k.tensor_tensor(result, result, beta.slice(0, 0, n), Op::kAdd);
    k.store(y.slice(0, row, n), result);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool layer = argc == 5 && std::strcmp(argv[1], "layer") == 0;
  if (argc != 5 || (!layer && std::strcmp(argv[1], "rms") != 0)) {
    std::fprintf(stderr, "usage: %s rms|layer ROWS COLUMNS FILE.neff\n", argv[0]);
    return 2;
  }
  kernel::Kernel k({"norm"});
  norm(k, layer, std::atoll(argv[2]), std::atoll(argv[3]));
  const base::Status saved = k.save(argv[4]);
  if (!saved) std::fprintf(stderr, "%s\n", saved.error().message().c_str());
  return saved ? 0 : 1;
}
