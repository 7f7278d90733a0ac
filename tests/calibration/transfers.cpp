// Transfers: single ones between instructions, streams of them, and many small ones.
#include <algorithm>

#include "calibrate_kernels.h"

namespace calibration {
namespace {

using kernel::Kernel;
using kernel::View;

// [partitions, elements] of bfloat16.
void load_activate_store(Kernel& k, const Sizes& sizes) {
  const auto type = kernel::DType::kBfloat16;
  const View x = k.input("x", type, {sizes[0], sizes[1]});
  const View y = k.output("y", type, {sizes[0], sizes[1]});
  const kernel::Tile tile = k.sbuf({sizes[0], sizes[1]}, type, "tile");
  k.load(tile, x);
  k.activation(tile, tile, {kernel::Function::kCopy});
  k.store(y, tile, kernel::Engine::kScalar);
}

// COUNT tiles of 128 partitions with BYTES each; 0: from HBM, 1: to it.
void stream(Kernel& k, const Sizes& sizes) {
  const int64_t columns = sizes[1] / 4;
  const int64_t rows = sizes[2] * kPartitions;
  const bool write = sizes[0] != 0;
  const View x =
      write ? k.output("y", kFloat, {rows, columns}) : k.input("x", kFloat, {rows, columns});
  const int64_t fit = k.capacity(kernel::Space::kSbuf) / sizes[1];
  const auto depth = static_cast<size_t>(std::min<int64_t>(fit, 16));
  kernel::Ring tiles = k.ring(depth, {kPartitions, columns}, kFloat, "tile");
  for (int64_t row = 0; row < rows; row += kPartitions) {
    const View part = x.slice(0, row, kPartitions);
    const View tile = tiles.next();
    if (write) {
      k.store(part, tile);
    } else {
      k.load(tile, part);
    }
  }
}

// COUNT loads of 128 partitions with BYTES each, whose descriptors hardware generates.
void generated_stream(Kernel& k, const Sizes& sizes) {
  const int64_t columns = sizes[0] / 4;
  const int64_t rows = sizes[1] * kPartitions;
  const View x = k.input("x", kFloat, {rows, columns});
  const int64_t fit = k.capacity(kernel::Space::kSbuf) / sizes[0];
  const auto depth = static_cast<size_t>(std::min<int64_t>(fit, 16));
  kernel::Ring tiles = k.ring(depth, {kPartitions, columns}, kFloat, "tile");
  kernel::Transfer how;
  how.generate = kernel::Generate::kHardware;
  for (int64_t row = 0; row < rows; row += kPartitions) {
    k.dma_copy(tiles.next(), x.slice(0, row, kPartitions), how);
  }
}

// [partitions, elements] of bfloat16, by descriptors that GpSimd generates.
void generated_load(Kernel& k, const Sizes& sizes) {
  const auto type = kernel::DType::kBfloat16;
  const View x = k.input("x", type, {sizes[0], sizes[1]});
  const kernel::Tile tile = k.sbuf({sizes[0], sizes[1]}, type, "tile");
  kernel::Transfer how;
  how.generate = kernel::Generate::kSoftware;
  k.dma_copy(tile, x, how);
  k.activation(tile, tile, {kernel::Function::kCopy});
}

// COUNT separate elements of 4 bytes.
void storm(Kernel& k, const Sizes& sizes) {
  const int64_t columns = (sizes[0] + kPartitions - 1) / kPartitions;
  const View x = k.input("x", kFloat, {kPartitions, columns, 2});
  const kernel::Tile tile = k.sbuf({kPartitions, columns, 2}, kFloat, "tile");
  const int64_t whole = sizes[0] / columns;
  k.load(tile.slice(0, 0, whole).slice(2, 0, 1), x.slice(0, 0, whole).slice(2, 0, 1));
}

// c = a + b by tiles of `partitions` x `columns`; each of the three has queues of its own.
void vector_add(Kernel& k, const Sizes& sizes) {
  const int64_t rows = sizes[1];
  const int64_t columns = sizes[2];
  const View::Sizes shape = {sizes[0] / rows / columns, rows, columns};
  const View a = k.input("a", kFloat, shape);
  const View b = k.input("b", kFloat, shape);
  const View c = k.output("c", kFloat, shape);
  kernel::Ring as = k.ring(6, {rows, columns}, kFloat, "a");
  kernel::Ring bs = k.ring(6, {rows, columns}, kFloat, "b");
  kernel::Ring cs = k.ring(6, {rows, columns}, kFloat, "c");
  for (int64_t i = 0; i < shape[0]; ++i) {
    const View x = as.next();
    const View y = bs.next();
    const View z = cs.next();
    k.load(x, a.index(0, i));
    k.load(y, b.index(0, i), kernel::Engine::kScalar);
    k.tensor_tensor(z, x, y, kernel::Op::kAdd);
    k.store(c.index(0, i), z);
  }
}

}  // namespace

std::vector<Case> transfer_cases() {
  return {{"one_engine", "partitions elements", load_activate_store, 1},
          {"all_engines", "partitions elements", load_activate_store},
          {"stream", "write bytes count", stream},
          {"generated_stream", "bytes count", generated_stream},
          {"generated_load", "partitions elements", generated_load},
          {"storm", "count", storm},
          {"vector_add", "elements partitions columns", vector_add}};
}

}  // namespace calibration
