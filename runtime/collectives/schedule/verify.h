// Checks of a schedule without a device, and its picture.
#pragma once

#include "runtime/collectives/schedule/schedule.h"

namespace ccl {

// Runs all ranks on symbolic data. Errors name the rank, the step and the reason: a result that is
// not the operation's (collectives.md 1.1), ranks that fold an all-reduce in different orders,
// accesses to the same bytes without an order, a step that can never start, signals that nobody
// takes or that could be taken for others, memory of a rank touched after it has finished.
base::Status verify(const Schedule& schedule);

// Bytes that the schedule moves from the memory of one rank into that of another.
uint64_t bytes_between(const Schedule& schedule, uint32_t from, uint32_t to);

std::string print(const Schedule& schedule);          // a line per step
std::string print_summary(const Schedule& schedule);  // shape, steps and bytes per rank
std::string to_svg(const Schedule& schedule);         // ranks down, steps right, arrows between

}  // namespace ccl
