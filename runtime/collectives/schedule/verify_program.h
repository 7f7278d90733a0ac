// All ranks' steps of a schedule, numbered, after every check that needs no execution.
#pragma once

#include <string>
#include <vector>

#include "runtime/collectives/schedule/verify_clock.h"
#include "runtime/collectives/schedule/verify_memory.h"

namespace ccl {

struct EventUse {
  uint64_t sent = 0;
  uint64_t taken = 0;
  uint32_t waits = 0;
  bool many_ranks = false;      // signal it
  uint32_t producer = kNoStep;  // track of the first signal
  uint32_t waiter = kNoStep;    // the last step that waits
};

struct Program {
  Shape shape;
  std::vector<Steps> ranks;
  std::vector<uint32_t> first;                // per rank: number of its first step
  std::vector<StepRef> refs;                  // by number
  std::vector<std::vector<uint32_t>> tracks;  // rank x channels + channel: numbers of its steps
  std::vector<uint32_t> windowed;             // per track: its steps in the window
  std::vector<EventUse> uses;                 // rank x events + event
  uint32_t fan_outs = 0;

  const Step& step(uint32_t number) const { return ranks[refs[number].rank][refs[number].step]; }
  const EventUse& use(uint32_t rank, uint32_t event) const {
    return uses[rank * shape.events.size() + event];
  }
  EventUse& use(uint32_t rank, uint32_t event) { return uses[rank * shape.events.size() + event]; }
  // "rank 3 step 5 (channel 0)"
  std::string name(uint32_t number) const;
};

base::Error schedule_error(const std::string& what);

base::Result<Program> make_program(const Schedule& schedule);

}  // namespace ccl
