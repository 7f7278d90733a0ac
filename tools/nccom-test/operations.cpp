#include "operations.h"

#include <algorithm>
#include <iterator>

namespace nccom {
namespace {

struct OperationName {
  const char* full;
  const char* brief;
  Operation operation;
};
constexpr OperationName kOperations[] = {
    {"all_reduce", "allr", Operation::kAllReduce},
    {"all_gather", "allg", Operation::kAllGather},
    {"all_gatherv", "allgv", Operation::kAllGatherV},
    {"reduce_scatter", "redsct", Operation::kReduceScatter},
    {"reduce_scatterv", "redsctv", Operation::kReduceScatterV},  // ours
    {"sendrecv", "sendrecv", Operation::kSendRecv},
    {"alltoall", "alltoall", Operation::kAllToAll},
    {"alltoallv", "alltoallv", Operation::kAllToAllV},
    {"permute", "permute", Operation::kPermute},
    {"broadcast", "bcast", Operation::kBroadcast},
    {"reduce", "reduce", Operation::kReduce},
    {"barrier", "barrier", Operation::kBarrier},
    {"permute_reduce", "permred", Operation::kPermuteReduce},
    {"permute_implicit", "permimp", Operation::kPermuteImplicit},
    {"permute_reduce_implicit", "permredimp", Operation::kPermuteReduceImplicit},
};

const OperationName& name_of(Operation operation) {
  return *std::find_if(std::begin(kOperations), std::end(kOperations),
                       [&](const OperationName& o) { return o.operation == operation; });
}

using contract::DType;
constexpr DataType kTypes[] = {
    {"uint8", DType::kUint8, "uint8"},    {"int8", DType::kInt8, "int8"},
    {"fp8", DType::kFp8E4, "float8e4"},   {"fp8e4", DType::kFp8E4, "float8e4"},
    {"uint16", DType::kUint16, "uint16"}, {"int16", DType::kInt16, "int16"},
    {"fp16", DType::kFp16, "float16"},    {"bf16", DType::kBf16, "bfloat16"},
    {"uint32", DType::kUint32, "uint32"}, {"int32", DType::kInt32, "int32"},
    {"fp32", DType::kFp32, "float32"},    {"fp8e3", DType::kFp8E3, "float8e3"},
    {"fp8e5", DType::kFp8E5, "float8e5"}, {"uint64", DType::kUint64, "uint64"},
    {"int64", DType::kInt64, "int64"},
};

struct ReductionName {
  const char* name;
  contract::ReduceOp code;
};
constexpr ReductionName kReductions[] = {{"add", contract::ReduceOp::kAdd},
                                         {"max", contract::ReduceOp::kMax},
                                         {"min", contract::ReduceOp::kMin},
                                         {"fma", contract::ReduceOp::kFma}};

template <typename Table>
std::vector<std::string> names_of(const Table& table) {
  std::vector<std::string> names;
  for (const auto& entry : table) names.emplace_back(entry.name);
  return names;
}

}  // namespace

std::optional<Operation> operation_of(const std::string& name) {
  for (const OperationName& o : kOperations) {
    if (name == o.full || name == o.brief) return o.operation;
  }
  return std::nullopt;
}

std::vector<std::string> operation_names() {
  std::vector<std::string> names;
  for (const OperationName& o : kOperations) {
    for (const char* name : {o.full, o.brief}) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.emplace_back(name);
    }
  }
  return names;
}

const char* long_name(Operation operation) {
  return name_of(operation).full;
}

const char* short_name(Operation operation) {
  return name_of(operation).brief;
}

std::optional<DataType> type_of(const std::string& name) {
  for (const DataType& type : kTypes) {
    if (name == type.name) return type;
  }
  return std::nullopt;
}

std::vector<std::string> type_names() {
  return names_of(kTypes);
}

std::optional<contract::ReduceOp> reduction_of(const std::string& name) {
  for (const ReductionName& reduction : kReductions) {
    if (name == reduction.name) return reduction.code;
  }
  return std::nullopt;
}

std::vector<std::string> reduction_names() {
  return names_of(kReductions);
}

bool reduces(Operation operation) {
  switch (operation) {
    case Operation::kAllReduce:
    case Operation::kReduceScatter:
    case Operation::kReduceScatterV:
    case Operation::kReduce:
    case Operation::kPermuteReduce:
    case Operation::kPermuteReduceImplicit:
      return true;
    default:
      return false;
  }
}

bool variable_size(Operation operation) {
  return operation == Operation::kAllGatherV || operation == Operation::kReduceScatterV ||
         operation == Operation::kAllToAllV;
}

bool ring_permute(Operation operation) {
  return operation == Operation::kPermuteImplicit || operation == Operation::kPermuteReduceImplicit;
}

bool rooted(Operation operation) {
  return operation == Operation::kBroadcast || operation == Operation::kReduce;
}

bool two_sources(Operation operation) {
  return operation == Operation::kPermuteReduce || operation == Operation::kPermuteReduceImplicit;
}

}  // namespace nccom
