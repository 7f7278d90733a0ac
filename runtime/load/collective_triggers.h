// Second phase of a program's collectives (collective_program.h): what they take of the core when
// the program is loaded, so that the engines' programs can name it: an operation number on each
// CC-core of the stream per operation, and one of the barrier's CC-core and a semaphore of the core
// for the execution barrier. Given back at the end.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "runtime/exec/core.h"
#include "runtime/load/collective_program.h"
#include "runtime/load/core_program.h"

namespace nrt {

class CollectiveTriggers {
 public:
  // `used_semaphores`: of the core, by its programs. The core outlives the result.
  static base::Result<CollectiveTriggers> take(Core* core, const CollectiveProgram& program,
                                               const std::vector<uint8_t>& used_semaphores);

  // CC-cores of a stream; the first takes the triggers. An unused stream has none.
  uint32_t cc_count(uint32_t stream) const {
    return static_cast<uint32_t>(streams_[stream].size());
  }
  CcCore& cc(uint32_t stream, uint32_t cc_index) const {
    return core_->cc_cores()[streams_[stream][cc_index]];
  }
  // Stream that has this one of the core's CC-cores as its first; the number of streams if none.
  uint32_t stream_of(uint32_t cc_core) const;

  uint32_t op_index(uint32_t operation, uint32_t cc_index) const {
    return operations_[operation][cc_index].first();
  }
  uint32_t barrier_op() const { return barrier_op_.first(); }
  uint8_t barrier_semaphore() const { return barrier_semaphore_; }

  // What starts the operation on a CC-core of its stream.
  uint32_t trigger_word(const CollectiveProgram& program, uint32_t operation,
                        uint32_t cc_index) const;
  // What the engines' programs begin with, and what stands there for each PTC2.
  Prologue prologue(bool leader) const;
  void add_replacements(const CollectiveProgram& program, uint32_t part,
                        EngineReplacements* lists) const;

 private:
  CollectiveTriggers(Core* core, Claim barrier_op, uint8_t barrier_semaphore)
      : core_(core), barrier_op_(std::move(barrier_op)), barrier_semaphore_(barrier_semaphore) {}
  base::Status take_operations(const CollectiveProgram& program);

  Core* core_;
  std::vector<std::vector<uint32_t>> streams_;  // indices in Core::cc_cores()
  std::vector<std::vector<Claim>> operations_;  // by CC-core of the stream
  Claim barrier_op_;
  uint8_t barrier_semaphore_;
};

}  // namespace nrt
