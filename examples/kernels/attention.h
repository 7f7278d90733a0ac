// Fused attention, o = softmax(q k^T / sqrt(D)) v of a head, D up to 128; causal: a token sees
// itself and those before it. Inputs in float32 or bfloat16.
//
// Scores never leave the chip. Keys and values pass by in blocks; each block of queries keeps the
// largest score so far, the sum of the exponentials relative to it, and the sum of values weighted
// with them. When the maximum grows, both sums shrink by exp(old - new).
// The two products of a block and what lies between them are stages of a pipeline.
#pragma once

#include <soma/kernel.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "stages.h"

namespace attention {

constexpr int64_t kQueries = 128;  // of a block: partitions of the scores
constexpr int64_t kKeys = 512;     // of a block: float32 of a bank of PSUM
constexpr int64_t kSpan = 4096;    // queries that share one passage of the keys at most
constexpr int64_t kStages = 4;     // of a step; each works on another one
using kernel::Accumulate;
using kernel::Function;
using kernel::Op;
using kernel::View;
using stages::kFloat;

class Attention {
 public:
  // `span`: queries that share one passage of the keys.
  Attention(kernel::Kernel& k, const kernel::Ring& banks, kernel::DType type, int64_t tokens,
            int64_t d, bool causal, int64_t span = kSpan)
      : k_(k),
        tokens_(tokens),
        span_(std::min(tokens, span)),
        d_(d),
        causal_(causal),
        scale_(1 / std::sqrt(static_cast<double>(d))),
        identity_(k.sbuf({kQueries, kQueries}, type, "identity")),
        rows_(k.ring(2, {128, kKeys / 128, d}, type, "rows")),
        queries_(k.sbuf({d, span_}, type, "queries")),
        keys_(k.ring(2, {d, kKeys}, type, "keys")),
        values_(k.ring(kStages, {128, kKeys / 128, d}, type, "values")),
        masked_(k.ring(3, {kQueries, kKeys}, kFloat, "masked")),
        weights_(k.ring(kStages, {kQueries, kKeys}, type, "weights")),
        turned_(k.ring(2, {128, kKeys / 128, kQueries}, type, "turned")),
        scalars_(k.ring(4 * kStages, {kQueries, 1}, kFloat, "scalar")),
        shifts_(k.sbuf({kQueries, blocks(), kStages}, kFloat, "shifts")),
        sums_(k.sbuf({kQueries, blocks()}, kFloat, "sums")),
        outputs_(k.sbuf({kQueries, blocks(), d}, kFloat, "outputs")),
        scores_(banks, 0, 3),
        transposes_(banks, 3, 3),
        products_(banks, 6, 2) {
    k.identity(identity_);
  }

  void head(const View& q, const View& k, const View& v, const View& o) {
    for (int64_t first = 0; first < tokens_; first += span_) {
      span(q, k, v, o, first, std::min(span_, tokens_ - first));
    }
  }

  // Some queries of a head, as many as a span has or fewer. All keys are there, or, if causal,
  // those up to the last query's.
  void span(const View& q, const View& k, const View& v, const View& o, int64_t first,
            int64_t queries) {
    k_.memset(shifts_, 1e30);  // minus the maximum of nothing
    k_.memset(sums_, 0);
    k_.memset(outputs_, 0);
    for (int64_t i = 0; i < queries; i += kKeys) {
      const int64_t n = std::min(kKeys, queries - i);
      load_turned(queries_.slice(1, i, n), q.slice(0, first + i, n));
    }
    const int64_t seen = causal_ ? first + queries : tokens_;
    for (int64_t key = 0; key < seen; key += kKeys) {
      const int64_t n = std::min(kKeys, seen - key);
      const View keys = keys_.next().slice(1, 0, n);
      const View values = values_.next();
      load_turned(keys, k.slice(0, key, n));
      stages::load_rows(k_, values, v.slice(0, key, n));
      for (int64_t query = 0; query < queries; query += kQueries) {
        Step step;
        step.first_query = first + query;
        step.queries = std::min(kQueries, queries - query);
        step.first_key = key;
        // Of a block that the diagonal crosses, only keys up to the last query's.
        step.keys = causal_ ? std::min(n, first + query + step.queries - key) : n;
        step.block = query / kQueries;
        step.values = values;
        if (step.keys > 0) advance(step, keys);
      }
    }
    for (int64_t i = 1; i < kStages; ++i) advance({}, {});
    for (int64_t query = 0; query < queries; query += kQueries) {
      const int64_t m = std::min(kQueries, queries - query);
      const View sum = block_of(sums_, query / kQueries, m);
      const View output = outputs_.index(1, query / kQueries).slice(0, 0, m);
      k_.reciprocal(sum, sum);
      k_.tensor_scalar(output, output, {Op::kMultiply, sum});
      k_.store(o.slice(0, first + query, m), output);
    }
  }

 private:
  // A block of queries meets one of keys. What is left to later stages is here.
  struct Step {
    int64_t first_query = 0, queries = 0;
    int64_t first_key = 0, keys = 0;
    int64_t block = 0;  // of queries, in the span
    View values;
    View scores, weights, turned;
    View largest;        // score, negative
    View before, shift;  // minus the scaled maximum without these keys, and with them
    View shrink, total;  // exp of the difference; the sum of the weights
  };

  int64_t blocks() const { return (span_ + kQueries - 1) / kQueries; }
  View block_of(const View& tile, int64_t block, int64_t n) const {
    return tile.slice(1, block, 1).slice(0, 0, n);
  }

  View next_transposes() { return transposes_.next().reshape({128, kKeys / 128, kQueries}); }

  // The Tensor engine contracts over partitions, so queries and keys lie with D in these.
  void load_turned(const View& dst, const View& matrix) {
    const View rows = rows_.next();
    const View turned = next_transposes();
    const int64_t n = matrix.size(0);
    stages::load_rows(k_, rows, matrix);
    for (int64_t i = 0; i < n; i += 128) {
      const int64_t m = std::min<int64_t>(128, n - i);
      const View part = turned.index(1, i / 128).slice(0, 0, d_).slice(1, 0, m);
      k_.transpose(part, rows.index(1, i / 128).slice(0, 0, m),
                   identity_.slice(0, 0, m).slice(1, 0, m));
    }
    k_.tensor_copy(dst, turned.reshape({128, kKeys}).slice(0, 0, d_).slice(1, 0, n));
  }

  // Engines execute in the order of calls: so that none waits for another within a step, each stage
  // takes what the one before it made of an earlier step.
  void advance(const Step& step, const View& keys) {
    std::rotate(flow_.begin(), flow_.end() - 1, flow_.end());
    flow_[0] = step;
    if (flow_[0].keys > 0) score(&flow_[0], keys);
    if (flow_[2].keys > 0) turn(&flow_[2]);
    if (flow_[1].keys > 0) weigh(&flow_[1]);
    if (flow_[3].keys > 0) add_values(flow_[3]);
    if (flow_[0].keys > 0) shift(&flow_[0]);  // now Vector has the maximum that it takes
  }

  void score(Step* s, const View& keys) {
    const View query = queries_.slice(1, s->block * kQueries, s->queries);
    s->scores = scores_.next().slice(0, 0, s->queries).slice(1, 0, s->keys);
    k_.matmul(s->scores, query, keys.slice(1, 0, s->keys));
    const int64_t ahead = s->first_query - s->first_key;
    if (causal_ && s->keys > ahead + 1) {  // GpSimd, which masks, does not reach PSUM
      const View masked = masked_.next().slice(0, 0, s->queries).slice(1, 0, s->keys);
      k_.tensor_copy(masked, s->scores);
      k_.affine_select(masked, masked, {static_cast<int32_t>(ahead), 1, {-1}}, Op::kGreaterEqual,
                       -1e30);
      s->scores = masked;
    }
    s->largest = scalars_.next().slice(0, 0, s->queries);
    k_.tensor_reduce(s->largest, s->scores, Op::kMax, 1, /*negate=*/true);
  }

  void shift(Step* s) {
    const View shifts = shifts_.index(1, s->block).slice(0, 0, s->queries);
    const int64_t passage = s->first_key / kKeys;
    s->before = shifts.slice(1, (passage + kStages - 1) % kStages, 1);
    s->shift = shifts.slice(1, passage % kStages, 1);
    k_.scalar_tensor_tensor(s->shift, s->largest, {Op::kMultiply, scale_}, Op::kMin, s->before);
  }

  void weigh(Step* s) {
    s->weights = weights_.next().slice(0, 0, s->queries).slice(1, 0, s->keys);
    s->shrink = scalars_.next().slice(0, 0, s->queries);
    s->total = scalars_.next().slice(0, 0, s->queries);
    k_.activation(s->shrink, s->before, {Function::kExp, -1.0, s->shift});
    k_.activation_reduce(s->weights, s->total, s->scores, {Function::kExp, scale_, s->shift});
  }

  // The i-th up to 128 keys of a step, which are partitions of the tile.
  static View keys_of(const View& tile, const Step& s, int64_t i, int64_t columns) {
    const int64_t n = std::min<int64_t>(128, s.keys - i * 128);
    return tile.index(1, i).slice(0, 0, n).slice(1, 0, columns);
  }

  void turn(Step* s) {
    const View transposes = next_transposes();
    const View identity = identity_.slice(0, 0, s->queries).slice(1, 0, s->queries);
    s->turned = turned_.next();
    for (int64_t i = 0; i * 128 < s->keys; ++i) {
      const int64_t n = std::min<int64_t>(128, s->keys - i * 128);
      k_.transpose(keys_of(transposes, *s, i, s->queries), s->weights.slice(1, i * 128, n),
                   identity);
    }
    const int64_t whole = s->keys / 128;
    const auto copy = [&](const View& dst, const View& src) {
      k_.activation(dst, src, {Function::kCopy});
    };
    if (whole > 0) {
      copy(s->turned.slice(1, 0, whole).slice(2, 0, s->queries),
           transposes.slice(1, 0, whole).slice(2, 0, s->queries));
    }
    if (s->keys % 128 != 0) {
      copy(keys_of(s->turned, *s, whole, s->queries), keys_of(transposes, *s, whole, s->queries));
    }
  }

  void add_values(const Step& s) {
    const View product = products_.next().slice(0, 0, s.queries).slice(1, 0, d_);
    const View sum = block_of(sums_, s.block, s.queries);
    const View output = outputs_.index(1, s.block).slice(0, 0, s.queries);
    for (int64_t i = 0; i * 128 < s.keys; ++i) {
      k_.matmul(product, keys_of(s.turned, s, i, s.queries), keys_of(s.values, s, i, d_),
                i == 0 ? Accumulate::kOverwrite : Accumulate::kAdd);
    }
    k_.scalar_tensor_tensor(sum, sum, {Op::kMultiply, s.shrink}, Op::kAdd, s.total);
    k_.scalar_tensor_tensor(output, output, {Op::kMultiply, s.shrink}, Op::kAdd, product);
  }

  kernel::Kernel& k_;
  const int64_t tokens_, span_, d_;
  const bool causal_;
  const double scale_;
  kernel::Tile identity_;
  kernel::Ring rows_;
  kernel::Tile queries_;
  kernel::Ring keys_, values_, masked_, weights_, turned_, scalars_;
  kernel::Tile shifts_, sums_, outputs_;  // of each block of queries
  stages::Banks scores_, transposes_, products_;
  std::array<Step, kStages> flow_;  // by the stage that is next
};

}  // namespace attention
