// The parameters of the device model, taken from a timing file.
#pragma once

#include "hw/params.h"

namespace config {
class Timing;
}

namespace sim {

// Throws config::TimingError for a parameter that is missing or has another unit.
hw::TimingParams timing_params(const config::Timing& timing);

}  // namespace sim
