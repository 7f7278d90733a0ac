// First phase of a program's collectives: what the NEFF says, for one rank of a world. Nothing is
// taken and nobody is asked, so it is pure (spec/neff.md 4, spec/collectives.md 1).
//
// The phases, each made from those before it and valid from then on:
//   1. CollectiveProgram  what the program says                              at load
//   2. CollectiveTriggers    what it takes of the CC-cores to be triggered      at load
//   3. CollectiveOffer    what the rank has for its peers                    first execution
//   4. exchange(), confirm()  what the ranks tell each other                 first execution
//   5. CollectiveImage    what has been lowered and lies on the device       first execution
// CollectiveSet (collective_set.h) holds them and is what the rest of the runtime sees.
// Missing (typed Unsupported): streams above the number of stream CC-cores, one stream fed by
// several engines or by repeated triggers with operations that differ.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "arch/contract/address_map.h"
#include "base/error.h"
#include "neff_loader/neff.h"
#include "runtime/collectives/ccl.h"

namespace nrt {

// The rank that the program is read for.
struct CollectivePlace {
  contract::AddressMap map;
  uint32_t nc = 0;       // first physical core
  uint32_t streams = 1;  // that the core has
  uint32_t rank = 0;
  uint32_t world = 1;
};

// What has a queue of its own on each of the rank's DMA engines: a queue has one service class, and
// operations of one stream use their queue in their order.
struct StreamQueue {
  uint32_t stream = 0;
  uint32_t priority = 0;
  uint32_t queue = 0;
  std::optional<uint32_t> block_queue;  // of operations of variable size
};

struct CollectiveProgram {
  // A PTC2 of the program of one physical core.
  struct Source {
    uint32_t part = 0;
    const neff::CollectiveOp* op = nullptr;
    uint32_t operation = 0;  // index in `operations`
  };
  struct Operation {    // distinct
    uint32_t part = 0;  // physical core whose program has it
    const neff::CollectiveOp* op = nullptr;
    ccl::OpRequest request;  // the pairs of an implicit permute follow from where the peers are
    ccl::Completion completion;
    uint32_t group = 0;         // index in `groups`
    uint32_t stream_queue = 0;  // index in `stream_queues`
  };
  struct Group {  // (stream, group id): own semaphores and channel buffer
    uint32_t stream = 0;
    uint32_t group_id = 0;
    neff::RankList ranks;
    uint32_t own = 0;  // index in `ranks`
  };
  struct Stream {
    bool counted = true;             // every trigger runs once per execution
    std::vector<uint32_t> sequence;  // indices in `operations`, issue order
  };

  // `subgraphs` by physical core outlive the result. Groups are the same in all that have
  // collectives.
  static base::Result<CollectiveProgram> read(const std::vector<neff::Subgraph>& subgraphs,
                                              const CollectivePlace& place);

  const neff::CollectiveConfig* config = nullptr;
  CollectivePlace place;
  std::vector<StreamQueue> stream_queues;
  uint32_t last_free_queue = 0;  // highest queue of an engine that collectives do not use
  std::vector<Operation> operations;
  std::vector<Group> groups;
  std::vector<Stream> streams;  // all of the core
  uint32_t streams_used = 1;    // the first ones
  std::vector<Source> sources;  // by physical core, engine and place in the program
};

}  // namespace nrt
