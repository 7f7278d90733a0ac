#include "neff_loader/access_pattern.h"

#include <algorithm>

namespace neff {
namespace {

using Wide = __int128;

struct Corners {
  Wide low;
  Wide high;
};

// Lowest and highest value of start + sum(index * step) over all dimensions from `first`.
Corners corners(const AccessPattern& p, Wide start, unsigned first,
                const std::array<int64_t, AccessPattern::kMaxDims>& steps) {
  Corners c{start, start};
  for (unsigned i = first; i < p.dims; ++i) {
    const Wide reach = static_cast<Wide>(p.sizes[i] - 1) * steps[i];
    (reach < 0 ? c.low : c.high) += reach;
  }
  return c;
}

// A linear step cut into whole partitions and a rest of smallest magnitude.
struct Split {
  int64_t partitions;
  int64_t bytes;
};

Split split_step(int64_t step, int64_t pitch) {
  int64_t partitions = step / pitch;
  int64_t rest = step % pitch;
  if (rest > pitch / 2) {
    ++partitions;
    rest -= pitch;
  } else if (rest < -pitch / 2) {
    --partitions;
    rest += pitch;
  }
  return {partitions, rest};
}

bool run_inside_partition(const Run& run, uint64_t pitch, uint64_t partition_bytes) {
  const uint64_t byte = run.offset % pitch;
  return run.offset / pitch < contract::tpb::kPartitions && byte < partition_bytes &&
         run.bytes <= partition_bytes - byte;
}

// Corner check in (partition, byte) coordinates, relative to the start of the memory.
bool corners_inside(const AccessPattern& p, int64_t start, int64_t pitch,
                    uint64_t partition_bytes) {
  std::array<int64_t, AccessPattern::kMaxDims> partition_steps{};
  std::array<int64_t, AccessPattern::kMaxDims> byte_steps{};
  for (unsigned i = 0; i < p.dims; ++i) {
    const Split s = split_step(p.steps[i], pitch);
    partition_steps[i] = s.partitions;
    byte_steps[i] = s.bytes;
  }
  const Corners partition = corners(p, start / pitch, 0, partition_steps);
  const Corners byte = corners(p, start % pitch, 0, byte_steps);
  return partition.low >= 0 && partition.high < contract::tpb::kPartitions && byte.low >= 0 &&
         byte.high < static_cast<Wide>(partition_bytes);
}

}  // namespace

std::optional<uint64_t> AccessPattern::checked_bytes() const {
  constexpr uint64_t kLimit = 1ull << 62;
  uint64_t total = 1;
  for (unsigned i = 0; i < dims; ++i) {
    const auto n = static_cast<uint64_t>(sizes[i]);
    if (sizes[i] <= 0 || n > kLimit / total) return std::nullopt;
    total *= n;
  }
  return total;
}

uint64_t AccessPattern::bytes() const {
  return static_cast<uint64_t>(sizes[0]) * innermost_passes();
}

uint64_t AccessPattern::innermost_passes() const {
  uint64_t n = 1;
  for (unsigned i = 1; i < dims; ++i) n *= static_cast<uint64_t>(sizes[i]);
  return n;
}

bool in_bounds(const AccessPattern& pattern, uint64_t size) {
  const Corners c = corners(pattern, pattern.offset, 0, pattern.steps);
  return c.low >= 0 && c.high < static_cast<Wide>(size);
}

uint64_t sbuf_partition_bytes(unsigned core_version) {
  switch (core_version) {
    case 2:
      return 192 * 1024;  // spec/engine-isa.md 2
    case 3:
      return 224 * 1024;
    default:
      return 256 * 1024;
  }
}

bool in_state_buffer(const AccessPattern& pattern, uint64_t partition_bytes) {
  if (!in_bounds(pattern, kPsumBase + contract::tpb::kPartitions * kPsumPitch)) return false;
  const bool psum = pattern.offset >= static_cast<int64_t>(kPsumBase);
  const uint64_t base = psum ? kPsumBase : 0;
  const uint64_t pitch = psum ? kPsumPitch : kPartitionPitch;
  const uint64_t bytes = psum ? kPsumPartitionBytes : partition_bytes;
  const int64_t start = pattern.offset - static_cast<int64_t>(base);
  if (corners_inside(pattern, start, static_cast<int64_t>(pitch), bytes)) return true;
  // The corners over-approximate patterns whose byte steps add up to whole partitions: walk those.
  constexpr uint64_t kWalk = 65536;
  if (pattern.innermost_passes() > kWalk || (pattern.steps[0] != 1 && pattern.bytes() > kWalk)) {
    return false;
  }
  RunCursor cursor(pattern);
  Run run{};
  while (cursor.next(&run)) {
    if (run.offset < base || !run_inside_partition({run.offset - base, run.bytes}, pitch, bytes)) {
      return false;
    }
  }
  return true;
}

RunCursor::RunCursor(const AccessPattern& pattern) : at_(pattern.offset) {
  for (unsigned i = 0; i < pattern.dims; ++i) {
    const int64_t size = pattern.sizes[i];
    const int64_t step = pattern.steps[i];
    if (size == 1) continue;
    if (dims_ == 0 && step == static_cast<int64_t>(run_bytes_)) {
      run_bytes_ *= static_cast<uint64_t>(size);  // continues the run
    } else {
      sizes_[dims_] = size;
      steps_[dims_] = step;
      ++dims_;
    }
  }
}

bool RunCursor::next(Run* run) {
  if (done_) return false;
  *run = {static_cast<uint64_t>(at_), run_bytes_};
  for (unsigned i = 0; i < dims_; ++i) {
    at_ += steps_[i];
    if (++index_[i] < sizes_[i]) return true;
    at_ -= steps_[i] * sizes_[i];
    index_[i] = 0;
  }
  done_ = true;
  return true;
}

PieceCursor::PieceCursor(const AccessPattern& from, const AccessPattern& to, uint64_t max_bytes)
    : from_(from), to_(to), max_bytes_(max_bytes) {}

bool PieceCursor::next(Piece* piece) {
  if (from_run_.bytes == 0 && !from_.next(&from_run_)) return false;
  if (to_run_.bytes == 0 && !to_.next(&to_run_)) return false;
  const uint64_t n = std::min({from_run_.bytes, to_run_.bytes, max_bytes_});
  *piece = {from_run_.offset, to_run_.offset, n};
  from_run_ = {from_run_.offset + n, from_run_.bytes - n};
  to_run_ = {to_run_.offset + n, to_run_.bytes - n};
  return true;
}

}  // namespace neff
