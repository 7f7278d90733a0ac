#include "sim/machine_params.h"

#include "arch/config/platform.h"
#include "arch/config/timing.h"
#include "sim/timing_params.h"

namespace sim {
namespace {

// hw-registers.md 1.1
uint16_t pci_device_id(const std::string& chip) {
  if (chip == "inferentia2") return 0x7264;
  if (chip == "trainium2") return 0x7364;
  if (chip == "trainium3") return 0x7564;
  return 0x7164;
}

}  // namespace

hw::MachineParams machine_params(const config::Platform& platform, const config::Timing& timing,
                                 const std::vector<pcie::HostMemory*>& host_memory) {
  hw::MachineParams params;
  params.timing = timing_params(timing);
  params.real_bytes = static_cast<uint32_t>(timing.integer("timing_only.real_bytes"));
  for (const config::Chip& chip : platform.chips) {
    hw::ChipParams& each = params.chips.emplace_back();
    each.gen = static_cast<contract::Gen>(platform.generation);
    each.device_id = pci_device_id(platform.chip.name);
    each.routing_id = chip.local_id;
    each.host = chip.node < host_memory.size() ? host_memory[chip.node] : nullptr;
  }
  return params;
}

}  // namespace sim
