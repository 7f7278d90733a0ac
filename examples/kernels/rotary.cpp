// Rotary embedding of x[TOKENS, HEADS, D] with tables cos and sin[TOKENS, D / 2], in float32. Each
// element of the lower half of D makes a pair with one of the upper half:
//   y_low = x_low * cos - x_high * sin,   y_high = x_high * cos + x_low * sin
//
//   rotary TOKENS HEADS D FILE.neff
#include <cstdio>
#include <cstdlib>

#include "stages.h"

namespace {

constexpr int64_t kPartitions = 128;
constexpr int64_t kElements = 4096;  // of x in a partition: 16 KiB, long enough for the DMA engines
constexpr auto kType = kernel::DType::kFloat32;

void rotary(kernel::Kernel& k, int64_t tokens, int64_t heads, int64_t d) {
  using kernel::View;
  const int64_t half = d / 2;
  const int64_t group = std::min(heads, std::max<int64_t>(kElements / std::max<int64_t>(d, 1), 1));
  const View x = k.input("x", kType, {tokens, heads, d});
  const View cosines = k.input("cos", kType, {tokens, half});
  const View sines = k.input("sin", kType, {tokens, half});
  const View y = k.output("y", kType, {tokens, heads, d});
  kernel::Ring tables = k.ring(4, {kPartitions, 1, half}, kType, "table");
  kernel::Ring in = k.ring(2, {kPartitions, group, d}, kType, "in");
  kernel::Ring out = k.ring(2, {kPartitions, group, d}, kType, "out");
  kernel::Ring others = k.ring(2, {kPartitions, group, d}, kType, "other");
  for (int64_t token = 0; token < tokens; token += kPartitions) {
    const int64_t n = std::min(kPartitions, tokens - token);
    const View cosine = tables.next().slice(0, 0, n);
    const View sine = tables.next().slice(0, 0, n);
    k.load(cosine, cosines.slice(0, token, n));
    k.load(sine, sines.slice(0, token, n));
    for (int64_t head = 0; head < heads; head += group) {
      const int64_t m = std::min(group, heads - head);
      const View data = in.next().slice(0, 0, n).slice(1, 0, m);
      const View result = out.next().slice(0, 0, n).slice(1, 0, m);
      const View other = others.next().slice(0, 0, n).slice(1, 0, m);
      k.load(data, x.slice(0, token, n).slice(1, head, m));
      stages::rotate(k, result, data, cosine, sine, result, other);
      k.store(y.slice(0, token, n).slice(1, head, m), result);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5 || std::atoll(argv[3]) % 2 != 0) {
    std::fprintf(stderr, "usage: %s TOKENS HEADS D FILE.neff, D even\n", argv[0]);
    return 2;
  }
  kernel::Kernel k({"rotary"});
  rotary(k, std::atoll(argv[1]), std::atoll(argv[2]), std::atoll(argv[3]));
  const base::Status saved = k.save(argv[4]);
  if (!saved) std::fprintf(stderr, "%s\n", saved.error().message().c_str());
  return saved ? 0 : 1;
}
