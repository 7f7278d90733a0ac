#include "runtime/load/rank_position.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/span.h"
#include "driver/ndl/ndl.h"
#include "runtime/nrt/status.h"

namespace nrt {
namespace {

constexpr uint8_t kRecordVersion = 2;
constexpr uint32_t kChipsPerSled = 4;  // spec/platforms.md 7.6
constexpr uint32_t kZNodes = 4;        // spec/platforms.md 7.5

// The record, little endian; the rest is zero.
enum Offset : size_t {
  kVersionAt = 0,  // u8
  kGenAt = 1,
  kLncAt = 2,
  kFabricAt = 3,
  kChipAt = 4,  // u16
  kDeviceAt = 6,
  kDevicesAt = 8,
  kSledsAt = 10,
  kNcAt = 12,  // u8
  kCoreAt = 13,
  kCountAt = 14,
  kHostAt = 16,        // u64
  kNeighboursAt = 24,  // u16 each
  kEndAt = kNeighboursAt + 2 * kMaxNeighbours,
};

void put16(ccl::DeviceRecord* record, size_t at, uint32_t value) {
  base::store<uint16_t>(record->data() + at, static_cast<uint16_t>(value));
}

bool plausible(const RankPosition& p) {
  const contract::AddressMap map{p.gen};
  const uint32_t last_chip = map.max_chips() - 1;
  const auto neighbour_ok = [&](uint16_t n) { return n <= last_chip && n != p.chip; };
  const bool switched = p.fabric == ccl::Fabric::kSwitched;
  return p.fabric <= ccl::Fabric::kGraph && p.lnc >= 1 && p.lnc <= map.max_lnc() &&
         p.nc < map.ncs() && p.nc % p.lnc == 0 && p.core < map.ncs() / p.lnc &&
         p.chip <= last_chip && p.devices >= 1 && p.devices <= MAX_NEURON_DEVICE_COUNT &&
         p.device < p.devices && p.neighbour_count <= kMaxNeighbours &&
         switched == (p.sleds_per_rack != 0) &&
         p.sleds_per_rack < contract::kMaxChips / kChipsPerSled &&
         std::all_of(p.neighbours.begin(), p.neighbours.begin() + p.neighbour_count, neighbour_ok);
}

std::vector<uint32_t> expected_neighbours(ccl::Fabric fabric, uint32_t devices, uint32_t d) {
  const uint32_t before = (d + devices - 1) % devices;
  const uint32_t after = (d + 1) % devices;
  switch (fabric) {
    case ccl::Fabric::kChain: {
      std::vector<uint32_t> ends;
      if (d > 0) ends.push_back(before);
      if (d + 1 < devices) ends.push_back(after);
      return ends;
    }
    case ccl::Fabric::kRing:
      return {before, after};
    case ccl::Fabric::kTorus: {
      const uint32_t row = d / 4;
      const uint32_t col = d % 4;
      return {(row + 3) % 4 * 4 + col, (row + 1) % 4 * 4 + col, row * 4 + (col + 3) % 4,
              row * 4 + (col + 1) % 4};
    }
    default:
      return {};
  }
}

// Its neighbours on the host, and those that follow from the numbering of platforms: the Z ring of
// an UltraServer (spec/platforms.md 7.5), the direct link between racks (spec/platforms.md 7.6).
std::vector<uint32_t> linked_chips(const RankPosition& p) {
  std::vector<uint32_t> chips(p.neighbours.begin(), p.neighbours.begin() + p.neighbour_count);
  if (p.fabric == ccl::Fabric::kSwitched) {
    const uint32_t rack = p.sleds_per_rack * kChipsPerSled;
    return {p.chip / rack == 0 ? p.chip + rack : p.chip - rack};
  }
  if (p.fabric == ccl::Fabric::kTorus && p.gen == contract::Gen::kV3) {
    const uint32_t node = p.chip / p.devices;
    for (const uint32_t next : {(node + 1) % kZNodes, (node + kZNodes - 1) % kZNodes}) {
      if (next != node) chips.push_back(next * p.devices + p.chip % p.devices);
    }
  }
  return chips;
}

}  // namespace

ccl::DeviceRecord pack(const RankPosition& p) {
  ccl::DeviceRecord record{};
  record[kVersionAt] = kRecordVersion;
  record[kGenAt] = static_cast<uint8_t>(p.gen);
  record[kLncAt] = static_cast<uint8_t>(p.lnc);
  record[kFabricAt] = static_cast<uint8_t>(p.fabric);
  put16(&record, kChipAt, p.chip);
  put16(&record, kDeviceAt, p.device);
  put16(&record, kDevicesAt, p.devices);
  put16(&record, kSledsAt, p.sleds_per_rack);
  record[kNcAt] = static_cast<uint8_t>(p.nc);
  record[kCoreAt] = static_cast<uint8_t>(p.core);
  record[kCountAt] = static_cast<uint8_t>(p.neighbour_count);
  base::store<uint64_t>(record.data() + kHostAt, p.host);
  for (uint32_t i = 0; i < p.neighbour_count; ++i) {
    put16(&record, kNeighboursAt + 2 * i, p.neighbours[i]);
  }
  return record;
}

base::Result<RankPosition> unpack(const ccl::DeviceRecord& record) {
  const auto u16 = [&](size_t at) { return base::load<uint16_t>(record.data() + at); };
  const base::Error bad = error(
      NRT_FAILURE, "A peer sent a record that this runtime does not understand", base::Fault::kIo);
  const uint8_t gen = record[kGenAt];
  const bool clean =
      std::all_of(record.begin() + kEndAt, record.end(), [](uint8_t byte) { return byte == 0; });
  if (record[kVersionAt] != kRecordVersion || gen < 2 || gen > 4 || !clean) return bad;
  RankPosition p;
  p.gen = static_cast<contract::Gen>(gen);
  p.lnc = record[kLncAt];
  p.fabric = static_cast<ccl::Fabric>(record[kFabricAt]);
  p.chip = u16(kChipAt);
  p.device = u16(kDeviceAt);
  p.devices = u16(kDevicesAt);
  p.sleds_per_rack = u16(kSledsAt);
  p.nc = record[kNcAt];
  p.core = record[kCoreAt];
  p.neighbour_count = record[kCountAt];
  p.host = base::load<uint64_t>(record.data() + kHostAt);
  if (p.neighbour_count > kMaxNeighbours) return bad;
  for (uint32_t i = 0; i < p.neighbour_count; ++i) p.neighbours[i] = u16(kNeighboursAt + 2 * i);
  if (!plausible(p)) return bad;
  return p;
}

ccl::Fabric fabric_of(const HostPlace& host, uint32_t device, std::vector<uint32_t> neighbours) {
  if (host.gen == contract::Gen::kV4 && host.devices % kChipsPerSled == 0) {
    return ccl::Fabric::kSwitched;
  }
  std::sort(neighbours.begin(), neighbours.end());
  const auto fits = [&](ccl::Fabric fabric) {
    std::vector<uint32_t> expected = expected_neighbours(fabric, host.devices, device);
    std::sort(expected.begin(), expected.end());
    return neighbours == expected;
  };
  if (host.devices == 1 && neighbours.empty()) return ccl::Fabric::kSingle;
  if (host.devices == 16 && fits(ccl::Fabric::kTorus)) return ccl::Fabric::kTorus;
  if (host.open_chain && fits(ccl::Fabric::kChain)) return ccl::Fabric::kChain;
  if (host.devices > 2 && !host.open_chain && fits(ccl::Fabric::kRing)) return ccl::Fabric::kRing;
  return ccl::Fabric::kGraph;
}

uint32_t sleds_per_rack(const HostPlace& host) {
  const uint32_t sleds = host.devices / kChipsPerSled;
  return host.nodes > 1 ? (host.nodes + 1) / 2 * sleds : sleds;
}

base::Result<RankTable> RankTable::make(const std::vector<ccl::PeerInfo>& peers) {
  RankTable table;
  std::map<uint64_t, uint32_t> hosts;
  std::set<std::pair<uint32_t, uint32_t>> cores;
  std::map<uint32_t, uint64_t> chips;  // to their host
  for (const ccl::PeerInfo& peer : peers) {
    auto position = unpack(peer.record);
    if (!position) return position.error();
    const RankPosition& first = table.positions_.empty() ? *position : table.positions_.front();
    const auto kind = [](const RankPosition& p) { return std::make_tuple(p.gen, p.lnc); };
    if (kind(first) != kind(*position)) {
      return error(NRT_INVALID, "Rank " + std::to_string(peer.rank) +
                                    " has another kind of device or logical core than rank " +
                                    std::to_string(peers.front().rank));
    }
    if (chips.emplace(position->chip, position->host).first->second != position->host) {
      return unsupported(NRT_FAILURE, "Rank " + std::to_string(peer.rank) +
                                          " is on another machine: collectives over the network");
    }
    if (!cores.emplace(position->chip, position->nc).second) {
      return error(NRT_INVALID,
                   "Rank " + std::to_string(peer.rank) + " runs on the core of another rank");
    }
    const auto node = static_cast<uint32_t>(hosts.size());
    table.nodes_.push_back(hosts.emplace(position->host, node).first->second);
    table.positions_.push_back(*position);
  }
  std::set<std::pair<uint32_t, uint32_t>> links;
  for (const RankPosition& p : table.positions_) {
    for (const uint32_t other : linked_chips(p)) {
      if (chips.count(other) == 0) continue;
      links.emplace(p.chip, other);
      links.emplace(other, p.chip);
    }
  }
  table.links_.assign(links.begin(), links.end());
  return table;
}

ccl::Group RankTable::group(const std::vector<uint32_t>& ranks) const {
  ccl::Group group;
  const RankPosition& first = positions_[ranks.front()];
  ccl::Topology& t = group.topology;
  t.gen = first.gen;
  t.fabric = first.fabric;
  t.lnc = first.lnc;
  t.cores = contract::AddressMap{first.gen}.ncs() / first.lnc;
  t.devices_per_node = first.devices;
  t.sleds_per_rack = first.sleds_per_rack;
  t.links = links_;
  bool one_chip = true;
  for (const uint32_t rank : ranks) {
    const RankPosition& p = positions_[rank];
    if (p.fabric != t.fabric || p.devices != t.devices_per_node) t.fabric = ccl::Fabric::kGraph;
    one_chip = one_chip && p.chip == first.chip;
    group.members.push_back({rank, nodes_[rank], p.chip, p.device, p.core, p.nc});
  }
  if (one_chip) t.fabric = ccl::Fabric::kSingle;
  return group;
}

}  // namespace nrt
