// DMA access patterns (spec/neff.md 3.5): enumeration, bounds, and splitting into descriptor-sized
// pieces. Exact. Everything is lazy: a pattern with many runs costs nothing until it is walked.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "arch/contract/address_map.h"
#include "arch/contract/descriptor.h"

namespace neff {

// Largest contiguous transfer of one hardware descriptor (spec/neff.md 3.5.3).
constexpr uint64_t kMaxDescriptorBytes = contract::desc::kMaxLength;

// State-buffer addressing (spec/neff.md 3.7).
constexpr uint64_t kPartitionPitch = contract::tpb::kPartitionStride;
constexpr uint64_t kPsumBase = contract::tpb::kPsum;
constexpr uint64_t kPsumPitch = contract::tpb::kPsumStride;
constexpr uint64_t kPsumPartitionBytes = contract::tpb::kPsumPartitionBytes;

struct AccessPattern {
  static constexpr unsigned kMaxDims = 4;

  int64_t offset = 0;
  unsigned dims = 1;                                // 1..4
  std::array<int64_t, kMaxDims> sizes{1, 1, 1, 1};  // sizes[0] counts bytes; dimension 0 innermost
  std::array<int64_t, kMaxDims> steps{1, 0, 0, 0};  // bytes

  // Product of the sizes, or nothing if it does not fit in 62 bits. Sizes must be positive.
  std::optional<uint64_t> checked_bytes() const;
  // The same when the pattern has been checked.
  uint64_t bytes() const;
  // Innermost passes: product of all sizes but the first.
  uint64_t innermost_passes() const;
};

// Every touched byte lies in [0, size). Exact, by the extreme corners.
bool in_bounds(const AccessPattern& pattern, uint64_t size);

// The same for a state buffer: every run lies inside one SBUF partition (or one PSUM partition).
bool in_state_buffer(const AccessPattern& pattern, uint64_t partition_bytes);

// SBUF bytes per partition of NeuronCore v2, v3, v4.
uint64_t sbuf_partition_bytes(unsigned core_version);

struct Run {
  uint64_t offset;
  uint64_t bytes;
};

// Walks the contiguous runs of a pattern in order; neighbouring passes that touch are one run.
class RunCursor {
 public:
  explicit RunCursor(const AccessPattern& pattern);
  bool next(Run* run);

 private:
  static constexpr unsigned kDims = AccessPattern::kMaxDims;
  uint64_t run_bytes_ = 1;
  unsigned dims_ = 0;  // counted dimensions outside the run
  std::array<int64_t, kDims> sizes_{};
  std::array<int64_t, kDims> steps_{};
  std::array<int64_t, kDims> index_{};
  int64_t at_ = 0;
  bool done_ = false;
};

struct Piece {
  uint64_t from;
  uint64_t to;
  uint64_t bytes;
};

// Pairs the runs of a source with those of a destination of equal total and cuts them so that a
// piece is contiguous on both sides and at most max_bytes long: one descriptor on each side.
class PieceCursor {
 public:
  PieceCursor(const AccessPattern& from, const AccessPattern& to,
              uint64_t max_bytes = kMaxDescriptorBytes);
  bool next(Piece* piece);

 private:
  RunCursor from_;
  RunCursor to_;
  Run from_run_{0, 0};
  Run to_run_{0, 0};
  uint64_t max_bytes_;
};

}  // namespace neff
