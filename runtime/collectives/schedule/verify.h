// Checks of a schedule without a device, and what it is in words.
#pragma once

#include <functional>
#include <map>

#include "runtime/collectives/schedule/schedule.h"

namespace ccl {

// Runs all ranks on symbolic data. Errors name the rank, the step and the reason: a result that is
// not the operation's (spec/collectives.md 1.1), ranks that fold an all-reduce in different orders,
// accesses to the same bytes without an order, a step that can never start, signals that nobody
// takes or that could be taken for others, memory of a rank touched before it has started or after
// it has finished. Relies on no more order between the steps of a channel than one that lets
// `steps_in_flight` of them (1 to 32) overlap.
base::Status verify(const Schedule& schedule, uint32_t steps_in_flight = kStepsInFlight);
// The same for an operation of variable size with given metadata.
base::Status verify(const Schedule& schedule, const Metadata& metadata,
                    uint32_t steps_in_flight = kStepsInFlight);

// What crosses from the memory of rank `from` to engines of rank `to`, or from engines of `from`
// into the memory of `to`. A step is executed by the engines of its rank: every source comes to
// them, every destination is written by them.
uint64_t bytes_between(const Schedule& schedule, uint32_t from, uint32_t to);

// Directed link, as a pair of platform-wide chip numbers.
using ChipLink = std::pair<uint32_t, uint32_t>;
// The links that data from one chip to another crosses, in order.
using Route = std::function<std::vector<ChipLink>(uint32_t from_chip, uint32_t to_chip)>;
// Bytes per directed link. Links that nothing crosses are absent.
std::map<ChipLink, uint64_t> link_loads(const Schedule& schedule, const Group& group,
                                        const Route& route);

std::string print(const Schedule& schedule);          // a line per step
std::string print_summary(const Schedule& schedule);  // shape, steps and bytes per rank

}  // namespace ccl
