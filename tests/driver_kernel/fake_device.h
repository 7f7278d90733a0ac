// A passive device behind the PCIe seam, for driver tests: registers are storage, every access is
// logged, and only what spec/hw-registers.md section 12 names behaves: reset handshake, mailbox
// READ, tails that run a minimal copy engine at once, queue reset, mask clear, semaphore aliases.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "arch/contract/address_map.h"
#include "arch/contract/descriptor.h"
#include "arch/pcie/pcie.h"
#include "base/fd.h"

namespace driver_test {

struct LoggedAccess {
  bool write = false;
  uint64_t address = 0;
  uint32_t value = 0;
};

class FakeDevice : public pcie::Device {
 public:
  FakeDevice(uint16_t device_id, uint8_t revision, pcie::HostMemory& host, uint32_t routing_id);

  const pcie::Identity& identity() const override { return identity_; }
  uint32_t config_read(uint32_t offset, unsigned size) override;
  void config_write(uint32_t offset, unsigned size, uint32_t value) override;
  void bar_read(int bar, uint64_t offset, base::ByteSpan to) override;
  void bar_write(int bar, uint64_t offset, base::ConstByteSpan from) override;
  void reset() override;
  base::Result<pcie::BarMapping> bar_map(int bar, uint64_t offset, uint64_t length) override;

  const contract::AddressMap& map() const { return map_; }
  std::vector<LoggedAccess>& log() { return log_; }
  uint32_t& word(uint64_t bar0_offset) { return registers_[bar0_offset]; }
  uint8_t* hbm(uint64_t pa);  // pointer to device memory at a device address
  void set_bar_size(int bar, uint64_t size) { identity_.bar_size[bar] = size; }

  // Knobs and observations.
  bool engines_stalled = false;  // doorbells are taken, nothing moves
  // Larger ones are taken and nothing moves: a scrub of whole stacks would take the host's memory.
  uint32_t largest_doorbell = 8192;
  bool firmware_dead = false;  // neither resets nor mailbox requests are answered
  uint64_t ring_id_errors = 0;
  uint64_t dma_faults = 0;
  uint64_t copies = 0;
  uint64_t resets = 0;
  std::vector<std::pair<uint64_t, uint32_t>> copy_list;  // (destination, bytes) in order
  uint32_t pci_command = 0;

 private:
  struct Half {
    uint64_t base = 0;
    uint32_t length = 0, head = 0, tail = 0, ring_id = 1;
  };
  struct Queue {
    Half half[2];  // 0 M2S, 1 S2M
  };

  bool queue_write(uint64_t offset, uint32_t value);
  void run_queue(Queue& queue);
  bool fetch(Half& half, contract::Descriptor& descriptor);
  bool dma_read(uint64_t address, base::ByteSpan to);
  bool dma_write(uint64_t address, base::ConstByteSpan from);
  void firmware_trigger();
  void mailbox();
  bool semaphore_write(uint64_t offset, uint32_t value);

  pcie::Identity identity_;
  pcie::HostMemory& host_;
  contract::AddressMap map_;
  base::UniqueFd hbm_fd_;
  base::Mapping hbm_;
  base::UniqueFd window_fd_;  // what bar_map hands out for register windows
  std::map<uint64_t, uint32_t> registers_;
  std::map<uint64_t, Queue> queues_;  // engine * 16 + queue
  std::vector<LoggedAccess> log_;
};

}  // namespace driver_test
