// Schedules that the ranks of a process share. A schedule is the same for all ranks of a group, and
// making one takes as long as the steps of many ranks.
#pragma once

#include <memory>

#include "runtime/collectives/schedule/select.h"

namespace ccl {

// make_schedule(), or its result from an earlier call. `overrides` null: none.
std::shared_ptr<const base::Result<Schedule>> shared_schedule(
    const OpRequest& request, const Group& group, const ScheduleOptions& options,
    const std::shared_ptr<const Overrides>& overrides);

}  // namespace ccl
