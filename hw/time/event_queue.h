// The machine's future: events in a total order that depends on nothing but simulated time, the
// component and the phase, so that a run is repeatable and coalesced execution can be split
// exactly.
//
// Order within one picosecond: component id, then phase, then order of scheduling. A block that
// reacts to an access from outside schedules at least 1 ps ahead: then everything that happens at a
// time is known before the time comes, and the order never depends on who called first.
#pragma once

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
  // Probably its turn is next: a chance to fetch what it will read, and nothing else.
  virtual void expect() {}
};

// Runs by itself (run_next, run_all) in tests; hw/time/kernel_queue.h drives it from the SystemC
// kernel.
class EventQueue {
 public:
  using Id = uint64_t;  // 0 is no event
  static constexpr base::Ps kForever = ~base::Ps{0};

  // `scheduled`: how many events count as scheduled before, for tests.
  explicit EventQueue(uint64_t scheduled = 0) : sequence_(scheduled) {}
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;
  virtual ~EventQueue() = default;

  virtual base::Ps now() const { return now_; }
  Id schedule(const EventKey& key, EventSink& sink, uint32_t tag, uint64_t argument = 0);
  // The event will not happen; an id that has happened or is 0 is ignored.
  void cancel(Id id);
  base::Ps next_time() const;
  bool empty() const { return heap_.size() == (running_ ? 1 : 0); }
  uint64_t executed() const { return executed_; }

  // Executes everything up to and including `time`.
  void run_until(base::Ps time);
  // Executes everything; returns the time of the last event.
  base::Ps run_all();

 protected:
  virtual void next_time_changed() {}

 private:
  // A heap of four children per node. `order` holds component, phase and order of scheduling.
  struct Node {
    base::Ps time;
    uint64_t order;
    EventSink* sink;
    uint32_t slot;
  };
  struct Slot {
    uint64_t argument = 0;
    uint32_t tag = 0;
    uint32_t generation = 0;
    bool live = false;
  };
  static constexpr size_t kChildren = 4;
  static constexpr uint32_t kSequenceBits = 30;
  static constexpr uint32_t kComponentShift = 32;
  static bool before(const Node& a, const Node& b) {
    return a.time < b.time || (a.time == b.time && a.order < b.order);
  }
  static EventKey key_of(const Node& node) {
    return {node.time, static_cast<uint32_t>(node.order >> kComponentShift),
            static_cast<Phase>(node.order >> kSequenceBits & 3)};
  }
  size_t first_child(size_t at) const;
  void sift_down(size_t at, const Node& node);
  void sift_up(size_t at, const Node& node);
  void drop_root();
  void drop_cancelled();
  void renumber();
  void run_first();

  std::vector<Node> heap_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  base::Ps now_ = 0;
  uint64_t sequence_;  // 30 bits; at the end of them pending events are renumbered
  uint64_t executed_ = 0;
  bool executing_ = false;
  // The root of the heap is being executed: its place is given to the first event that it
  // schedules.
  bool running_ = false;
};

}  // namespace hw
