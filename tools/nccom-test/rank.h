// One rank: load a NEFF, execute it, check the output.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "options.h"
#include "program.h"

namespace nccom {

struct RankResult {
  base::Status status;
  std::vector<uint8_t> output;  // with --check
};

// Runs in a thread of its own. `vnc`: process-relative core.
RankResult run_rank(const Options& options, const Program& program, uint64_t size, uint32_t rank,
                    uint32_t executions);

// Outputs of the local ranks of a group must be equal bit for bit (all-reduce, all-gather).
base::Status compare_ranks(const Options& options, const std::vector<RankResult>& results);

base::Error status_error(const char* call, int status);

}  // namespace nccom
