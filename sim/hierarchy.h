// The names of a machine's parts, as SystemC's object hierarchy has them.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace config {
class Timing;
struct Platform;
}  // namespace config

namespace sim {

struct HierarchyObject {
  std::string name;  // "d0.nc1.act"
  std::string kind;  // "soma_engine"
};

// Builds the machine (so once per process) and lists every object of it, parents before children.
base::Result<std::vector<HierarchyObject>> hierarchy(const config::Platform& platform,
                                                     const config::Timing& timing);

}  // namespace sim
