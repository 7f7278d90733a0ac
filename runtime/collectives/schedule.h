// Schedules: what moves from where to where, in which order, as plain data. No addresses, no
// devices. Every builder follows collectives.md 2.5 (ring) or 2.7 (mesh); verify() executes a
// schedule on symbolic data and finds wrong sums, wrong order, races and deadlocks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/collectives/types.h"

namespace ccl {

enum class Buffer : uint8_t { kInput, kOutput, kChannel };

// Bytes [offset, offset + length of the step) of a buffer of a rank (index in the group).
struct Range {
  uint32_t rank = 0;
  Buffer buffer = Buffer::kInput;
  uint64_t offset = 0;
};

// One transfer, executed by the DMA engines of `rank`: destination = fold of the sources, left to
// right, one rounding. One source is a copy (a send if the destination is on another rank).
struct Step {
  uint32_t id = 0;
  uint32_t rank = 0;
  uint64_t bytes = 0;
  std::vector<Range> sources;
  Range destination;
  std::vector<uint32_t> after;  // steps (of any rank) that must be complete before; lower ids only
};

struct Schedule {
  Algorithm algorithm = Algorithm::kRing;
  OpKind kind = OpKind::kAllReduce;
  uint32_t ranks = 0;
  uint64_t input_bytes = 0;
  uint64_t output_bytes = 0;
  uint64_t channel_bytes = 0;  // channel buffer needed at each rank
  bool in_place = false;
  std::vector<Step> steps;  // each rank executes its own in this order
};

// Chunk n of a buffer of `bytes` over `ranks` (collectives.md 1.3): multiples of 64 bytes.
struct Chunk {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};
Chunk chunk_of(uint64_t bytes, uint32_t ranks, uint32_t n);

struct ScheduleOptions {
  bool direct = true;  // members share a chip: peers' buffers are read in place, no slots on hop 1
  bool in_place = false;
  uint64_t slot_bytes = 512 * 1024;  // chunk_size of collectives.md 3.4
  uint32_t slots = 8;                // D of collectives.md 3.5
};

base::Result<Schedule> ring_schedule(const OpRequest& request, uint32_t ranks,
                                     const ScheduleOptions& options);
base::Result<Schedule> mesh_schedule(const OpRequest& request, uint32_t ranks,
                                     const ScheduleOptions& options);

// Bytes that step traffic moves from memory of rank `from` into memory of rank `to`.
uint64_t fabric_bytes(const Schedule& schedule, uint32_t from, uint32_t to);

// Checks the result and that every pair of conflicting accesses is ordered by dependencies; also
// that every rank's in-order execution makes progress.
base::Status verify(const Schedule& schedule);

std::string print(const Schedule& schedule);

}  // namespace ccl
