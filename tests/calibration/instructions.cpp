// Single instructions and chains of them, on data that nobody loaded: durations do not depend on
// it.
#include "calibrate_kernels.h"

namespace calibration {
namespace {

using kernel::Engine;
using kernel::Kernel;
using kernel::Op;
using kernel::Tile;

// COUNT of them, each on the result of the one before.
void activations(Kernel& k, const Sizes& sizes) {
  const Tile x = k.sbuf({kPartitions, sizes[0]}, dtype_of(sizes[1]), "x");
  for (int64_t i = 0; i < sizes[2]; ++i) k.activation(x, x, {kernel::Function::kCopy});
}

// Twice: the first brings the table.
void table(Kernel& k, const Sizes&) {
  const Tile x = k.sbuf({kPartitions, 1}, kFloat, "x");
  for (int i = 0; i < 2; ++i) k.activation(x, x, {kernel::Function::kExp});
}

void weights_and_product(Kernel& k, const Sizes& sizes) {
  const auto type = kernel::DType::kBfloat16;
  const Tile w = k.sbuf({kPartitions, sizes[0]}, type, "w");
  const Tile x = k.sbuf({kPartitions, sizes[1]}, type, "x");
  const Tile y = k.psum({sizes[0], sizes[1]}, kFloat, "y");
  k.load_weights(w);
  k.multiply(y, x);
}

// One pass of float32 after another with the same weights.
void passes(Kernel& k, const Sizes& sizes) {
  const Tile w = k.sbuf({kPartitions, kPartitions}, dtype_of(sizes[0]), "w");
  const Tile x = k.sbuf({kPartitions, sizes[1]}, dtype_of(sizes[0]), "x");
  const Tile y = k.psum({kPartitions, sizes[1]}, kFloat, "y");
  for (int64_t i = 0; i < sizes[2]; ++i) k.matmul(y, w, x, kernel::Accumulate::kAdd);
}

void tensor_tensor(Kernel& k, const Sizes& sizes) {
  const Tile a = k.sbuf({sizes[0], sizes[1]}, kFloat, "a");
  const Tile b = k.sbuf({sizes[0], sizes[1]}, kFloat, "b");
  const Tile c = k.sbuf({sizes[0], sizes[1]}, kFloat, "c");
  k.tensor_tensor(c, a, b, Op::kAdd);
}

void mixed_types(Kernel& k, const Sizes& sizes) {
  const Tile a = k.sbuf({kPartitions, sizes[0]}, kernel::DType::kFloat8e4, "a");
  const Tile b = k.sbuf({kPartitions, sizes[0]}, kFloat, "b");
  k.tensor_tensor(b, a, b, Op::kMultiply);
}

// COUNT with one operand in PSUM, independent of each other.
void with_psum(Kernel& k, const Sizes& sizes) {
  kernel::Ring x = k.ring(8, {kPartitions, sizes[0]}, kFloat, "x", kernel::Space::kPsum);
  kernel::Ring y = k.ring(8, {kPartitions, sizes[0]}, kFloat, "y");
  for (int64_t i = 0; i < sizes[1]; ++i) {
    const kernel::View to = y.next();
    k.tensor_tensor(to, to, x.next(), Op::kAdd);
  }
}

// From PSUM, or within SBUF.
void copies(Kernel& k, const Sizes& sizes) {
  const Tile a = sizes[1] != 0 ? k.psum({kPartitions, sizes[0]}, kFloat, "a")
                               : k.sbuf({kPartitions, sizes[0]}, kFloat, "a");
  const Tile b = k.sbuf({kPartitions, sizes[0]}, kFloat, "b");
  k.tensor_copy(b, a, Engine::kVector);
}

}  // namespace

std::vector<Case> instruction_cases() {
  return {{"activations", "elements dtype count", activations},
          {"table", "", table},
          {"weights_and_product", "stationary moving", weights_and_product},
          {"passes", "dtype columns count", passes},
          {"tensor_tensor", "partitions elements", tensor_tensor},
          {"mixed_types", "elements", mixed_types},
          {"with_psum", "elements count", with_psum},
          {"copies", "elements psum", copies}};
}

}  // namespace calibration
