// What a host of a platform is called: by others, and by its own firmware tables (DMI).
//
// Source: spec/hw-registers.md 9.1. Trainium3 servers have no published product name. Ours are
// names of the kinds of host that drivers know (16 devices on a switched fabric, and 4), as the
// names in platform files would make them plain hosts that are told no place among others.
#pragma once

#include <string>

#include "arch/config/platform.h"
#include "base/error.h"

namespace sim {

std::string product_name(const config::Node& node);
// Empty on a platform of one node: such a host keeps the name that it has.
std::string host_name(const config::Platform& platform, const config::Node& node);

// Whether drivers can number the devices of every host (spec/hw-registers.md 1.5); the error is one
// of the platform file.
base::Status check_devices(const config::Platform& platform);

}  // namespace sim
