// One rank: load a NEFF, execute it, check the output.
#pragma once

#include <nrt/nrt.h>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "options.h"
#include "program.h"
#include "shared_check.h"

namespace nccom {

struct RankResult {
  base::Status status;
  std::vector<std::vector<uint8_t>> outputs;  // with --check, by stream
};

// Threads agree before they execute: a rank that could not load must not leave its peers waiting.
class Agreement {
 public:
  explicit Agreement(uint32_t members) : missing_(members) {}
  // Waits for all members; true if all said yes.
  bool vote(bool yes);

 private:
  std::mutex mutex_;
  std::condition_variable all_here_;
  uint32_t missing_;
  bool unanimous_ = true;
};

// Output tensors that the ranks on two logical cores of one HBM stack have in common: whoever comes
// first allocates.
class SharedOutputs {
 public:
  using Tensor = std::shared_ptr<nrt_tensor_t>;
  // Of the stack of this logical core (of one physical core each).
  base::Result<Tensor> get(int32_t vnc, size_t stream, const std::string& name, uint64_t bytes);

 private:
  std::mutex mutex_;
  std::map<std::pair<int32_t, size_t>, Tensor> tensors_;  // by stack and stream
};

// Runs in a thread of its own. A rank that
// stops because of another reports success and no output.
RankResult run_rank(const Workload& work, const Program& program, uint32_t rank,
                    uint32_t executions, Agreement* agreement, SharedCheck* check,
                    SharedOutputs* shared);

// What --check says about the ranks of a group together, as far as they run here: equal bits where
// all have the same result, one ring for each channel of an implicit permute.
base::Status compare_ranks(const Workload& work, const std::vector<RankResult>& results);

base::Error status_error(const char* call, int status);

}  // namespace nccom
