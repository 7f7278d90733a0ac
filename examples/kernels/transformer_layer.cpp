// One layer of a transformer, its heads and hidden units spread over ranks (tensor parallel):
//   h = x + attention(rms(x) norm1) Wo,   y = h + (silu(n W1) * (n W3)) W2 with n = rms(h) norm2
// where q, k = rotary(n Wq), rotary(n Wk), v = n Wv, attention is causal, and rms(x) is x divided
// by the root of the mean of its squares.
//
// x and y[TOKENS, WIDTH], norm1 and norm2[WIDTH], cos and sin[TOKENS, D / 2] are the same on all
// ranks. Of wq, wk, wv[WIDTH, HEADS D], w1 and w3[WIDTH, HIDDEN] each has its columns, of
// wo[HEADS D, WIDTH] and w2[HIDDEN, WIDTH] its rows: what comes out of these is a part of a sum
// over the ranks, so there are two all-reduces. norm1, norm2, cos and sin are float32, all else
// bfloat16.
//
// Tokens come in blocks of BLOCK, up to 512, each with its own all-reduces. With `overlap` a
// block's all-reduce is under way while the engines work on another block; with `wait` they wait
// for it.
//
//   transformer_layer overlap|wait BLOCK TOKENS WIDTH HEADS D HIDDEN RANKS FILE.neff
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "attention.h"
#include "stages.h"

namespace {

using kernel::Function;
using kernel::Op;
using kernel::View;
using stages::kBank;
using stages::kFloat;
using stages::kTile;
using stages::kWeight;
using stages::tiles;

constexpr double kEpsilon = 1e-5;
constexpr int64_t kWide = 2048;  // rows longer than this are not double-buffered

struct Sizes {
  int64_t block, tokens, width;
  int64_t heads, d, hidden;  // of a rank
  int64_t ranks;
};

class Layer {
 public:
  Layer(kernel::Kernel& k, const Sizes& s)
      : k_(k),
        s_(s),
        group_(kernel::Group::all(static_cast<uint32_t>(s.ranks))),
        x_(k.input("x", kWeight, {s.tokens, s.width})),
        cosines_(k.input("cos", kFloat, {s.tokens, s.d / 2})),
        sines_(k.input("sin", kFloat, {s.tokens, s.d / 2})),
        wq_(k.input("wq", kWeight, {s.width, s.heads * s.d})),
        wk_(k.input("wk", kWeight, {s.width, s.heads * s.d})),
        wv_(k.input("wv", kWeight, {s.width, s.heads * s.d})),
        wo_(k.input("wo", kWeight, {s.heads * s.d, s.width})),
        w1_(k.input("w1", kWeight, {s.width, s.hidden})),
        w3_(k.input("w3", kWeight, {s.width, s.hidden})),
        w2_(k.input("w2", kWeight, {s.hidden, s.width})),
        y_(k.output("y", kWeight, {s.tokens, s.width})),
        qkv_(k.scratch("qkv", kWeight, {3, s.tokens, s.heads, s.d})),
        mixed_(k.scratch("mixed", kWeight, {s.tokens, s.heads * s.d})),
        h_(k.scratch("h", kWeight, {s.tokens, s.width})),
        attention_part_(k.scratch("attention_part", kWeight, {s.tokens, s.width})),
        attention_sum_(k.scratch("attention_sum", kWeight, {s.tokens, s.width})),
        gated_part_(k.scratch("gated_part", kWeight, {s.tokens, s.width})),
        gated_sum_(k.scratch("gated_sum", kWeight, {s.tokens, s.width})),
        banks_(stages::all_banks(k)),
        products_(k, banks_),
        attention_(k, banks_, kWeight, s.tokens, s.d, true, s.block),
        gated_(k, products_, s.width, s.hidden, s.block),
        epsilon_(k.sbuf({kTile, 1}, kFloat, "epsilon")),
        norm1_(scale("norm1")),
        norm2_(scale("norm2")),
        tables_(k.ring(4, {kTile, tiles(s.block), s.d / 2}, kFloat, "table")),
        rows_(k.ring(s.width > kWide ? 2 : 4, {kTile, s.width}, kWeight, "row")),
        normed_(k.ring(s.width > kWide ? 1 : 2, {kTile, s.width}, kWeight, "normed")),
        turned_(k.sbuf({kTile, tiles(s.width), s.block}, kWeight, "turned")),
        turned_heads_(k.sbuf({kTile, tiles(s.heads * s.d), s.block}, kWeight, "turned_heads")),
        rotated_(k.ring(4, {kTile, kBank}, kFloat, "rotated")),
        results_(k.ring(4, {kTile, kBank}, kWeight, "result")),
        factors_(k.ring(4, {kTile, 1}, kFloat, "factor")) {
    k.memset(epsilon_, kEpsilon);
  }

  // What comes after an all-reduce of a block comes one or two blocks later, if it is not to wait.
  void run(bool overlap) {
    const int64_t blocks = (s_.tokens + s_.block - 1) / s_.block;
    const int64_t later = overlap ? 1 : 0;
    for (int64_t step = 0; step < blocks + 2 * later; ++step) {
      if (step < blocks) attend(rows_of_block(step));
      if (step >= later && step - later < blocks) feed(rows_of_block(step - later));
      if (step >= 2 * later) finish(rows_of_block(step - 2 * later));
    }
  }

 private:
  struct Rows {
    int64_t first, count;
    View of(const View& tensor) const { return tensor.slice(0, first, count); }
  };

  Rows rows_of_block(int64_t block) const {
    const int64_t first = block * s_.block;
    return {first, std::min(s_.block, s_.tokens - first)};
  }

  // A number for each column, which lie in the partitions when they are needed.
  kernel::Tile scale(const char* name) {
    const View numbers = k_.input(name, kFloat, {s_.width});
    kernel::Tile tile = k_.sbuf({kTile, tiles(s_.width), 1}, kFloat, name);
    stages::load_rows(k_, tile, numbers.reshape({s_.width, 1}));
    return tile;
  }

  // work(first token in the block, rows), for up to 128 rows at a time.
  template <typename Do>
  static void by_tile(const Rows& block, Do work) {
    for (int64_t token = 0; token < block.count; token += kTile) {
      work(token, Rows{block.first + token, std::min(kTile, block.count - token)});
    }
  }

  View loaded(const View& tensor) {
    const View rows = rows_.next().slice(0, 0, tensor.size(0));
    k_.load(rows, tensor);
    return rows;
  }

  // turned_ = rms(data) scale.
  void normalize(int64_t token, const View& data, const View& scale) {
    const View normed = normed_.next().slice(0, 0, data.size(0));
    const View factor = factors_.next().slice(0, 0, data.size(0));
    stages::inverse_rms(k_, factor, normed, data, epsilon_.slice(0, 0, data.size(0)));
    k_.tensor_scalar(normed, data, {Op::kMultiply, factor});
    products_.turn(turned_.slice(2, token, data.size(0)), normed, 0, &scale);
  }

  // Of products: stores the sums where they belong in `rows`.
  auto into(const View& rows) {
    return [this, rows](int64_t token, int64_t column, const View& sum) {
      const View result = results_.next().slice(0, 0, sum.size(0)).slice(1, 0, sum.size(1));
      k_.activation(result, sum, {Function::kCopy});
      k_.store(rows.slice(0, token, sum.size(0)).slice(1, column, sum.size(1)), result);
    };
  }

  void attend(const Rows& block) {
    by_tile(block, [&](int64_t token, const Rows& rows) {
      normalize(token, loaded(rows.of(x_)), norm1_);
    });
    const View x = turned_.slice(2, 0, block.count);
    const View cosine = tables_.next();
    const View sine = tables_.next();
    stages::load_rows(k_, cosine, block.of(cosines_));
    stages::load_rows(k_, sine, block.of(sines_));
    project_rotated(x, wq_, block.of(qkv_.index(0, 0)), cosine, sine);
    project_rotated(x, wk_, block.of(qkv_.index(0, 1)), cosine, sine);
    const View v = qkv_.index(0, 2).reshape({s_.tokens, s_.heads * s_.d});
    products_.project(x, wv_, kBank, into(block.of(v)));
    for (int64_t h = 0; h < s_.heads; ++h) {
      const auto head = [&](int64_t i) { return qkv_.index(0, i).index(1, h); };
      attention_.span(head(0), head(1), head(2), mixed_.slice(1, h * s_.d, s_.d), block.first,
                      block.count);
    }
    const View heads = turned_heads_.slice(2, 0, block.count);
    products_.load_turned(heads, block.of(mixed_));
    products_.project(heads, wo_, kBank, into(block.of(attention_part_)));
    k_.all_reduce(block.of(attention_sum_), block.of(attention_part_), Op::kAdd, group_);
  }

  // rows[TOKENS, HEADS, D] = rotary(x w), as many heads at a time as a bank takes.
  void project_rotated(const View& x, const View& w, const View& rows, const View& cosine,
                       const View& sine) {
    const auto of_heads = [&](const View& v, const View& sum) {
      const int64_t n = sum.size(0);
      const int64_t columns = sum.size(1);
      return v.slice(0, 0, n).slice(1, 0, columns).reshape({n, columns / s_.d, s_.d});
    };
    const auto rotate = [&](int64_t token, int64_t column, const View& sum) {
      const int64_t n = sum.size(0);
      const View result = of_heads(results_.next(), sum);
      const View straight = of_heads(rotated_.next(), sum);
      const View crossed = of_heads(rotated_.next(), sum);
      const auto table = [&](const View& v) { return stages::rows_of(v, token, n).unsqueeze(1); };
      stages::rotate(k_, result, of_heads(sum, sum), table(cosine), table(sine), straight, crossed);
      k_.store(rows.slice(0, token, n).slice(1, column / s_.d, result.size(1)), result);
    };
    products_.project(x, w, kBank / s_.d * s_.d, rotate);
  }

  void feed(const Rows& block) {
    by_tile(block, [&](int64_t token, const Rows& rows) {
      const View data = loaded(rows.of(x_));
      k_.tensor_tensor(data, data, loaded(rows.of(attention_sum_)), Op::kAdd);
      k_.store(rows.of(h_), data);
      normalize(token, data, norm2_);
    });
    gated_.run(turned_.slice(2, 0, block.count), w1_, w3_, w2_, into(block.of(gated_part_)));
    k_.all_reduce(block.of(gated_sum_), block.of(gated_part_), Op::kAdd, group_);
  }

  void finish(const Rows& block) {
    by_tile(block, [&](int64_t /*token*/, const Rows& rows) {
      const View data = loaded(rows.of(h_));
      k_.tensor_tensor(data, data, loaded(rows.of(gated_sum_)), Op::kAdd);
      k_.store(rows.of(y_), data);
    });
  }

  kernel::Kernel& k_;
  const Sizes s_;
  const kernel::Group group_;
  const View x_, cosines_, sines_, wq_, wk_, wv_, wo_, w1_, w3_, w2_, y_;
  const View qkv_, mixed_, h_;  // mixed_: what attention makes of the values
  const View attention_part_, attention_sum_, gated_part_, gated_sum_;
  kernel::Ring banks_;
  stages::Products products_;
  attention::Attention attention_;
  stages::GatedLayer gated_;
  kernel::Tile epsilon_, norm1_, norm2_;
  kernel::Ring tables_, rows_, normed_;
  kernel::Tile turned_, turned_heads_;
  kernel::Ring rotated_, results_, factors_;
};

// Whether the sizes, which are those of all ranks, can be spread; then they are those of one.
bool spread(Sizes* s) {
  const bool positive = s->block > 0 && s->tokens > 0 && s->width > 0 && s->heads > 0 && s->d > 0 &&
                        s->hidden > 0 && s->ranks > 0;
  if (!positive || s->block > kBank || s->d > kTile || s->d % 2 != 0) return false;
  if (s->heads % s->ranks != 0 || s->hidden % s->ranks != 0) return false;
  s->block = std::min(s->block, s->tokens);
  s->heads /= s->ranks;
  s->hidden /= s->ranks;
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const bool overlap = argc == 10 && std::strcmp(argv[1], "overlap") == 0;
  const bool known = overlap || (argc == 10 && std::strcmp(argv[1], "wait") == 0);
  Sizes s{};
  if (known) {
    int64_t* const sizes[] = {&s.block, &s.tokens, &s.width, &s.heads, &s.d, &s.hidden, &s.ranks};
    for (size_t i = 0; i < std::size(sizes); ++i) *sizes[i] = std::atoll(argv[2 + i]);
  }
  if (!known || !spread(&s)) {
    std::fprintf(
        stderr,
        "usage: %s overlap|wait BLOCK TOKENS WIDTH HEADS D HIDDEN RANKS FILE.neff, BLOCK up "
        "to 512, D even and up to 128, HEADS and HIDDEN multiples of RANKS\n",
        argv[0]);
    return 2;
  }
  kernel::Kernel k({"transformer_layer"});
  Layer(k, s).run(overlap);
  const base::Status saved = k.save(argv[9]);
  if (!saved) std::fprintf(stderr, "%s\n", saved.error().message().c_str());
  return saved ? 0 : 1;
}
