// Firmware of the management controller: misc RAM, mailbox, reset requests.
// Stands for the device firmware behind hw-registers.md 7 and 8 (source of truth).
// Exact: words, legacy mailbox protocol (commands 1 and 2), reset handshake, QEMU reset register.
// Missing: the register-based mailbox protocol answers "unknown command"; the initial API version
// 0 keeps drivers from using it. The 128-byte metric buffer is stored and not interpreted.
#pragma once

#include <cstdint>

#include "arch/contract/address_map.h"
#include "firmware/hal/hal.h"

namespace firmware::mgmt {

// Blocks that one reset request covers, by bit.
struct ResetScope {
  bool device = false;  // everything; the masks below are then full
  uint32_t ncs = 0;
  uint32_t topsps = 0;
  uint32_t dma_ncs = 0;   // NCs whose 16 DMA engines are reset
  uint32_t host_dma = 0;  // host-copy engines
};
// 8.1: `low` and `high` are the map words of an NC reset.
ResetScope decode_reset_map(contract::Gen gen, uint32_t low, uint32_t high);
ResetScope device_scope(contract::Gen gen);

struct Config {
  contract::Gen gen = contract::Gen::kV2;
  uint32_t routing_id = 0;
  uint64_t serial = 0;       // its low word must be neither 0 nor 0xDEADBEEF
  uint32_t server_rack = 0;  // word 0x70
  bool qemu = false;         // revision id 0xFF: the short reset register works
};

// What the hardware has to do after a store.
struct Action {
  bool reset = false;  // reset `scope`, then call reset_done()
  ResetScope scope;
};

class Controller {
 public:
  Controller(const Config& config, uint32_t* ram) : config_(config), ram_(ram) {}

  // 7.2: content after power on.
  void power_on();
  // After any store of the host or a peer to word `offset` of the misc RAM.
  Action stored(uint32_t offset, Hal& hal);
  // The QEMU reset register (8.5).
  Action qemu_write(uint32_t value);
  uint32_t qemu_read() const { return qemu_busy_ ? 1 : 0; }
  // All blocks of the merged scope are reset and usable. Returns a further reset to do.
  Action reset_done();

  bool resetting() const { return resetting_; }
  uint64_t resets() const { return resets_; }
  uint64_t mailbox_requests() const { return mailbox_requests_; }

 private:
  Action start_reset(const ResetScope& scope);
  Action request_reset();
  void legacy_mailbox(Hal& hal);
  bool check_crc(uint64_t request, uint32_t size, uint32_t expected, Hal& hal) const;
  uint32_t command_read(uint64_t request, uint32_t size, uint64_t response, Hal& hal) const;
  uint32_t command_metric(uint64_t request, uint32_t size, Hal& hal);
  uint32_t& word(uint32_t offset) { return ram_[offset / 4]; }

  Config config_;
  uint32_t* ram_;  // contract::kMiscRamBytes
  bool resetting_ = false;
  bool qemu_busy_ = false;
  bool again_ = false;  // a request with a wider scope came during a reset
  ResetScope current_;
  ResetScope pending_;
  uint64_t resets_ = 0;
  uint64_t mailbox_requests_ = 0;
};

}  // namespace firmware::mgmt
