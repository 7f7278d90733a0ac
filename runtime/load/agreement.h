// What the programs of all ranks must have in common (spec/neff.md C-13): ranks whose collectives
// differ would wait for each other on the devices for ever. Each rank sums its program up; a
// fingerprint tells whether anything differs, the summaries themselves tell what.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "neff_loader/neff.h"
#include "runtime/collectives/bootstrap.h"

namespace nrt {

struct ProgramSummary {
  struct Operation {       // distinct
    std::string text;      // for people; equal on all ranks of its group
    std::string plan;      // how it is carried out; equal, too
    neff::RankList ranks;  // the own group
  };
  std::vector<Operation> operations;
  std::vector<uint32_t> sequence;  // of one execution, in program order: indices in `operations`
};

// The same for programs that agree, whatever the own group.
uint64_t fingerprint(const ProgramSummary& summary);

ccl::Blob encode(const ProgramSummary& summary);
base::Result<ProgramSummary> decode_summary(const ccl::Blob& blob);

// By rank. The first difference between two ranks that matters to one of them, the same on all.
base::Status check_agreement(const std::vector<ProgramSummary>& summaries);

}  // namespace nrt
