#include "hw/time/event_queue.h"

#include <algorithm>

namespace hw {

namespace {
constexpr size_t kLine = 64;
// What of a sink is fetched ahead of its turn.
constexpr size_t kAheadLines = 12;

void fetch(const EventSink* sink) {
  const auto* at = reinterpret_cast<const uint8_t*>(sink);
  for (size_t k = 0; k < kAheadLines; ++k) __builtin_prefetch(at + k * kLine);
}
}  // namespace

// The smallest child of a node; the size of the heap if there is none.
size_t EventQueue::first_child(size_t at) const {
  const size_t size = heap_.size();
  const size_t first = kChildren * at + 1;
  if (first >= size) return size;
  const size_t end = std::min(first + kChildren, size);
  size_t best = first;
  for (size_t i = first + 1; i < end; ++i) {
    if (before(heap_[i], heap_[best])) best = i;
  }
  return best;
}

// Puts `node` at `at` or below.
void EventQueue::sift_down(size_t at, const Node& node) {
  for (;;) {
    const size_t child = first_child(at);
    if (child == heap_.size() || !before(heap_[child], node)) break;
    heap_[at] = heap_[child];
    // It comes soon. Memory is far away: its sink is fetched meanwhile.
    if (at - 1 < kChildren) fetch(heap_[at].sink);
    at = child;
  }
  heap_[at] = node;
}

void EventQueue::sift_up(size_t at, const Node& node) {
  while (at != 0) {
    const size_t parent = (at - 1) / kChildren;
    if (!before(node, heap_[parent])) break;
    heap_[at] = heap_[parent];
    at = parent;
  }
  heap_[at] = node;
}

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
  slot.argument = argument;
  slot.tag = tag;
  slot.live = true;
  const Id id = static_cast<Id>(++slot.generation) << 32 | (index + 1);
  if (++sequence_ >> kSequenceBits != 0) renumber();
  const uint64_t order = static_cast<uint64_t>(key.component) << kComponentShift |
                         static_cast<uint64_t>(key.phase) << kSequenceBits | sequence_;
  const Node node{key.time, order, &sink, index};
  if (running_) {
    running_ = false;
    sift_down(0, node);
    return id;
  }
  const base::Ps first = next_time();
  heap_.push_back(node);
  sift_up(heap_.size() - 1, node);
  if (key.time < first && !executing_) next_time_changed();
  return id;
}

// Gives the pending events the smallest numbers in their order.
void EventQueue::renumber() {
  const auto begin = heap_.begin() + (running_ ? 1 : 0);
  std::sort(begin, heap_.end(), before);  // a sorted list is a heap
  sequence_ = 0;
  constexpr uint64_t kMask = (uint64_t{1} << kSequenceBits) - 1;
  for (auto node = begin; node != heap_.end(); ++node) {
    node->order = (node->order & ~kMask) | ++sequence_;
  }
  ++sequence_;
}

base::Ps EventQueue::next_time() const {
  const size_t first = running_ ? first_child(0) : 0;
  return first < heap_.size() ? heap_[first].time : kForever;
}

void EventQueue::cancel(Id id) {
  const uint32_t index = static_cast<uint32_t>(id & 0xFFFFFFFF) - 1;
  if (id == 0 || index >= slots_.size()) return;
  Slot& slot = slots_[index];
  if (!slot.live || slot.generation != static_cast<uint32_t>(id >> 32)) return;
  slot.live = false;
  if (executing_) return;  // dropped when its time comes
  const base::Ps first = next_time();
  drop_cancelled();
  if (next_time() != first) next_time_changed();
}

void EventQueue::drop_root() {
  const Node last = heap_.back();
  heap_.pop_back();
  if (!heap_.empty()) sift_down(0, last);
}

void EventQueue::drop_cancelled() {
  while (!heap_.empty() && !slots_[heap_.front().slot].live) {
    free_.push_back(heap_.front().slot);
    drop_root();
  }
}

// Executes the first event, which is live.
void EventQueue::run_first() {
  const Node& root = heap_.front();
  const EventKey key = key_of(root);
  EventSink* sink = root.sink;
  Slot& slot = slots_[root.slot];
  const uint32_t tag = slot.tag;
  const uint64_t argument = slot.argument;
  slot.live = false;
  free_.push_back(root.slot);
  const size_t next = first_child(0);
  if (next < heap_.size() && slots_[heap_[next].slot].live) heap_[next].sink->expect();
  now_ = key.time;
  ++executed_;
  running_ = true;
  sink->on_event(key, tag, argument);
  if (running_) {
    running_ = false;
    drop_root();
  }
  drop_cancelled();
}

void EventQueue::run_until(base::Ps time) {
  struct Guard {  // an exception may leave an event
    EventQueue& queue;
    ~Guard() {
      queue.executing_ = false;
      if (!queue.running_) return;
      queue.running_ = false;
      queue.drop_root();
      queue.drop_cancelled();
    }
  };
  executing_ = true;
  const Guard guard{*this};
  while (!heap_.empty() && heap_.front().time <= time) run_first();
}

base::Ps EventQueue::run_all() {
  while (!heap_.empty()) run_until(heap_.front().time);
  return now_;
}

}  // namespace hw
