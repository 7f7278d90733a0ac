#include "runtime/collectives/step_order.h"

#include <algorithm>

namespace ccl {
namespace {

std::pair<uint32_t, uint32_t> key(const EngineRange& engines) {
  return {engines.first, engines.count};
}

}  // namespace

StepOrder::StepOrder(const Steps& steps, uint32_t channels, const Layout& layout, Identity identity)
    : steps_(steps), layout_(layout), identity_(std::move(identity)), channels_(channels) {
  count_fan_outs();
}

// For every fan-out step, how many of its channel are in flight together.
void StepOrder::count_fan_outs() {
  fan_outs_.assign(steps_.size(), 0);
  std::vector<std::vector<uint32_t>> together(channels_.size());
  const auto close = [&](uint32_t channel) {
    for (const uint32_t at : together[channel]) {
      fan_outs_[at] = static_cast<uint32_t>(together[channel].size());
    }
    together[channel].clear();
  };
  for (uint32_t at = 0; at < steps_.size(); ++at) {
    const Step& step = steps_[at];
    // What a fan-out or its successors wait for, or what stands between, ends a row.
    if (!step.fan_out || !step.after.empty() || !step.waits.empty()) close(step.channel);
    if (step.fan_out && step.bytes != 0) together[step.channel].push_back(at);
  }
  for (uint32_t c = 0; c < channels_.size(); ++c) close(c);
}

StepOrder::Admission StepOrder::admit(bool moves) {
  Channel& c = channel();
  const bool fan_out = step().fan_out;
  Admission admission;
  admission.ordinal = static_cast<uint32_t>(c.ordered.size());
  if (!fan_out && admission.ordinal >= kStepsInFlight) {
    complete_through(&c, admission.ordinal - kStepsInFlight, &admission.waits);
  }
  if (moves) {
    admission.barrier = follow(&admission);
  } else {
    for (const uint32_t id : predecessors()) {
      if (in_flight(id)) complete(id, &admission.waits);
    }
    forget_completed();
  }
  if (!fan_out) c.ordered.push_back(moves);
  if (fan_out && moves) ++c.fanned_out;
  issued_.push_back({admission.ordinal, moves, fan_out, admission.engines});
  return admission;
}

void StepOrder::admit_block() {
  issued_.push_back({0, true, true, {}});
}

std::vector<StepOrder::Over> StepOrder::drain(uint32_t channel) {
  Channel& c = channels_[channel];
  std::vector<Over> waits;
  if (!c.ordered.empty()) {
    complete_through(&c, static_cast<uint32_t>(c.ordered.size()) - 1, &waits);
  }
  complete_fan_outs(&c, &waits);
  return waits;
}

// ---- What is over

void StepOrder::complete_through(Channel* channel, uint32_t ordinal, std::vector<Over>* waits) {
  for (; channel->completed <= ordinal; ++channel->completed) {
    if (channel->ordered[channel->completed]) waits->push_back({false, channel->completed});
  }
}

void StepOrder::complete_fan_outs(Channel* channel, std::vector<Over>* waits) {
  if (channel->fanned_out != 0) waits->push_back({true, channel->fanned_out});
  channel->fanned_out = 0;
}

void StepOrder::complete(uint32_t before, std::vector<Over>* waits) {
  Channel& c = channel();
  if (issued_[before].fan_out) return complete_fan_outs(&c, waits);
  complete_through(&c, issued_[before].ordinal, waits);
}

bool StepOrder::in_flight(uint32_t before) const {
  const Issued& issued = issued_[before];
  const Channel& c = channels_[step().channel];
  if (!issued.data) return false;
  return issued.fan_out ? c.fanned_out != 0 : issued.ordinal >= c.completed;
}

// ---- What the next step follows

// Its own `after`, and what earlier steps of the channel follow without having been waited for:
// steps start in their order.
std::vector<uint32_t> StepOrder::predecessors() {
  std::vector<uint32_t>& followed = channel().followed;
  for (const uint32_t id : step().after) {
    if (std::find(followed.begin(), followed.end(), id) == followed.end()) followed.push_back(id);
  }
  return followed;
}

void StepOrder::forget_completed() {
  std::vector<uint32_t>& followed = channel().followed;
  followed.erase(
      std::remove_if(followed.begin(), followed.end(), [&](uint32_t id) { return !in_flight(id); }),
      followed.end());
}

// Makes a step with bytes follow its predecessors: chooses its engines, true if it needs a DMB.
bool StepOrder::follow(Admission* admission) {
  const std::vector<uint32_t> ids = predecessors();
  // A fan-out spreads over the engines: its steps do not queue behind one of them.
  const bool spread = step().fan_out && fan_outs_[issued_.size()] > 1;
  const auto leader = std::find_if(
      ids.begin(), ids.end(), [&](uint32_t id) { return in_flight(id) && !issued_[id].fan_out; });
  EngineRange& engines = admission->engines;
  engines =
      spread || leader == ids.end() ? next_engines() : engines_behind(issued_[*leader].engines);
  bool barrier = false;
  for (const uint32_t id : ids) {
    if (!in_flight(id)) continue;
    const Order order = order_after(id, engines);
    if (spread || issued_[id].fan_out || order == Order::kWait) {
      complete(id, &admission->waits);
    } else if (order == Order::kFence && !fenced(engines, id)) {
      barrier = true;
    }
  }
  forget_completed();
  if (barrier) channel().fences[key(engines)] = static_cast<uint32_t>(issued_.size());
  return barrier;
}

// A later step than `before` on these engines has a DMB: what comes now queues behind it.
bool StepOrder::fenced(const EngineRange& engines, uint32_t before) const {
  const Channel& c = channels_[step().channel];
  const auto fence = c.fences.find(key(engines));
  return fence != c.fences.end() && fence->second > before;
}

// ---- Engines

// Steps take the engines of the share in turns.
EngineRange StepOrder::next_engines() {
  const uint32_t together = step().fan_out ? fan_outs_[issued_.size()] : 1;
  EngineRange engines{layout_.first_engine(step().channel),
                      layout_.engines_of(step().bytes, together)};
  uint32_t& next = channel().next_engine;
  next = (next + engines.count - 1) / engines.count * engines.count % layout_.share();
  engines.first += next;
  next += engines.count;
  return engines;
}

// Engines that can queue the step behind one that it follows: those, or more that contain them.
EngineRange StepOrder::engines_behind(const EngineRange& used) const {
  EngineRange engines = used;
  engines.count = std::max(used.count, layout_.engines_of(step().bytes, 1));
  const uint32_t base = layout_.first_engine(step().channel);
  engines.first = base + (used.first - base) / engines.count * engines.count;
  return engines;
}

// ---- Bytes that two steps share

// Ranges that overlap: none, the same ones with equal cuts over the engines, or any.
Order StepOrder::meet(const std::vector<Range>& a, uint64_t a_bytes, const std::vector<Range>& b,
                      uint64_t b_bytes, bool one_engine) const {
  Order order = Order::kQueue;
  for (const Range& x : a) {
    for (const Range& y : b) {
      const uint64_t px = identity_(x);
      const uint64_t py = identity_(y);
      if (px >= py + b_bytes || py >= px + a_bytes) continue;
      if (!one_engine && (px != py || a_bytes != b_bytes)) return Order::kWait;
      order = Order::kFence;
    }
  }
  return order;
}

Order StepOrder::order_after(uint32_t before, const EngineRange& engines) const {
  const Step& earlier = steps_[before];
  const Step& later = step();
  const EngineRange& used = issued_[before].engines;
  const bool same = used.first == engines.first && used.count == engines.count;
  // Its signals say that the earlier step is complete, so they must follow all of its parts.
  const bool covered =
      engines.first <= used.first && used.first + used.count <= engines.first + engines.count;
  if (!covered) return Order::kWait;
  const bool one = engines.count == 1;
  const Order read_after_write =
      meet(earlier.destinations, earlier.bytes, later.sources, later.bytes, one);
  const Order write_after_read =
      meet(earlier.sources, earlier.bytes, later.destinations, later.bytes, one);
  const Order write_after_write =
      meet(earlier.destinations, earlier.bytes, later.destinations, later.bytes, one);
  const Order order = std::max({read_after_write, write_after_read, write_after_write});
  return order == Order::kFence && !same ? Order::kWait : order;
}

}  // namespace ccl
