// From a request to a lowered operation: checks, aliases (spec/collectives.md 1.3), schedule.
#include <set>

#include "runtime/collectives/ccl.h"
#include "runtime/collectives/schedule/algorithms.h"
#include "runtime/collectives/schedule_cache.h"

namespace ccl {
namespace {

// A part of a tensor in SBUF lies there as it does on its own.
bool same_rows(const SbufRows& part, const SbufRows& whole) {
  return part.bytes == whole.bytes && (part.partitions == 1 || part.step == whole.step) &&
         whole.partitions % part.partitions == 0;
}

// Whether source and destination of the kind may share memory in this way.
bool legal_alias(const OpRequest& q, const RankResources& r, uint64_t index) {
  switch (q.kind) {
    case OpKind::kAllGather:
      return r.src == r.dst + q.output_rows.at(index * q.input_bytes) &&
             same_rows(q.input_rows, q.output_rows);
    case OpKind::kReduceScatter:
      return r.dst == r.src + q.input_rows.at(index * q.output_bytes) &&
             same_rows(q.output_rows, q.input_rows);
    case OpKind::kAllReduce:
    case OpKind::kPermute:
    case OpKind::kBroadcast:
    case OpKind::kReduce:
      return r.src == r.dst && q.input_rows == q.output_rows;
    default:
      return false;
  }
}

// Buffers of one rank: 0 apart, 1 legal alias, error otherwise.
base::Result<bool> aliases(const OpRequest& q, const RankResources& r, uint64_t index,
                           uint32_t ranks) {
  const std::string rank = "rank " + std::to_string(r.global_rank);
  if (r.src > UINT64_MAX - q.input_bytes || r.dst > UINT64_MAX - q.output_bytes ||
      r.second > UINT64_MAX - q.input_bytes) {
    return invalid("a buffer of " + rank + " wraps around");
  }
  const std::string refusal =
      std::string(to_string(q.kind)) + ": source and destination of " + rank + " overlap";
  if (q.kind == OpKind::kPermuteReduce && overlap(r.second, q.input_bytes, r.dst, q.output_bytes)) {
    return invalid(refusal);
  }
  const uint64_t words = metadata_bytes(q, ranks);
  if (words != 0 && (overlap(r.metadata, words, r.src, q.input_bytes) ||
                     overlap(r.metadata, words, r.dst, q.output_bytes))) {
    return invalid(std::string(to_string(q.kind)) + ": the metadata of " + rank +
                   " overlaps its source or destination");
  }
  if (!tensors_overlap(q, r)) return false;
  if (legal_alias(q, r, index)) return true;
  return invalid(refusal);
}

// A schedule in place leaves out the copy of what is there already, on all ranks.
bool copies_own(OpKind kind) {
  return kind == OpKind::kAllGather || kind == OpKind::kBroadcast || kind == OpKind::kPermute;
}

}  // namespace

base::Result<Needs> needs(const OpRequest& request, const Group& group, bool in_place,
                          uint32_t cc_count, const PlanOptions& options) {
  if (cc_count == 0 || cc_count > kMaxCcCores) return invalid("number of CC-cores");
  const uint32_t lnc = group.topology.lnc;
  if (lnc == 0 || lnc > contract::kMaxLnc) return invalid("cores per logical core");
  if (base::Status s = validate(request, group.ranks()); !s.ok()) return s.error();
  ScheduleOptions schedule_options = options.schedule;
  schedule_options.in_place = in_place;
  const auto schedule = shared_schedule(request, group, schedule_options, options.overrides);
  if (!*schedule) return schedule->error();
  Needs needs = needs_of((*schedule)->shape, contract::kDmaPerNc * lnc, cc_count);
  if (needs.signals + needs.completions > kSemaphores) {
    return base::Error{base::Fault::kResource, kNrtResource, "collectives",
                       std::string(to_string(request.kind)) + " over " +
                           std::to_string(group.ranks()) + " ranks (" + to_string(needs.algorithm) +
                           ") needs " + std::to_string(needs.signals + needs.completions) +
                           " semaphores of a CC-core, which has " + std::to_string(kSemaphores)};
  }
  return needs;
}

base::Result<Lowered> plan(const OpRequest& request, const Group& group,
                           const std::vector<RankResources>& members, uint32_t own,
                           const Completion& completion, const PlanOptions& options) {
  if (own >= members.size()) return invalid("own index is outside the group");
  if (members.size() != group.members.size()) {
    return invalid("resources of " + std::to_string(members.size()) + " ranks for a group of " +
                   std::to_string(group.members.size()));
  }
  if (base::Status s = validate(request, group.ranks()); !s.ok()) return s.error();
  ScheduleOptions schedule_options = options.schedule;
  std::set<uint32_t> seen;
  uint32_t in_place = 0;  // ranks
  for (uint32_t i = 0; i < members.size(); ++i) {
    const RankResources& r = members[i];
    if (!seen.insert(r.global_rank).second) {
      return invalid("rank " + std::to_string(r.global_rank) + " is in the group twice");
    }
    const Position& position = group.members[i];
    if (position.rank != r.global_rank || position.chip != r.chip || position.nc != r.nc) {
      return invalid("rank " + std::to_string(r.global_rank) + " is not where the group has it");
    }
    const base::Result<bool> alias = aliases(request, r, i, group.ranks());
    if (!alias) return alias.error();
    if (*alias) ++in_place;
  }
  if (copies_own(request.kind) && in_place != 0 && in_place != members.size()) {
    return invalid(std::string(to_string(request.kind)) + " in place on " +
                   std::to_string(in_place) + " of " + std::to_string(members.size()) +
                   " ranks; all or none must do so");
  }
  schedule_options.in_place = in_place != 0;
  const auto schedule = shared_schedule(request, group, schedule_options, options.overrides);
  if (!*schedule) return schedule->error();
  return lower(**schedule, members, own, completion, options);
}

}  // namespace ccl
