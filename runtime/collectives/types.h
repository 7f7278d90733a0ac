// Vocabulary of the collectives library: operations, algorithms, and the statuses it returns.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "arch/contract/descriptor.h"
#include "base/error.h"

namespace ccl {

using contract::DType;
using contract::ReduceOp;

enum class OpKind : uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kPermute,  // explicit, implicit (a ring), send and receive: all are `pairs`
  kPermuteReduce,
  kBroadcast,
  kReduce,
  kBarrier,
  kAllGatherV,
  kReduceScatterV,
  kAllToAllV,
};

enum class Algorithm : uint8_t {
  kRing,
  kMesh,
  kRdh,
  kKangaRing,
  kHierarchical,
  kFlatRing,
  kTree,
  kPairwise,
  kImported,  // from an MSCCL XML file
};

// NRT_STATUS values carried in Error::code (spec/nrt-api.md 2.1, spec/collectives.md 1.8).
constexpr int kNrtFailure = 1;
constexpr int kNrtInvalid = 2;
constexpr int kNrtResource = 4;
constexpr int kNrtTimeout = 5;
constexpr int kNrtUnsupported = kNrtInvalid;  // spec/collectives.md 1.2: what is absent is refused

// Errors of the library.
inline base::Error invalid(std::string what) {
  return {base::Fault::kUsage, kNrtInvalid, "collectives", std::move(what)};
}
inline base::Error unsupported(std::string what) {
  return {base::Fault::kUnsupported, kNrtUnsupported, "collectives", std::move(what)};
}
inline base::Error resource(std::string what) {
  return {base::Fault::kResource, kNrtResource, "collectives", std::move(what)};
}
inline base::Error broken(std::string what) {
  return {base::Fault::kInternal, kNrtFailure, "collectives", std::move(what)};
}

const char* to_string(OpKind kind);     // "all_reduce", "all_gather", "all_to_all", ...
const char* to_string(Algorithm algo);  // names of reports: "ring", "mesh", "rdh", "kangaring",
                                        // "hier", "flatring", "tree", "pairwise", "msccl"

// Where the bytes of a tensor in SBUF lie (spec/collectives.md 1.3): in rows, one per partition;
// behind the last partition the next column of rows begins. No row bytes: the tensor is contiguous.
struct SbufRows {
  uint64_t bytes = 0;  // of a row
  uint32_t partitions = 1;
  uint32_t step = 1;  // in partitions

  bool contiguous() const { return bytes == 0; }
  // Distance of a byte of the tensor from its first one in device memory.
  uint64_t at(uint64_t offset) const;
  // Bytes from there to the end of the row.
  uint64_t run(uint64_t offset) const;
};
bool operator==(const SbufRows& a, const SbufRows& b);

// One collective as the program states it (sizes per rank; spec/collectives.md 1.1).
struct OpRequest {
  OpKind kind = OpKind::kAllReduce;
  DType dtype = DType::kInvalid;
  ReduceOp op = ReduceOp::kAdd;  // only where the operation reduces
  uint64_t input_bytes = 0;
  uint64_t output_bytes = 0;
  SbufRows input_rows;  // both in SBUF, or none
  SbufRows output_rows;
  uint32_t root = 0;  // index in the group: broadcast, reduce
  // Permutes: {source, target}, indices in the group, each at most once as source and as target.
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  // Variable sizes: the metadata tensor has the rows of spec/collectives.md 1.4.
  bool receive_counts_known = false;   // row 2 is left alone
  bool receive_displacements = false;  // there is a row 3
};

// Lengths and places come from a metadata tensor (spec/collectives.md 1.4).
bool variable_size(OpKind kind);
constexpr uint64_t kMetadataWord = sizeof(uint32_t);
// Its bytes; 0 for other operations.
uint64_t metadata_bytes(const OpRequest& request, uint32_t ranks);

// The operation folds its inputs.
bool reduces(OpKind kind);

// `size` of reports: max(input, output) bytes per rank.
constexpr uint64_t report_size(const OpRequest& r) {
  return r.input_bytes > r.output_bytes ? r.input_bytes : r.output_bytes;
}

// Checks sizes, dtype and reduction against the group size; Error::code is an NRT_STATUS.
base::Status validate(const OpRequest& request, uint32_t ranks);

// Checks the groups of one program (spec/collectives.md 1.8, spec/neff.md 4.6 C-11, C-12): unique
// ranks, equal lengths, all below `world`.
base::Status validate_groups(const std::vector<std::vector<uint32_t>>& groups, uint32_t world);

// Index of the list that contains `rank`, or the C-12 error (NRT_RESOURCE, public text).
base::Result<uint32_t> group_of(const std::vector<std::vector<uint32_t>>& groups, uint32_t rank);

}  // namespace ccl
