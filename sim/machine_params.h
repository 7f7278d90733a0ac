// What the devices are built from, taken from a platform and a timing file.
#pragma once

#include <vector>

#include "hw/machine/params.h"

namespace config {
class Timing;
struct Platform;
}  // namespace config

namespace sim {

// One host memory per node; a missing one leaves its chips without. Throws config::TimingError for
// a parameter that is missing or has another unit.
hw::MachineParams machine_params(const config::Platform& platform, const config::Timing& timing,
                                 const std::vector<pcie::HostMemory*>& host_memory);

}  // namespace sim
