// The parameters of the device model, taken from a timing file.
#pragma once

#include "base/error.h"
#include "hw/params.h"

namespace config {
class Timing;
}

namespace sim {

// Throws config::TimingError for a parameter that is missing or has another unit.
hw::TimingParams timing_params(const config::Timing& timing);

// After the machine is built: nothing changes any more, and an override that nothing has read is an
// error.
base::Status lock_timing(config::Timing& timing);

}  // namespace sim
