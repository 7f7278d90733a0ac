// Mesh schedules of a group whose members all reach each other in one step (collectives.md 2.7.4,
// single step; 2.7.5, K = 1). Operand order 0..N-1, so that all ranks get the same bits.
// Missing: the two-step forms over several chips.
#include <algorithm>

#include "arch/contract/descriptor.h"
#include "runtime/collectives/builder.h"

namespace ccl {
namespace {

constexpr uint32_t kMaxSources = 16;  // of one compute packet (hw-registers.md 3.14)
constexpr uint64_t kSlotAlign = 64;

void all_gather(ScheduleBuilder* builder, const OpRequest& request, uint32_t ranks) {
  for (uint32_t r = 0; r < ranks; ++r) {
    // The peers first: they are the far ones.
    for (uint32_t k = 1; k <= ranks; ++k) {
      const uint32_t to = (r + k) % ranks;
      builder->add(r, request.input_bytes, {{r, Buffer::kInput, 0}},
                   {to, Buffer::kOutput, r * request.input_bytes});
    }
  }
}

// Every rank folds the same part of all inputs, read where they are.
void reduce_in_place_of_data(ScheduleBuilder* builder, const OpRequest& request, uint32_t ranks) {
  const bool scatter = request.kind == OpKind::kReduceScatter;
  for (uint32_t r = 0; r < ranks; ++r) {
    std::vector<Range> sources;
    for (uint32_t k = 0; k < ranks; ++k) {
      sources.push_back({k, Buffer::kInput, scatter ? r * request.output_bytes : 0});
    }
    builder->add(r, request.output_bytes, std::move(sources), {r, Buffer::kOutput, 0});
  }
}

// Every rank first sends its part to slot r of every peer. Needed when inputs may not be read by
// peers: across chips, or because the peer overwrites its input (in place).
void reduce_through_slots(ScheduleBuilder* builder, const OpRequest& request, uint32_t ranks) {
  const bool scatter = request.kind == OpKind::kReduceScatter;
  const uint64_t slot = (request.output_bytes + kSlotAlign - 1) / kSlotAlign * kSlotAlign;
  builder->need_channel(slot * ranks);
  std::vector<std::vector<uint32_t>> arrivals(ranks);
  std::vector<std::vector<uint32_t>> own_reads(ranks);
  for (uint32_t r = 0; r < ranks; ++r) {
    for (uint32_t k = 1; k < ranks; ++k) {
      const uint32_t to = (r + k) % ranks;
      const uint32_t id = builder->add(
          r, request.output_bytes, {{r, Buffer::kInput, scatter ? to * request.output_bytes : 0}},
          {to, Buffer::kChannel, r * slot});
      arrivals[to].push_back(id);
      own_reads[r].push_back(id);
    }
  }
  for (uint32_t r = 0; r < ranks; ++r) {
    std::vector<Range> sources;
    for (uint32_t k = 0; k < ranks; ++k) {
      if (k == r) {
        sources.push_back({k, Buffer::kInput, scatter ? r * request.output_bytes : 0});
      } else {
        sources.push_back({r, Buffer::kChannel, k * slot});
      }
    }
    std::vector<uint32_t> after = arrivals[r];
    after.insert(after.end(), own_reads[r].begin(), own_reads[r].end());
    builder->add(r, request.output_bytes, std::move(sources), {r, Buffer::kOutput, 0}, after);
  }
}

}  // namespace

base::Result<Schedule> mesh_schedule(const OpRequest& request, uint32_t ranks,
                                     const ScheduleOptions& options) {
  if (const base::Status status = validate(request, ranks); !status) return status.error();
  if (request.kind != OpKind::kAllGather && ranks > kMaxSources) {
    return base::Error{base::Fault::kUnsupported, kNrtUnsupported, "collectives",
                       "mesh reduction over " + std::to_string(ranks) +
                           " ranks: one packet folds at most 16 sources; use ring"};
  }
  if (request.output_bytes > UINT64_MAX / 2 / (ranks + 1)) {
    return base::Error{base::Fault::kUsage, kNrtInvalid, "collectives", "buffer size overflows"};
  }
  ScheduleBuilder builder(Algorithm::kMesh, request, ranks, options.in_place);
  // Reduce-scatter in place overwrites only the part that no peer reads.
  const bool overwrites = options.in_place && request.kind == OpKind::kAllReduce;
  if (request.kind == OpKind::kAllGather) {
    all_gather(&builder, request, ranks);
  } else if (options.direct && !overwrites) {
    reduce_in_place_of_data(&builder, request, ranks);
  } else {
    reduce_through_slots(&builder, request, ranks);
  }
  return builder.take();
}

}  // namespace ccl
