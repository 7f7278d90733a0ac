// The selective scan of Mamba, for CHANNELS x STATES recurrences along time, in float32:
//   h[t] = exp(delta[t] * a) * h[t-1] + delta[t] * u[t] * b[t]
//   y[t] = sum over states of c[t] * h[t]
// with delta, u and y [CHANNELS, TIME], a [CHANNELS, STATES], b and c [STATES, TIME].
//
//   mamba_scan CHANNELS STATES TIME FILE.neff
#include <soma/kernel.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr int64_t kPartitions = 128;
constexpr int64_t kElements = 8192;  // of b in a partition: states times steps of a tile
constexpr int64_t kBank = 512;       // float32 of a bank of PSUM
constexpr int64_t kGroup = 2;        // states
constexpr auto kType = kernel::DType::kFloat32;
using kernel::Op;
using kernel::View;

// b and c are the same for all channels: time is the outer loop, so that they come to all
// partitions once. What the scans of a tile arrive at is what those of the next start from.
//
// Vector has most to do. It works on two states in turn, so that no instruction waits for the
// result of the one before; and the Tensor engine sums over states, by products with ones on the
// diagonal.
class Scan {
 public:
  Scan(kernel::Kernel& k, int64_t channels, int64_t states, int64_t time)
      : k_(k),
        states_(states),
        steps_(std::min({time, kBank, std::max<int64_t>(kElements / states, 1)})),
        blocks_((channels + kPartitions - 1) / kPartitions),
        identity_(k.sbuf({kPartitions, kPartitions}, kType, "identity")),
        rates_(k.sbuf({kPartitions, blocks_, states}, kType, "rates")),
        carried_(k.sbuf({kPartitions, blocks_, states}, kType, "carried")),
        bs_(k.ring(2, {kPartitions, states, steps_}, kType, "b")),
        cs_(k.ring(2, {kPartitions, states, steps_}, kType, "c")),
        deltas_(k.ring(2, {kPartitions, steps_}, kType, "delta")),
        inputs_(k.ring(2, {kPartitions, steps_}, kType, "u")),
        results_(k.ring(2, {kPartitions, steps_}, kType, "result")),
        factors_(k.ring(2 * kGroup, {kPartitions, steps_}, kType, "factor")),
        addends_(k.ring(2 * kGroup, {kPartitions, steps_}, kType, "addend")),
        sums_(k.ring(2, {kPartitions, steps_}, kType, "sum", kernel::Space::kPsum)) {
    k.identity(identity_);
    k.memset(carried_, 0);
  }

  void run(const View& delta, const View& u, const View& a, const View& b, const View& c,
           const View& y) {
    const int64_t channels = a.size(0);
    const int64_t time = b.size(1);
    for (int64_t block = 0; block < blocks_; ++block) {
      const int64_t n = std::min(kPartitions, channels - block * kPartitions);
      k_.load(rates_.index(1, block).slice(0, 0, n), a.slice(0, block * kPartitions, n));
    }
    for (int64_t step = 0; step < time; step += steps_) {
      const int64_t m = std::min(steps_, time - step);
      const View b_tile = bs_.next().slice(2, 0, m);
      const View c_tile = cs_.next().slice(2, 0, m);
      for (int64_t s = 0; s < states_; ++s) {
        const auto everywhere = [&](const View& v) {
          return v.slice(0, s, 1).slice(1, step, m).broadcast(0, kPartitions);
        };
        k_.load(b_tile.index(1, s), everywhere(b));
        k_.load(c_tile.index(1, s), everywhere(c));
      }
      for (int64_t block = 0; block < blocks_; ++block) {
        const int64_t channel = block * kPartitions;
        const int64_t n = std::min(kPartitions, channels - channel);
        const auto part = [&](const View& v) { return v.slice(0, channel, n).slice(1, step, m); };
        tile(block, part(delta), part(u), b_tile.slice(0, 0, n), c_tile.slice(0, 0, n), part(y));
      }
    }
  }

 private:
  void tile(int64_t block, const View& delta, const View& u, const View& b, const View& c,
            const View& y) {
    const int64_t n = y.size(0);
    const int64_t m = y.size(1);
    const auto next = [&](kernel::Ring& r) { return r.next().slice(0, 0, n).slice(1, 0, m); };
    const View d = next(deltas_);
    const View input = next(inputs_);
    const View result = next(results_);
    const View sum = next(sums_);
    const View identity = identity_.slice(0, 0, n).slice(1, 0, n);
    k_.load(d, delta);
    k_.load(input, u);
    k_.tensor_tensor(input, input, d, Op::kMultiply);
    for (int64_t first = 0; first < states_; first += kGroup) {
      const int64_t end = std::min(first + kGroup, states_);
      View h[kGroup];
      View other[kGroup];
      const auto lane = [&](const View& v, int64_t s) {
        return v.index(1, block).slice(0, 0, n).slice(1, s, 1);
      };
      for (int64_t s = first; s < end; ++s) {
        h[s - first] = next(factors_);
        other[s - first] = next(addends_);
        k_.activation(h[s - first], d, {kernel::Function::kExp, lane(rates_, s)});
        k_.tensor_tensor(other[s - first], input, b.index(1, s), Op::kMultiply);
      }
      for (int64_t s = first; s < end; ++s) {
        const View& x = h[s - first];
        k_.tensor_tensor_scan(x, x, other[s - first], lane(carried_, s), Op::kMultiply, Op::kAdd);
        k_.activation(lane(carried_, s), x.slice(1, m - 1, 1), {kernel::Function::kCopy});
      }
      for (int64_t s = first; s < end; ++s) {
        k_.tensor_tensor(other[s - first], h[s - first], c.index(1, s), Op::kMultiply);
        k_.matmul(sum, identity, other[s - first],
                  s == 0 ? kernel::Accumulate::kOverwrite : kernel::Accumulate::kAdd);
      }
    }
    k_.activation(result, sum, {kernel::Function::kCopy});
    k_.store(y, result);
  }

  kernel::Kernel& k_;
  const int64_t states_, steps_, blocks_;
  kernel::Tile identity_;
  kernel::Tile rates_, carried_;  // of each block of channels: a, and the last h
  kernel::Ring bs_, cs_, deltas_, inputs_, results_, factors_, addends_, sums_;
};

void mamba_scan(kernel::Kernel& k, int64_t channels, int64_t states, int64_t time) {
  const View delta = k.input("delta", kType, {channels, time});
  const View u = k.input("u", kType, {channels, time});
  const View a = k.input("a", kType, {channels, states});
  const View b = k.input("b", kType, {states, time});
  const View c = k.input("c", kType, {states, time});
  const View y = k.output("y", kType, {channels, time});
  Scan(k, channels, states, time).run(delta, u, a, b, c, y);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: %s CHANNELS STATES TIME FILE.neff\n", argv[0]);
    return 2;
  }
  kernel::Kernel k({"mamba_scan"});
  mamba_scan(k, std::atoll(argv[1]), std::max(std::atoll(argv[2]), 1ll), std::atoll(argv[3]));
  const base::Status saved = k.save(argv[4]);
  if (!saved) std::fprintf(stderr, "%s\n", saved.error().message().c_str());
  return saved ? 0 : 1;
}
