// What schedules know of the machine (collectives.md 2.1), from what the ranks have told each other
// and what the driver says of the own device.
// Exact: positions, links within a node. Own: the fabric is recognised by generation, number of
// chips of a node and neighbours; racks of switched platforms have their full size. Missing: links
// between the nodes of a torus.
#pragma once

#include "base/error.h"
#include "neff_loader/neff.h"
#include "runtime/collectives/schedule/topology.h"
#include "runtime/exec/core.h"
#include "runtime/load/communicator.h"

namespace nrt {

RankPosition position_of(const Core& core);

// The members in the order of `ranks`; after Communicator::wait_all().
base::Result<ccl::Group> make_group(const Communicator& communicator, const neff::RankList& ranks);

}  // namespace nrt
