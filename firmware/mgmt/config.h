// What the management firmware is told about its chip, and what it publishes of it
// (spec/hw-registers.md 7.1, 7.2). Everything has a value that a healthy chip on its own would
// have.
#pragma once

#include <cstdint>

#include "arch/contract/address_map.h"

namespace firmware::mgmt {

// Error counts and states that firmware publishes in words 0x004, 0x040 to 0x050 and 0x064. Counts
// that do not fit their field are published as its largest value.
struct Health {
  struct Hbm {
    uint32_t corrected = 0;
    uint32_t repairable = 0;    // uncorrected, and repairable by a spare row
    uint32_t unrepairable = 0;  // uncorrected
  };
  enum Repair : uint8_t { kNone = 0, kPending = 1, kFailed = 2 };

  uint32_t sram_corrected = 0;
  uint32_t sram_uncorrected = 0;
  Hbm hbm[4] = {};
  Repair repair = kNone;
  // Unhealthy components, bits 3 to 12: HBM, firmware service API, firmware service processor,
  // SRAM, links (intra-server, host, EFA, inter-server, switch), AXI fabric.
  uint32_t unhealthy = 0;
};

// An entry of the list that GET DATA type 0x10 returns.
struct FabricWindow {
  uint8_t type = 0;           // 1 HBM, 2 CTRL, 3 AC, 4 MC
  uint32_t address_high = 0;  // bits 63:32
};

struct Config {
  contract::Gen gen = contract::Gen::kV2;
  uint32_t routing_id = 0;
  uint64_t serial = 0;       // its low word must be neither 0 nor 0xDEADBEEF
  uint32_t server_rack = 0;  // word 0x070
  bool qemu = false;         // revision id 0xFF: the short reset register works
  uint32_t api_version = 0;  // word 0x000, see advertised_api_version()
  uint32_t dies = 1;         // power words that are kept
  uint32_t sizes = 0;        // word 0x030
  uint32_t build = 0;        // word 0x074
  uint64_t reservation = 0;
  uint64_t power_sample_ps = 0;  // 0: power words stay as they are
  uint64_t heartbeat_ps = 0;     // 0: no heartbeat
  Health health;
  // GET DATA type 0x10, by query: inter-server, intra-server.
  FabricWindow windows[2][16] = {};
  uint8_t window_count[2] = {};
};

// Firmware versions that take drivers through their newest paths (7.2): power words on v2, the
// register-based mailbox on v3 and v4.
constexpr uint32_t advertised_api_version(contract::Gen gen) {
  return gen == contract::Gen::kV2 ? 3 : gen == contract::Gen::kV3 ? 7 : 6;
}
constexpr uint32_t kApiEccSplit = 6;  // HBM ECC words tell repairable errors apart

// The register-based mailbox exists (7.6): never on v2.
constexpr bool has_register_mailbox(const Config& c) {
  return c.gen != contract::Gen::kV2 && c.api_version >= advertised_api_version(c.gen);
}

}  // namespace firmware::mgmt
