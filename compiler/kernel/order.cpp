#include "compiler/kernel/order.h"

#include <algorithm>

namespace kernel {
namespace {

uint32_t at(const std::vector<uint32_t>& clock, uint32_t agent) {
  return agent < clock.size() ? clock[agent] : 0;
}

void raise(std::vector<uint32_t>* clock, uint32_t agent, uint32_t number) {
  if (agent >= clock->size()) clock->resize(agent + 1);
  (*clock)[agent] = std::max((*clock)[agent], number);
}

}  // namespace

Order::Order() : engines_(kEngines, Clock(kFirstQueueSet)), events_(kFirstQueueSet) {}

uint32_t Order::add_agent() {
  events_.emplace_back();
  return static_cast<uint32_t>(events_.size() - 1);
}

Order::Clock Order::needed(const std::vector<MemoryAccess>& accesses) {
  Clock need(events_.size());
  for (const MemoryAccess& access : accesses) {
    const auto found = records_.find(access.footprint.memory);
    if (found == records_.end()) continue;
    for (const Record& r : found->second) {
      if (!access.write && !r.access.write) continue;
      if (r.event.number <= need[r.event.agent]) continue;
      if (may_overlap(access.footprint, r.access.footprint)) {
        need[r.event.agent] = r.event.number;
      }
    }
  }
  return need;
}

// What one wait tells may make another superfluous.
std::vector<Event> Order::wait(uint32_t engine, Clock need) {
  Clock& known = engines_[engine];
  const auto agents = static_cast<uint32_t>(need.size());
  for (uint32_t a = 0; a < agents; ++a) {
    if (need[a] <= at(known, a)) need[a] = 0;
  }
  for (uint32_t a = 0; a < agents; ++a) {
    for (uint32_t b = 0; b < agents && need[a] != 0; ++b) {
      if (b == a || need[b] == 0) continue;
      if (at(events_[b][need[b] - 1], a) >= need[a]) need[a] = 0;
    }
  }
  std::vector<Event> waits;
  for (uint32_t a = 0; a < agents; ++a) {
    if (need[a] == 0) continue;
    waits.push_back({a, need[a]});
    const Clock& told = events_[a][need[a] - 1];
    for (uint32_t b = 0; b < told.size(); ++b) raise(&known, b, told[b]);
  }
  return waits;
}

Event Order::begin(uint32_t agent, uint32_t engine) {
  std::vector<Clock>& events = events_[agent];
  const Event event{agent, static_cast<uint32_t>(events.size() + 1)};
  Clock told = engines_[engine];
  raise(&told, agent, event.number);
  events.push_back(std::move(told));
  return event;
}

// Who comes after what a write covers, comes after the write; a later read of the same agent stands
// for an earlier one that it covers, since it completes later.
void Order::add(const std::vector<MemoryAccess>& accesses, const Event& event) {
  for (const MemoryAccess& access : accesses) {
    std::vector<Record>& list = records_[access.footprint.memory];
    list.erase(std::remove_if(list.begin(), list.end(),
                              [&](const Record& r) {
                                const bool stands_for =
                                    access.write ||
                                    (!r.access.write && r.event.agent == event.agent);
                                return stands_for && covers(access.footprint, r.access.footprint);
                              }),
               list.end());
    list.push_back({access, event});
  }
}

Order::Step Order::instruction(uint32_t engine, const std::vector<MemoryAccess>& accesses) {
  Clock need = needed(accesses);
  need[engine] = 0;
  Step step;
  step.waits = wait(engine, std::move(need));
  step.event = begin(engine, engine);
  add(accesses, step.event);
  return step;
}

Order::Step Order::transfer(uint32_t engine, uint32_t agent,
                            const std::vector<MemoryAccess>& accesses) {
  const uint32_t window = agent < kFirstQueueSet ? kStreamWindow : kWindow;
  Clock need = needed(accesses);
  const auto done = static_cast<uint32_t>(events_[agent].size());
  if (done >= window) need[agent] = std::max(need[agent], done + 1 - window);
  Step step;
  step.waits = wait(engine, std::move(need));
  step.event = begin(agent, engine);
  add(accesses, step.event);
  return step;
}

std::vector<Event> Order::join(uint32_t engine) {
  Clock need(events_.size());
  for (uint32_t a = 0; a < need.size(); ++a) {
    if (a != engine) need[a] = static_cast<uint32_t>(events_[a].size());
  }
  return wait(engine, std::move(need));
}

}  // namespace kernel
