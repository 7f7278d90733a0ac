// Management controller of a chip: misc RAM, mailbox doorbell, reset, QEMU reset register. Source
// of truth: spec/hw-registers.md 7, 8. Runs firmware/mgmt. A reset stops the blocks at once and is
// acknowledged mgmt.reset_us later; a mailbox message takes no time.
//
// Exact: all words. Naturally aligned words and runs of them can be read and written; anything else
// is a bus error. Words without a name are plain RAM too; access to them is counted.
#pragma once

#include <functional>
#include <vector>

#include "firmware/mgmt/controller.h"
#include "hw/mem/fabric.h"
#include "hw/time/event_queue.h"

namespace hw {

class Management final : public BusTarget,
                         private EventSink,
                         private firmware::Hal,
                         private firmware::Sensors {
 public:
  // Regions of the block behind its socket.
  static constexpr uint64_t kMiscRam = 0;
  static constexpr uint64_t kQemuReset = 0x1000;

  struct Params {
    firmware::mgmt::Config firmware;
    uint32_t component = 0;
    base::Ps reset_time = 0;
    // Misc RAM reads 0xDEADBEEF while a device reset runs, as hardware may (7.3).
    bool unreadable_in_reset = false;
  };
  // What it does to the chip, and asks of it.
  struct Hooks {
    std::function<void(const firmware::mgmt::ResetScope&)> reset;
    // See firmware::Sensors.
    std::function<uint32_t(uint32_t die, uint64_t sample)> utilisation;
    // Activity of `nc` is limited to `duty` basis points; the host wants to know.
    std::function<void(uint32_t nc, uint32_t duty)> throttled;
  };
  Management(const Params& params, EventQueue& queue, Fabric& fabric, AccessLog& log, Hooks hooks);

  // Misc RAM and firmware start anew; a reset in progress is forgotten. The blocks are the
  // caller's.
  void power_on();
  bool access(uint64_t offset, uint8_t* data, size_t size, bool write, bool debug) override;
  const firmware::mgmt::Controller& firmware() const { return firmware_; }

  // Faults, from now on: error counts and states that firmware publishes.
  void set_health(const firmware::mgmt::Health& health) { firmware_.set_health(health); }
  // Power throttling begins, changes, or (10000) ends.
  void throttle(uint32_t nc, uint32_t duty) { firmware_.throttle(nc, duty, *this); }

 private:
  bool access_ram(uint64_t offset, uint8_t* data, size_t size, bool write, bool debug);
  void read_ram(uint64_t offset, uint8_t* data, size_t size);
  void write_ram(uint64_t offset, const uint8_t* data, size_t size, bool debug);
  void perform(const firmware::mgmt::Action& action);
  void on_event(const EventKey& key, uint32_t tag, uint64_t argument) override;

  bool read32(uint64_t address, uint32_t* value) override;
  bool write32(uint64_t address, uint32_t value) override;
  bool read(uint64_t address, void* to, size_t bytes) override;
  bool write(uint64_t address, const void* from, size_t bytes) override;
  uint64_t now() override { return queue_.now(); }
  void notify(contract::NqType type, uint32_t payload, uint32_t pc, uint32_t info) override;
  uint32_t utilisation(uint32_t die, uint64_t sample) override;

  Params params_;
  EventQueue& queue_;
  Fabric& fabric_;
  AccessLog& log_;
  Hooks hooks_;
  std::vector<uint32_t> ram_;
  EventQueue::Id reset_event_ = 0;
  firmware::mgmt::Controller firmware_;
};

}  // namespace hw
