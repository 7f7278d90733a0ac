// What GET_CUR_PROCESSING_RANK_ID reads (spec/collectives.md 1.5): for each group and channel that
// a program names, a table in device memory with one word per iteration. Engines find the tables as
// further tensors behind those of the DGE table. What they hold follows from where the peers are,
// so it is written before the first execution.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.h"
#include "neff_loader/neff.h"
#include "runtime/exec/core.h"
#include "runtime/exec/device.h"
#include "runtime/load/communicator.h"

namespace nrt {

struct ProcessingRanks {
  uint32_t group_id = 0;
  uint32_t channel_id = 0;
  neff::RankList ranks;
  uint32_t own = 0;  // index in `ranks`
  DeviceBuffer memory;

  uint64_t bytes() const { return ranks.size() * sizeof(uint32_t); }
};

// Those that the programs of a physical core name, in the order in which they do; memory is taken.
// `rank`: in the world; none if the program has no collectives, and then only none may be named.
base::Result<std::vector<ProcessingRanks>> make_processing_ranks(const Core& core,
                                                                 const neff::Subgraph& subgraph,
                                                                 std::optional<uint32_t> rank);

// After Communicator::wait_all().
base::Status fill_processing_ranks(const Communicator& communicator, ProcessingRanks* table);

}  // namespace nrt
