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

// spec/hw-registers.md 1.1
uint16_t pci_device_id(const std::string& chip) {
  if (chip == "inferentia2") return 0x7264;
  if (chip == "trainium2") return 0x7364;
  if (chip == "trainium3") return 0x7564;
  return 0x7164;
}

// Platforms whose hosts learn their place in a rack from the devices (spec/hw-registers.md 9.1, PDS
// and MAX): those with a switched fabric, and by name.
bool tells_place(const config::Platform& platform, const config::Node& node) {
  constexpr std::string_view kNames[] = {"trn2es.", "trn2en."};
  const auto named = [&](std::string_view name) { return node.instance_type.rfind(name, 0) == 0; };
  return platform.topology == "switched" ||
         std::any_of(std::begin(kNames), std::end(kNames), named);
}

// The node's number as drivers decode it (spec/hw-registers.md 9.6): rack << 1 | server is 0, 1, 3,
// 2 for nodes 0 to 3. Further nodes go on in racks of two.
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
// (spec/hw-registers.md 1.5).
uint32_t routing_id(uint16_t device_id, uint32_t local_id) {
  const driver::Product* product = driver::find_product(device_id);
  if (product == nullptr || product->routing == nullptr) return local_id;
  uint32_t id = 0;
  while ((*product->routing)[id] != local_id % 16) ++id;
  return id + local_id / 16 * 16;
}

// spec/hw-registers.md 9.5: left cables join nodes 0-1 and 2-3, right cables 1-2 and 3-0, between
// chips of the same local id. The platform says which of them exist. Windows 1, 2 are left, 0, 3
// right.
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

bool is_torus(const config::Platform& platform) {
  return platform.topology == "torus2d" || platform.topology == "torus3d";
}

// spec/collectives.md 2.3: the S-engine of the port north, east, south and west, by parity of row
// and column. Even and odd places turn the chip, so that a link joins the same core from both
// sides.
constexpr uint8_t kPortOwners[2][2][4] = {{{0, 1, 3, 2}, {1, 3, 2, 0}},
                                          {{3, 1, 0, 2}, {2, 3, 1, 0}}};
// spec/hw-registers.md 9.2: left cables from S-engines 1 and 2, right ones from 0 and 3.
constexpr uint8_t kLeftOwners = 0b0110;
constexpr uint8_t kRightOwners = 0b1001;

// The S-engines of the port of a chip that leads to a neighbour in the torus, as bits.
uint8_t port_owners(const config::Platform& platform, const config::Chip& chip,
                    const config::Chip& other) {
  const size_t last = chip.coord.size() - 1;
  const auto ahead = [&](size_t d) {
    return (other.coord[d] + platform.dims[d] - chip.coord[d]) % platform.dims[d];
  };
  if (last == 2 && ahead(0) != 0) {
    // Left cables join servers 0-1 and 2-3, right ones 1-2 and 3-0 (spec/hw-registers.md 9.5).
    const uint32_t lower = ahead(0) == 1 ? chip.coord[0] : other.coord[0];
    return platform.dims[0] == 2 || lower % 2 == 0 ? kLeftOwners : kRightOwners;
  }
  const uint32_t down = ahead(last - 1);
  const uint32_t direction = down == 1 ? 2 : down != 0 ? 0 : ahead(last) == 1 ? 1 : 3;
  const auto& owners = kPortOwners[chip.coord[last - 1] % 2][chip.coord[last] % 2];
  return static_cast<uint8_t>(1u << owners[direction]);
}

hw::RouteParams routes(const config::Platform& platform) {
  using Rule = hw::RouteParams::Rule;
  hw::RouteParams params;
  if (platform.topology == "switched") params.rule = Rule::kSwitched;
  if (is_torus(platform) || platform.topology == "ring") {
    params.rule = Rule::kTorus;
    params.dims = platform.dims;
    for (const config::Chip& chip : platform.chips) params.coords.push_back(chip.coord);
  }
  return params;
}

void connect(const config::Platform& platform, const config::Timing& timing,
             hw::MachineParams& params) {
  if (platform.edges.empty() && platform.switches.empty()) return;
  const config::Ratio efficiency = timing.ratio("link.efficiency");
  const auto rate = [&](const std::string& link) {
    return config::scaled(timing.rate("link." + link + "_gbps_per_dir"), efficiency);
  };
  params.timing.link_route_extra = timing.ps("link.route_extra_ns");
  params.routes = routes(platform);
  const bool owned = is_torus(platform) && platform.generation == config::Generation::kV3;
  for (const config::Edge& edge : platform.edges) {
    hw::LinkParams& link = params.links.emplace_back();
    link.a = edge.a;
    link.b = edge.b;
    link.rate = rate(edge.link);
    if (!owned) continue;
    const config::Chip& a = platform.chips[edge.a];
    const config::Chip& b = platform.chips[edge.b];
    link.owners_a = port_owners(platform, a, b);
    link.owners_b = port_owners(platform, b, a);
  }
  if (!platform.switches.empty()) params.timing.link_switch = timing.ps("link.switch_ns");
  for (const config::Switch& each : platform.switches) {
    params.switches.push_back({each.id, each.level, rate(each.link), each.members});
  }
}

}  // namespace

hw::MachineParams machine_params(const config::Platform& platform, const config::Timing& timing,
                                 const std::vector<pcie::HostMemory*>& host_memory,
                                 HostKind hosts) {
  hw::MachineParams params;
  params.timing = timing_params(timing);
  if (!platform.blocks.empty()) params.block_grid = timing.ps("time.block_grid_us");
  if (params.block_grid == 0) {
    throw config::TimingError("time.block_grid_us: a grid of no time; give at least a picosecond");
  }
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
    // Drivers of hosts that are told their place take the id as it is (spec/hw-registers.md 1.5),
    // if they know the host's name.
    const bool plain = place && hosts == HostKind::kOfPlatform;
    each.routing_id = plain ? chip.local_id : routing_id(each.device_id, chip.local_id);
    each.host = chip.node < host_memory.size() ? host_memory[chip.node] : nullptr;
    connect_windows(platform, chip, each);
  }
  connect(platform, timing, params);
  return params;
}

}  // namespace sim
