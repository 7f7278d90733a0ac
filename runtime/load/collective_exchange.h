// Fourth phase of a program's collectives (collective_program.h): what the ranks of a world tell
// each other before any of them lowers - where their buffers and semaphores are, that their
// programs fit together, or that they cannot take part - and, when all have loaded, that all have.
// Every rank sees the same answers, so all come to the same conclusion.
#pragma once

#include <vector>

#include "base/error.h"
#include "runtime/load/collective_offer.h"

namespace nrt {

// By operation, then by member of its group.
using PeerResources = std::vector<std::vector<ccl::RankResources>>;

// `own` is what this rank has, or why it has nothing. Fails on all ranks if it fails on one.
base::Result<PeerResources> exchange(const CollectiveContext& context,
                                     const base::Result<CollectiveOffer>& own);

// After everything is loaded, and before a device waits for others: no rank starts if one cannot.
base::Status confirm(Communicator& communicator, const base::Status& own);

}  // namespace nrt
