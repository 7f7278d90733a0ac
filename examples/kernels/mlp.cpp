// y = (silu(x W1) * (x W3)) W2, the gated layer of a transformer, for x[TOKENS, WIDTH], w1 and
// w3[WIDTH, HIDDEN] and w2[HIDDEN, WIDTH] in bfloat16, y in float32.
//
// Tokens come in blocks of up to 512, for each of which all weights pass by once, in stripes of
// columns: the next stripe is loaded while the Tensor engine works on this one. What the gate lets
// through stays in SBUF, with HIDDEN in the partitions, as the second product needs it.
//
//   mlp TOKENS WIDTH HIDDEN FILE.neff
#include <soma/kernel.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr int64_t kTile = 128;    // of the array
constexpr int64_t kTokens = 512;  // of a block at most: float32 of a bank of PSUM
constexpr int64_t kStripe = 256;  // columns of w1 and w3
constexpr int64_t kBank = 512;    // columns of w2
constexpr int64_t kDeep = 1024;   // rows of w2 in a tile
constexpr auto kWeight = kernel::DType::kBfloat16;
constexpr auto kSum = kernel::DType::kFloat32;
using kernel::Accumulate;
using kernel::Function;
using kernel::View;

int64_t tiles(int64_t n) {
  return (n + kTile - 1) / kTile;
}

// Rows of a matrix in tiles of 128: dst[row % 128, row / 128].
void load_rows(kernel::Kernel& k, const View& dst, const View& rows) {
  const int64_t columns = rows.size(1);
  const int64_t whole = rows.size(0) / kTile;
  const int64_t rest = rows.size(0) % kTile;
  if (whole > 0) {
    const View from = rows.slice(0, 0, whole * kTile).reshape({whole, kTile, columns});
    k.load(dst.slice(1, 0, whole).slice(2, 0, columns), from.permute({1, 0, 2}));
  }
  if (rest > 0) {
    k.load(dst.index(1, whole).slice(0, 0, rest).slice(1, 0, columns),
           rows.slice(0, whole * kTile, rest));
  }
}

// Tokens of a block: what is kept of them takes up to half of SBUF.
int64_t tokens_of_block(const kernel::Kernel& k, int64_t width, int64_t hidden) {
  int64_t n = kTokens;
  const int64_t most = k.capacity(kernel::Space::kSbuf) / 2;
  while (n > kTile && (tiles(width) + tiles(hidden)) * n * 2 > most) n /= 2;
  return n;
}

class Mlp {
 public:
  Mlp(kernel::Kernel& k, int64_t tokens, int64_t width, int64_t hidden)
      : k_(k),
        width_(width),
        hidden_(hidden),
        block_(tokens_of_block(k, width, hidden)),
        x_(k.input("x", kWeight, {tokens, width})),
        w1_(k.input("w1", kWeight, {width, hidden})),
        w3_(k.input("w3", kWeight, {width, hidden})),
        w2_(k.input("w2", kWeight, {hidden, width})),
        y_(k.output("y", kSum, {tokens, width})),
        identity_(k.sbuf({kTile, kTile}, kWeight, "identity")),
        rows_(k.ring(2, {kTile, kBank}, kWeight, "rows")),
        turned_(k.sbuf({kTile, tiles(width), block_}, kWeight, "turned")),
        stripes_(k.ring(4, {kTile, tiles(width), kStripe}, kWeight, "stripe")),
        gates_(k.ring(2, {kTile, block_}, kSum, "gate")),
        passed_(k.sbuf({kTile, tiles(hidden), block_}, kWeight, "passed")),
        deep_(k.ring(2, {kTile, kDeep / kTile, kBank}, kWeight, "w2")),
        results_(k.ring(4, {kTile, kBank}, kSum, "result")),
        products_(k.ring(8, {kTile, kBank}, kSum, "product", kernel::Space::kPsum)) {
    k.identity(identity_);
  }

  void run() {
    for (int64_t token = 0; token < x_.size(0); token += block_) {
      const int64_t n = std::min(block_, x_.size(0) - token);
      turn(x_.slice(0, token, n));
      for (int64_t f = 0; f < hidden_; f += kStripe) gate(f, n);
      for (int64_t c = 0; c < width_; c += kBank) {
        widen(y_.slice(0, token, n).slice(1, c, std::min(kBank, width_ - c)), c);
      }
    }
  }

 private:
  // The Tensor engine contracts over partitions, so x lies with WIDTH in these.
  void turn(const View& x) {
    for (int64_t token = 0; token < x.size(0); token += kTile) {
      const int64_t n = std::min(kTile, x.size(0) - token);
      for (int64_t c = 0; c < width_; c += kBank) {
        const int64_t m = std::min(kBank, width_ - c);
        const View rows = rows_.next().slice(0, 0, n).slice(1, 0, m);
        k_.load(rows, x.slice(0, token, n).slice(1, c, m));
        for (int64_t i = 0; i < m; i += kTile) {
          const int64_t columns = std::min(kTile, m - i);
          const View product = products_.next().slice(0, 0, columns).slice(1, 0, n);
          k_.transpose(product, rows.slice(1, i, columns), identity_.slice(0, 0, n).slice(1, 0, n));
          k_.tensor_copy(tile(turned_, c + i, columns).slice(1, token, n), product);
        }
      }
    }
  }

  // Rows of a matrix that lies as load_rows() leaves it.
  static View tile(const View& v, int64_t first, int64_t rows) {
    return v.index(1, first / kTile).slice(0, 0, rows);
  }

  // product = w transposed times x, over the WIDTH or HIDDEN that both have in the partitions.
  void multiply(const View& product, const View& w, const View& x, int64_t inner, bool first) {
    for (int64_t i = 0; i < inner; i += kTile) {
      const int64_t n = std::min(kTile, inner - i);
      k_.matmul(product, tile(w, i, n), tile(x, i, n),
                first && i == 0 ? Accumulate::kOverwrite : Accumulate::kAdd);
    }
  }

  // Columns `f` and on of silu(x W1) * (x W3), for `tokens` tokens.
  void gate(int64_t f, int64_t tokens) {
    const int64_t columns = std::min(kStripe, hidden_ - f);
    const View w1 = stripes_.next();
    const View w3 = stripes_.next();
    load_rows(k_, w1, w1_.slice(1, f, columns));
    load_rows(k_, w3, w3_.slice(1, f, columns));
    for (int64_t i = 0; i < columns; i += kTile) {
      const int64_t n = std::min(kTile, columns - i);
      const View x = turned_.slice(2, 0, tokens);
      const View gate = products_.next().slice(0, 0, n).slice(1, 0, tokens);
      const View up = products_.next().slice(0, 0, n).slice(1, 0, tokens);
      const View open = gates_.next().slice(0, 0, n).slice(1, 0, tokens);
      multiply(gate, w1.slice(2, i, n), x, width_, true);
      multiply(up, w3.slice(2, i, n), x, width_, true);
      k_.activation(open, gate, {Function::kSilu});
      k_.tensor_tensor(tile(passed_, f + i, n).slice(1, 0, tokens), open, up,
                       kernel::Op::kMultiply);
    }
  }

  // Columns `c` and on of y, added up in a bank for each 128 tokens while w2 passes by.
  void widen(const View& y, int64_t c) {
    const int64_t columns = y.size(1);
    const int64_t tokens = y.size(0);
    View sums[kTokens / kTile];
    for (View& sum : sums) sum = products_.next().slice(1, 0, columns);
    for (int64_t f = 0; f < hidden_; f += kDeep) {
      const int64_t deep = std::min(kDeep, hidden_ - f);
      const View w = deep_.next();
      load_rows(k_, w, w2_.slice(0, f, deep).slice(1, c, columns));
      const View passed = passed_.slice(1, f / kTile, tiles(deep));
      for (int64_t token = 0; token < tokens; token += kTile) {
        const int64_t n = std::min(kTile, tokens - token);
        multiply(sums[token / kTile].slice(0, 0, n), passed.slice(2, token, n),
                 w.slice(2, 0, columns), deep, f == 0);
      }
    }
    for (int64_t token = 0; token < tokens; token += kTile) {
      const int64_t n = std::min(kTile, tokens - token);
      const View result = results_.next().slice(0, 0, n).slice(1, 0, columns);
      k_.tensor_copy(result, sums[token / kTile].slice(0, 0, n));
      k_.store(y.slice(0, token, n), result);
    }
  }

  kernel::Kernel& k_;
  const int64_t width_, hidden_, block_;
  const View x_, w1_, w3_, w2_, y_;
  kernel::Tile identity_;
  kernel::Ring rows_;
  kernel::Tile turned_;
  kernel::Ring stripes_, gates_;
  kernel::Tile passed_;
  kernel::Ring deep_, results_, products_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: %s TOKENS WIDTH HIDDEN FILE.neff\n", argv[0]);
    return 2;
  }
  kernel::Kernel k({"mlp"});
  Mlp(k, std::atoll(argv[1]), std::atoll(argv[2]), std::atoll(argv[3])).run();
  const base::Status saved = k.save(argv[4]);
  if (!saved) std::fprintf(stderr, "%s\n", saved.error().message().c_str());
  return saved ? 0 : 1;
}
