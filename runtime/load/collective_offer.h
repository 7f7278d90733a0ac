// Third phase of a program's collectives (collective_program.h): what the rank has for its peers.
// Once all ranks of the world are known, it chooses algorithms and takes what they need: semaphores
// of the CC-cores, channel buffers, memory for blocks. So one thread may load several ranks one
// after the other (spec/nrt-api.md 10.3), and a lack of semaphores shows at the first execution.
// Given back at the end; peers reach into it as long as the program runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/load/collective_options.h"
#include "runtime/load/collective_program.h"
#include "runtime/load/collective_triggers.h"
#include "runtime/load/communicator.h"

namespace nrt {

// What the later phases work with.
struct CollectiveContext {
  const CollectiveProgram& program;
  const CollectiveTriggers& triggers;
  Core& core;
  Communicator& communicator;  // all ranks of its world are here
  // By physical core; inputs and outputs are bound.
  std::vector<const std::vector<VariableAddress>*> variables;
};

class CollectiveOffer {
 public:
  struct Operation {
    ccl::OpRequest request;  // complete
    ccl::Needs needs;
    ccl::RankResources resources;
    DeviceBuffer blocks;
  };
  // Semaphores of operations that may share them, on the CC-cores of a stream.
  struct Semaphores {
    uint32_t group = 0;     // index in the program's
    std::string signature;  // empty: completions of the whole stream, of any group
    uint32_t stream = 0;
    uint32_t count = 0;
    std::vector<Claim> claims;  // by CC-core; none if none are needed

    uint32_t base(uint32_t cc_index) const { return claims.empty() ? 0 : claims[cc_index].first(); }
  };

  static base::Result<CollectiveOffer> make(const CollectiveContext& context);

  const CollectiveOptions& options() const { return options_; }
  // By index in the program's groups and operations.
  const ccl::Group& group(uint32_t index) const { return groups_[index]; }
  const Operation& operation(uint32_t index) const { return operations_[index]; }
  Operation& operation(uint32_t index) { return operations_[index]; }
  const std::vector<Semaphores>& semaphores() const { return semaphores_; }

 private:
  class Maker;
  CollectiveOffer(CollectiveOptions options, std::vector<ccl::Group> groups)
      : options_(std::move(options)), groups_(std::move(groups)) {}

  CollectiveOptions options_;
  std::vector<ccl::Group> groups_;
  std::vector<Operation> operations_;
  std::vector<Semaphores> semaphores_;
  std::vector<DeviceBuffer> channels_;  // by group
};

}  // namespace nrt
