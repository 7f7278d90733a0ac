// The payload work of a ring all-reduce of fp32, as a plain loop over warm buffers in chunks of one
// DMA packet: a partial sum goes round all ranks, each of which folds its own part in, and the
// result goes round again. Two ranks fold the other's input where it is. Prints nanoseconds of the
// best of five rounds. bench_replay BYTES PACKET [RANKS]
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

using Floats = std::vector<float>;

class Replay {
 public:
  Replay(size_t ranks, size_t count, size_t packet)
      : packet_(packet),
        in_(ranks),
        out_(ranks, Floats(count)),
        slots_(2 * ranks, Floats(ranks > 2 ? count / ranks + ranks : 0)) {
    for (size_t rank = 0; rank < ranks; ++rank) in_[rank].assign(count, static_cast<float>(rank));
  }

  // All ranks' work of one all-reduce.
  void all_reduce() {
    const size_t ranks = in_.size();
    for (size_t hop = 1; hop <= ranks; ++hop) {
      for (size_t chunk = 0; chunk < ranks; ++chunk) reduce(chunk, hop);
    }
    for (size_t hop = 1; hop < ranks; ++hop) {
      for (size_t chunk = 0; chunk < ranks; ++chunk) gather(chunk, hop);
    }
  }

  bool right() const {
    const size_t ranks = in_.size();
    const auto sum = static_cast<float>(ranks * (ranks - 1) / 2);
    return std::all_of(out_.begin(), out_.end(),
                       [&](const Floats& o) { return o.front() == sum && o.back() == sum; });
  }

 private:
  template <typename Work>
  void packets(size_t chunk, Work work) const {
    const size_t count = in_[0].size();
    const size_t begin = chunk * count / in_.size();
    const size_t end = (chunk + 1) * count / in_.size();
    for (size_t at = begin; at < end; at += packet_)
      work(at, at - begin, std::min(packet_, end - at));
  }

  static void fold(const float* a, const float* b, float* to, size_t count) {
    for (size_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
  }

  // The `hop`-th rank that a partial sum of the chunk comes to; the last is the chunk's own.
  size_t rank_at(size_t chunk, size_t hop) const { return (chunk + hop) % in_.size(); }

  // Where a rank finds what comes to it at a hop; the slots of two hops are in use together.
  Floats& slot(size_t rank, size_t hop) { return slots_[hop % 2 * in_.size() + rank]; }

  void reduce(size_t chunk, size_t hop) {
    const size_t ranks = in_.size();
    const size_t rank = rank_at(chunk, hop);
    const size_t next = rank_at(chunk, hop + 1);
    packets(chunk, [&](size_t at, size_t in_slot, size_t count) {
      const float* own = &in_[rank][at];
      if (hop == 1) {  // two ranks need no slot
        if (ranks > 2) std::memcpy(&slot(next, hop + 1)[in_slot], own, count * sizeof(float));
        return;
      }
      const float* partial = ranks > 2 ? &slot(rank, hop)[in_slot] : &in_[1 - rank][at];
      fold(partial, own, hop == ranks ? &out_[rank][at] : &slot(next, hop + 1)[in_slot], count);
    });
  }

  void gather(size_t chunk, size_t hop) {
    const Floats& from = out_[rank_at(chunk, hop - 1)];
    Floats& to = out_[rank_at(chunk, hop)];
    packets(chunk, [&](size_t at, size_t /*in_slot*/, size_t count) {
      std::memcpy(&to[at], &from[at], count * sizeof(float));
    });
  }

  size_t packet_;
  std::vector<Floats> in_;
  std::vector<Floats> out_;
  std::vector<Floats> slots_;
};

}  // namespace

int main(int argc, char** argv) {
  constexpr int kRounds = 5;
  if (argc != 3 && argc != 4) return 2;
  const size_t count = std::strtoull(argv[1], nullptr, 0) / sizeof(float);
  const size_t packet = std::strtoull(argv[2], nullptr, 0) / sizeof(float);
  const size_t ranks = argc == 4 ? std::strtoull(argv[3], nullptr, 0) : 2;
  if (ranks < 2 || count < ranks || packet == 0) return 2;
  Replay replay(ranks, count, packet);
  int64_t best = INT64_MAX;
  for (int round = 0; round <= kRounds; ++round) {  // the first warms up
    const auto start = std::chrono::steady_clock::now();
    replay.all_reduce();
    const auto time = std::chrono::steady_clock::now() - start;
    if (round > 0) {
      best = std::min<int64_t>(best,
                               std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
    }
  }
  if (!replay.right()) return 1;
  std::printf("%lld\n", static_cast<long long>(best));
  return 0;
}
