// PE-array activity counters of the NeuronCores of a chip. Source of truth:
// spec/hw-registers.md 2.7, data/regs/pe_v2.json and pe_v3.json; unit and start:
// docs/hardware-contract.md.
// Exact: registers; idle cycles, from simulated time when they are read. Approximate: active
// cycles, as long as the instructions are; counted when they start. All loads of weights are normal
// ones. The two halves of a counter are two reads; nothing is latched.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "arch/contract/address_map.h"
#include "base/units.h"
#include "hw/mem/bus.h"
#include "hw/stats.h"
#include "hw/time/event_queue.h"

namespace hw {

// What the array of one core has done since the reset of the core, in cycles of its clock.
struct PeActivity {
  static constexpr uint32_t kRowGroups = 4;
  static constexpr uint32_t kColumnGroups = 4;
  struct RowGroup {
    uint64_t matmul = 0;
    uint64_t load = 0;  // of weights, normal
    uint64_t fast_load[kColumnGroups] = {};
    uint64_t active = 0;  // any of these
  };
  RowGroup rows[kRowGroups];

  // An instruction on `count` rows from `first` on takes `cycles`, of which `alone` add to the time
  // that the array is at work.
  void add(uint32_t first, uint32_t count, bool is_load, uint64_t cycles, uint64_t alone) {
    constexpr uint32_t kRows = contract::tpb::kPartitions / kRowGroups;
    for (uint32_t row = first / kRows; row <= (first + count - 1) / kRows; ++row) {
      (is_load ? rows[row].load : rows[row].matmul) += cycles;
      rows[row].active += alone;
    }
  }
};

class PeCounters final : public BusTarget {
 public:
  static constexpr uint64_t kStride = 0x1000;  // core n answers at n * kStride

  // `activity` gives what a core's array has done; null for a core that nobody has touched.
  using Activity = std::function<const PeActivity*(uint32_t nc)>;
  PeCounters(contract::AddressMap map, base::Rate clock, const EventQueue& queue, AccessLog& log,
             Activity activity);
  ~PeCounters() override;

  bool access(uint64_t offset, uint8_t* data, size_t size, bool write, bool debug) override;
  // The core has been reset now.
  void reset(uint32_t nc) { since_[nc] = queue_.now(); }

  enum Counter : uint8_t { kMatmul, kLoad, kIdle };
  // The counter of register group `group`; 0 where the group has none.
  uint64_t value(uint32_t nc, uint32_t group, Counter counter) const;

 private:
  uint64_t elapsed(uint32_t nc) const;

  contract::AddressMap map_;
  base::Rate clock_;  // cycles per picosecond
  const EventQueue& queue_;
  Activity activity_;
  std::vector<base::Ps> since_;
  std::vector<std::unique_ptr<BusTarget>> blocks_;  // one per core
};

}  // namespace hw
