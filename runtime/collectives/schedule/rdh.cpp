// Recursive halving and doubling (spec/collectives.md 2.8) on sub-cubes of chips, over nodes too.
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

// `numbers`: chunk of every rank.
TeamsPtr sections(const std::vector<uint32_t>& numbers, const ChunkMap& layout,
                  Piece (ChunkMap::*piece)(uint32_t) const) {
  const uint32_t ranks = static_cast<uint32_t>(numbers.size());
  return make_teams(one_team(ranks), ranks, [=](uint32_t, uint32_t member) {
    Section out;
    append_piece(&out, (layout.*piece)(numbers[member]));
    return out;
  });
}

// The chunks of an all-reduce may have any number: the ranks of a column get neighbours, so that
// every step is one transfer.
std::vector<uint32_t> chunk_numbers(const OpRequest& request, const CubePlan& plan,
                                    std::vector<uint32_t> numbers) {
  uint32_t next = 0;
  for (const auto& column : plan.columns) {
    for (const uint32_t rank : column) {
      if (request.kind == OpKind::kAllReduce) numbers[rank] = next++;
    }
  }
  return numbers;
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
  const ChunkMap whole(request, ranks, options.in_place);
  std::vector<uint32_t> numbers = one_team(ranks).front();
  const std::optional<CubePlan> plan =
      cube_plan(group, *sections(numbers, whole, &ChunkMap::held),
                reduce && gather ? ColumnOrder::kByAxes : ColumnOrder::kByChip);
  if (!plan) return not_eligible(Algorithm::kRdh, "the chips of the group are no sub-cube");
  numbers = chunk_numbers(request, *plan, std::move(numbers));
  const bool halves = options.max_channels > 1 &&
                      chunk_of(request, ranks, 0).bytes >= kHalvesFromBytes &&
                      plan->cubes.front().axes.size() <= kHalvesMaxAxes;
  const uint32_t blocks = halves ? 2 : 1;
  for (uint32_t b = 0; b < blocks; ++b) {
    builder.begin_chain();
    if (ranks == 1 && options.in_place) break;
    const ChunkMap layout(request, ranks, options.in_place, {b, blocks});
    if (reduce) {
      add_cube_reduce(&builder, *plan, sections(numbers, layout, &ChunkMap::reduced), gather,
                      gather ? Readers::kFollowed : Readers::kTellEnd);
    }
    if (gather) {
      add_cube_gather(&builder, *plan, sections(numbers, layout, &ChunkMap::gathered),
                      reduce ? Before::kReduce : Before::kNothing);
    }
  }
  return builder.take();
}

}  // namespace ccl
