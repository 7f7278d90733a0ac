// Management controller of a chip: misc RAM, mailbox doorbell, reset, QEMU reset register, PE
// activity counters (always zero: nothing counts yet). Source of truth: hw-registers.md 2.7, 7, 8.
// Runs firmware/mgmt. A reset stops the blocks at once and is acknowledged mgmt.reset_us later.
#pragma once

#include <functional>
#include <vector>

#include "firmware/mgmt/controller.h"
#include "hw/mem/fabric.h"
#include "hw/time/event_queue.h"

namespace hw {

class Management final : public BusTarget, private EventSink, private firmware::Hal {
 public:
  // Regions of the block behind its socket.
  static constexpr uint64_t kMiscRam = 0;
  static constexpr uint64_t kQemuReset = 0x1000;
  static constexpr uint64_t kPeCounters = 0x2000;

  struct Params {
    firmware::mgmt::Config firmware;
    uint32_t component = 0;
    base::Ps reset_time = 0;
  };
  using ResetBlocks = std::function<void(const firmware::mgmt::ResetScope&)>;
  Management(const Params& params, EventQueue& queue, Fabric& fabric, ResetBlocks reset_blocks);

  // Misc RAM and firmware start anew; a reset in progress is forgotten. The blocks are the
  // caller's.
  void power_on();
  bool access(uint64_t offset, uint8_t* data, size_t size, bool write, bool debug) override;
  const firmware::mgmt::Controller& firmware() const { return firmware_; }

 private:
  bool access_ram(uint64_t offset, uint8_t* data, size_t size, bool write, bool debug);
  void perform(const firmware::mgmt::Action& action);
  void on_event(const EventKey& key, uint32_t tag, uint64_t argument) override;

  bool read32(uint64_t address, uint32_t* value) override;
  bool write32(uint64_t address, uint32_t value) override;
  bool read(uint64_t address, void* to, size_t bytes) override;
  bool write(uint64_t address, const void* from, size_t bytes) override;
  uint64_t now() override { return queue_.now(); }
  void notify(contract::NqType, uint32_t, uint32_t, uint32_t) override {}

  Params params_;
  EventQueue& queue_;
  Fabric& fabric_;
  ResetBlocks reset_blocks_;
  std::vector<uint32_t> ram_;
  EventQueue::Id reset_event_ = 0;
  firmware::mgmt::Controller firmware_;
};

}  // namespace hw
