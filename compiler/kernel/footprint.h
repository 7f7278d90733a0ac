// Which bytes an access touches, as far as its order with others is concerned. Conservative: two
// footprints that touch a common byte always overlap; some that do not are taken to.
#pragma once

#include <array>
#include <cstdint>

#include "arch/contract/isa_fields.h"

namespace kernel {

struct Footprint {
  static constexpr unsigned kMaxDims = 8;
  struct Stride {
    int64_t step;  // bytes, more than what lies inside
    int64_t count;
  };

  uint64_t memory = 0;  // footprints of different memories never meet
  int64_t first_partition = 0;
  int64_t partitions = 1;
  int64_t low = 0;   // of the first byte
  int64_t high = 0;  // behind the last
  int64_t run = 1;   // contiguous bytes
  unsigned dims = 0;
  std::array<Stride, kMaxDims> strides{};  // ascending

  bool dense() const { return high - low == run; }
  bool operator==(const Footprint& o) const;
};

// Collects the dimensions of a pattern in any order.
class FootprintBuilder {
 public:
  FootprintBuilder(uint64_t memory, int64_t offset, int64_t element_bytes);
  void partitions(int64_t first, int64_t count);
  void dim(int64_t step_bytes, int64_t count);
  Footprint build();

 private:
  Footprint f_;
  unsigned count_ = 0;
  std::array<Footprint::Stride, Footprint::kMaxDims> dims_{};
};

Footprint footprint_of(uint64_t memory, const contract::isa::TensorOperand& tensor,
                       unsigned partitions);

bool may_overlap(const Footprint& a, const Footprint& b);
// Every byte of `b` is surely one of `a`.
bool covers(const Footprint& a, const Footprint& b);

}  // namespace kernel
