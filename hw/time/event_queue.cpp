#include "hw/time/event_queue.h"

#include <algorithm>
#include <functional>

namespace hw {

namespace {
constexpr size_t kLine = 64;
// Memory is far away. How many events ahead of its turn the first lines of a sink are fetched, and
// when it may fetch what they lead to.
constexpr size_t kSinkLines = 3;
constexpr size_t kFetchAhead = 6;
constexpr size_t kExpectAhead = 3;
// Fewer events than that, and what they lead to, are near anyhow.
constexpr size_t kMany = 64;

void fetch(const EventSink* sink) {
  const auto* at = reinterpret_cast<const uint8_t*>(sink);
  for (size_t k = 0; k < kSinkLines; ++k) __builtin_prefetch(at + k * kLine);
}
}  // namespace

EventQueue::Id EventQueue::schedule(const EventKey& key, EventSink& sink, uint32_t tag,
                                    uint64_t argument, Kind kind) {
  uint32_t index;
  if (free_.empty()) {
    index = static_cast<uint32_t>(entries_.size());
    entries_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  Entry& entry = entries_[index];
  entry.place = {key.time, uint64_t{key.component} << 2 | static_cast<uint64_t>(key.phase),
                 sequence_++, index};
  entry.sink = &sink;
  entry.argument = argument;
  entry.tag = tag;
  entry.live = true;
  entry.background = kind == Kind::kBackground;
  background_ += entry.background ? 1 : 0;
  const Id id = static_cast<Id>(++entry.generation) << 32 | (index + 1);
  ++pending_;
  if (executing_) {
    insert(entry.place);
    return id;
  }
  const base::Ps first = next_time();
  insert(entry.place);
  load();
  if (key.time < first) next_time_changed();
  return id;
}

// While nothing is loaded, any bucket from `begin_` on may become the first one.
void EventQueue::insert(const Place& place) {
  const uint64_t bucket = std::max(bucket_of(place.time), begin_);
  if (bucket < current_) {
    unload();
    current_ = bucket;
  }
  if (bucket != current_) return put_away(place);
  auto at = first_.end();
  while (at != first_.begin() && *std::prev(at) < place) --at;
  first_.insert(at, place);
}

void EventQueue::put_away(const Place& place) {
  const uint64_t bucket = bucket_of(place.time);
  if (bucket - begin_ < kBuckets) return put_in_bucket(bucket, place.entry);
  later_.push_back(place);
  std::push_heap(later_.begin(), later_.end(), std::greater<>());
}

void EventQueue::put_in_bucket(uint64_t bucket, uint32_t entry) {
  const size_t at = bucket % kBuckets;
  entries_[entry].next = buckets_[at];
  buckets_[at] = entry;
  occupied_[at / 64] |= uint64_t{1} << at % 64;
  ++in_buckets_;
}

void EventQueue::unload() {
  for (const Place& place : first_) put_away(place);
  first_.clear();
}

// The first bucket with events from `from` on.
uint64_t EventQueue::next_bucket(uint64_t from) const {
  if (from - begin_ >= kBuckets) return kNever;
  const size_t start = from % kBuckets;
  for (size_t k = 0; k <= occupied_.size(); ++k) {
    const size_t word = (start / 64 + k) % occupied_.size();
    uint64_t bits = occupied_[word];
    if (k == 0) bits &= ~uint64_t{0} << start % 64;
    if (bits == 0) continue;
    const size_t at = word * 64 + static_cast<size_t>(__builtin_ctzll(bits));
    const uint64_t found = from + (at - start) % kBuckets;
    return found - begin_ < kBuckets ? found : kNever;
  }
  return kNever;
}

void EventQueue::load_bucket(uint64_t bucket) {
  const size_t at = bucket % kBuckets;
  for (uint32_t entry = buckets_[at]; entry != kNone; entry = entries_[entry].next) {
    first_.push_back(entries_[entry].place);
    --in_buckets_;
  }
  buckets_[at] = kNone;
  occupied_[at / 64] &= ~(uint64_t{1} << at % 64);
}

// Finds the next event, and drops cancelled ones before it.
void EventQueue::load() {
  for (drop_cancelled(); first_.empty(); drop_cancelled()) {
    if (in_buckets_ != 0) {
      current_ = next_bucket(begin_);
      load_bucket(current_);
    } else if (!later_.empty()) {
      current_ = bucket_of(later_.front().time);
      while (!later_.empty() && bucket_of(later_.front().time) == current_) {
        first_.push_back(later_.front());
        std::pop_heap(later_.begin(), later_.end(), std::greater<>());
        later_.pop_back();
      }
    } else {
      current_ = begin_;
      return;
    }
    std::sort(first_.begin(), first_.end(), std::greater<>());
    look_ahead();
  }
}

// Fetches what the events of the next buckets will touch, one step per bucket: the event, its sink,
// what that expects. Of many at a time the first ones; run_first sees to the others.
void EventQueue::look_ahead() {
  if (in_buckets_ < kMany) return;
  const uint64_t soon = next_bucket(current_ + 1);
  if (soon == kNever) return;
  size_t n = 0;
  for (uint32_t i = buckets_[soon % kBuckets]; i != kNone && n < kExpectAhead; ++n) {
    const Entry& entry = entries_[i];
    if (entry.live) entry.sink->expect(entry.tag, entry.argument);
    i = entry.next;
  }
  const uint64_t later = next_bucket(soon + 1);
  if (later == kNever) return;
  n = 0;
  for (uint32_t i = buckets_[later % kBuckets]; i != kNone && n < kFetchAhead; ++n) {
    fetch(entries_[i].sink);
    i = entries_[i].next;
  }
  const uint64_t last = next_bucket(later + 1);
  if (last != kNever) __builtin_prefetch(&entries_[buckets_[last % kBuckets]]);
}

void EventQueue::drop_cancelled() {
  while (!first_.empty() && !entries_[first_.back().entry].live) {
    free_.push_back(first_.back().entry);
    first_.pop_back();
  }
}

void EventQueue::cancel(Id id) {
  const uint32_t index = static_cast<uint32_t>(id & 0xFFFFFFFF) - 1;
  if (id == 0 || index >= entries_.size()) return;
  Entry& entry = entries_[index];
  if (!entry.live || entry.generation != static_cast<uint32_t>(id >> 32)) return;
  entry.live = false;
  --pending_;
  background_ -= entry.background ? 1 : 0;
  if (executing_) return;  // dropped when its time comes
  const base::Ps first = next_time();
  load();
  if (next_time() != first) next_time_changed();
}

// Everything before has been executed: the last buckets are free for what comes later.
void EventQueue::advance_to(uint64_t bucket) {
  begin_ = bucket;
  while (!later_.empty() && bucket_of(later_.front().time) - begin_ < kBuckets) {
    put_in_bucket(bucket_of(later_.front().time), later_.front().entry);
    std::pop_heap(later_.begin(), later_.end(), std::greater<>());
    later_.pop_back();
  }
}

// Executes the first event, which is live.
void EventQueue::run_first() {
  const Place place = first_.back();
  first_.pop_back();
  if (current_ != begin_) advance_to(current_);
  Entry& entry = entries_[place.entry];
  EventSink* sink = entry.sink;
  const uint32_t tag = entry.tag;
  const uint64_t argument = entry.argument;
  entry.live = false;
  free_.push_back(place.entry);
  --pending_;
  background_ -= entry.background ? 1 : 0;
  const size_t left = first_.size();
  if (left >= kFetchAhead) fetch(entries_[first_[left - kFetchAhead].entry].sink);
  if (left >= kExpectAhead) {
    const Entry& soon = entries_[first_[left - kExpectAhead].entry];
    if (soon.live) soon.sink->expect(soon.tag, soon.argument);
  }
  now_ = place.time;
  ++executed_;
  const EventKey key{place.time, static_cast<uint32_t>(place.order >> 2),
                     static_cast<Phase>(place.order & 3)};
  sink->on_event(key, tag, argument);
}

void EventQueue::run_until(base::Ps time) {
  struct Guard {  // an exception may leave an event
    EventQueue& queue;
    ~Guard() {
      queue.executing_ = false;
      queue.load();
    }
  };
  executing_ = true;
  limit_ = time;
  const Guard guard{*this};
  while (next_time() <= limit_ && !first_.empty()) {
    run_first();
    load();
  }
}

base::Ps EventQueue::run_all() {
  while (!empty()) run_until(next_time());
  return now_;
}

}  // namespace hw
