// y = x transposed, float32 of any size: tiles of 128 x 128 go through the Tensor engine,
// multiplied by the identity.
//
//   transpose ROWS COLUMNS FILE.neff
#include <soma/kernel.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr int64_t kTile = 128;
constexpr auto kType = kernel::DType::kFloat32;

void transpose(kernel::Kernel& k, int64_t rows, int64_t columns) {
  const kernel::View x = k.input("x", kType, {rows, columns});
  const kernel::View y = k.output("y", kType, {columns, rows});
  const kernel::Tile identity = k.sbuf({kTile, kTile}, kType, "identity");
  k.identity(identity);
  kernel::Ring in = k.ring(4, {kTile, kTile}, kType, "in");
  kernel::Ring turned = k.ring(2, {kTile, kTile}, kType, "turned", kernel::Space::kPsum);
  kernel::Ring out = k.ring(4, {kTile, kTile}, kType, "out");
  for (int64_t row = 0; row < rows; row += kTile) {
    const int64_t r = std::min(kTile, rows - row);
    for (int64_t column = 0; column < columns; column += kTile) {
      const int64_t c = std::min(kTile, columns - column);
      const kernel::View tile = in.next().slice(0, 0, r).slice(1, 0, c);
      const kernel::View product = turned.next().slice(0, 0, c).slice(1, 0, r);
      const kernel::View result = out.next().slice(0, 0, c).slice(1, 0, r);
      k.load(tile, x.slice(0, row, r).slice(1, column, c));
      k.transpose(product, tile, identity.slice(0, 0, r).slice(1, 0, r));
      k.tensor_copy(result, product);
      k.store(y.slice(0, column, c).slice(1, row, r), result);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s ROWS COLUMNS FILE.neff\n", argv[0]);
    return 2;
  }
  kernel::Kernel k({"transpose"});
  transpose(k, std::atoll(argv[1]), std::atoll(argv[2]));
  const base::Status saved = k.save(argv[3]);
  if (!saved) std::fprintf(stderr, "%s\n", saved.error().message().c_str());
  return saved ? 0 : 1;
}
