#include "runtime/load/collective_group.h"

#include <algorithm>
#include <map>
#include <set>

#include "driver/ndl/ndl.h"
#include "runtime/nrt/status.h"

namespace nrt {
namespace {

constexpr uint32_t kTorusDevices = 16;
constexpr uint32_t kTorusNeighbours = 4;
constexpr uint32_t kSledDevices = 4;
constexpr uint32_t kSledsPerRackGen1 = 8;   // two servers of sixteen chips
constexpr uint32_t kSledsPerRackGen2 = 18;  // collectives.md 2.1

uint32_t first_chip(const RankPosition& p) {
  return p.chip - p.device;
}

// A link closes the circle: seen by any rank on the first or last chip of its node.
bool closed(const std::vector<RankPosition>& world) {
  return std::any_of(world.begin(), world.end(), [](const RankPosition& p) {
    const uint32_t last = p.devices - 1;
    if (p.devices < 3 || (p.device != 0 && p.device != last)) return false;
    return std::count(p.neighbours.begin(), p.neighbours.end(), p.device == 0 ? last : 0) != 0;
  });
}

ccl::Fabric fabric_of(const std::vector<RankPosition>& world) {
  const RankPosition& first = world.front();
  const bool one_chip = std::all_of(world.begin(), world.end(),
                                    [&](const RankPosition& p) { return p.chip == first.chip; });
  if (one_chip) return ccl::Fabric::kSingle;
  if (first.gen == contract::Gen::kV4) return ccl::Fabric::kSwitched;
  if (first.devices == kTorusDevices && first.neighbours.size() == kTorusNeighbours) {
    return ccl::Fabric::kTorus;
  }
  return closed(world) ? ccl::Fabric::kRing : ccl::Fabric::kChain;
}

std::vector<std::pair<uint32_t, uint32_t>> links_of(const std::vector<RankPosition>& world) {
  std::set<std::pair<uint32_t, uint32_t>> links;
  for (const RankPosition& p : world) {
    if (p.gen == contract::Gen::kV4) continue;  // reached through a switch
    for (const uint32_t device : p.neighbours) {
      links.emplace(p.chip, first_chip(p) + device);
      links.emplace(first_chip(p) + device, p.chip);
    }
  }
  return {links.begin(), links.end()};
}

}  // namespace

RankPosition position_of(const Core& core) {
  RankPosition p;
  p.gen = core.map().gen;
  p.chip = core.device().chip();
  p.nc = core.nc();
  p.lnc = core.lnc();
  const ndl_device* device = core.device().handle();
  p.device = static_cast<uint32_t>(core.device().index());
  p.devices = std::max<uint32_t>(
      static_cast<uint32_t>(std::max(0, ndl_available_devices(nullptr, 0))), p.device + 1);
  const size_t count =
      std::min<size_t>(device->connected_device_count, RankPosition::kMaxNeighbours);
  for (size_t i = 0; i < count; ++i) {
    if (device->connected_devices[i] < p.devices) {
      p.neighbours.push_back(device->connected_devices[i]);
    }
  }
  return p;
}

base::Result<ccl::Group> make_group(const Communicator& communicator, const neff::RankList& ranks) {
  std::vector<RankPosition> world;
  std::map<uint32_t, uint32_t> nodes;  // by the first chip
  for (uint32_t rank = 0; rank < communicator.world(); ++rank) {
    auto position = communicator.position(rank);
    if (!position) return position.error();
    nodes.emplace(first_chip(*position), static_cast<uint32_t>(nodes.size()));
    world.push_back(std::move(*position));
  }
  const RankPosition& own = world[communicator.rank()];
  ccl::Group group;
  ccl::Topology& topology = group.topology;
  topology.gen = own.gen;
  topology.lnc = own.lnc;
  topology.cores = contract::AddressMap{own.gen}.ncs() / own.lnc;
  topology.devices_per_node = own.devices;
  topology.fabric = fabric_of(world);
  topology.links = links_of(world);
  if (topology.fabric == ccl::Fabric::kSwitched) {
    topology.sleds_per_rack = own.devices > kSledDevices ? kSledsPerRackGen1 : kSledsPerRackGen2;
  }
  for (const uint32_t rank : ranks) {
    if (rank >= world.size()) return error(NRT_INVALID, "Rank " + std::to_string(rank));
    const RankPosition& p = world[rank];
    if (p.gen != own.gen || p.lnc != own.lnc) {
      return error(NRT_INVALID, "Rank " + std::to_string(rank) +
                                    " has another device generation or logical core size");
    }
    group.members.push_back({rank, nodes[first_chip(p)], p.chip, p.device, p.nc / p.lnc, p.nc});
  }
  return group;
}

}  // namespace nrt
