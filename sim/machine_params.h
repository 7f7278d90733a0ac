// What the devices are built from, taken from a platform and a timing file.
#pragma once

#include <cstdint>
#include <vector>

#include "hw/machine/params.h"

namespace config {
class Timing;
struct Platform;
}  // namespace config

namespace sim {

// What drivers take the hosts for, by their product names (spec/hw-registers.md 9.1): that of the
// platform, or one that no driver knows. It decides how they number the devices.
enum class HostKind : uint8_t { kOfPlatform, kStandard };

// One host memory per node; a missing one leaves its chips without. Throws config::TimingError for
// a parameter that is missing or has another unit.
hw::MachineParams machine_params(const config::Platform& platform, const config::Timing& timing,
                                 const std::vector<pcie::HostMemory*>& host_memory,
                                 HostKind hosts = HostKind::kOfPlatform);

}  // namespace sim
