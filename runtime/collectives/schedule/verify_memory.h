// Symbolic data: what every byte of a buffer is made of, and who touched it last.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "runtime/collectives/schedule/schedule.h"

namespace ccl {

// Expressions of folds. Number 0 is "nothing". Two bytes with the same number are the same fold in
// the same order with roundings at the same places.
class Folds {
 public:
  explicit Folds(uint32_t ranks) : ranks_(ranks), nodes_(2 * size_t{ranks} + 1) {}

  // The input of a rank (`second`: its second input).
  uint32_t leaf(uint32_t rank, bool second) const { return 1 + (second ? ranks_ : 0) + rank; }
  // One rounded fold of the operands, left to right; of one operand: itself.
  uint32_t fold(const std::vector<uint32_t>& operands);
  // The leaves, in ascending order.
  std::vector<uint32_t> leaves(uint32_t id) const;
  std::string text(uint32_t id) const;

 private:
  uint32_t ranks_;
  std::vector<std::vector<uint32_t>> nodes_;  // operands; none for leaves
  std::map<std::vector<uint32_t>, uint32_t> known_;
};

constexpr uint32_t kNoStep = ~uint32_t{0};

// Bytes with one origin and one history. Byte i of it is `fold` of byte origin + i of the inputs.
struct Segment {
  uint64_t end = 0;
  uint64_t origin = 0;
  uint32_t fold = 0;
  uint32_t writer = kNoStep;      // number of the step
  std::vector<uint32_t> readers;  // since then; those that others are known to follow are left out
};

class Memory {
 public:
  using Segments = std::map<uint64_t, Segment>;
  struct Span {
    Segments::iterator begin;
    Segments::iterator end;
  };

  explicit Memory(uint64_t bytes) {
    if (bytes != 0) segments_[0].end = bytes;
  }

  // The segments of exactly [begin, end), which must lie inside.
  Span span(uint64_t begin, uint64_t end);
  // Replaces [begin, segment.end).
  void write(uint64_t begin, const Segment& segment);

 private:
  void split(uint64_t at);

  Segments segments_;
};

// Where a range lies when source and destination share memory (spec/collectives.md 1.3).
struct Place {
  uint32_t rank = 0;
  Buffer memory = Buffer::kInput;
  uint64_t begin = 0;
  uint64_t end = 0;

  bool same(const Place& o) const {
    return rank == o.rank && memory == o.memory && begin == o.begin && end == o.end;
  }
  bool overlaps(const Place& o) const {
    return rank == o.rank && memory == o.memory && begin < o.end && o.begin < end;
  }
};
Place place_of(const Shape& shape, const Range& range, uint64_t bytes);

// Sizes of a rank's buffers. A rank has no output in an operation that gives it no result.
uint64_t size_of(const Shape& shape, Buffer buffer, uint32_t rank);

// What the operation must leave at byte `offset` of the output of `rank`: the fold of these leaves,
// from byte `origin` of the inputs, up to byte `until` of the output.
struct Expected {
  std::vector<uint32_t> leaves;  // none: nothing is written there
  bool all_ranks = false;        // instead of `leaves`
  uint64_t origin = 0;
  uint64_t until = 0;
};
Expected expected(const Shape& shape, const Folds& folds, uint32_t rank, uint64_t offset);

// The same for an operation of variable size with given metadata, from the definition
// (spec/collectives.md 1.4).
class VariableResult {
 public:
  VariableResult(const Shape& shape, const Metadata& metadata);

  Expected output(const Folds& folds, uint32_t rank, uint64_t offset) const;
  // The word of the metadata that row 2 gets from `sender`; none: it keeps its own.
  std::optional<uint64_t> announced(uint32_t rank, uint64_t offset) const;
  uint32_t sender_of(uint64_t offset) const;

 private:
  struct Block {
    uint64_t end = 0;
    uint32_t from = 0;  // rank; unused where all are folded
    uint64_t origin = 0;
  };
  void add(uint32_t rank, uint64_t to, uint64_t count, uint32_t from, uint64_t origin);

  const Shape& shape_;
  uint64_t element_;
  std::vector<std::map<uint64_t, Block>> blocks_;  // by rank: begin in the output
};

}  // namespace ccl
