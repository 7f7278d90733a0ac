// Vocabulary of the collectives library: operations, algorithms, and the statuses it returns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/contract/descriptor.h"
#include "base/error.h"

namespace ccl {

using contract::DType;
using contract::ReduceOp;

enum class OpKind : uint8_t { kAllReduce, kAllGather, kReduceScatter };
enum class Algorithm : uint8_t { kRing, kMesh };

// NRT_STATUS values carried in Error::code (nrt-api.md 2.1, collectives.md 1.8).
constexpr int kNrtFailure = 1;
constexpr int kNrtInvalid = 2;
constexpr int kNrtResource = 4;
constexpr int kNrtTimeout = 5;
constexpr int kNrtUnsupported = kNrtInvalid;  // collectives.md 1.2: what is absent is refused

const char* to_string(OpKind kind);     // "all_reduce", "all_gather", "reduce_scatter"
const char* to_string(Algorithm algo);  // names of reports: "ring", "mesh"

// One collective as the program states it (sizes per rank; collectives.md 1.1).
struct OpRequest {
  OpKind kind = OpKind::kAllReduce;
  DType dtype = DType::kInvalid;
  ReduceOp op = ReduceOp::kAdd;  // ignored by all-gather
  uint64_t input_bytes = 0;
  uint64_t output_bytes = 0;
};

// `size` of reports: max(input, output) bytes per rank.
constexpr uint64_t report_size(const OpRequest& r) {
  return r.input_bytes > r.output_bytes ? r.input_bytes : r.output_bytes;
}

// Checks sizes, dtype and reduction against the group size; Error::code is an NRT_STATUS.
base::Status validate(const OpRequest& request, uint32_t ranks);

// Checks the groups of one program (collectives.md 1.8, neff.md 4.6 C-11, C-12): unique ranks,
// equal lengths, all below `world`.
base::Status validate_groups(const std::vector<std::vector<uint32_t>>& groups, uint32_t world);

// Index of the list that contains `rank`, or the C-12 error (NRT_RESOURCE, public text).
base::Result<uint32_t> group_of(const std::vector<std::vector<uint32_t>>& groups, uint32_t rank);

}  // namespace ccl
