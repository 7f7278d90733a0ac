// Recursive halving and doubling (collectives.md 2.8) on sub-cubes of chips, over nodes too.
// Exact: partners, axis orders, operand order (mates of the chip by core, then what arrived, step
// by step). Ours: no intermediate sums (stages.h), so a chunk is rounded once per hop; node axes
// come first in the all-gather.
#include "runtime/collectives/schedule/algorithms.h"
#include "runtime/collectives/schedule/compose.h"

namespace ccl {
namespace {

// Two independent halves overlap the latency of one with the transfers of the other, when the
// transfers are long enough; in larger cubes events would run short.
constexpr uint64_t kHalvesFromBytes = 64 * 1024;  // of a chunk
constexpr size_t kHalvesMaxAxes = 4;

TeamsPtr sections(uint32_t ranks, const Layout& layout, Piece (Layout::*piece)(uint32_t) const) {
  return make_teams(one_team(ranks), ranks, [=](uint32_t, uint32_t member) {
    Section out;
    append_piece(&out, (layout.*piece)(member));
    return out;
  });
}

}  // namespace

base::Result<Schedule> rdh(const OpRequest& request, const Group& group,
                           const ScheduleOptions& options) {
  const uint32_t ranks = group.ranks();
  if (const base::Status status = validate(request, ranks); !status) return status.error();
  if (!sane_size(request)) return not_eligible(Algorithm::kRdh, "buffer size overflows");
  const bool reduce = request.kind == OpKind::kReduceScatter || request.kind == OpKind::kAllReduce;
  const bool gather = request.kind == OpKind::kAllGather || request.kind == OpKind::kAllReduce;
  if (!reduce && !gather) {
    return not_eligible(Algorithm::kRdh, std::string("no ") + to_string(request.kind));
  }
  ChainBuilder builder(Algorithm::kRdh, request, group, options);
  const Layout whole(request, ranks, options.in_place);
  const std::optional<CubePlan> plan = cube_plan(group, *sections(ranks, whole, &Layout::held));
  if (!plan) return not_eligible(Algorithm::kRdh, "the chips of the group are no sub-cube");
  const bool halves = options.max_channels > 1 &&
                      chunk_of(request, ranks, 0).bytes >= kHalvesFromBytes &&
                      plan->cubes.front().axes.size() <= kHalvesMaxAxes;
  const uint32_t blocks = halves ? 2 : 1;
  for (uint32_t b = 0; b < blocks; ++b) {
    builder.begin_chain();
    if (ranks == 1 && options.in_place) break;
    const Layout layout(request, ranks, options.in_place, {b, blocks});
    if (reduce) {
      add_cube_reduce(&builder, *plan, sections(ranks, layout, &Layout::reduced),
                      gather ? Readers::kFollowed : Readers::kTellEnd);
    }
    if (gather) add_cube_gather(&builder, *plan, sections(ranks, layout, &Layout::gathered));
  }
  return builder.take();
}

}  // namespace ccl
