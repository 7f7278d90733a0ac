// Which algorithm, and the schedule it gives, for the ranks of a plan.
#pragma once

#include "runtime/collectives/ccl.h"
#include "runtime/collectives/schedule.h"

namespace ccl {

// `direct`: all members are on one chip.
base::Result<Schedule> make_schedule(const OpRequest& request, uint32_t ranks, bool in_place,
                                     bool direct, const std::string& algo_override);

}  // namespace ccl
