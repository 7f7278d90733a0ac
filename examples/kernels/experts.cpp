// A mixture of experts for x[TOKENS, WIDTH] in float32: by logits[TOKENS, EXPERTS] each token
// chooses the TOP experts with the largest ones (8 at most), and
//   y = sum over them of softmax(their logits) * (x w[expert]),   w[EXPERTS, WIDTH, WIDTH].
// An expert takes the first CAPACITY tokens that chose it; the others get nothing from it.
//
// A token's place with an expert is the number of those before it that chose the expert: a product
// with a triangle of ones, as cumulative sums over partitions are. A matrix with a one where token
// and place meet gathers rows of tokens by a product, and its transpose, with the weights, scatters
// results back.
//
//   experts TOKENS WIDTH EXPERTS TOP CAPACITY FILE.neff
#include <soma/kernel.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr int64_t kTile = 128;
constexpr int64_t kBank = 512;  // float32 of a bank of PSUM
constexpr auto kType = kernel::DType::kFloat32;
using kernel::Accumulate;
using kernel::Op;
using kernel::Space;
using kernel::View;

int64_t tiles(int64_t n) {
  return (n + kTile - 1) / kTile;
}

class Experts {
 public:
  Experts(kernel::Kernel& k, int64_t tokens, int64_t width, int64_t experts, int64_t top)
      : k_(k),
        tokens_(tokens),
        width_(width),
        experts_(experts),
        top_(top),
        x_(k.input("x", kType, {tokens, width})),
        logits_(k.input("logits", kType, {tokens, experts})),
        w_(k.input("w", kType, {experts, width, width})),
        y_(k.output("y", kType, {tokens, width})),
        identity_(k.sbuf({kTile, kTile}, kType, "identity")),
        ones_(k.sbuf({kTile, kTile}, kType, "ones")),
        before_(k.sbuf({kTile, kTile}, kType, "before")),
        numbers_(k.sbuf({kTile, std::max(experts, kTile)}, kType, "numbers")),
        rows_(k.sbuf({kTile, tiles(tokens), width}, kType, "rows")),
        sums_(k.sbuf({kTile, tiles(tokens), width}, kType, "sums")),
        chosen_(k.sbuf({kTile, tiles(tokens), experts}, kType, "chosen")),
        shares_(k.sbuf({kTile, tiles(tokens), experts}, kType, "shares")),
        places_(k.sbuf({kTile, tiles(tokens), experts}, kType, "places")),
        count_(k.sbuf({kTile, experts}, kType, "count")),
        routing_(k.ring(2, {kTile, std::max<int64_t>(experts, 8)}, kType, "logits")),
        eights_(k.ring(6, {kTile, 8}, kType, "eight")),
        hits_(k.ring(2, {kTile, experts}, kType, "hits")),
        offsets_(k.ring(4, {kTile, 1}, kType, "offset")),
        maps_(k.ring(2, {kTile, tiles(tokens), kTile}, kType, "maps")),
        gathered_(k.ring(2, {kTile, tiles(width), kTile}, kType, "gathered")),
        weights_(k.ring(2, {kTile, tiles(width), std::min(width, kBank)}, kType, "weights")),
        results_(k.ring(2, {kTile, std::min(width, kBank)}, kType, "result")),
        scatters_(k.ring(2, {kTile, tiles(tokens), kTile}, kType, "scatter")),
        products_(k.ring(8, {kTile, kBank}, kType, "product", Space::kPsum)) {
    k.identity(identity_);
    k.memset(ones_, 1);
    // before[earlier, token] = 1: the place of a token is the sum over those before it.
    k.affine_select(before_, ones_, {0, -1, {1}}, Op::kGreater, 0);
    k.iota(numbers_, {0, 0, {1}});
    k.memset(sums_, 0);
    k.memset(count_, 0);
  }

  void run(int64_t capacity) {
    for (int64_t t = 0; t < tiles(tokens_); ++t) route(t);
    Batch last;  // what follows is gathered first, so that the Tensor engine need not wait for it
    for (int64_t e = 0; e < experts_; ++e) {
      for (int64_t place = 0; place < capacity; place += kTile) {
        const Batch batch = gather(e, place, std::min(kTile, capacity - place));
        if (last.places > 0) finish(last);
        last = batch;
      }
    }
    finish(last);
    for (int64_t t = 0; t < tiles(tokens_); ++t) {
      k_.store(y_.slice(0, t * kTile, count(t)), of(sums_, t));
    }
  }

 private:
  int64_t count(int64_t t) const { return std::min(kTile, tokens_ - t * kTile); }
  // What a tile has about the t-th up to 128 tokens.
  View of(const View& v, int64_t t) const { return v.index(1, t).slice(0, 0, count(t)); }
  View product(int64_t rows, int64_t columns) {
    return products_.next().slice(0, 0, rows).slice(1, 0, columns);
  }

  void route(int64_t t) {
    const int64_t n = count(t);
    const auto eight = [&] { return eights_.next().slice(0, 0, n); };
    const View logits = routing_.next().slice(0, 0, n);
    const View best = eight();
    const View found = eight();
    const View index = eight();
    const View weight = eight().slice(1, 0, top_);
    const View scalars = eight();
    const View minus_max = scalars.slice(1, 0, 1);
    const View sum = scalars.slice(1, 1, 1);
    const View chosen = of(chosen_, t);
    const View share = of(shares_, t);
    k_.load(of(rows_, t), x_.slice(0, t * kTile, n));
    if (experts_ < 8) k_.memset(logits, -1e30);  // max8 looks for eight
    k_.load(logits.slice(1, 0, experts_), logits_.slice(0, t * kTile, n));
    k_.max8(best, logits);
    k_.find_index8(found.as(kernel::DType::kUint32), logits, best);
    k_.tensor_copy(index, found.as(kernel::DType::kUint32));
    k_.tensor_scalar(minus_max, best.slice(1, 0, 1), {Op::kMultiply, -1.0});
    k_.activation_reduce(weight, sum, best.slice(1, 0, top_),
                         {kernel::Function::kExp, 1.0, minus_max});
    k_.reciprocal(sum, sum);
    k_.tensor_scalar(weight, weight, {Op::kMultiply, sum});
    k_.memset(chosen, 0);
    k_.memset(share, 0);
    for (int64_t i = 0; i < top_; ++i) {
      const View hit = hits_.next().slice(0, 0, n);
      k_.tensor_scalar(hit, numbers_.slice(0, 0, n).slice(1, 0, experts_),
                       {Op::kEqual, index.slice(1, i, 1)});
      k_.tensor_tensor(chosen, chosen, hit, Op::kAdd);
      k_.scalar_tensor_tensor(share, hit, {Op::kMultiply, weight.slice(1, i, 1)}, Op::kAdd, share);
    }
    // Those of this tile before it, and all of the tiles before.
    for (int64_t e = 0; e < experts_; e += kBank) {
      const int64_t m = std::min(kBank, experts_ - e);
      const View places = product(n, m);
      k_.matmul(places, before_.slice(0, 0, n).slice(1, 0, n), chosen.slice(1, e, m));
      k_.matmul(places, ones_.slice(1, 0, n), View(count_).slice(1, e, m), Accumulate::kAdd);
      k_.tensor_copy(of(places_, t).slice(1, e, m), places);
    }
    k_.tensor_tensor(count_.slice(0, 0, n), count_.slice(0, 0, n), chosen, Op::kAdd);
  }

  // Up to 128 places with an expert; the tokens that have them, in columns; and the way back.
  struct Batch {
    int64_t expert = 0;
    int64_t places = 0;
    View tokens;
    View scatter;
  };

  Batch gather(int64_t e, int64_t first, int64_t n) {
    const Batch batch{e, n, gathered_.next().slice(2, 0, n), scatters_.next().slice(0, 0, n)};
    const View maps = maps_.next().slice(2, 0, n);
    for (int64_t t = 0; t < tiles(tokens_); ++t) map(of(maps, t), t, e, first);
    for (int64_t c = 0; c < width_; c += kTile) {
      const int64_t m = std::min(kTile, width_ - c);
      const View columns = product(m, n);
      for (int64_t t = 0; t < tiles(tokens_); ++t) {
        k_.matmul(columns, of(rows_, t).slice(1, c, m), of(maps, t),
                  t == 0 ? Accumulate::kOverwrite : Accumulate::kAdd);
      }
      k_.activation(batch.tokens.index(1, c / kTile).slice(0, 0, m), columns,
                    {kernel::Function::kCopy});
    }
    for (int64_t t = 0; t < tiles(tokens_); ++t) {
      const View turned = product(n, count(t));
      k_.tensor_scalar(of(maps, t), of(maps, t), {Op::kMultiply, of(shares_, t).slice(1, e, 1)});
      k_.transpose(turned, of(maps, t), identity_.slice(0, 0, count(t)).slice(1, 0, count(t)));
      k_.activation(batch.scatter.index(1, t).slice(1, 0, count(t)), turned,
                    {kernel::Function::kCopy});
    }
    return batch;
  }

  // map[token, place] = 1 where the t-th tokens have the place.
  void map(const View& map, int64_t t, int64_t e, int64_t first) {
    const View place = offsets_.next().slice(0, 0, count(t));
    k_.tensor_scalar(place, of(places_, t).slice(1, e, 1), {Op::kSubtract, first});
    k_.tensor_scalar(map, numbers_.slice(0, 0, count(t)).slice(1, 0, map.size(1)),
                     {Op::kEqual, place}, {Op::kMultiply, of(chosen_, t).slice(1, e, 1)});
  }

  void finish(const Batch& batch) {
    for (int64_t c = 0; c < width_; c += kBank) {
      const int64_t m = std::min(kBank, width_ - c);
      const View result = results_.next().slice(0, 0, batch.places).slice(1, 0, m);
      multiply(result, batch.tokens, w_.index(0, batch.expert).slice(1, c, m));
      for (int64_t t = 0; t < tiles(tokens_); ++t) {
        const View rows = product(count(t), m);
        const View sum = of(sums_, t).slice(1, c, m);
        k_.matmul(rows, batch.scatter.index(1, t).slice(1, 0, count(t)), result);
        k_.tensor_tensor(sum, sum, rows, Op::kAdd);
      }
    }
  }

  void multiply(const View& result, const View& tokens, const View& w) {
    const int64_t m = result.size(1);
    const View weights = weights_.next().slice(2, 0, m);
    const View sum = product(result.size(0), m);
    for (int64_t i = 0; i < width_; i += kTile) {
      const int64_t rows = std::min(kTile, width_ - i);
      const View tile = weights.index(1, i / kTile).slice(0, 0, rows);
      k_.load(tile, w.slice(0, i, rows));
      k_.matmul(sum, tokens.index(1, i / kTile).slice(0, 0, rows), tile,
                i == 0 ? Accumulate::kOverwrite : Accumulate::kAdd);
    }
    k_.activation(result, sum, {kernel::Function::kCopy});
  }

  kernel::Kernel& k_;
  const int64_t tokens_, width_, experts_, top_;
  const View x_, logits_, w_, y_;
  kernel::Tile identity_, ones_, before_, numbers_;
  kernel::Tile rows_, sums_;               // x and y
  kernel::Tile chosen_, shares_, places_;  // of each token and expert
  kernel::Tile count_;                     // over partitions: tokens so far of each expert
  kernel::Ring routing_, eights_, hits_, offsets_;
  kernel::Ring maps_, gathered_, weights_, results_, scatters_, products_;
};

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int i) { return std::atoll(argv[i]); };
  if (argc != 7 || number(4) < 1 || number(4) > std::min(number(3), 8ll) || number(5) < 1) {
    std::fprintf(stderr, "usage: %s TOKENS WIDTH EXPERTS TOP CAPACITY FILE.neff, TOP up to 8\n",
                 argv[0]);
    return 2;
  }
  kernel::Kernel k({"experts"});
  Experts(k, number(1), number(2), number(3), number(4)).run(number(5));
  const base::Status saved = k.save(argv[6]);
  if (!saved) std::fprintf(stderr, "%s\n", saved.error().message().c_str());
  return saved ? 0 : 1;
}
