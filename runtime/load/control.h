// What stands for the pseudo instructions of control in the engines' programs: barriers between
// engines and between the physical cores of a logical core, queue instances, the rank
// (spec/neff.md 3.8, 3.15, 5.4 ). Pure.
//
// Core barrier: each core increments a semaphore of the other one, then waits for its own and takes
// the increment back, so a barrier may follow the next at once. Barrier of engines: all but the
// first engine count up on the first of five semaphores; the first engine waits for them all,
// takes that back, and releases each by a semaphore of its own: one for all would let an engine
// that is at the next barrier already take the release of a slower one.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "arch/contract/address_map.h"
#include "base/error.h"
#include "neff_loader/neff.h"
#include "runtime/load/translate.h"

namespace nrt {

using EngineReplacements = std::array<std::vector<Replacement>, contract::kEnginesPerNc>;

// A table of GET_CUR_PROCESSING_RANK_ID (processing_ranks.h) as the engines name it.
struct NamedRankTable {
  uint32_t group_id = 0;
  uint32_t channel_id = 0;
  uint16_t entry = 0;  // of the table of tensors
  uint32_t iterations = 1;
};

struct ControlPlace {
  std::optional<uint64_t> peer_increment;  // increment registers of the other physical core
  uint32_t rank = 0;                       // in the world
  std::vector<NamedRankTable> rank_tables;
};

// In the order of the programs. Core barriers need a peer.
base::Status add_controls(const neff::Subgraph& subgraph, const ControlPlace& place,
                          EngineReplacements* lists);

// Barriers of the same ids on both cores of a pair, each as often.
base::Status check_core_barriers(const std::vector<neff::Subgraph>& subgraphs);

// Semaphores that such barriers of this program use.
std::vector<uint8_t> barrier_semaphores(const neff::EngineProgram& program);

}  // namespace nrt
