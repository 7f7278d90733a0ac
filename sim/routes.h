// Which routes transfers take between the chips of a platform, without building its machine.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"

namespace config {
class Timing;
struct Platform;
}  // namespace config

namespace sim {

// Chips by number, then switches (number of chips + index); source and destination are included.
using Route = std::vector<uint32_t>;
// [from chip][to chip]; empty from a chip to itself and where there is none.
using RouteTable = std::vector<std::vector<Route>>;

// As the machine takes them (hw/link/router.h), with the platform's policies for routes and
// switches. Errors: a rate that the timing file lacks, a policy that cannot be had.
base::Result<RouteTable> routes(const config::Platform& platform, const config::Timing& timing);

}  // namespace sim
