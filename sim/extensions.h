// Other people's code in a machine: opens the libraries that a platform file names and finds what
// they register (sdk/soma). A library stays open until the process ends: its code runs to the end.
#pragma once

#include "base/error.h"
#include "hw/machine/params.h"

namespace config {
struct Platform;
}

namespace sim {

// Adds the platform's blocks and policies to `params`. Errors name the file's block or policy, and
// what is wrong with the library.
base::Status add_extensions(const config::Platform& platform, hw::MachineParams& params);

}  // namespace sim
