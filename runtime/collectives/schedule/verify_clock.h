// Order of an execution: what a point in the program of one channel knows to have happened before
// it. Steps of a track (one channel of one rank) start in their order, so starts are a counter.
// They complete in any order, but only so many are in flight together, so the completions known of
// a track are a prefix and less than that many more. Fan-out steps have no window: a bit each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ccl {

// Steps of a track in flight together that a clock can tell apart.
constexpr uint32_t kMostInFlight = 32;

// Names a step by what decides whether a clock knows its end.
struct StepRef {
  uint32_t rank = 0;
  uint32_t step = 0;    // index in the list of the rank
  uint32_t track = 0;   // rank x channels + channel
  uint32_t number = 0;  // among the windowed steps of the track, or among all fan-out steps
  bool fan_out = false;
};

class Clock {
 public:
  Clock(uint32_t ranks, uint32_t tracks, uint32_t fan_outs)
      : tracks_(tracks), started_ranks_(words(ranks)), fan_outs_(words(fan_outs)) {}

  void merge(const Clock& other);

  // The rank has begun the operation.
  void start_rank(uint32_t rank) { set(&started_ranks_, rank); }
  bool rank_started(uint32_t rank) const { return test(started_ranks_, rank); }
  const std::vector<uint64_t>& started_ranks() const { return started_ranks_; }

  // The first `count` steps of the track have started.
  void start(uint32_t track, uint32_t count) { tracks_[track].started = count; }
  uint32_t started(uint32_t track) const { return tracks_[track].started; }

  void end(const StepRef& step);
  bool ended(const StepRef& step) const;

 private:
  struct Known {
    uint32_t started = 0;
    uint32_t ended = 0;  // this many windowed steps, without a gap
    uint32_t more = 0;   // bit k: and step ended + k; of kMostInFlight
  };

  static size_t words(uint32_t bits) { return (bits + 63) / 64; }
  static void set(std::vector<uint64_t>* bits, uint32_t i) {
    (*bits)[i / 64] |= uint64_t{1} << (i % 64);
  }
  static bool test(const std::vector<uint64_t>& bits, uint32_t i) {
    return ((bits[i / 64] >> (i % 64)) & 1) != 0;
  }
  static void close(Known* known);

  std::vector<Known> tracks_;
  std::vector<uint64_t> started_ranks_;
  std::vector<uint64_t> fan_outs_;
};

}  // namespace ccl
