// y = (silu(x W1) * (x W3)) W2, the gated layer of a transformer, for x[TOKENS, WIDTH], w1 and
// w3[WIDTH, HIDDEN] and w2[HIDDEN, WIDTH] in bfloat16, y in float32.
//
// Tokens come in blocks of up to 512, for each of which all weights pass by once.
//
//   mlp TOKENS WIDTH HIDDEN FILE.neff
#include <cstdio>
#include <cstdlib>

#include "stages.h"

namespace {

using stages::kFloat;
using stages::kTile;
using stages::kWeight;
using stages::tiles;
using stages::View;

// Tokens of a block: what is kept of them takes up to half of SBUF.
int64_t tokens_of_block(const kernel::Kernel& k, int64_t width, int64_t hidden) {
  int64_t n = stages::kBank;
  const int64_t most = k.capacity(kernel::Space::kSbuf) / 2;
  while (n > kTile && (tiles(width) + tiles(hidden)) * n * 2 > most) n /= 2;
  return n;
}

void mlp(kernel::Kernel& k, int64_t tokens, int64_t width, int64_t hidden) {
  const int64_t block = tokens_of_block(k, width, hidden);
  const View x = k.input("x", kWeight, {tokens, width});
  const View w1 = k.input("w1", kWeight, {width, hidden});
  const View w3 = k.input("w3", kWeight, {width, hidden});
  const View w2 = k.input("w2", kWeight, {hidden, width});
  const View y = k.output("y", kFloat, {tokens, width});
  const kernel::Ring banks = stages::all_banks(k);
  stages::Products products(k, banks);
  stages::GatedLayer layer(k, products, width, hidden, block);
  const kernel::Tile turned = k.sbuf({kTile, tiles(width), block}, kWeight, "turned");
  kernel::Ring results = k.ring(4, {kTile, stages::kBank}, kFloat, "result");
  for (int64_t first = 0; first < tokens; first += block) {
    const int64_t n = std::min(block, tokens - first);
    const View part = turned.slice(2, 0, n);
    products.load_turned(part, x.slice(0, first, n));
    layer.run(part, w1, w3, w2, [&](int64_t token, int64_t column, const View& sum) {
      const View result = results.next().slice(0, 0, sum.size(0)).slice(1, 0, sum.size(1));
      k.tensor_copy(result, sum);
      k.store(y.slice(0, first + token, sum.size(0)).slice(1, column, sum.size(1)), result);
    });
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: %s TOKENS WIDTH HIDDEN FILE.neff\n", argv[0]);
    return 2;
  }
  kernel::Kernel k({"mlp"});
  mlp(k, std::atoll(argv[1]), std::atoll(argv[2]), std::atoll(argv[3]));
  const base::Status saved = k.save(argv[4]);
  if (!saved) std::fprintf(stderr, "%s\n", saved.error().message().c_str());
  return saved ? 0 : 1;
}
