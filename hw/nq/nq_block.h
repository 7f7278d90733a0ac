// Notification queue block: 96 register sets, each a ring in host memory or HBM that the hardware
// writes. Source of truth: hw-registers.md 5.2, docs/hardware-contract.md 4, notification.h.
// Exact: registers, entry layout, phase, overwriting of full rings. Approximate: the time from
// event to entry (nq.entry_ns). The consumer's position is unknown to hardware.
#pragma once

#include <array>
#include <cstdint>
#include <deque>

#include "arch/contract/notification.h"
#include "base/units.h"
#include "hw/mem/bus.h"
#include "hw/mem/fabric.h"
#include "hw/stats.h"
#include "hw/time/event_queue.h"

namespace hw {

class NqBlock final : public BusTarget, private EventSink {
 public:
  static constexpr uint64_t kBytes = 0x1000;

  struct Params {
    uint32_t component = 0;
    base::Ps entry_time = 0;
  };
  // `counters` may be null.
  NqBlock(const Params& params, EventQueue& queue, Fabric& fabric, Counters* counters);

  // Posts an entry to `set`; header.phase is filled in when it is written.
  void post(uint32_t set, const contract::NqEntry& entry);
  void reset();

  bool access(uint64_t offset, uint8_t* data, size_t size, bool write, bool debug) override;
  uint64_t dropped() const { return dropped_; }  // set disabled, size illegal, ring not writable

 private:
  struct Ring {
    uint32_t base_lo = 0;
    uint32_t base_hi = 0;
    uint32_t size = 0;
    uint32_t head = 0;
    bool phase = true;
  };
  struct Posted {
    uint32_t set;
    contract::NqEntry entry;
  };

  void on_event(const EventKey& key, uint32_t tag, uint64_t argument) override;
  void write_entry(const Posted& posted);
  uint32_t* reg(uint64_t offset, uint32_t* set);

  Params params_;
  EventQueue& queue_;
  Fabric& fabric_;
  Counters* counters_;
  std::array<Ring, 96> rings_{};
  std::deque<Posted> posted_;
  uint64_t dropped_ = 0;
  uint64_t epoch_ = 0;  // of the last reset; older posts are gone
};

}  // namespace hw
