#include "compiler/kernel/footprint.h"

#include <algorithm>

namespace kernel {
namespace {

// Where the bytes of a footprint lie in every block of `period` bytes: from `start` on, `extent`
// bytes, round the end of the block.
struct Residue {
  int64_t start;
  int64_t extent;
};

Residue residue_of(const Footprint& f, int64_t period) {
  int64_t extent = f.run;
  for (unsigned i = 0; i < f.dims; ++i) {
    const Footprint::Stride& d = f.strides[i];
    if (d.step % period != 0) extent += (d.count - 1) * d.step;
    if (extent >= period) break;
  }
  return {f.low % period, std::min(extent, period)};
}

bool apart_in(const Footprint& a, const Footprint& b, int64_t period) {
  const Residue ra = residue_of(a, period);
  const Residue rb = residue_of(b, period);
  const int64_t distance = (rb.start - ra.start + period) % period;
  return distance >= ra.extent && distance + rb.extent <= period;
}

bool apart_in_steps_of(const Footprint& which, const Footprint& a, const Footprint& b) {
  for (unsigned i = 0; i < which.dims; ++i) {
    if (apart_in(a, b, which.strides[i].step)) return true;
  }
  return false;
}

}  // namespace

bool Footprint::operator==(const Footprint& o) const {
  if (memory != o.memory || first_partition != o.first_partition || partitions != o.partitions ||
      low != o.low || high != o.high || run != o.run || dims != o.dims) {
    return false;
  }
  for (unsigned i = 0; i < dims; ++i) {
    if (strides[i].step != o.strides[i].step || strides[i].count != o.strides[i].count) {
      return false;
    }
  }
  return true;
}

FootprintBuilder::FootprintBuilder(uint64_t memory, int64_t offset, int64_t element_bytes) {
  f_.memory = memory;
  f_.low = offset;
  f_.high = offset + element_bytes;
  f_.run = element_bytes;
}

void FootprintBuilder::partitions(int64_t first, int64_t count) {
  f_.first_partition = first;
  f_.partitions = count;
}

// More dimensions than there is room for make the footprint a box, which is larger.
void FootprintBuilder::dim(int64_t step_bytes, int64_t count) {
  if (count <= 1 || step_bytes == 0) return;
  if (step_bytes < 0) {
    f_.low += (count - 1) * step_bytes;
    f_.high += (count - 1) * step_bytes;
    step_bytes = -step_bytes;
  }
  f_.high += (count - 1) * step_bytes;
  if (count_ == dims_.size()) {
    f_.run = f_.high - f_.low;
    return;
  }
  dims_[count_++] = {step_bytes, count};
}

Footprint FootprintBuilder::build() {
  std::sort(dims_.begin(), dims_.begin() + count_,
            [](const auto& a, const auto& b) { return a.step < b.step; });
  for (unsigned i = 0; i < count_; ++i) {
    if (dims_[i].step <= f_.run) {
      f_.run = std::min(f_.high - f_.low, (dims_[i].count - 1) * dims_[i].step + f_.run);
    } else {
      f_.strides[f_.dims++] = dims_[i];
    }
  }
  return f_;
}

Footprint footprint_of(uint64_t memory, const contract::isa::TensorOperand& tensor,
                       unsigned partitions) {
  const auto bytes = static_cast<int64_t>(contract::isa::data_type_bytes(tensor.dtype));
  FootprintBuilder builder(memory, tensor.byte_offset, bytes);
  builder.partitions(tensor.start_partition, partitions);
  for (const contract::isa::PatternDim& d : tensor.dims) {
    builder.dim(d.step * bytes, std::max<int64_t>(d.count, 1));
  }
  return builder.build();
}

bool may_overlap(const Footprint& a, const Footprint& b) {
  if (a.memory != b.memory || a.low >= b.high || b.low >= a.high) return false;
  if (a.first_partition >= b.first_partition + b.partitions ||
      b.first_partition >= a.first_partition + a.partitions) {
    return false;
  }
  return !apart_in_steps_of(a, a, b) && !apart_in_steps_of(b, a, b);
}

bool covers(const Footprint& a, const Footprint& b) {
  if (a == b) return true;
  return a.memory == b.memory && a.dense() && a.low <= b.low && a.high >= b.high &&
         a.first_partition <= b.first_partition &&
         a.first_partition + a.partitions >= b.first_partition + b.partitions;
}

}  // namespace kernel
