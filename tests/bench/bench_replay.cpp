// The payload work of a two-rank ring all-reduce of fp32, as a plain loop over warm buffers: per
// rank one copy-and-add of the half that it reduces, one copy of the half that it gathers, in
// chunks of one DMA packet. Prints nanoseconds of the best of five rounds. bench_replay BYTES CHUNK
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

using Floats = std::vector<float>;

void add(const float* from, float* to, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] += from[i];
}

// Both ranks' work of one all-reduce.
void all_reduce(Floats (&in)[2], Floats (&out)[2], size_t chunk) {
  const size_t half = in[0].size() / 2;
  for (size_t rank = 0; rank < 2; ++rank) {
    const size_t start = rank * half;
    for (size_t at = start; at < start + half; at += chunk) {
      const size_t count = std::min(chunk, start + half - at);
      std::memcpy(&out[rank][at], &in[rank][at], count * sizeof(float));
      add(&in[1 - rank][at], &out[rank][at], count);
    }
  }
  for (size_t rank = 0; rank < 2; ++rank) {
    const size_t start = (1 - rank) * half;
    for (size_t at = start; at < start + half; at += chunk) {
      const size_t count = std::min(chunk, start + half - at);
      std::memcpy(&out[rank][at], &out[1 - rank][at], count * sizeof(float));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int kRounds = 5;
  if (argc != 3) return 2;
  const size_t count = std::strtoull(argv[1], nullptr, 0) / sizeof(float);
  const size_t chunk = std::strtoull(argv[2], nullptr, 0) / sizeof(float);
  if (count < 2 || chunk == 0) return 2;
  Floats in[2] = {Floats(count, 1.0f), Floats(count, 2.0f)};
  Floats out[2] = {Floats(count), Floats(count)};
  int64_t best = INT64_MAX;
  for (int round = 0; round <= kRounds; ++round) {  // the first warms up
    const auto start = std::chrono::steady_clock::now();
    all_reduce(in, out, chunk);
    const auto time = std::chrono::steady_clock::now() - start;
    if (round > 0) {
      best = std::min<int64_t>(best,
                               std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
    }
  }
  if (out[0][0] != 3.0f || out[1][count - 1] != 3.0f) return 1;
  std::printf("%lld\n", static_cast<long long>(best));
  return 0;
}
