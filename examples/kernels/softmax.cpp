// y = exp(x - max(x)) / sum(exp(x - max(x))) of every row of a float32 matrix. A row must fit in a
// partition of SBUF four times.
//
//   softmax ROWS COLUMNS FILE.neff
#include <soma/kernel.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr int64_t kPartitions = 128;
constexpr auto kType = kernel::DType::kFloat32;

void softmax(kernel::Kernel& k, int64_t rows, int64_t columns) {
  using kernel::Op;
  const kernel::View x = k.input("x", kType, {rows, columns});
  const kernel::View y = k.output("y", kType, {rows, columns});
  kernel::Ring in = k.ring(2, {kPartitions, columns}, kType, "in");
  kernel::Ring out = k.ring(2, {kPartitions, columns}, kType, "out");
  kernel::Ring sums = k.ring(2, {kPartitions, 1}, kType, "sum");
  kernel::Ring maxima = k.ring(2, {kPartitions, 1}, kType, "max");
  for (int64_t row = 0; row < rows; row += kPartitions) {
    const int64_t n = std::min(kPartitions, rows - row);
    const kernel::View data = in.next().slice(0, 0, n);
    const kernel::View result = out.next().slice(0, 0, n);
    const kernel::View sum = sums.next().slice(0, 0, n);
    const kernel::View minus_max = maxima.next().slice(0, 0, n);
    k.load(data, x.slice(0, row, n));
    k.tensor_reduce(minus_max, data, Op::kMax, 1, /*negate=*/true);
    k.activation_reduce(result, sum, data, {kernel::Function::kExp, 1.0, minus_max});
    k.reciprocal(sum, sum);
    k.tensor_scalar(result, result, {Op::kMultiply, sum});
    k.store(y.slice(0, row, n), result);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s ROWS COLUMNS FILE.neff\n", argv[0]);
    return 2;
  }
  kernel::Kernel k({"softmax"});
  softmax(k, std::atoll(argv[1]), std::atoll(argv[2]));
  const base::Status saved = k.save(argv[3]);
  if (!saved) std::fprintf(stderr, "%s\n", saved.error().message().c_str());
  return saved ? 0 : 1;
}
