// Notification queue block: 96 register sets, each a ring in host memory or HBM that the hardware
// writes. Source of truth: spec/hw-registers.md 5.2, docs/hardware-contract.md 4, notification.h.
// Exact: registers, entry layout, phase, overwriting of full rings. Approximate: the time from
// event to entry (nq.entry_ns). The consumer's position is unknown to hardware. A ring's base takes
// effect with its size: while a driver programs a new ring over the old one, entries go to the old.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>

#include "arch/contract/notification.h"
#include "base/units.h"
#include "contract/regs/nq.h"
#include "hw/mem/fabric.h"
#include "hw/reg/reg_block.h"
#include "hw/stats.h"
#include "hw/time/event_queue.h"

namespace hw {

class NqBlock final : public RegBlock<NqBlock>, private EventSink {
 public:
  static constexpr uint64_t kBytes = 0x1000;

  struct Params {
    uint32_t component = 0;
    base::Ps entry_time = 0;
    std::string name = "nq";
  };
  // `counters` may be null.
  NqBlock(const Params& params, EventQueue& queue, Fabric& fabric, Counters* counters);

  static const RegTable<NqBlock>& table();
  std::string instance() const override { return params_.name; }

  // Posts an entry to `set`; header.phase is filled in when it is written.
  void post(uint32_t set, const contract::NqEntry& entry);
  bool enabled(uint32_t set) const { return rings_[set].size != 0; }
  void reset();

  uint64_t dropped() const { return dropped_; }  // set disabled, size illegal, ring not writable

 private:
  struct Ring {
    uint64_t base = 0;
    uint32_t size = 0;  // 0: disabled, or a size that is not legal
    uint32_t head = 0;
    bool phase = true;
  };
  struct Posted {
    uint32_t set;
    contract::NqEntry entry;
  };

  uint32_t read_head(uint32_t set, uint32_t, bool) { return rings_[set].head; }
  void write_size(uint32_t set, uint32_t value);
  void on_event(const EventKey& key, uint32_t tag, uint64_t argument) override;
  void write_entry(const Posted& posted);

  Params params_;
  EventQueue& queue_;
  Fabric& fabric_;
  Counters* counters_;
  std::array<Ring, contract::nq::kSetCount> rings_{};
  std::deque<Posted> posted_;
  uint64_t dropped_ = 0;
  uint64_t epoch_ = 0;  // of the last reset; older posts are gone
};

}  // namespace hw
