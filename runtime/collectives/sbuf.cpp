// Tensors in SBUF: rows of partitions instead of one run of bytes.
#include <algorithm>

#include "runtime/collectives/ccl.h"

namespace ccl {
namespace {

using contract::tpb::kPartitionStride;

// What a tensor covers of one partition after the other.
struct Cover {
  uint64_t first = 0;  // device address
  uint64_t bytes = 0;  // in each partition
  uint32_t partitions = 0;
  uint64_t stride = 0;
};

Cover cover(uint64_t base, uint64_t bytes, const SbufRows& rows) {
  if (rows.contiguous()) return {base, bytes, 1, 0};
  const uint64_t count = bytes / rows.bytes;
  const auto partitions = static_cast<uint32_t>(std::min<uint64_t>(count, rows.partitions));
  const uint64_t columns = (count + rows.partitions - 1) / rows.partitions;
  return {base, columns * rows.bytes, partitions, rows.step * kPartitionStride};
}

}  // namespace

bool operator==(const SbufRows& a, const SbufRows& b) {
  return a.bytes == b.bytes && a.partitions == b.partitions && a.step == b.step;
}

uint64_t SbufRows::at(uint64_t offset) const {
  if (contiguous()) return offset;
  const uint64_t row = offset / bytes;
  return row % partitions * step * kPartitionStride + row / partitions * bytes + offset % bytes;
}

uint64_t SbufRows::run(uint64_t offset) const {
  return contiguous() ? UINT64_MAX : bytes - offset % bytes;
}

bool tensors_overlap(const OpRequest& q, const RankResources& r) {
  const Cover a = cover(r.src, q.input_bytes, q.input_rows);
  const Cover b = cover(r.dst, q.output_bytes, q.output_rows);
  for (uint64_t i = 0; i < a.partitions; ++i) {
    for (uint64_t k = 0; k < b.partitions; ++k) {
      if (overlap(a.first + i * a.stride, a.bytes, b.first + k * b.stride, b.bytes)) return true;
    }
  }
  return false;
}

}  // namespace ccl
