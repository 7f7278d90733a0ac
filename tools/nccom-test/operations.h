// Operations, data types and reductions of nccom-test: names (spec/tools.md 2.3) and kinds. Not
// published: reduce_scatterv, broadcast and all operations behind it; types fp8e3, fp8e5, uint64,
// int64.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arch/contract/descriptor.h"

namespace nccom {

enum class Operation {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kPermute,
  kSendRecv,
  kBroadcast,
  kReduce,
  kBarrier,
  kPermuteReduce,
  kPermuteImplicit,
  kPermuteReduceImplicit,
  kAllGatherV,
  kReduceScatterV,
  kAllToAllV,
};

struct DataType {
  const char* name;  // as printed in the `type` column
  contract::DType code;
  const char* neff_name;  // as written in programs
};

// By long or short name; names for messages in the order of the published help.
std::optional<Operation> operation_of(const std::string& name);
std::vector<std::string> operation_names();
const char* long_name(Operation operation);
const char* short_name(Operation operation);

std::optional<DataType> type_of(const std::string& name);
std::vector<std::string> type_names();

std::optional<contract::ReduceOp> reduction_of(const std::string& name);
std::vector<std::string> reduction_names();

// The operation folds inputs.
bool reduces(Operation operation);
// Data moves along the edges of a ring that the runtime chooses.
bool ring_permute(Operation operation);
// Broadcast, reduce.
bool rooted(Operation operation);
// Two sources: the first and the second half of the input of every part.
bool two_sources(Operation operation);
// Counts and displacements are data.
bool variable_size(Operation operation);

}  // namespace nccom
