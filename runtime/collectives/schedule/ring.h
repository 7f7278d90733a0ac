// What the rings of 2.5 and 2.12 share: channels, positions, slices.
#pragma once

#include <memory>
#include <vector>

#include "runtime/collectives/schedule/builder.h"

namespace ccl {

struct RingPlan {
  Shape shape;
  // Per channel: rank at each position, position of each rank.
  std::vector<std::vector<uint32_t>> order;
  std::vector<std::vector<uint32_t>> position;
  Slices slices;
  uint32_t block = 1;  // slices that go round together
  uint32_t slots = 1;  // of slices.bytes each, per channel
  // Fifos per channel: from the predecessor (data is there), from the successor (its memory may be
  // touched, then: a slot is free).
  std::vector<uint32_t> data;
  std::vector<uint32_t> credit;
};

RingPlan make_ring_plan(Algorithm algorithm, const OpRequest& request, const Group& group,
                        const ScheduleOptions& options, uint64_t largest_chunk);

Schedule ring_all_to_all(RingPlan plan, const ScheduleOptions& options);

}  // namespace ccl
