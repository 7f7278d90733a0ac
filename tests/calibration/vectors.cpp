// Kernels that are mostly element-wise.
#include <algorithm>

#include "calibrate_kernels.h"

namespace calibration {
namespace {

using kernel::Function;
using kernel::Kernel;
using kernel::Op;
using kernel::View;

// RMSNorm of rows of bfloat16, quantised to 8 bits with a scale for each row.
void rmsnorm_quant(Kernel& k, const Sizes& sizes) {
  const auto type = kernel::DType::kBfloat16;
  const auto narrow = kernel::DType::kFloat8e4;
  const int64_t rows = sizes[0];
  const int64_t columns = sizes[1];
  const View x = k.input("x", type, {rows, columns});
  const View weights = k.input("gamma", type, {columns});
  const View y = k.output("y", narrow, {rows, columns});
  const View scales = k.output("scale", kFloat, {rows, 1});
  const kernel::Tile gamma = k.sbuf({kPartitions, columns}, type, "gamma");
  k.load(gamma, weights.unsqueeze(0).broadcast(0, kPartitions));
  const kernel::Tile epsilon = k.sbuf({kPartitions, 1}, kFloat, "epsilon");
  k.memset(epsilon, 1e-5);
  kernel::Ring in = k.ring(2, {kPartitions, columns}, type, "in");
  kernel::Ring normal = k.ring(1, {kPartitions, columns}, type, "normal");
  kernel::Ring out = k.ring(2, {kPartitions, columns}, narrow, "out");
  kernel::Ring scalars = k.ring(8, {kPartitions, 1}, kFloat, "scalar");
  for (int64_t row = 0; row < rows; row += kPartitions) {
    const View data = in.next();
    const View scaled = normal.next();
    const View result = out.next();
    const View root = scalars.next();
    const View largest = scalars.next();
    const View least = scalars.next();
    const View inverse = scalars.next();
    k.load(data, x.slice(0, row, kPartitions));
    k.activation_reduce(scaled, root, data, {Function::kSquare});
    k.activation(root, root, {Function::kRsqrt, 1.0 / static_cast<double>(columns), epsilon});
    k.scalar_tensor_tensor(scaled, data, {Op::kMultiply, root}, Op::kMultiply, gamma);
    k.tensor_reduce(largest, scaled, Op::kMax);
    k.tensor_reduce(least, scaled, Op::kMin, 1, /*negate=*/true);
    k.tensor_scalar(largest, largest, {Op::kMax, least}, {Op::kMultiply, 1.0 / 240});
    k.reciprocal(inverse, largest);
    k.activation(result, scaled, {Function::kCopy, inverse});
    k.store(y.slice(0, row, kPartitions), result);
    k.store(scales.slice(0, row, kPartitions), largest);
  }
}

// RMSNorm of rows of float16 and their product with weights: the normal rows are transposed for it.
void norm_product(Kernel& k, const Sizes& sizes) {
  const auto type = kernel::DType::kFloat16;
  const int64_t hidden = sizes[1];
  const int64_t deep = hidden / kPartitions;
  const View x = k.input("x", type, {sizes[0], hidden});
  const View weights = k.input("w", type, {hidden, sizes[2]});
  const View y = k.output("y", type, {sizes[0], sizes[2]});
  const kernel::Tile w = k.sbuf({kPartitions, deep, sizes[2]}, type, "w");
  k.load(w, weights.reshape({deep, kPartitions, sizes[2]}).permute({1, 0, 2}),
         kernel::Engine::kScalar);
  const kernel::Tile identity = k.sbuf({kPartitions, kPartitions}, type, "identity");
  k.identity(identity);
  const kernel::Tile epsilon = k.sbuf({kPartitions, 1}, kFloat, "epsilon");
  k.memset(epsilon, 1e-5);
  kernel::Ring in = k.ring(2, {kPartitions, hidden}, type, "in");
  kernel::Ring normal = k.ring(2, {kPartitions, hidden}, type, "normal");
  kernel::Ring turned = k.ring(2, {kPartitions, deep, kPartitions}, type, "turned");
  kernel::Ring out = k.ring(2, {kPartitions, sizes[2]}, type, "out");
  kernel::Ring roots = k.ring(2, {kPartitions, 1}, kFloat, "root");
  const auto psum = kernel::Space::kPsum;
  kernel::Ring transposes = k.ring(4, {kPartitions, kPartitions}, kFloat, "transpose", psum);
  kernel::Ring sums = k.ring(2, {kPartitions, sizes[2]}, kFloat, "sum", psum);
  for (int64_t row = 0; row < sizes[0]; row += kPartitions) {
    const View data = in.next();
    const View scaled = normal.next();
    const View columns = turned.next();
    const View root = roots.next();
    const View sum = sums.next();
    const View result = out.next();
    k.load(data, x.slice(0, row, kPartitions));
    k.activation_reduce(scaled, root, data, {Function::kSquare});
    k.activation(root, root, {Function::kRsqrt, 1.0 / static_cast<double>(hidden), epsilon});
    k.tensor_scalar(scaled, data, {Op::kMultiply, root});
    for (int64_t i = 0; i < deep; ++i) {
      const View tile = transposes.next();
      k.transpose(tile, scaled.slice(1, i * kPartitions, kPartitions), identity);
      k.tensor_copy(columns.index(1, i), tile);
    }
    for (int64_t i = 0; i < deep; ++i) {
      k.matmul(sum, columns.index(1, i), w.index(1, i),
               i == 0 ? kernel::Accumulate::kOverwrite : kernel::Accumulate::kAdd);
    }
    k.tensor_copy(result, sum);
    k.store(y.slice(0, row, kPartitions), result);
  }
}

// Means of images of HEIGHT x WIDTH in float32 over their whole area, by stripes.
void average(Kernel& k, const Sizes& sizes) {
  constexpr int64_t kStripe = 8192;
  const int64_t images = sizes[0];
  const int64_t area = sizes[1];
  const View x = k.input("x", kFloat, {images, area});
  const View y = k.output("y", kFloat, {images, 1});
  const int64_t stripes = (area + kStripe - 1) / kStripe;
  kernel::Ring in = k.ring(3, {kPartitions, std::min(kStripe, area)}, kFloat, "in");
  kernel::Ring partial = k.ring(2, {kPartitions, stripes}, kFloat, "partial");
  kernel::Ring out = k.ring(2, {kPartitions, 1}, kFloat, "out");
  for (int64_t image = 0; image < images; image += kPartitions) {
    const int64_t n = std::min(kPartitions, images - image);
    const View sums = partial.next().slice(0, 0, n);
    const View mean = out.next().slice(0, 0, n);
    for (int64_t i = 0; i < stripes; ++i) {
      const int64_t columns = std::min(kStripe, area - i * kStripe);
      const View data = in.next().slice(0, 0, n).slice(1, 0, columns);
      k.load(data, x.slice(0, image, n).slice(1, i * kStripe, columns));
      k.tensor_reduce(sums.slice(1, i, 1), data, Op::kAdd);
    }
    k.tensor_reduce(mean, sums, Op::kAdd);
    k.tensor_scalar(mean, mean, {Op::kMultiply, 1.0 / static_cast<double>(area)});
    k.store(y.slice(0, image, n), mean);
  }
}

}  // namespace

std::vector<Case> vector_cases() {
  return {{"rmsnorm_quant", "rows columns", rmsnorm_quant},
          {"norm_product", "rows hidden columns", norm_product},
          {"average", "images area", average}};
}

}  // namespace calibration
