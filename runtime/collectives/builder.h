// Shared by the schedule builders: numbering of steps.
#pragma once

#include <utility>
#include <vector>

#include "runtime/collectives/schedule.h"

namespace ccl {

constexpr uint32_t kNoStep = ~0u;

class ScheduleBuilder {
 public:
  ScheduleBuilder(Algorithm algorithm, const OpRequest& request, uint32_t ranks, bool in_place) {
    schedule_.algorithm = algorithm;
    schedule_.kind = request.kind;
    schedule_.ranks = ranks;
    schedule_.input_bytes = request.input_bytes;
    schedule_.output_bytes = request.output_bytes;
    schedule_.in_place = in_place;
  }

  // Adds a step unless it moves nothing; entries of `after` that are kNoStep are dropped.
  uint32_t add(uint32_t rank, uint64_t bytes, std::vector<Range> sources, const Range& destination,
               const std::vector<uint32_t>& after = {}) {
    if (bytes == 0) return kNoStep;
    Step step;
    step.id = static_cast<uint32_t>(schedule_.steps.size());
    step.rank = rank;
    step.bytes = bytes;
    step.sources = std::move(sources);
    step.destination = destination;
    for (const uint32_t id : after) {
      if (id != kNoStep) step.after.push_back(id);
    }
    schedule_.steps.push_back(std::move(step));
    return schedule_.steps.back().id;
  }

  // Each rank needs `bytes` of channel buffer.
  void need_channel(uint64_t bytes) {
    if (bytes > schedule_.channel_bytes) schedule_.channel_bytes = bytes;
  }

  Schedule take() { return std::move(schedule_); }

 private:
  Schedule schedule_;
};

}  // namespace ccl
