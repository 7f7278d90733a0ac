// Small helpers for writing schedules: shapes with numbered events, lists of steps, slices. Nothing
// here knows an algorithm.
#pragma once

#include <string>
#include <vector>

#include "runtime/collectives/schedule/schedule.h"

namespace ccl {

// "No step": where a step would be named in an `after` list.
constexpr uint32_t kNoId = 0xFFFFFFFF;
// Chunks, parts, slices and slots are multiples of this many bytes (spec/collectives.md 1.3).
constexpr uint64_t kCutBytes = 64;

constexpr uint64_t round_up(uint64_t bytes) {
  return (bytes + kCutBytes - 1) / kCutBytes * kCutBytes;
}

// The group or operation is not eligible for the algorithm; another one may do.
base::Error not_eligible(Algorithm algorithm, const std::string& why);

Shape make_shape(Algorithm algorithm, const OpRequest& request, const Group& group,
                 const ScheduleOptions& options);
// Number of a new event.
uint32_t add_fifo(Shape& shape, uint32_t channel);
uint32_t add_gather(Shape& shape, uint32_t channel);

// Cuts of chunks that travel in pieces: slice s of a chunk is [s x bytes, (s+1) x bytes) of it, so
// that chunks of unequal length have the same cuts and end early.
struct Slices {
  uint64_t bytes = kCutBytes;  // of one slice
  uint32_t count = 0;          // of the largest chunk

  uint32_t of(const Chunk& chunk) const;  // how many are not empty
  Chunk slice(const Chunk& chunk, uint32_t s) const;
};
// Slices of at most `slot_bytes` for chunks of at most `largest` bytes: `least` of them unless they
// become tiny (a step costs more than it moves), never more than `most` (slices grow instead).
Slices cut(uint64_t largest, uint64_t slot_bytes, uint32_t least, uint32_t most);

inline Range input_of(uint32_t rank, uint64_t offset) {
  return {rank, Buffer::kInput, offset};
}
inline Range output_of(uint32_t rank, uint64_t offset) {
  return {rank, Buffer::kOutput, offset};
}
inline Range channel_of(uint32_t rank, uint64_t offset) {
  return {rank, Buffer::kChannel, offset};
}

// Fluent view of the step last added: list.move(...).wait(ready).signal(to, data).after(id).
class StepEdit {
 public:
  explicit StepEdit(Step& step, uint32_t id) : step_(step), id_(id) {}

  StepEdit& wait(uint32_t event, uint32_t signals = 1);
  StepEdit& signal(uint32_t rank, uint32_t event);
  StepEdit& after(uint32_t id);  // kNoId and repeated ids are ignored
  StepEdit& after(const std::vector<uint32_t>& ids);
  StepEdit& from(Range source);
  StepEdit& to(Range destination);
  StepEdit& fan_out();
  StepEdit& variable(const Variable& words);

  uint32_t id() const { return id_; }

 private:
  Step& step_;
  uint32_t id_;
};

// Steps of one rank, by ascending time, else in the order in which they are added.
class StepList {
 public:
  // When the following steps are due, in hops of the algorithm. One CC-core may run the programs of
  // several channels as one: then a step must not stand behind those of later hops of another
  // channel. Times must agree between ranks: what a step waits for is not signalled at a later one.
  void at(uint64_t time) { time_ = time; }

  // The references are valid until the next step is added.
  StepEdit move(uint32_t channel, uint64_t bytes, std::vector<Range> sources,
                std::vector<Range> destinations);
  StepEdit handshake(uint32_t channel);  // no bytes: waits and signals only

  uint32_t size() const { return static_cast<uint32_t>(steps_.size()); }
  Steps take();

 private:
  Steps steps_;
  std::vector<uint64_t> times_;
  uint64_t time_ = 0;
};

}  // namespace ccl
