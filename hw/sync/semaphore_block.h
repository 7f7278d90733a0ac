// 256 semaphores and 256 events of a NeuronCore or CC-core, with their five aliases.
// Source of truth: spec/hw-registers.md 4, docs/hardware-contract.md 2.
// Exact: aliases, wrap-around, signed comparison, reads of write aliases and gaps (0). As in every
// register block, only naturally aligned words reach anything; the gap between events and
// semaphores (a driver writes event 256) is counted as unknown, writes of the read alias as denied.
// Values live in the window's backing store at the event and read aliases, so that a client that
// has mapped the page sees them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "contract/isa_types.h"
#include "hw/check/semaphore_checks.h"
#include "hw/mem/bus.h"
#include "hw/stats.h"
#include "hw/sync/shared_pages.h"

namespace hw {

struct SemaphoreWait {
  contract::isa::WaitCond cond = contract::isa::WaitCond::kNone;
  uint8_t id = 0;
  uint32_t value = 0;
};

class SemaphoreWaiter {
 public:
  // Called inside the update that satisfied the wait; the wait is over. Must only schedule.
  virtual void wait_satisfied() = 0;

 protected:
  ~SemaphoreWaiter() = default;
};

class SemaphoreBlock final : public BusTarget {
 public:
  static constexpr uint64_t kBytes = 0x2000;

  // The block occupies the first kBytes of `pages`, which outlive it. `counters` and `log` may be
  // null; the log knows the block by `name`.
  SemaphoreBlock(SharedPages& pages, Counters* counters, AccessLog* log = nullptr,
                 std::string name = "semaphores")
      : pages_(pages), counters_(counters), log_(log), name_(std::move(name)) {}

  // Told of all updates; null: nobody. Outlives the block.
  void set_checks(check::SemaphoreChecks* checks) { checks_ = checks; }

  uint32_t value(uint32_t semaphore) const;
  bool event(uint32_t event) const;
  bool satisfied(const SemaphoreWait& wait) const;

  void set(uint32_t semaphore, uint32_t value) {
    put(semaphore, value, check::SemaphoreChecks::Update::kSet);
  }
  void add(uint32_t semaphore, uint32_t value) {
    put(semaphore, this->value(semaphore) + value, check::SemaphoreChecks::Update::kAdd);
  }
  void set_event(uint32_t event, bool value);
  // An instruction's update.
  void apply(const contract::isa::Update& update);
  void clear_semaphores(uint32_t first, uint32_t last);
  void clear_events(uint32_t first, uint32_t last);
  void reset();

  // One wait per waiter; waiters of one semaphore are served in the order of their calls. The wait
  // must not be satisfied yet.
  void wait(const SemaphoreWait& wait, SemaphoreWaiter& waiter);
  void cancel(SemaphoreWaiter& waiter);

  bool access(uint64_t offset, uint8_t* data, size_t size, bool write, bool debug) override;
  uint64_t event_conflicts() const { return event_conflicts_; }

 private:
  struct Entry {
    SemaphoreWait wait;
    SemaphoreWaiter* waiter;
  };

  uint32_t read32(uint32_t offset);
  void write32(uint32_t offset, uint32_t value);
  void put(uint32_t semaphore, uint32_t value, check::SemaphoreChecks::Update how);
  uint32_t* word(uint32_t offset) const;
  void changed(bool is_event, uint32_t id);
  void count(AccessLog::Kind kind, uint64_t offset, bool write);

  SharedPages& pages_;
  check::SemaphoreChecks* checks_ = nullptr;
  Counters* counters_;
  AccessLog* log_;
  std::string name_;
  std::vector<Entry> waiters_;
  // Waits per semaphore and event, so that an update without waiters costs nothing.
  std::array<uint8_t, 512> waiting_{};
  uint64_t event_conflicts_ = 0;  // set of a set event, clear of a clear one
};

// "semaphore 3 >= 2, which is 1": for hang reports.
std::string to_string(const SemaphoreWait& wait, const SemaphoreBlock& block);

}  // namespace hw
