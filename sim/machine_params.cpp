#include "sim/machine_params.h"

#include "arch/config/platform.h"
#include "arch/config/timing.h"
#include "driver/kernel/dhal.h"
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

// What firmware publishes as routing id so that a driver gives the device its local id
// (hw-registers.md 1.5).
uint32_t routing_id(uint16_t device_id, uint32_t local_id) {
  const driver::Product* product = driver::find_product(device_id);
  if (product == nullptr || product->routing == nullptr) return local_id;
  uint32_t id = 0;
  while ((*product->routing)[id] != local_id % 16) ++id;
  return id + local_id / 16 * 16;
}

// hw-registers.md 9.5: left cables join nodes 0-1 and 2-3, right cables 1-2 and 3-0, between chips
// of the same local id. The platform says which of them exist. Windows 1, 2 are left, 0, 3 right.
void connect_windows(const config::Platform& platform, const config::Chip& chip,
                     hw::ChipParams& to) {
  const auto nodes = static_cast<uint32_t>(platform.nodes.size());
  const uint32_t left = chip.node ^ 1;
  const uint32_t right = (chip.node % 2 == 1 ? chip.node + 1 : chip.node + nodes - 1) % nodes;
  for (const uint32_t id : chip.connected_to_z) {
    const config::Chip& other = platform.chips[id];
    if (other.local_id != chip.local_id) continue;
    if (other.node == left) to.neighbours[1] = to.neighbours[2] = id;
    if (other.node == right) to.neighbours[0] = to.neighbours[3] = id;
  }
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
    each.routing_id = routing_id(each.device_id, chip.local_id);
    each.host = chip.node < host_memory.size() ? host_memory[chip.node] : nullptr;
    connect_windows(platform, chip, each);
  }
  for (const config::Edge& edge : platform.edges) {
    params.links.push_back({edge.a, edge.b, timing.rate("link." + edge.link + "_gbps_per_dir")});
  }
  return params;
}

}  // namespace sim
