#include "runtime/collectives/types.h"

#include <algorithm>
#include <set>

#include "arch/contract/address_map.h"

namespace ccl {
namespace {

uint32_t metadata_rows(const OpRequest& request) {
  if (request.kind == OpKind::kReduceScatterV) return 2;  // counts, displacements
  return request.receive_displacements ? 4 : 3;
}

// Root and pairs name members, each at most once per role.
base::Status validate_roles(const OpRequest& r, uint32_t ranks) {
  if (r.root >= ranks) {
    return invalid("root " + std::to_string(r.root) + " of " + std::to_string(ranks) + " ranks");
  }
  std::set<uint32_t> sources;
  std::set<uint32_t> targets;
  for (const auto& [source, target] : r.pairs) {
    const std::string pair =
        "pair (" + std::to_string(source) + ", " + std::to_string(target) + ")";
    if (source >= ranks || target >= ranks) return invalid(pair + " names no member");
    if (!sources.insert(source).second) return invalid(pair + ": a source appears twice");
    if (!targets.insert(target).second) return invalid(pair + ": a target appears twice");
  }
  return {};
}

// Tensors in SBUF (spec/collectives.md 1.3).
base::Status validate_rows(const OpRequest& r, uint64_t element) {
  if (r.input_rows.contiguous() && r.output_rows.contiguous()) return {};
  if (r.input_rows.contiguous() || r.output_rows.contiguous()) {
    return invalid("one tensor in SBUF, the other in device memory");
  }
  if (r.kind != OpKind::kAllReduce && r.kind != OpKind::kAllGather &&
      r.kind != OpKind::kReduceScatter) {
    return invalid(std::string(to_string(r.kind)) +
                   ": only all-reduce, all-gather and reduce-scatter take tensors in SBUF");
  }
  const auto whole = [&](const SbufRows& rows, uint64_t bytes) {
    return rows.bytes % element == 0 && bytes % rows.bytes == 0 && rows.step != 0 &&
           rows.partitions != 0 && rows.partitions <= contract::tpb::kPartitions;
  };
  if (whole(r.input_rows, r.input_bytes) && whole(r.output_rows, r.output_bytes)) return {};
  return invalid("a tensor in SBUF that is not made of rows");
}

std::string text(const std::vector<std::vector<uint32_t>>& groups) {
  std::string out;
  for (const auto& group : groups) {
    out += out.empty() ? "[" : ",[";
    for (size_t i = 0; i < group.size(); ++i) {
      out += (i == 0 ? "" : ",") + std::to_string(group[i]);
    }
    out += "]";
  }
  return out;
}

}  // namespace

const char* to_string(OpKind kind) {
  constexpr const char* kNames[] = {"all_reduce",   "all_gather",       "reduce_scatter",
                                    "all_to_all",   "permute",          "permute_reduce",
                                    "broadcast",    "reduce",           "barrier",
                                    "all_gather_v", "reduce_scatter_v", "all_to_all_v"};
  return kNames[static_cast<size_t>(kind)];
}

const char* to_string(Algorithm algo) {
  constexpr const char* kNames[] = {"ring",     "mesh", "rdh",      "kangaring", "hier",
                                    "flatring", "tree", "pairwise", "msccl"};
  return kNames[static_cast<size_t>(algo)];
}

bool reduces(OpKind kind) {
  switch (kind) {
    case OpKind::kAllReduce:
    case OpKind::kReduceScatter:
    case OpKind::kReduceScatterV:
    case OpKind::kPermuteReduce:
    case OpKind::kReduce:
      return true;
    default:
      return false;
  }
}

bool variable_size(OpKind kind) {
  return kind == OpKind::kAllGatherV || kind == OpKind::kReduceScatterV ||
         kind == OpKind::kAllToAllV;
}

uint64_t metadata_bytes(const OpRequest& request, uint32_t ranks) {
  if (!variable_size(request.kind)) return 0;
  return uint64_t{metadata_rows(request)} * ranks * sizeof(uint32_t);
}

base::Status validate(const OpRequest& r, uint32_t ranks) {
  if (ranks == 0) return invalid("a group without ranks");
  const uint64_t element = contract::dtype_size(r.dtype);
  if (element == 0) return invalid("data type code " + std::to_string(static_cast<int>(r.dtype)));
  if (r.input_bytes % element != 0 || r.output_bytes % element != 0) {
    return invalid("buffers of " + std::to_string(r.input_bytes) + " and " +
                   std::to_string(r.output_bytes) + " bytes are no whole number of " +
                   std::to_string(element) + "-byte elements");
  }
  const auto mismatch = [&](const char* rule) {
    return invalid(std::string(to_string(r.kind)) + " over " + std::to_string(ranks) +
                   " ranks: input " + std::to_string(r.input_bytes) + " bytes, output " +
                   std::to_string(r.output_bytes) + " bytes; expected " + rule);
  };
  // Division, so that hostile sizes cannot overflow.
  switch (r.kind) {
    case OpKind::kAllGather:
      if (r.output_bytes % ranks != 0 || r.output_bytes / ranks != r.input_bytes) {
        return mismatch("output = ranks x input");
      }
      break;
    case OpKind::kReduceScatter:
      if (r.input_bytes % ranks != 0 || r.input_bytes / ranks != r.output_bytes) {
        return mismatch("input = ranks x output");
      }
      break;
    case OpKind::kAllToAll:
      if (r.input_bytes != r.output_bytes || r.input_bytes / element % ranks != 0) {
        return mismatch("output = input, a multiple of ranks x element");
      }
      break;
    case OpKind::kBarrier:
      if (r.input_bytes != 0 || r.output_bytes != 0) return mismatch("no bytes");
      break;
    case OpKind::kAllGatherV:
    case OpKind::kReduceScatterV:
    case OpKind::kAllToAllV:
      break;  // counts are checked when they are read
    default:
      if (r.input_bytes != r.output_bytes) return mismatch("output = input");
      break;
  }
  if (base::Status status = validate_roles(r, ranks); !status) return status;
  if (base::Status status = validate_rows(r, element); !status) return status;
  if (!reduces(r.kind)) return {};
  switch (r.op) {
    case ReduceOp::kAdd:
    case ReduceOp::kMax:
    case ReduceOp::kMin:
      return {};
    case ReduceOp::kFma:
      return unsupported("reduction FMA in a collective; use ADD, MAX or MIN");
  }
  return invalid("reduction code " + std::to_string(static_cast<int>(r.op)));
}

base::Status validate_groups(const std::vector<std::vector<uint32_t>>& groups, uint32_t world) {
  if (groups.empty()) return invalid("a replica group set without lists");
  std::set<uint32_t> seen;
  for (const auto& group : groups) {
    if (group.empty()) return invalid("replica groups " + text(groups) + ": an empty list");
    if (group.size() != groups.front().size()) {
      return invalid("replica groups " + text(groups) + ": lists of unequal length");
    }
    for (const uint32_t rank : group) {
      if (rank >= world) {
        return invalid("replica groups " + text(groups) + ": rank " + std::to_string(rank) +
                       " in a world of " + std::to_string(world));
      }
      if (!seen.insert(rank).second) {
        return invalid("replica groups " + text(groups) + ": rank " + std::to_string(rank) +
                       " twice");
      }
    }
  }
  return {};
}

base::Result<uint32_t> group_of(const std::vector<std::vector<uint32_t>>& groups, uint32_t rank) {
  for (uint32_t g = 0; g < groups.size(); ++g) {
    if (std::find(groups[g].begin(), groups[g].end(), rank) != groups[g].end()) return g;
  }
  return base::Error{
      base::Fault::kProgram, kNrtResource, "collectives",
      "replica groups (" + text(groups) + ") does not have myself " + std::to_string(rank)};
}

}  // namespace ccl
