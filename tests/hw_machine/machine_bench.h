// A machine with host memory, driven through its PCIe function as a driver would.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "contract/regs/cc.h"
#include "contract/regs/misc.h"
#include "contract/regs/sem.h"
#include "contract/regs/udma.h"
#include "hw/machine/chip.h"
#include "hw/machine/machine.h"
#include "tests/hw_core/core_bench.h"

namespace hw_test {

struct MachineBench {
  static constexpr base::Ps kSlice = 10 * base::kPsPerMs;

  explicit MachineBench(contract::Gen gen = contract::Gen::kV2, uint32_t chips = 1,
                        const std::function<void(hw::MachineParams&)>& change = {})
      : machine(params(gen, chips, change, &host)) {
    for (uint32_t c = 0; c < chips; ++c) {
      machine.device(c).config_write(0x04, 2, 6);  // memory decode and bus master
    }
  }
  static hw::MachineParams params(contract::Gen gen, uint32_t chips,
                                  const std::function<void(hw::MachineParams&)>& change,
                                  pcie::HostMemory* host) {
    hw::MachineParams p;
    p.chips.resize(chips);
    for (uint32_t c = 0; c < chips; ++c) {
      p.chips[c].gen = gen;
      p.chips[c].routing_id = c;
      p.chips[c].host = host;
      p.chips[c].device_id = gen == contract::Gen::kV2   ? 0x7164
                             : gen == contract::Gen::kV3 ? 0x7364
                                                         : 0x7564;
    }
    if (change) change(p);
    return p;
  }
  const contract::AddressMap& map() { return machine.chip(0).address_map(); }
  uint32_t get(uint64_t bar0) { return machine.device(0).read32(0, bar0); }
  void put(uint64_t bar0, uint32_t value) { machine.device(0).write32(0, bar0, value); }
  uint64_t misc(uint32_t word) { return map().misc_ram().bar0 + word; }
  hw::RunOutcome run() { return machine.run_to_quiescence(kSlice); }
  // Runs `task` as a driver task until the machine rests.
  hw::RunOutcome run_task(std::function<void()> task, base::Ps slice = kSlice) {
    machine.executor().spawn("test", std::move(task));
    return machine.run_to_quiescence(slice);
  }
  uint64_t host_address(uint64_t phys) { return map().host_window() | phys; }

  HostPages host;
  hw::Machine machine;
};

}  // namespace hw_test
