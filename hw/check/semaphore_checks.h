// What the updates of a block of semaphores and events order. A wait is ordered behind the updates
// that made its condition true, not behind those that came later: with "semaphore >= 2" those up to
// the one that brought it to 2.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "contract/isa_types.h"
#include "hw/check/checker.h"

namespace hw::check {

class SemaphoreChecks {
 public:
  // `exact`: waits come by acquire(); else by latest().
  SemaphoreChecks(Checker& checker, std::string name, bool exact)
      : checker_(checker), name_(std::move(name)), exact_(exact) {}

  enum class Update : uint8_t { kSet, kAdd };
  // A semaphore (or event) has been updated by whoever acts.
  void updated(bool event, uint32_t id, uint32_t value, Update how);
  // `to` learns what the condition, which is true, stands for.
  void acquire(contract::isa::WaitCond cond, uint32_t id, uint32_t value, Clock& to) const;
  // What all updates of a semaphore release; null: there were none.
  Snapshot latest(uint32_t id) const;
  void reset();

  // Of a core's block: semaphores that programs have left non-zero. `ended`: the core stands still,
  // so what comes now comes too late.
  void program_started() { ended_ = false; }
  void program_ended();

 private:
  struct Entry {
    uint32_t value = 0;
    Snapshot known;  // by all updates up to this one
  };
  struct Signal {
    std::deque<Entry> history;
    uint32_t site = Checker::kNone;  // of the last update
    uint32_t value = 0;
  };
  static constexpr uint32_t kCount = 256;
  Signal& signal(bool event, uint32_t id) {
    std::unique_ptr<Signal>& at = signals_[id + (event ? kCount : 0)];
    if (at == nullptr) at = std::make_unique<Signal>();
    return *at;
  }
  void left(uint32_t id, const Signal& signal);

  Checker& checker_;
  std::string name_;
  bool exact_;
  std::array<std::unique_ptr<Signal>, 2 * kCount> signals_;  // made on first update
  bool ended_ = false;
};

}  // namespace hw::check
