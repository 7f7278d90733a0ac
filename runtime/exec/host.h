// This host as its ranks describe it to others. Source of truth: spec/ndl-api.md 3.11,
// spec/collectives.md 4.1.
#pragma once

#include "base/error.h"
#include "runtime/load/rank_position.h"

namespace nrt {

// Needs the driver. A host that is in no UltraServer is one node.
HostPlace read_host(contract::Gen gen);

}  // namespace nrt
