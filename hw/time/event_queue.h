// The machine's future: events in a total order that depends on nothing but simulated time, the
// component and the phase, so that a run is repeatable and coalesced execution can be split
// exactly.
//
// Order within one picosecond: component id, then phase, then order of scheduling. A block that
// reacts to an access from outside schedules at least 1 ps ahead: then everything that happens at a
// time is known before the time comes, and the order never depends on who called first.
#pragma once

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
};

// Runs by itself (run_next, run_all) in tests; hw/time/kernel_queue.h drives it from the SystemC
// kernel.
class EventQueue {
 public:
  using Id = uint64_t;  // 0 is no event
  static constexpr base::Ps kForever = ~base::Ps{0};

  EventQueue() = default;
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;
  virtual ~EventQueue() = default;

  virtual base::Ps now() const { return now_; }
  Id schedule(const EventKey& key, EventSink& sink, uint32_t tag, uint64_t argument = 0);
  // The event will not happen; an id that has happened or is 0 is ignored.
  void cancel(Id id);
  base::Ps next_time() const { return heap_.empty() ? kForever : heap_.front().key.time; }
  bool empty() const { return heap_.empty(); }
  uint64_t executed() const { return executed_; }

  // Executes everything up to and including `time`.
  void run_until(base::Ps time);
  // Executes everything; returns the time of the last event.
  base::Ps run_all();

 protected:
  virtual void next_time_changed() {}

 private:
  struct Node {
    EventKey key;
    uint64_t sequence;
    uint32_t slot;
  };
  struct Slot {
    EventSink* sink = nullptr;
    uint64_t argument = 0;
    uint32_t tag = 0;
    uint32_t generation = 0;
    bool live = false;
  };
  static bool later(const Node& a, const Node& b) {
    return std::tie(b.key.time, b.key.component, b.key.phase, b.sequence) <
           std::tie(a.key.time, a.key.component, a.key.phase, a.sequence);
  }
  void pop();
  void drop_cancelled();

  std::vector<Node> heap_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  base::Ps now_ = 0;
  uint64_t sequence_ = 0;
  uint64_t executed_ = 0;
};

}  // namespace hw
