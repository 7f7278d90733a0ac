// Mesh schedules (spec/collectives.md 2.7, 2.14): one chip, single step, two steps, switch.
// Exact: who sends what to whom, operand orders, route and port classes. Ours: the all-gather
// writes landed sections straight to outputs; on Trn1 and on switches it goes directly to all
// ranks.
#include <algorithm>

#include "runtime/collectives/schedule/algorithms.h"
#include "runtime/collectives/schedule/alltoall.h"
#include "runtime/collectives/schedule/compose.h"

namespace ccl {
namespace {

constexpr uint32_t kMaxChips = 128;        // mesh tables (1.8)
constexpr uint32_t kMaxOneStepRanks = 16;  // operands of one fold
constexpr double kHopNs = 700;             // what a DMA hop costs beyond what overlaps
// One chip, one fold of everything per rank: pays while reading it all is cheaper than handing
// the result on, about one hop of fabric time.
constexpr uint64_t kChipOneStepBytes = 64 * 1024;

// Bytes per ns of a link (2.1).
double link_rate(contract::Gen gen) {
  switch (gen) {
    case contract::Gen::kV2:
      return 48;
    case contract::Gen::kV3:
      return 128;
    case contract::Gen::kV4:
      return 64;
  }
  return 48;
}

// B* of 2.7.4.
bool single_step_pays(const OpRequest& request, const Group& group,
                      const ScheduleOptions& options) {
  const double n = group.ranks();
  if (group.ranks() > kMaxOneStepRanks) return false;
  if (request.input_bytes > options.slot_bytes / group.ranks()) return false;  // 2.16
  if (group.ranks() == 2) return true;  // two steps send as much
  return static_cast<double>(request.input_bytes) <=
         kHopNs * link_rate(group.topology.gen) / ((n - 1) * (1 - 2 / n));
}

// Sections that are all the whole buffer: every rank folds everything.
TeamsPtr whole_buffer(const OpRequest& request, uint32_t ranks) {
  return make_teams(one_team(ranks), ranks, [request](uint32_t, uint32_t) {
    Section out;
    append_piece(&out, {request.input_bytes, {Buffer::kInput, 0}, {Buffer::kOutput, 0}});
    return out;
  });
}

TeamsPtr chunks(uint32_t ranks, const ChunkMap& layout, Piece (ChunkMap::*piece)(uint32_t) const) {
  return make_teams(one_team(ranks), ranks, [=](uint32_t, uint32_t member) {
    Section out;
    append_piece(&out, (layout.*piece)(member));
    return out;
  });
}

void add_all_reduce(ChainBuilder* builder, const OpRequest& request, const Group& group,
                    const ScheduleOptions& options) {
  const uint32_t ranks = group.ranks();
  const ChunkMap layout(request, ranks, options.in_place);
  const TeamsPtr sections = chunks(ranks, layout, &ChunkMap::reduced);
  const ChipShape shape = chip_shape(group, *sections);
  const bool one_step = ranks <= kMaxOneStepRanks &&
                        request.input_bytes <= kChipOneStepBytes / std::max(ranks - 1, 1u);
  if (shape.most_chips == 1 && !options.in_place && one_step) {
    builder->add<ReadReduce>(whole_buffer(request, ranks), false);
  } else if (shape.most_chips > 1 && single_step_pays(request, group, options)) {
    builder->add<SlotReduce>(whole_buffer(request, ranks));
  } else {
    add_mesh_reduce(builder, shape, sections, true, Readers::kFollowed);
    add_mesh_gather(builder, shape, chunks(ranks, layout, &ChunkMap::gathered), Before::kReduce);
  }
}

}  // namespace

base::Result<Schedule> mesh(const OpRequest& request, const Group& group,
                            const ScheduleOptions& options) {
  const uint32_t ranks = group.ranks();
  if (const base::Status status = validate(request, ranks); !status) return status.error();
  if (!sane_size(request)) return not_eligible(Algorithm::kMesh, "buffer size overflows");
  if (request.kind == OpKind::kAllToAll) return mesh_all_to_all(request, group, options);
  if (variable_size(request.kind)) return variable_mesh(request, group, options);
  if (request.kind != OpKind::kAllReduce && request.kind != OpKind::kAllGather &&
      request.kind != OpKind::kReduceScatter) {
    return not_eligible(Algorithm::kMesh, std::string("no ") + to_string(request.kind));
  }
  if (by_chip(group).size() > kMaxChips) {
    return not_eligible(Algorithm::kMesh, "more than 128 chips");
  }
  ChainBuilder builder(Algorithm::kMesh, request, group, options);
  builder.begin_chain();
  if (ranks == 1 && options.in_place) return builder.take();
  const ChunkMap layout(request, ranks, options.in_place);
  if (request.kind == OpKind::kAllReduce) {
    add_all_reduce(&builder, request, group, options);
  } else if (request.kind == OpKind::kAllGather) {
    const TeamsPtr sections = chunks(ranks, layout, &ChunkMap::gathered);
    add_mesh_gather(&builder, chip_shape(group, *sections), sections, Before::kNothing);
  } else {
    const TeamsPtr sections = chunks(ranks, layout, &ChunkMap::reduced);
    add_mesh_reduce(&builder, chip_shape(group, *sections), sections, false, Readers::kTellEnd);
  }
  return builder.take();
}

}  // namespace ccl
