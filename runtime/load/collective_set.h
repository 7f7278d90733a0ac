// The collectives of one program on one core (spec/neff.md 4.5, spec/collectives.md 3.1), as the
// rest of the runtime sees them: what each PTC2 is replaced by, the queues, the execution barrier,
// and what runs for events. The work is done in phases, listed in collective_program.h: create()
// does those that need no peer, finish() the rest at the first execution.
// Own: operands that are inputs or outputs are exchanged once, so they must stay the same tensors.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/load/collective_image.h"
#include "runtime/load/loaded_program.h"

namespace nrt {

class CollectiveSet {
 public:
  // `program` is the whole, which outlives the set.
  static base::Result<std::unique_ptr<CollectiveSet>> create(
      const LoadedProgram& program, CollectiveProgram collectives,
      const std::vector<uint8_t>& used_semaphores);
  CollectiveSet(const CollectiveSet&) = delete;
  CollectiveSet& operator=(const CollectiveSet&) = delete;

  uint8_t barrier_semaphore() const { return triggers_.barrier_semaphore(); }
  Prologue prologue(bool leader) const { return triggers_.prologue(leader); }
  void add_replacements(uint32_t part, EngineReplacements* lists) const {
    triggers_.add_replacements(collectives_, part, lists);
  }

  // The program's I/O is bound. Blocks until all ranks of the world are here. What has failed once
  // fails again: peers have given up, too.
  base::Status finish();
  // I/O variable of the first physical core's program whose address the peers know.
  bool fixes(uint32_t variable) const;
  // After finish().
  const std::vector<HardwareQueue>& queues() const { return running_->image.queues(); }

  // For events, after finish(): operations of a stream in issue order.
  struct Issued {
    std::string operation;
    std::string algorithm;
    uint64_t bytes = 0;
  };
  uint32_t stream_count() const { return static_cast<uint32_t>(collectives_.streams.size()); }
  // Stream that has this one of the core's CC-cores; stream_count() if none.
  uint32_t stream_of(uint32_t cc_core) const { return triggers_.stream_of(cc_core); }
  // Operations of one execution, if `counted`: with loops their number is not known at load.
  size_t issued(uint32_t stream) const { return collectives_.streams[stream].sequence.size(); }
  bool counted(uint32_t stream) const { return collectives_.streams[stream].counted; }
  // By the number that the stream's first CC-core knows it by.
  Issued operation(uint32_t op_index, uint32_t stream) const;

 private:
  // What the image refers to, and the image.
  struct Running {
    CollectiveOffer offer;
    CollectiveImage image;
  };

  CollectiveSet(const LoadedProgram& program, CollectiveProgram collectives,
                CollectiveTriggers triggers)
      : program_(program), collectives_(std::move(collectives)), triggers_(std::move(triggers)) {}
  base::Result<Running> start() const;

  const LoadedProgram& program_;
  const CollectiveProgram collectives_;
  const CollectiveTriggers triggers_;
  std::optional<Running> running_;
  base::Status failure_;
};

}  // namespace nrt
