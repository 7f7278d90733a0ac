// Stages that kernels of this directory share: matrices in SBUF with what is contracted in the
// partitions, products of them with weights that pass by, rotation of pairs.
#pragma once

#include <soma/kernel.h>

#include <algorithm>
#include <vector>

namespace stages {

constexpr int64_t kTile = 128;   // of the array
constexpr int64_t kBank = 512;   // float32 of a bank of PSUM
constexpr int64_t kDeep = 1024;  // rows of weights in a tile
constexpr auto kFloat = kernel::DType::kFloat32;
constexpr auto kWeight = kernel::DType::kBfloat16;
using kernel::Accumulate;
using kernel::Function;
using kernel::Op;
using kernel::View;

inline int64_t tiles(int64_t n) {
  return (n + kTile - 1) / kTile;
}

// Rows of a matrix in tiles of 128: dst[row % 128, row / 128].
inline void load_rows(kernel::Kernel& k, const View& dst, const View& rows) {
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

// Up to 128 rows of a matrix that lies as load_rows() leaves it.
inline View rows_of(const View& matrix, int64_t first, int64_t rows) {
  return matrix.index(1, first / kTile).slice(0, 0, rows);
}

// All of PSUM.
inline kernel::Ring all_banks(kernel::Kernel& k) {
  return k.ring(8, {kTile, kBank}, kFloat, "bank", kernel::Space::kPsum);
}

// Some of the banks, in turn.
class Banks {
 public:
  Banks(const kernel::Ring& all, size_t first, size_t count) {
    for (size_t i = 0; i < count; ++i) banks_.push_back(all[first + i]);
  }
  View next() { return banks_[at_++ % banks_.size()]; }

 private:
  std::vector<View> banks_;
  size_t at_ = 0;
};

// 1 / sqrt(mean(data^2) + epsilon) of each row; `squares` is as large as data, and may be what
// comes of it later.
inline void inverse_rms(kernel::Kernel& k, const View& scale, const View& squares, const View& data,
                        const View& epsilon) {
  const double share = 1.0 / static_cast<double>(data.size(1));
  k.activation_reduce(squares, scale, data, {Function::kSquare});
  k.activation(scale, scale, {Function::kRsqrt, share, epsilon});
}

// dst_low = low * cos - high * sin, dst_high = high * cos + low * sin, where low and high are the
// halves of the last dimension of data[TOKENS, HEADS, D]; cosine and sine are [TOKENS, 1, D / 2].
// `straight` and `crossed` are as large as data; dst may be `straight`.
inline void rotate(kernel::Kernel& k, const View& dst, const View& data, const View& cosine,
                   const View& sine, const View& straight, const View& crossed) {
  const int64_t half = data.size(2) / 2;
  const auto low = [&](const View& v) { return v.slice(2, 0, half); };
  const auto high = [&](const View& v) { return v.slice(2, half, half); };
  const View c = cosine.broadcast(1, data.size(1));
  const View s = sine.broadcast(1, data.size(1));
  k.tensor_tensor(low(straight), low(data), c, Op::kMultiply);
  k.tensor_tensor(high(straight), high(data), c, Op::kMultiply);
  k.tensor_tensor(low(crossed), high(data), s, Op::kMultiply);
  k.tensor_tensor(high(crossed), low(data), s, Op::kMultiply);
  k.tensor_tensor(low(dst), low(straight), low(crossed), Op::kSubtract);
  k.tensor_tensor(high(dst), high(straight), high(crossed), Op::kAdd);
}

// Products of blocks of up to 512 tokens with weights in bfloat16. A block lies turned: what is
// contracted in the partitions, as load_rows() leaves it, and tokens side by side.
class Products {
 public:
  Products(kernel::Kernel& k, const kernel::Ring& banks)
      : k_(k),
        identity_(k.sbuf({kTile, kTile}, kWeight, "identity")),
        rows_(k.ring(2, {kTile, kBank}, kWeight, "rows")),
        deep_(k.ring(2, {kTile, kDeep / kTile, kBank}, kWeight, "deep")),
        banks_(banks, 0, banks.size()) {
    k.identity(identity_);
  }

  View bank() { return banks_.next(); }

  // dst = rows turned, up to 128 of them in SBUF; with `scale`, [128, tiles, 1], times a number for
  // each column. dst has the columns from `column` on for these.
  void turn(const View& dst, const View& rows, int64_t column = 0, const View* scale = nullptr) {
    const int64_t n = rows.size(0);
    const View identity = identity_.slice(0, 0, n).slice(1, 0, n);
    for (int64_t c = 0; c < rows.size(1); c += kBank) {
      const int64_t columns = std::min(kBank, rows.size(1) - c);
      const View turned = bank().reshape({kTile, kBank / kTile, kTile}).slice(2, 0, n);
      for (int64_t i = 0; i < columns; i += kTile) {
        const int64_t m = std::min(kTile, columns - i);
        k_.transpose(rows_of(turned, i, m), rows.slice(1, c + i, m), identity);
      }
      const int64_t first = (column + c) / kTile;
      const int64_t whole = columns / kTile;
      const int64_t rest = columns % kTile;
      const auto part = [&](const View& v, int64_t at, int64_t count, int64_t partitions) {
        return v.slice(1, at, count).slice(0, 0, partitions);
      };
      const auto leave = [&](int64_t at, int64_t count, int64_t partitions) {
        const View to = part(dst, first + at, count, partitions);
        const View from = part(turned, at, count, partitions);
        if (scale == nullptr) return k_.tensor_copy(to, from);
        k_.tensor_tensor(to, from, part(*scale, first + at, count, partitions).broadcast(2, n),
                         Op::kMultiply);
      };
      if (whole > 0) leave(0, whole, kTile);
      if (rest > 0) leave(whole, 1, rest);
    }
  }

  // The same of the rows of a tensor.
  void load_turned(const View& dst, const View& tensor) {
    for (int64_t token = 0; token < tensor.size(0); token += kTile) {
      const int64_t n = std::min(kTile, tensor.size(0) - token);
      for (int64_t c = 0; c < tensor.size(1); c += kBank) {
        const int64_t columns = std::min(kBank, tensor.size(1) - c);
        const View rows = rows_.next().slice(0, 0, n).slice(1, 0, columns);
        k_.load(rows, tensor.slice(0, token, n).slice(1, c, columns));
        turn(dst.slice(2, token, n), rows, c);
      }
    }
  }

  // product = w transposed times x, over `inner` that both have in the partitions.
  void multiply(const View& product, const View& w, const View& x, int64_t inner, bool first) {
    for (int64_t i = 0; i < inner; i += kTile) {
      const int64_t n = std::min(kTile, inner - i);
      k_.matmul(product, rows_of(w, i, n), rows_of(x, i, n),
                first && i == 0 ? Accumulate::kOverwrite : Accumulate::kAdd);
    }
  }

  // x, turned, times w, a tensor, by stripes of up to `stripe` (512 at most) columns:
  // result(token, column, sum) for each 128 tokens, of which sum is a view in PSUM. They add up in
  // a bank while w passes by.
  template <typename Result>
  void project(const View& x, const View& w, int64_t stripe, Result result) {
    const int64_t inner = w.size(0);
    const int64_t tokens = x.size(2);
    for (int64_t c = 0; c < w.size(1); c += stripe) {
      const int64_t columns = std::min(stripe, w.size(1) - c);
      std::vector<View> sums;
      for (int64_t token = 0; token < tokens; token += kTile) {
        sums.push_back(bank().slice(0, 0, std::min(kTile, tokens - token)).slice(1, 0, columns));
      }
      for (int64_t i = 0; i < inner; i += kDeep) {
        const int64_t deep = std::min(kDeep, inner - i);
        const View weights = deep_.next();
        load_rows(k_, weights, w.slice(0, i, deep).slice(1, c, columns));
        const View part = x.slice(1, i / kTile, tiles(deep));
        for (size_t t = 0; t < sums.size(); ++t) {
          multiply(sums[t], part.slice(2, static_cast<int64_t>(t) * kTile, sums[t].size(0)),
                   weights.slice(2, 0, columns), deep, i == 0);
        }
      }
      for (size_t t = 0; t < sums.size(); ++t) result(static_cast<int64_t>(t) * kTile, c, sums[t]);
    }
  }

 private:
  kernel::Kernel& k_;
  kernel::Tile identity_;
  kernel::Ring rows_, deep_;
  Banks banks_;
};

// (silu(x W1) * (x W3)) W2 of blocks of up to 512 tokens. The next stripe of weights is loaded
// while the Tensor engine works on this one; what the gate lets through stays in SBUF.
class GatedLayer {
 public:
  GatedLayer(kernel::Kernel& k, Products& products, int64_t width, int64_t hidden, int64_t block)
      : k_(k),
        products_(products),
        stripe_(stripe(k, width)),
        stripes_(k.ring(4, {kTile, tiles(width), stripe_}, kWeight, "stripe")),
        gates_(k.ring(2, {kTile, block}, kFloat, "gate")),
        passed_(k.sbuf({kTile, tiles(hidden), block}, kWeight, "passed")) {}

  // x is turned; result as Products::project() has it.
  template <typename Result>
  void run(const View& x, const View& w1, const View& w3, const View& w2, Result result) {
    for (int64_t f = 0; f < w1.size(1); f += stripe_) {
      const int64_t columns = std::min(stripe_, w1.size(1) - f);
      gate(x, w1.slice(1, f, columns), w3.slice(1, f, columns), f);
    }
    products_.project(passed_.slice(2, 0, x.size(2)), w2, kBank, result);
  }

 private:
  // Columns of w1 and w3, of which four stripes take up to a quarter of SBUF.
  static int64_t stripe(const kernel::Kernel& k, int64_t width) {
    const int64_t most = k.capacity(kernel::Space::kSbuf) / 4;
    return 4 * tiles(width) * 2 * kTile * 2 <= most ? 2 * kTile : kTile;
  }

  // silu(x w1) * (x w3), columns `f` and on of what the gate lets through.
  void gate(const View& x, const View& w1, const View& w3, int64_t f) {
    const int64_t tokens = x.size(2);
    const View open = stripes_.next();
    const View straight = stripes_.next();
    load_rows(k_, open, w1);
    load_rows(k_, straight, w3);
    for (int64_t i = 0; i < w1.size(1); i += kTile) {
      const int64_t n = std::min(kTile, w1.size(1) - i);
      const View gate = products_.bank().slice(0, 0, n).slice(1, 0, tokens);
      const View up = products_.bank().slice(0, 0, n).slice(1, 0, tokens);
      const View factor = gates_.next().slice(0, 0, n).slice(1, 0, tokens);
      products_.multiply(gate, open.slice(2, i, n), x, w1.size(0), true);
      products_.multiply(up, straight.slice(2, i, n), x, w1.size(0), true);
      k_.activation(factor, gate, {Function::kSilu});
      k_.tensor_tensor(rows_of(passed_, f + i, n).slice(1, 0, tokens), factor, up, Op::kMultiply);
    }
  }

  kernel::Kernel& k_;
  Products& products_;
  const int64_t stripe_;
  kernel::Ring stripes_, gates_;
  kernel::Tile passed_;
};

}  // namespace stages
