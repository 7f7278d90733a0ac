#include "runtime/collectives/schedule/ports.h"

#include <algorithm>
#include <array>

namespace ccl {
namespace {

using contract::Gen;

constexpr uint32_t kSide = 4;  // of the torus
static_assert(kTorusChips == kSide * kSide);

// Device of a routing id (spec/collectives.md 2.2).
constexpr std::array<uint32_t, kTorusChips> kTrn1Devices = {0,  4, 1,  5, 3,  7,  2,  6,
                                                            12, 8, 13, 9, 15, 11, 14, 10};
constexpr std::array<uint32_t, kTorusChips> kTrn2Devices = {0, 3, 4, 7, 12, 15, 8, 11,
                                                            1, 2, 5, 6, 13, 14, 9, 10};

// Paths by displacement, row-major (dr, dc) (spec/collectives.md 2.7.1).
constexpr std::array<const char*, kTorusChips> kRoutes = {
    "", "E", "WW", "W", "S", "ES", "WWS", "WS", "NN", "ENN", "SSEE", "SSW", "N", "EN", "NEE", "NW"};

// Port of logical core 0..3, by parity of row and column (spec/collectives.md 2.3).
constexpr std::array<const char*, 4> kPortOfCore = {"WSEN", "NWSE", "SENW", "ENWS"};
// S-engine of logical core 0..3, likewise.
constexpr std::array<const char*, 4> kEngineOfCore = {"2310", "1023", "0132", "3201"};
// S-engines that reach the Z neighbours (spec/collectives.md 2.3).
constexpr const char* kLeftEngines = "12";
constexpr const char* kRightEngines = "03";

Port port_of(char letter) {
  switch (letter) {
    case 'N':
      return Port::kNorth;
    case 'S':
      return Port::kSouth;
    case 'E':
      return Port::kEast;
    default:
      return Port::kWest;
  }
}

Port opposite(Port port) {
  constexpr std::array<Port, 4> kOpposite = {Port::kSouth, Port::kNorth, Port::kWest, Port::kEast};
  return kOpposite[static_cast<size_t>(port)];
}

// Nodes of an UltraServer stand on a ring of four: the shorter way round, half way round even nodes
// go up and odd ones down.
bool goes_up(uint32_t from, uint32_t to) {
  const uint32_t up = (to + kSide - from) % kSide;
  return up == kSide / 2 ? from % 2 == 0 : up < kSide / 2;
}

// The cable between a node and the next one is left, or right, for both.
Port cable_after(uint32_t node) {
  return node % 2 == 0 ? Port::kLeft : Port::kRight;
}

struct Torus {
  uint32_t server = 0;
  uint32_t device = 0;
};

Torus torus_of(const ChipRanks& chip) {
  return {chip.chip / kTorusChips, chip.device};
}

Port first_move(const Torus& from, const Torus& to) {
  const std::vector<Port> moves = torus_route(from.device, to.device);
  if (!moves.empty()) return moves.front();
  return cable_after(goes_up(from.server, to.server) ? from.server : from.server + kSide - 1);
}

Port entry(const Torus& from, const Torus& to) {
  if (from.server == to.server) return opposite(torus_route(from.device, to.device).back());
  return cable_after(goes_up(from.server, to.server) ? to.server + kSide - 1 : to.server);
}

}  // namespace

uint32_t chip_code(Gen gen, uint32_t device) {
  const auto& devices = gen == Gen::kV2 ? kTrn1Devices : kTrn2Devices;
  return static_cast<uint32_t>(std::find(devices.begin(), devices.end(), device) - devices.begin());
}

uint32_t column_bits(Gen gen) {
  return gen == Gen::kV2 ? 0b0110 : 0b1001;
}

std::vector<Port> torus_route(uint32_t from, uint32_t to) {
  const uint32_t dr = (to / kSide + kSide - from / kSide) % kSide;
  const uint32_t dc = (to % kSide + kSide - from % kSide) % kSide;
  std::vector<Port> moves;
  for (const char* c = kRoutes[dr * kSide + dc]; *c != 0; ++c) moves.push_back(port_of(*c));
  return moves;
}

uint32_t torus_neighbour(uint32_t device, Port port) {
  uint32_t row = device / kSide;
  uint32_t column = device % kSide;
  if (port == Port::kNorth) row = (row + kSide - 1) % kSide;
  if (port == Port::kSouth) row = (row + 1) % kSide;
  if (port == Port::kEast) column = (column + 1) % kSide;
  if (port == Port::kWest) column = (column + kSide - 1) % kSide;
  return row * kSide + column;
}

std::vector<uint32_t> port_owners(uint32_t device, uint32_t node, Port port) {
  const uint32_t parity = device / kSide % 2 * 2 + device % kSide % 2;
  const bool z = port == Port::kLeft || port == Port::kRight;
  const std::string engines = port == Port::kLeft ? kLeftEngines : kRightEngines;
  std::vector<uint32_t> owners;
  for (uint32_t core = 0; core < kSide; ++core) {
    const bool owns = z ? engines.find(kEngineOfCore[parity][core]) != std::string::npos
                        : port_of(kPortOfCore[parity][core]) == port;
    // Nodes 1 and 3 of an UltraServer number the cores of their chips from the other end
    // (spec/collectives.md 2.3).
    if (owns) owners.push_back(node % 2 == 0 ? core : kSide - 1 - core);
  }
  return owners;
}

MeshPaths::MeshPaths(const Group& group, const std::vector<ChipRanks>& chips) {
  const Topology& topology = group.topology;
  landing_ = topology.gen == Gen::kV3 && topology.fabric == Fabric::kTorus &&
             std::all_of(chips.begin(), chips.end(),
                         [](const ChipRanks& chip) { return chip.device < kTorusChips; });
  for (const ChipRanks& chip : chips) {
    members_.push_back(static_cast<uint32_t>(chip.members.size()));
  }
  if (!landing_) return;
  for (uint32_t own = 0; own < chips.size(); ++own) {
    Ports leaving(chips.size(), Port::kWest);
    Ports entering(chips.size(), Port::kWest);
    for (uint32_t other = 0; other < chips.size(); ++other) {
      if (other == own) continue;
      leaving[other] = first_move(torus_of(chips[own]), torus_of(chips[other]));
      entering[other] = entry(torus_of(chips[other]), torus_of(chips[own]));
    }
    owners_.push_back(classes(group, chips[own], own, leaving));
    lands_.push_back(classes(group, chips[own], own, entering));
  }
}

// Deals the other chips to the ranks that own their ports; ranks without a port in use join the
// classes in turn (spec/collectives.md 2.7.5).
std::vector<uint32_t> MeshPaths::classes(const Group& group, const ChipRanks& chip, uint32_t own,
                                         const Ports& ports) const {
  constexpr size_t kPorts = 6;
  const uint32_t ranks = static_cast<uint32_t>(chip.members.size());
  // Logical cores per S-engine: 1 at LNC=2, 2 at LNC=1.
  const uint32_t per_engine = std::max(group.topology.cores / kSide, 1u);
  std::array<std::vector<uint32_t>, kPorts> others;
  for (uint32_t other = 0; other < ports.size(); ++other) {
    if (other != own) others[static_cast<size_t>(ports[other])].push_back(other);
  }
  std::array<std::vector<uint32_t>, kPorts> senders;
  std::vector<bool> busy(ranks, false);
  std::vector<size_t> used;
  for (size_t p = 0; p < kPorts; ++p) {
    if (others[p].empty()) continue;
    used.push_back(p);
    const auto owners = port_owners(chip.device, chip.chip / kTorusChips, static_cast<Port>(p));
    for (uint32_t r = 0; r < ranks; ++r) {
      const uint32_t core = group.members[chip.members[r]].core / per_engine;
      if (std::find(owners.begin(), owners.end(), core) == owners.end()) continue;
      senders[p].push_back(r);
      busy[r] = true;
    }
  }
  uint32_t turn = 0;
  for (uint32_t r = 0; r < ranks && !used.empty(); ++r) {
    if (!busy[r]) senders[used[turn++ % used.size()]].push_back(r);
  }
  std::vector<uint32_t> out(ports.size(), 0);
  for (const size_t p : used) {
    for (size_t i = 0; i < others[p].size(); ++i) {
      const auto& from = senders[p];
      out[others[p][i]] = from.empty() ? static_cast<uint32_t>(i % ranks) : from[i % from.size()];
    }
  }
  return out;
}

uint32_t MeshPaths::owner(uint32_t s, uint32_t d, uint32_t core) const {
  if (landing_) return owners_[s][d];
  return core % members_[s];  // no port belongs to a core: an equal share of the destinations
}

uint32_t MeshPaths::land(uint32_t s, uint32_t d) const {
  return landing_ ? lands_[d][s] : s % members_[d];
}

}  // namespace ccl
