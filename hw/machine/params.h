// What a machine is built from. Read by the composition root from a platform and a timing file.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "arch/contract/address_map.h"
#include "arch/pcie/pcie.h"
#include "firmware/mgmt/config.h"
#include "hw/block/params.h"
#include "hw/params.h"
#include "hw/stats.h"

namespace hw {

constexpr uint32_t kNoNeighbour = ~0u;

struct ChipParams {
  contract::Gen gen = contract::Gen::kV2;
  uint16_t device_id = 0x7164;          // spec/hw-registers.md 1.1
  uint32_t routing_id = 0;              // word 0x24 of the misc RAM
  uint64_t serial = 0;                  // 0: made from the chip's number
  uint32_t sizes = 0;                   // word 0x30: instance and partition
  uint32_t server_rack = 0;             // word 0x70
  uint64_t reservation = 0;             // words 0x80, 0x84
  pcie::HostMemory* host = nullptr;     // of the chip's node; null: no host memory
  std::optional<uint32_t> api_version;  // of the firmware; default: by generation
  firmware::mgmt::Health health;        // faults to start with
  bool unreadable_in_reset = false;     // misc RAM reads 0xDEADBEEF during a device reset
  // Chips behind the inter-server windows 0 to 3 (v3, v4; spec/hw-registers.md 9.2).
  std::array<uint32_t, contract::kNeighbourWindows> neighbours{kNoNeighbour, kNoNeighbour,
                                                               kNoNeighbour, kNoNeighbour};
};

struct MachineParams {
  std::vector<ChipParams> chips;  // index: platform-wide chip number
  std::vector<LinkParams> links;
  std::vector<SwitchParams> switches;
  RouteParams routes;
  std::vector<BlockParams> blocks;  // of others
  QueuePolicy queue_policy;
  LinkPolicy link_policy;
  TimingParams timing;
  bool timing_only = false;
  uint32_t real_bytes = 512;  // timing_only.real_bytes
  bool coalesce = true;       // many packets as one event where nobody can tell
  bool check = false;         // hw/check
  uint8_t revision = 0;       // PCI revision id: silicon, 0xF0 emulator, 0xFF QEMU
  pcie::BarLayout bars = pcie::BarLayout::kFull;
  Tracer* tracer = nullptr;
  // Others run the simulation: it starts when they say so, goes on at rest, and barriers open when
  // their last member arrives.
  bool free_running = false;
  bool host_sockets = false;  // host memory of each chip is behind Machine::host_port
  // With blocks of others, which may act at any time: everything that is done for a request lasts
  // until a multiple of this, so that such a block finds the same phase whatever came before.
  base::Ps block_grid = base::us(10);

  // Blocks or policies of others.
  bool has_foreign_code() const {
    return !blocks.empty() || queue_policy.arbiter || link_policy || routes.routing ||
           routes.switch_choice;
  }
};

}  // namespace hw
