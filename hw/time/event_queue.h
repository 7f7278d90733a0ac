// The machine's future: events in a total order that depends on nothing but simulated time, the
// component and the phase, so that a run is repeatable and coalesced execution can be split
// exactly.
//
// Order within one picosecond: component id, then phase, then order of scheduling. A block that
// reacts to an access from outside schedules at least 1 ps ahead: then everything that happens at a
// time is known before the time comes, and the order never depends on who called first.
//
// A calendar: the near future is cut into buckets of equal length, each an unsorted list; only the
// first one that is not empty is sorted. What lies beyond the last bucket waits in a heap.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "base/units.h"

namespace hw {

enum class Phase : uint8_t { kEffect = 0, kReady = 1, kStart = 2 };

struct EventKey {
  base::Ps time = 0;
  uint32_t component = 0;
  Phase phase = Phase::kEffect;

  bool operator<(const EventKey& other) const {
    return std::tie(time, component, phase) < std::tie(other.time, other.component, other.phase);
  }
};

class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_event(const EventKey& key, uint32_t tag, uint64_t argument) = 0;
  // Its turn comes soon: a chance to fetch what it will read, and nothing else.
  virtual void expect(uint32_t /*tag*/, uint64_t /*argument*/) {}
};

// Runs by itself (run_next, run_all) in tests; hw/time/kernel_queue.h drives it from the SystemC
// kernel.
class EventQueue {
 public:
  using Id = uint64_t;  // 0 is no event
  static constexpr base::Ps kForever = ~base::Ps{0};

  EventQueue() { buckets_.fill(kNone); }
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;
  virtual ~EventQueue() = default;

  virtual base::Ps now() const { return now_; }
  // kBackground: does not count as work of the machine (at_rest).
  enum class Kind : uint8_t { kWork, kBackground };
  Id schedule(const EventKey& key, EventSink& sink, uint32_t tag, uint64_t argument = 0,
              Kind kind = Kind::kWork);
  // The event will not happen; an id that has happened or is 0 is ignored.
  void cancel(Id id);
  base::Ps next_time() const { return first_.empty() ? kForever : first_.back().time; }
  bool empty() const { return pending_ == 0; }
  // Nothing to come but background.
  bool at_rest() const { return pending_ == background_; }
  uint64_t executed() const { return executed_; }

  // Executes everything up to and including `time`.
  void run_until(base::Ps time);
  // Executes everything; returns the time of the last event.
  base::Ps run_all();

 protected:
  virtual void next_time_changed() {}
  // From an event that is being executed: run_until ends before `time`.
  void stop_before(base::Ps time) {
    if (time <= limit_) limit_ = time == 0 ? 0 : time - 1;
  }

 private:
  static constexpr uint32_t kBucketBits = 12;  // 4 ns: some events when a machine is busy
  static constexpr uint32_t kBuckets = 16384;  // 67 us: most packets have ended by then
  static constexpr uint32_t kNone = ~0u;
  static constexpr uint64_t kNever = ~uint64_t{0};

  struct Place {
    base::Ps time;
    uint64_t order;  // component and phase
    uint64_t sequence;
    uint32_t entry;

    bool operator<(const Place& other) const {
      if (time != other.time) return time < other.time;
      if (order != other.order) return order < other.order;
      return sequence < other.sequence;
    }
    bool operator>(const Place& other) const { return other < *this; }
  };
  struct alignas(64) Entry {
    Place place;
    EventSink* sink;
    uint64_t argument;
    uint32_t tag;
    uint32_t generation = 0;
    uint32_t next;  // of the same bucket
    bool live = false;
    bool background = false;
  };

  static uint64_t bucket_of(base::Ps time) { return time >> kBucketBits; }
  void insert(const Place& place);
  void put_away(const Place& place);
  void put_in_bucket(uint64_t bucket, uint32_t entry);
  void unload();
  void load();
  void load_bucket(uint64_t bucket);
  uint64_t next_bucket(uint64_t from) const;
  void look_ahead();
  void drop_cancelled();
  void advance_to(uint64_t bucket);
  void run_first();

  std::vector<Place> first_;  // the events of bucket `current_`, the next one last
  uint64_t current_ = 0;
  uint64_t begin_ = 0;  // of the last executed event: buckets_ holds kBuckets from here
  std::array<uint32_t, kBuckets> buckets_;          // first entry of each
  std::array<uint64_t, kBuckets / 64> occupied_{};  // buckets with events
  size_t in_buckets_ = 0;
  std::vector<Place> later_;  // a heap
  std::vector<Entry> entries_;
  std::vector<uint32_t> free_;
  base::Ps now_ = 0;
  uint64_t sequence_ = 0;
  uint64_t pending_ = 0;
  uint64_t background_ = 0;  // of these
  base::Ps limit_ = 0;       // of run_until
  uint64_t executed_ = 0;
  bool executing_ = false;
};

}  // namespace hw
