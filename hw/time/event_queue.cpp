#include "hw/time/event_queue.h"

#include <algorithm>

namespace hw {

EventQueue::Id EventQueue::schedule(const EventKey& key, EventSink& sink, uint32_t tag,
                                    uint64_t argument) {
  uint32_t index;
  if (free_.empty()) {
    index = static_cast<uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  Slot& slot = slots_[index];
  slot.sink = &sink;
  slot.argument = argument;
  slot.tag = tag;
  slot.live = true;
  ++slot.generation;
  const base::Ps before = next_time();
  heap_.push_back({key, ++sequence_, index});
  std::push_heap(heap_.begin(), heap_.end(), later);
  const Id id = static_cast<Id>(slot.generation) << 32 | (index + 1);
  if (key.time < before) next_time_changed();
  return id;
}

void EventQueue::cancel(Id id) {
  const uint32_t index = static_cast<uint32_t>(id & 0xFFFFFFFF) - 1;
  if (id == 0 || index >= slots_.size()) return;
  Slot& slot = slots_[index];
  if (!slot.live || slot.generation != static_cast<uint32_t>(id >> 32)) return;
  slot.live = false;
  const base::Ps before = next_time();
  drop_cancelled();
  if (next_time() != before) next_time_changed();
}

void EventQueue::pop() {
  free_.push_back(heap_.front().slot);
  std::pop_heap(heap_.begin(), heap_.end(), later);
  heap_.pop_back();
}

void EventQueue::drop_cancelled() {
  while (!heap_.empty() && !slots_[heap_.front().slot].live) pop();
}

void EventQueue::run_until(base::Ps time) {
  while (!heap_.empty() && heap_.front().key.time <= time) {
    const EventKey key = heap_.front().key;
    Slot& slot = slots_[heap_.front().slot];
    EventSink* sink = slot.sink;
    const uint32_t tag = slot.tag;
    const uint64_t argument = slot.argument;
    slot.live = false;
    pop();
    drop_cancelled();
    now_ = key.time;
    ++executed_;
    sink->on_event(key, tag, argument);
  }
}

base::Ps EventQueue::run_all() {
  while (!heap_.empty()) run_until(heap_.front().key.time);
  return now_;
}

}  // namespace hw
