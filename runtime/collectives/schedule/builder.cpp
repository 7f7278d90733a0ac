#include "runtime/collectives/schedule/builder.h"

#include <algorithm>
#include <numeric>

namespace ccl {
namespace {

// Below this the waits that a slice adds cost more than its overlap saves at the rate of a link.
constexpr uint64_t kLeastSlice = 128 * 1024;

}  // namespace

base::Error not_eligible(Algorithm algorithm, const std::string& why) {
  return {base::Fault::kUnsupported, kNrtUnsupported, "collectives",
          std::string(to_string(algorithm)) + ": " + why};
}

Shape make_shape(Algorithm algorithm, const OpRequest& request, const Group& group,
                 const ScheduleOptions& options) {
  Shape shape;
  shape.algorithm = algorithm;
  shape.request = request;
  shape.ranks = group.ranks();
  shape.in_place = options.in_place;
  return shape;
}

uint32_t add_fifo(Shape& shape, uint32_t channel) {
  shape.events.push_back({channel, true});
  return static_cast<uint32_t>(shape.events.size() - 1);
}

uint32_t add_gather(Shape& shape, uint32_t channel) {
  shape.events.push_back({channel, false});
  return static_cast<uint32_t>(shape.events.size() - 1);
}

uint32_t Slices::of(const Chunk& chunk) const {
  return static_cast<uint32_t>((chunk.bytes + bytes - 1) / bytes);
}

Chunk Slices::slice(const Chunk& chunk, uint32_t s) const {
  const uint64_t begin = std::min(chunk.bytes, s * bytes);
  return {chunk.offset + begin, std::min(chunk.bytes - begin, bytes)};
}

Slices cut(uint64_t largest, uint64_t slot_bytes, uint32_t least, uint32_t most) {
  if (largest == 0) return {};
  const uint64_t slot = std::max(slot_bytes / kCutBytes * kCutBytes, kCutBytes);
  uint64_t count =
      std::min<uint64_t>(std::max(least, 1u), std::max(largest / kLeastSlice, uint64_t{1}));
  count = std::max(count, (largest + slot - 1) / slot);
  count = std::min<uint64_t>(count, std::max(most, 1u));
  Slices out;
  out.bytes = round_up((largest + count - 1) / count);
  out.count = static_cast<uint32_t>((largest + out.bytes - 1) / out.bytes);
  return out;
}

StepEdit& StepEdit::wait(uint32_t event, uint32_t signals) {
  if (signals != 0) step_.waits.push_back({event, signals});
  return *this;
}

StepEdit& StepEdit::signal(uint32_t rank, uint32_t event) {
  step_.signals.push_back({rank, event});
  return *this;
}

StepEdit& StepEdit::after(uint32_t id) {
  if (id == kNoId) return *this;
  if (std::find(step_.after.begin(), step_.after.end(), id) == step_.after.end()) {
    step_.after.push_back(id);
  }
  return *this;
}

StepEdit& StepEdit::after(const std::vector<uint32_t>& ids) {
  step_.after.insert(step_.after.end(), ids.begin(), ids.end());
  return *this;
}

StepEdit& StepEdit::from(Range source) {
  step_.sources.push_back(source);
  return *this;
}

StepEdit& StepEdit::to(Range destination) {
  step_.destinations.push_back(destination);
  return *this;
}

StepEdit& StepEdit::fan_out() {
  step_.fan_out = true;
  return *this;
}

StepEdit& StepEdit::variable(const Variable& words) {
  step_.variable = words;
  return *this;
}

StepEdit StepList::move(uint32_t channel, uint64_t bytes, std::vector<Range> sources,
                        std::vector<Range> destinations) {
  Step step;
  step.channel = channel;
  step.bytes = bytes;
  step.sources = std::move(sources);
  step.destinations = std::move(destinations);
  steps_.push_back(std::move(step));
  times_.push_back(time_);
  return StepEdit(steps_.back(), size() - 1);
}

StepEdit StepList::handshake(uint32_t channel) {
  return move(channel, 0, {}, {});
}

Steps StepList::take() {
  std::vector<uint32_t> order(steps_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return times_[a] < times_[b]; });
  std::vector<uint32_t> place(steps_.size());
  for (uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  Steps out;
  out.reserve(steps_.size());
  for (const uint32_t id : order) {
    for (uint32_t& before : steps_[id].after) before = place[before];
    out.push_back(std::move(steps_[id]));
  }
  return out;
}

}  // namespace ccl
