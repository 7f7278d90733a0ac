// Schedules may come from files: whatever would index outside something is refused before it is
// lowered.
#include "runtime/collectives/lowering.h"

namespace ccl {
namespace {

uint64_t buffer_bytes(const Shape& shape, Buffer buffer) {
  switch (buffer) {
    case Buffer::kInput:
    case Buffer::kSecond:
      return shape.request.input_bytes;
    case Buffer::kOutput:
      return shape.request.output_bytes;
    case Buffer::kChannel:
      return shape.channel_bytes;
    case Buffer::kMetadata:
      return metadata_bytes(shape.request, shape.ranks);
  }
  return 0;
}

base::Status check_variable(const Shape& shape, const Step& step, uint32_t rank) {
  const bool one = step.destinations.size() == 1 && step.bytes == 0 && step.fan_out;
  if (!one || step.sources.empty() || step.sources.size() > kMaxSources) return broken("variable");
  if (step.variable->parts == 0 || step.variable->part >= step.variable->parts) {
    return broken("part");
  }
  for (const auto& word :
       {std::optional(step.variable->count), step.variable->source, step.variable->destination}) {
    if (!word) continue;
    const uint64_t size = buffer_bytes(shape, word->buffer);
    if (word->rank != rank || word->offset % 4 != 0 || size < 4 || word->offset > size - 4) {
      return broken("word");
    }
  }
  for (const std::vector<Range>* ranges : {&step.sources, &step.destinations}) {
    for (const Range& range : *ranges) {
      if (range.rank >= shape.ranks) return broken("rank of a range");
      if (range.offset > buffer_bytes(shape, range.buffer)) return broken("range");
    }
  }
  return {};
}

base::Status check(const Shape& shape, const Steps& steps, uint32_t at, uint32_t rank) {
  const Step& step = steps[at];
  if (step.channel >= shape.channels) return broken("channel");
  for (const Wait& wait : step.waits) {
    if (wait.event >= shape.events.size()) return broken("event of a wait");
    if (shape.events[wait.event].channel != step.channel) {
      return broken("waits for an event of another channel");
    }
  }
  for (const Signal& signal : step.signals) {
    if (signal.rank >= shape.ranks) return broken("rank of a signal");
    if (signal.event >= shape.events.size()) return broken("event of a signal");
    if (step.fan_out && shape.events[signal.event].fifo) return broken("fan-out into a fifo");
  }
  for (const uint32_t before : step.after) {
    if (before >= at) return broken("after a later step");
    if (steps[before].channel != step.channel) return broken("after another channel's step");
  }
  if (step.variable) return check_variable(shape, step, rank);
  if (step.bytes == 0) return {};
  if (step.sources.empty() || step.sources.size() > kMaxSources) return broken("sources");
  if (step.destinations.empty() || step.destinations.size() > kMaxDestinations) {
    return broken("destinations");
  }
  if (step.bytes > shape.largest_step) return broken("more bytes than announced");
  for (const std::vector<Range>* ranges : {&step.sources, &step.destinations}) {
    for (const Range& range : *ranges) {
      if (range.rank >= shape.ranks) return broken("rank of a range");
      const uint64_t size = buffer_bytes(shape, range.buffer);
      if (range.offset > size || step.bytes > size - range.offset) return broken("range");
    }
  }
  return {};
}

}  // namespace

base::Status check_steps(const Shape& shape, const Steps& steps, uint32_t rank) {
  for (uint32_t at = 0; at < steps.size(); ++at) {
    const base::Status status = check(shape, steps, at, rank);
    if (status.ok()) continue;
    return broken("schedule of rank " + std::to_string(rank) + ", step " + std::to_string(at) +
                  ": " + status.error().what);
  }
  return {};
}

base::Status check_member(const RankResources& r, const RankResources& own, const Needs& needs) {
  const std::string who = "rank " + std::to_string(r.global_rank);
  if (r.gen != own.gen) return invalid(who + " is of another device generation");
  if (r.lnc != own.lnc) return invalid(who + " has another number of cores per logical core");
  if (r.cc_count != own.cc_count) return invalid(who + " has another number of CC-cores");
  if (r.signals < needs.signals) {
    return resource(who + " provides " + std::to_string(r.signals) + " semaphores, " +
                    std::to_string(needs.signals) + " are needed");
  }
  for (uint32_t i = 0; i < r.cc_count; ++i) {
    if (r.cc[i].signal_base + needs.signals > kSemaphores) return invalid(who + ": semaphores");
  }
  if (r.channel_bytes < needs.channel_bytes) {
    return invalid(who + " has a channel buffer of " + std::to_string(r.channel_bytes) +
                   " bytes; " + std::to_string(needs.channel_bytes) + " are needed");
  }
  return {};
}

}  // namespace ccl
