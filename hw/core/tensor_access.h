// Where the elements of an operand lie in SBUF or PSUM of one NeuronCore, and their way from there
// and back. Source of truth: spec/engine-isa.md 3, docs/hardware-contract.md 1.
//
// A lane is one partition of an operand. Elements are read and written in stream order, as float32
// (which every type converts to and from), as 32-bit words (integers up to that size, sign- or
// zero-extended), or as the bytes that they are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/num/random.h"
#include "base/num/types.h"
#include "contract/isa_types.h"
#include "hw/mem/fabric.h"

namespace hw {

// Bounding box of an operand: partitions x bytes within a partition.
struct TensorBox {
  contract::isa::Memory memory = contract::isa::Memory::kSbuf;
  uint32_t first_partition = 0;
  uint32_t partitions = 0;
  uint64_t begin = 0;  // lowest byte of a partition
  uint64_t end = 0;    // past the highest
  uint64_t start = 0;  // byte of element 0

  bool overlaps(const TensorBox& other) const {
    return memory == other.memory && begin < other.end && other.begin < end &&
           first_partition < other.first_partition + other.partitions &&
           other.first_partition < first_partition + partitions;
  }
};

// Indices that a pattern goes by, group by group of lanes (spec/engine-isa.md 3 rule 9).
struct Indices {
  uint32_t start_partition = 0;
  uint32_t lanes = 0;            // of a group
  size_t count = 0;              // of each group
  std::vector<uint32_t> values;  // by group; empty: none are loaded
  bool known = true;             // timing-only: they have been computed

  uint32_t groups() const {
    return values.empty() ? 0 : static_cast<uint32_t>(values.size() / count);
  }
  const uint32_t* of(uint32_t lane) const { return &values[lane / lanes * count]; }
};

// An access pattern with as few dimensions as it needs; 0 varies fastest.
struct FreePattern {
  explicit FreePattern(const contract::isa::TensorOperand& operand);
  // Of single elements, which lie anywhere.
  static FreePattern apart(const contract::isa::TensorOperand& operand);
  uint32_t dims = 0;
  size_t count[4] = {1, 1, 1, 1};
  int64_t step[4] = {1, 0, 0, 0};  // elements
  size_t elements = 1;
  bool contiguous() const { return dims <= 1 && step[0] == 1; }
};

// One operand of one instruction, resolved.
class TensorAccess {
 public:
  // `random`: null, or a sequence for each lane by which floats that become narrower are rounded
  // (spec/engine-isa.md 5.2).
  TensorAccess(const contract::isa::TensorOperand& operand, const TensorBox& box, Memory& memory,
               base::num::Xorwow* random = nullptr, const Indices* indices = nullptr);

  const TensorBox& box() const { return box_; }
  contract::isa::DataType type() const { return type_; }
  size_t elements() const { return pattern_.elements; }  // per lane
  const FreePattern& pattern() const { return pattern_; }
  // False: the host has no memory for SBUF or PSUM.
  [[nodiscard]] bool open();

  // Of a lane, after open(). Numbers go to or come from `elements()` places.
  void read(uint32_t lane, float* to) const;
  void read(uint32_t lane, uint32_t* to) const;
  void read(uint32_t lane, uint8_t* to) const;
  void write(uint32_t lane, const float* from) const;
  void write(uint32_t lane, const uint32_t* from) const;
  void write(uint32_t lane, const uint8_t* from) const;
  // The elements of a lane where they lie, if they are float32 in a row; null: read() them.
  const float* in_place(uint32_t lane) const;
  // This lane's turn comes soon, if there is one. Lanes lie so far apart that processors take them
  // for the same place in their caches and do not foresee the next one.
  void expect(uint32_t lane) const {
    constexpr uint64_t kLine = 64;
    constexpr uint64_t kMost = 2048;  // what follows in a long lane is foreseen
    if (lane >= box_.partitions) return;
    const uint64_t bytes = std::min(box_.end - box_.begin, kMost);
    const uint8_t* first = at(lane) - (box_.start - box_.begin);
    for (uint64_t i = 0; i < bytes; i += kLine) __builtin_prefetch(first + i);
  }
  // What is there becomes itself plus `sums`, in float32, which has room for the result.
  void add(uint32_t lane, float* sums) const;
  // Numbers on their way to this lane, as elements of the operand's type, or another one.
  void convert(uint32_t lane, const float* from, size_t n, uint8_t* to) const;
  void convert(base::num::Type type, uint32_t lane, const float* from, size_t n, uint8_t* to) const;
  // Byte of element 0.
  uint8_t* at(uint32_t lane) const { return origin_ + lane * pitch_; }
  // Calls `each(pointer, byte within the partition)` for every element, in stream order.
  template <typename Each>
  void each_element(uint32_t lane, Each&& each) const {
    const auto bytes = static_cast<int64_t>(bytes_);
    each_row(lane, [&](int64_t offset) {
      for (size_t i = 0; i < pattern_.count[0]; ++i, offset += pattern_.step[0] * bytes) {
        each(at(lane) + offset, static_cast<uint64_t>(static_cast<int64_t>(box_.start) + offset));
      }
    });
  }

 private:
  // Calls `each(byte offset of the row's first element)` for every innermost row, in stream order.
  template <typename Each>
  void each_row(uint32_t lane, Each&& each) const {
    const auto bytes = static_cast<int64_t>(bytes_);
    if (indices_ != nullptr) {
      const uint32_t* index = indices_->of(lane);
      for (size_t i = 0; i < elements(); ++i) each(index[i] * pattern_.step[1] * bytes);
      return;
    }
    for (size_t w = 0; w < pattern_.count[3]; ++w) {
      for (size_t z = 0; z < pattern_.count[2]; ++z) {
        int64_t at = (static_cast<int64_t>(w) * pattern_.step[3] +
                      static_cast<int64_t>(z) * pattern_.step[2]) *
                     bytes;
        for (size_t y = 0; y < pattern_.count[1]; ++y, at += pattern_.step[1] * bytes) each(at);
      }
    }
  }

  TensorBox box_;
  Memory& memory_;
  contract::isa::DataType type_;
  size_t bytes_;
  FreePattern pattern_;
  uint8_t* origin_ = nullptr;
  uint64_t pitch_;
  base::num::Xorwow* random_;
  const Indices* indices_;
};

}  // namespace hw
