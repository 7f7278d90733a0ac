// The selective scan of a published tutorial in its three versions, in float32:
//   1  states outside, channels inside: delta and u are loaded again for every state
//   2  channels outside: once
//   3  the same by 512 steps of time
// Rows of b and c reach all partitions by products with ones; what they are multiplied with is read
// from PSUM: with copies of them in SBUF, Vector alone would need longer than was measured.
#include <algorithm>

#include "calibrate_kernels.h"

namespace calibration {
namespace {

using kernel::Kernel;
using kernel::Op;
using kernel::View;

class Mamba {
 public:
  Mamba(Kernel& k, const Sizes& sizes)
      : k_(k),
        version_(sizes[0]),
        blocks_(sizes[1] / kPartitions),
        states_(sizes[2]),
        time_(sizes[3]),
        delta_(k.input("delta", kFloat, {sizes[1], time_})),
        u_(k.input("u", kFloat, {sizes[1], time_})),
        a_(k.input("a", kFloat, {sizes[1], states_})),
        b_(k.input("b", kFloat, {states_, time_})),
        c_(k.input("c", kFloat, {states_, time_})),
        y_(k.output("y", kFloat, {sizes[1], time_})),
        ones_(k.sbuf({1, kPartitions}, kFloat, "ones")),
        broadcasts_(k.ring(8, {kPartitions, std::min(kBank, time_)}, kFloat, "broadcast",
                           kernel::Space::kPsum)) {
    k.memset(ones_, 1);
  }

  void run() {
    const int64_t sums = version_ == 1 ? blocks_ : 1;
    const int64_t inputs = version_ == 1 ? 3 : 2;  // delta and u, and their product
    const int64_t steps = version_ == 3 ? std::min(kBank, time_) : time_;
    const int64_t tile = 4 * time_;
    const int64_t room = k_.largest_free(kernel::Space::kSbuf) - 4096;
    const auto need = [&](int64_t loads, int64_t units) {
      return sums * tile + loads * inputs * tile + units * 4 * 4 * steps;
    };
    const int64_t depth = need(1, 2) <= room ? 2 : 1;
    const int64_t loads = need(2, depth) <= room ? 2 : 1;
    const auto ring = [&](const char* name, int64_t count, int64_t partitions, int64_t columns) {
      return k_.ring(static_cast<size_t>(count), {partitions, columns}, kFloat, name);
    };
    kernel::Ring sum = ring("sum", sums, kPartitions, time_);
    deltas_ = ring("delta", loads, kPartitions, time_);
    products_ = ring("product", loads, kPartitions, time_);
    if (version_ == 1) us_ = ring("u", loads, kPartitions, time_);
    rates_ = ring("rate", 4, kPartitions, 1);
    carries_ = ring("carry", 4, kPartitions, 1);
    rows_ = ring("row", 2 * depth, 1, steps);
    factors_ = ring("factor", depth, kPartitions, steps);
    addends_ = ring("addend", depth, kPartitions, steps);
    if (version_ == 1) {
      for (int64_t i = 0; i < blocks_; ++i) k_.memset(sum[static_cast<size_t>(i)], 0);
      for (int64_t s = 0; s < states_; ++s) {
        for (int64_t i = 0; i < blocks_; i += depth) {
          group(std::min(depth, blocks_ - i), steps, [&](int64_t g) {
            Unit unit = load(i + g, s);
            unit.sum = sum[static_cast<size_t>(i + g)];
            unit.delta = deltas_.next();
            unit.product = products_.next();
            load_inputs(i + g, unit, us_.next());
            return unit;
          });
        }
      }
      for (int64_t i = 0; i < blocks_; ++i) store(i, sum[static_cast<size_t>(i)]);
      return;
    }
    for (int64_t i = 0; i < blocks_; ++i) {
      const View total = sum.next();
      Unit shared;
      shared.delta = deltas_.next();
      shared.product = products_.next();
      k_.memset(total, 0);
      load_inputs(i, shared, shared.product);
      for (int64_t s = 0; s < states_; s += depth) {
        group(std::min(depth, states_ - s), steps, [&](int64_t g) {
          Unit unit = load(i, s + g);
          unit.delta = shared.delta;
          unit.product = shared.product;
          unit.sum = total;
          return unit;
        });
      }
      store(i, total);
    }
  }

 private:
  struct Unit {
    View delta, product, sum, rate, carry;
    int64_t state = 0;
  };

  View block(const View& v, int64_t i) const { return v.slice(0, i * kPartitions, kPartitions); }
  void store(int64_t i, const View& sum) { k_.store(block(y_, i), sum); }

  Unit load(int64_t i, int64_t s) {
    Unit unit;
    unit.rate = rates_.next();
    unit.carry = carries_.next();
    unit.state = s;
    k_.load(unit.rate, block(a_, i).slice(1, s, 1));
    return unit;
  }

  void load_inputs(int64_t i, const Unit& unit, const View& u) {
    k_.load(unit.delta, block(delta_, i));
    k_.load(u, block(u_, i));
    k_.tensor_tensor(unit.product, unit.delta, u, Op::kMultiply);
  }

  // dst = src times a row, in pieces of a bank of PSUM.
  void times_row(const View& dst, const View& src, const View& row) {
    for (int64_t at = 0; at < dst.size(1); at += kBank) {
      const int64_t n = std::min(kBank, dst.size(1) - at);
      const View everywhere = broadcasts_.next().slice(1, 0, n);
      k_.matmul(everywhere, ones_, row.slice(1, at, n));
      k_.tensor_tensor(dst.slice(1, at, n), src.slice(1, at, n), everywhere, Op::kMultiply);
    }
  }

  // So many units side by side, so that no instruction needs the result of the one before.
  template <typename Make>
  void group(int64_t count, int64_t steps, Make&& make) {
    std::vector<Unit> units;
    for (int64_t g = 0; g < count; ++g) units.push_back(make(g));
    for (int64_t at = 0; at < time_; at += steps) {
      const int64_t n = std::min(steps, time_ - at);
      std::vector<View> h, addend, c;
      for (const Unit& unit : units) {
        const View b = rows_.next().slice(1, 0, n);
        c.push_back(rows_.next().slice(1, 0, n));
        k_.load(b, b_.slice(0, unit.state, 1).slice(1, at, n));
        k_.load(c.back(), c_.slice(0, unit.state, 1).slice(1, at, n));
        h.push_back(factors_.next().slice(1, 0, n));
        addend.push_back(addends_.next().slice(1, 0, n));
        k_.activation(h.back(), unit.delta.slice(1, at, n), {kernel::Function::kExp, unit.rate});
        times_row(addend.back(), unit.product.slice(1, at, n), b);
      }
      for (size_t g = 0; g < units.size(); ++g) {
        const kernel::Scalar initial = at == 0 ? kernel::Scalar(0.0) : units[g].carry;
        k_.tensor_tensor_scan(h[g], h[g], addend[g], initial, Op::kMultiply, Op::kAdd);
        if (at + n < time_) {
          k_.activation(units[g].carry, h[g].slice(1, n - 1, 1), {kernel::Function::kCopy});
        }
      }
      for (size_t g = 0; g < units.size(); ++g) times_row(h[g], h[g], c[g]);
      for (size_t g = 0; g < units.size(); ++g) {
        const View sum = units[g].sum.slice(1, at, n);
        k_.tensor_tensor(sum, sum, h[g], Op::kAdd);
      }
    }
  }

  Kernel& k_;
  const int64_t version_, blocks_, states_, time_;
  View delta_, u_, a_, b_, c_, y_;
  kernel::Tile ones_;
  kernel::Ring broadcasts_;
  kernel::Ring deltas_{{}}, products_{{}}, us_{{}}, rates_{{}}, carries_{{}}, rows_{{}};
  kernel::Ring factors_{{}}, addends_{{}};
};

void mamba(Kernel& k, const Sizes& sizes) {
  Mamba(k, sizes).run();
}

}  // namespace

std::vector<Case> scan_cases() {
  return {{"mamba", "version channels states time", mamba}};
}

}  // namespace calibration
