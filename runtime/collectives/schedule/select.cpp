// From a request to a schedule (spec/collectives.md 2.16, eligibility 1.8).
#include "runtime/collectives/schedule/select.h"

#include <algorithm>
#include <set>

#include "runtime/collectives/schedule/algorithms.h"

namespace ccl {
namespace {

bool is_permute(OpKind kind) {
  return kind == OpKind::kPermute || kind == OpKind::kPermuteReduce;
}

base::Result<Schedule> build(Algorithm algorithm, const OpRequest& request, const Group& group,
                             const ScheduleOptions& options) {
  switch (algorithm) {
    case Algorithm::kRing:
      // A permute is one hop of a ring (2.13).
      if (is_permute(request.kind)) return permute(request, group, options);
      return ring(request, group, options);
    case Algorithm::kFlatRing:
      return ring(request, group, options);
    case Algorithm::kMesh:
      return mesh(request, group, options);
    case Algorithm::kRdh:
      return rdh(request, group, options);
    case Algorithm::kKangaRing:
      return kangaring(request, group, options);
    case Algorithm::kHierarchical:
      return hierarchical(request, group, options);
    case Algorithm::kTree:
      return tree(request, group, options);
    case Algorithm::kPairwise:
      return pairwise(request, group, options);
    case Algorithm::kImported:
      break;
  }
  return base::Error{base::Fault::kInternal, kNrtFailure, "collectives",
                     "an imported program is no algorithm to choose"};
}

// What to try when the first choice is not eligible.
std::vector<Algorithm> candidates(Algorithm first, const Situation& s) {
  std::vector<Algorithm> order;
  switch (s.kind) {
    case OpKind::kAllReduce:
    case OpKind::kAllGather:
    case OpKind::kReduceScatter:
      order = {Algorithm::kMesh, Algorithm::kRdh, Algorithm::kKangaRing};
      // A ring of all ranks of many nodes is long.
      if (s.nodes > 1 && first != Algorithm::kHierarchical) {
        order.push_back(Algorithm::kHierarchical);
      }
      order.push_back(Algorithm::kRing);
      break;
    case OpKind::kAllToAll:
      order = {Algorithm::kMesh, Algorithm::kPairwise, Algorithm::kRing};
      break;
    case OpKind::kPermute:
    case OpKind::kPermuteReduce:
      order = {Algorithm::kRing};
      break;
    case OpKind::kAllGatherV:
    case OpKind::kReduceScatterV:
    case OpKind::kAllToAllV:
      order = {Algorithm::kMesh};
      break;
    default:
      order = {Algorithm::kTree};
      break;
  }
  std::vector<Algorithm> out{first};
  // Not in the order (hierarchical, flat ring): straight to what is always eligible.
  const auto at = std::find(order.begin(), order.end(), first);
  auto next = at == order.end() ? std::prev(at) : std::next(at);
  for (; next != order.end(); ++next) out.push_back(*next);
  return out;
}

Algorithm first_choice(const Overrides& overrides, const Situation& situation) {
  for (const Rule& rule : overrides.rules) {
    if (rule.matches(situation)) return rule.algorithm;
  }
  return default_algorithm(situation);
}

}  // namespace

Situation situation_of(const OpRequest& request, const Group& group, bool in_place) {
  std::set<uint32_t> nodes;
  for (const Position& p : group.members) nodes.insert(p.node);
  Situation s;
  s.kind = request.kind;
  s.family = family_of(group.topology);
  s.ranks = group.ranks();
  s.chips = static_cast<uint32_t>(by_chip(group).size());
  s.nodes = static_cast<uint32_t>(nodes.size());
  s.in_place = in_place;
  s.size = report_size(request);
  return s;
}

base::Result<Schedule> make_schedule(const OpRequest& request, const Group& group,
                                     const ScheduleOptions& options, const Overrides& overrides) {
  if (base::Status status = validate(request, group.ranks()); !status) return status.error();
  base::Status legal = is_permute(request.kind) ? check_permute(request, group, options.strict)
                                                : check_group(group, options.strict);
  if (legal) legal = check_variable(request, group, options.strict);
  if (!legal) return legal.error();
  for (const MscclProgram& program : overrides.programs) {
    if (program.applies(request, group.ranks(), options.in_place)) {
      return msccl_schedule(program, request, group, options);
    }
  }
  if (const std::optional<Algorithm> forced = overrides.forced(request.kind)) {
    return build(*forced, request, group, options);
  }
  const Situation situation = situation_of(request, group, options.in_place);
  const Algorithm first = first_choice(overrides, situation);
  base::Error error;
  for (const Algorithm algorithm : candidates(first, situation)) {
    base::Result<Schedule> schedule = build(algorithm, request, group, options);
    if (schedule || schedule.error().fault != base::Fault::kUnsupported) return schedule;
    error = schedule.error();
  }
  return error;
}

base::Result<Schedule> make_schedule(const OpRequest& request, const Group& group,
                                     const ScheduleOptions& options,
                                     const std::string& override_text) {
  const base::Result<Overrides> overrides = load_overrides(override_text);
  if (!overrides) return overrides.error();
  return make_schedule(request, group, options, *overrides);
}

}  // namespace ccl
