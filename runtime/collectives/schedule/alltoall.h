// All-to-all by meshes (spec/collectives.md 2.12).
#pragma once

#include "runtime/collectives/schedule/schedule.h"

namespace ccl {

// Direct for small groups, in two phases by chips for large ones.
base::Result<Schedule> mesh_all_to_all(const OpRequest& request, const Group& group,
                                       const ScheduleOptions& options);
base::Result<Schedule> direct_all_to_all(const OpRequest& request, const Group& group,
                                         const ScheduleOptions& options);
base::Result<Schedule> chip_all_to_all(const OpRequest& request, const Group& group,
                                       const ScheduleOptions& options);

}  // namespace ccl
