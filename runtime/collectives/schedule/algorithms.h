// The algorithms (spec/collectives.md 2). Each returns a schedule, or an Error with the NRT_STATUS
// and the reason why the group or operation is not eligible (kUnsupported: another algorithm may
// do).
#pragma once

#include "runtime/collectives/schedule/schedule.h"

namespace ccl {

// 2.5 with channels and slices; 2.10 (flat ring) when the group spans nodes. All-gather,
// reduce-scatter, all-reduce; all-to-all by store and forward (2.12). Always eligible.
base::Result<Schedule> ring(const OpRequest& request, const Group& group,
                            const ScheduleOptions& options);
// 2.6. Whole chips only.
base::Result<Schedule> kangaring(const OpRequest& request, const Group& group,
                                 const ScheduleOptions& options);
// 2.11: broadcast, reduce (binomial), all-reduce (double binary tree), barrier.
base::Result<Schedule> tree(const OpRequest& request, const Group& group,
                            const ScheduleOptions& options);
// 2.13: permute, permute with reduction, send and receive.
base::Result<Schedule> permute(const OpRequest& request, const Group& group,
                               const ScheduleOptions& options);
// 2.7, 2.14: one chip, single step, two steps, switch; all-to-all direct and by chips (2.12).
base::Result<Schedule> mesh(const OpRequest& request, const Group& group,
                            const ScheduleOptions& options);
// 2.8.
base::Result<Schedule> rdh(const OpRequest& request, const Group& group,
                           const ScheduleOptions& options);
// 2.9.
base::Result<Schedule> hierarchical(const OpRequest& request, const Group& group,
                                    const ScheduleOptions& options);
// 2.12: all-to-all in rounds.
base::Result<Schedule> pairwise(const OpRequest& request, const Group& group,
                                const ScheduleOptions& options);
// 1.4, 2.12: operations of variable size, direct.
base::Result<Schedule> variable_mesh(const OpRequest& request, const Group& group,
                                     const ScheduleOptions& options);

// 2.16. `override_text`: NCCOM_CC_ALGO, "<op>:<algo>[,...]"; an override that is not eligible is an
// error.
base::Result<Schedule> make_schedule(const OpRequest& request, const Group& group,
                                     const ScheduleOptions& options,
                                     const std::string& override_text);

}  // namespace ccl
