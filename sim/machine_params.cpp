#include "sim/machine_params.h"

#include <algorithm>
#include <string_view>

#include "arch/config/platform.h"
#include "arch/config/timing.h"
#include "contract/regs/misc.h"
#include "driver/kernel/products.h"
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

// Platforms whose hosts learn their place in a rack from the devices (hw-registers.md 9.1, PDS and
// MAX): those with a switched fabric, and by name.
bool tells_place(const config::Platform& platform, const config::Node& node) {
  constexpr std::string_view kNames[] = {"trn2es.", "trn2en."};
  const auto named = [&](std::string_view name) { return node.instance_type.rfind(name, 0) == 0; };
  return platform.topology == "switched" ||
         std::any_of(std::begin(kNames), std::end(kNames), named);
}

// The node's number as drivers decode it (9.6): rack << 1 | server is 0, 1, 3, 2 for nodes 0 to 3.
// Further nodes go on in racks of two.
uint32_t server_rack(uint32_t node) {
  namespace misc = contract::misc;
  const uint32_t rack = node / 2;
  const uint32_t server = (node ^ rack) & 1;
  uint32_t word = misc::kServerRackServer.set(0, server);
  word = misc::kServerRackServerValid.set(word, 1);
  word = misc::kServerRackRack.set(word, rack);
  return misc::kServerRackRackValid.set(word, 1);
}

// Devices of the chip's host and, where hosts share a fabric, of all of them.
uint32_t sizes(const config::Platform& platform, uint32_t node, bool partition) {
  namespace misc = contract::misc;
  const auto here = static_cast<uint32_t>(
      std::count_if(platform.chips.begin(), platform.chips.end(),
                    [&](const config::Chip& chip) { return chip.node == node; }));
  const uint32_t word = misc::kSizesInstance.set(0, here);
  if (!partition) return word;
  const auto all = static_cast<uint32_t>(platform.chips.size());
  return misc::kSizesPartitionValid.set(misc::kSizesPartition.set(word, all), 1);
}

// Of all devices of a machine: drivers take it for the serial number of their group of hosts.
constexpr uint64_t kReservation = 0x0002'0000'0000'0001;

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
    const bool place = tells_place(platform, platform.nodes[chip.node]);
    each.sizes = sizes(platform, chip.node, place);
    if (place) {
      each.server_rack = server_rack(chip.node);
      each.reservation = kReservation;
    }
    // Drivers of hosts that are told their place take the id as it is (1.5).
    each.routing_id = place ? chip.local_id : routing_id(each.device_id, chip.local_id);
    each.host = chip.node < host_memory.size() ? host_memory[chip.node] : nullptr;
    connect_windows(platform, chip, each);
  }
  for (const config::Edge& edge : platform.edges) {
    params.links.push_back({edge.a, edge.b, timing.rate("link." + edge.link + "_gbps_per_dir")});
  }
  return params;
}

}  // namespace sim
