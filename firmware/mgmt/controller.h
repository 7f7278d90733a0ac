// Firmware of the management controller: misc RAM, mailboxes, reset requests.
// Stands for the device firmware behind spec/hw-registers.md 7 and 8 (source of truth); choices
// where they are silent are in docs/decisions/firmware.md.
// Exact: words, both mailbox protocols, reset handshake, QEMU reset register. Ours: contents of
// what drivers only pass on (profiles, build number, heartbeat). Missing: the 128-byte metric
// buffer is stored and not interpreted; profiles and features change nothing but what is read back
// and whether throttling is notified.
#pragma once

#include <cstdint>

#include "arch/contract/address_map.h"
#include "firmware/hal/hal.h"
#include "firmware/mgmt/config.h"
#include "firmware/mgmt/mailbox.h"
#include "firmware/mgmt/reset_scope.h"

namespace firmware::mgmt {

// What the hardware has to do after a store.
struct Action {
  // Stop and reset the blocks of `scope`, which may be empty; call reset_done() when they are
  // usable. An earlier reset that is not done yet is forgotten.
  bool reset = false;
  ResetScope scope;
  const char* unsupported = nullptr;  // what was asked for and is not known
};

class Controller {
 public:
  Controller(const Config& config, uint32_t* ram) : config_(config), ram_(ram) {}

  // 7.2: content after power on. Whatever went on before is forgotten.
  void power_on();
  // After any store of the host or a peer to word `offset` of the misc RAM.
  Action stored(uint32_t offset, Hal& hal);
  // The QEMU reset register (8.5).
  Action qemu_write(uint32_t value);
  uint32_t qemu_read() const { return state_.qemu_busy ? 1 : 0; }
  // The blocks of the last action are reset and usable. Returns a further reset to do.
  Action reset_done(Hal& hal);

  // Words that are computed when they are read.
  static bool is_live(uint32_t offset);
  void refresh(Hal& hal, Sensors& sensors);
  // From now on the chip is in this state.
  void set_health(const Health& health);
  // The activity management limits NeuronCore `nc` to `duty` (basis points; 10000: no more). Posts
  // a notification if the host has asked for these.
  void throttle(uint32_t nc, uint32_t duty, Hal& hal) const;

  bool resetting() const { return state_.resetting; }
  bool resetting_device() const { return state_.resetting && state_.current.device; }
  uint64_t resets() const { return state_.resets; }
  uint64_t mailbox_requests() const { return state_.mailbox_requests; }
  const RegisterMailbox& settings() const { return state_.settings; }

 private:
  struct State {
    bool resetting = false;
    bool qemu_busy = false;
    bool announced = false;       // the reset in progress waits for its scope
    bool again = false;           // a request with a wider scope came during a reset
    bool serving = false;         // stores are the firmware's own
    bool reset_stored = false;    // 0x1EC since the last trigger
    bool mailbox_stored = false;  // 0x1F0 to 0x1FC since the last request served
    bool mailbox_waits = false;   // for the end of the reset
    ResetScope current;
    ResetScope pending;
    RegisterMailbox settings;
    uint64_t resets = 0;
    uint64_t mailbox_requests = 0;
  };

  Action triggered(Hal& hal);
  Action start_reset(const ResetScope& scope);
  Action request_reset();
  const char* serve_mailbox(Hal& hal);
  void publish_health();
  uint32_t& word(uint32_t offset) { return ram_[offset / 4]; }

  Config config_;
  uint32_t* ram_;  // contract::kMiscRamBytes
  State state_;
};

}  // namespace firmware::mgmt
