#include "runtime/collectives/schedule/cycles.h"

#include <algorithm>
#include <map>
#include <set>

#include "runtime/collectives/schedule/ports.h"

namespace ccl {
namespace {

using Stops = std::vector<ChipStop>;

constexpr uint32_t kColumns = 4;
constexpr uint32_t kSledChips = 4;

// 2.4. Device numbers in the order of the cycle.
constexpr uint32_t kTA[] = {0, 1, 2, 3, 7, 4, 5, 6, 10, 11, 8, 9, 13, 14, 15, 12};
constexpr uint32_t kTB[] = {0, 4, 8, 12, 13, 1, 5, 9, 10, 14, 2, 6, 7, 11, 15, 3};
constexpr uint32_t kDA[] = {0, 1, 2, 3, 7, 6, 5, 9, 13, 12, 15, 14, 10, 11, 8, 4};
constexpr uint32_t kDB[] = {0, 12, 8, 9, 10, 6, 2, 14, 13, 1, 5, 4, 7, 11, 15, 3};

// Port of the move between neighbours of the 4x4 torus.
Port port_towards(uint32_t from, uint32_t to) {
  const uint32_t rows = (to / kColumns + 4 - from / kColumns) % 4;
  if (rows != 0) return rows == 1 ? Port::kSouth : Port::kNorth;
  return (to % kColumns + 4 - from % kColumns) % 4 == 1 ? Port::kEast : Port::kWest;
}

Stops reversed(Stops stops) {
  std::reverse(stops.begin(), stops.end());
  for (ChipStop& stop : stops) std::swap(stop.in, stop.out);
  return stops;
}

class Rings {
 public:
  Rings(const Group& group, const std::vector<ChipRanks>& chips)
      : topology_(group.topology), chips_(chips) {
    for (uint32_t i = 0; i < chips.size(); ++i) nodes_[chips[i].node].push_back(i);
  }

  std::vector<ChipRing> build() {
    if (topology_.fabric == Fabric::kSwitched && chips_.size() > 1) switched();
    if (rings_.empty() && nodes_.size() == 1) one_node();
    if (rings_.empty() && nodes_.size() > 1) many_nodes();
    if (rings_.empty()) rank_order();
    return std::move(rings_);
  }

 private:
  bool port_fabric() const {
    return topology_.fabric == Fabric::kTorus && topology_.gen != contract::Gen::kV2;
  }

  bool linked(uint32_t a, uint32_t b) const {
    return a == b || topology_.linked(chips_[a].chip, chips_[b].chip);
  }

  std::vector<uint32_t> devices(const std::vector<uint32_t>& node) const {
    std::vector<uint32_t> out;
    for (const uint32_t i : node) out.push_back(chips_[i].device);
    return out;
  }

  // Cores by which channel `c` passes chips whose links belong to no core in particular.
  ChipStop stop(uint32_t chip, uint32_t c) const {
    if (topology_.cores == 2) return {chip, c % 2, 1 - c % 2};  // 2.4: Trn1
    return {chip, 0, std::min(topology_.cores, 4u) - 1};
  }

  // A cycle of devices of one node (`node`: its chips) as stops; channel `c` takes the order of
  // cores from it where ports do not decide.
  Stops cycle(const std::vector<uint32_t>& node, const std::vector<uint32_t>& order,
              uint32_t c) const {
    std::map<uint32_t, uint32_t> chip_of;
    for (const uint32_t i : node) chip_of[chips_[i].device] = i;
    Stops out;
    for (size_t i = 0; i < order.size(); ++i) {
      const uint32_t device = order[i];
      ChipStop s = stop(chip_of[device], c);
      if (port_fabric() && order.size() > 1) {
        const uint32_t previous = order[(i + order.size() - 1) % order.size()];
        const uint32_t next = order[(i + 1) % order.size()];
        const uint32_t z = chips_[s.chip].chip / kTorusChips;
        s.in = port_owners(device, z, port_towards(device, previous)).front();
        s.out = port_owners(device, z, port_towards(device, next)).front();
      }
      out.push_back(s);
    }
    return out;
  }

  // Both directions of each of the cycles: first all forward, then all reversed.
  std::vector<Stops> both(const std::vector<uint32_t>& node,
                          const std::vector<std::vector<uint32_t>>& orders) const {
    std::vector<Stops> out;
    for (const auto& order : orders) {
      out.push_back(cycle(node, order, static_cast<uint32_t>(out.size())));
    }
    for (auto order : orders) {
      std::reverse(order.begin(), order.end());
      out.push_back(cycle(node, order, static_cast<uint32_t>(out.size())));
    }
    // One chip without ports: the reverse of the order of its cores (spec/collectives.md 2.4).
    if (node.size() == 1) out[1] = reversed(out[0]);
    return out;
  }

  // The directed cycles of one node, none if its chips form no cycle of 2.4.
  std::vector<Stops> node_cycles(const std::vector<uint32_t>& node) const {
    const std::vector<uint32_t> d = devices(node);
    if (d.size() == 1) return both(node, {d});
    if (topology_.fabric == Fabric::kRing && d.size() == topology_.devices_per_node) {
      return both(node, {d});
    }
    if (topology_.fabric != Fabric::kTorus) return {};
    if (d.size() == kTorusChips) {
      const bool t = topology_.gen == contract::Gen::kV2;
      const uint32_t* a = t ? kTA : kDA;
      const uint32_t* b = t ? kTB : kDB;
      return both(node, {{a, a + kTorusChips}, {b, b + kTorusChips}});
    }
    return both_rows(node, d);
  }

  // One row, or two neighbouring rows: eastwards, then westwards; reversed for odd first rows so
  // that the forward direction enters chips by cores 0 and 1.
  std::vector<Stops> both_rows(const std::vector<uint32_t>& node,
                               const std::vector<uint32_t>& d) const {
    std::set<uint32_t> rows;
    for (const uint32_t device : d) rows.insert(device / kColumns);
    if (d.size() != rows.size() * kColumns || rows.size() > 2) return {};
    uint32_t first = *rows.begin();
    if (rows.size() == 2) {
      if (*rows.rbegin() - first == 3) first = 3;  // rows 3 and 0 join by the wrap
      if (rows.count((first + 1) % 4) == 0) return {};
    }
    // Starting at column 0 of an odd row, the turns of two rows would not cross the dies.
    const uint32_t column = rows.size() == 2 ? first % 2 : 0;
    std::vector<uint32_t> order;
    for (uint32_t i = 0; i < kColumns; ++i) {
      order.push_back(first * kColumns + (column + i) % kColumns);
    }
    if (rows.size() == 2) {
      const uint32_t second = (first + 1) % 4;
      for (uint32_t i = kColumns; i-- > 0;) {
        order.push_back(second * kColumns + (column + i) % kColumns);
      }
    }
    if (first % 2 == 1) std::reverse(order.begin(), order.end());
    return both(node, {order});
  }

  void one_node() {
    for (Stops& stops : node_cycles(nodes_.begin()->second)) {
      rings_.push_back({std::move(stops), port_fabric() && chips_.size() > 1});
    }
  }

  // 2.10. Nodes with the same devices: each contributes its cycle, cut open.
  void many_nodes() {
    const std::vector<uint32_t> same = devices(nodes_.begin()->second);
    for (const auto& [node, chips] : nodes_) {
      if (devices(chips) != same) return;
    }
    const bool joined = joined_nodes();
    const std::vector<size_t> cuts = choose_cuts(node_cycles(nodes_.begin()->second));
    for (uint32_t c = 0; c < cuts.size(); ++c) {
      ChipRing ring;
      ring.by_ports = joined && port_fabric();
      bool back = false;
      for (const auto& [node, chips] : nodes_) {
        Stops stops = node_cycles(chips)[c];
        std::rotate(stops.begin(), stops.begin() + static_cast<std::ptrdiff_t>(cuts[c]),
                    stops.end());
        // Direct links join equal devices: the next node starts where this one ends.
        if (joined && back) stops = reversed(std::move(stops));
        back = !back;
        ring.stops.insert(ring.stops.end(), stops.begin(), stops.end());
      }
      rings_.push_back(std::move(ring));
    }
  }

  // Where each cycle of a node is cut: so that the channels enter and leave it by different chips.
  static std::vector<size_t> choose_cuts(const std::vector<Stops>& cycles) {
    std::set<uint32_t> used;
    std::vector<size_t> cuts;
    for (const Stops& stops : cycles) {
      size_t cut = 0;
      for (size_t i = 0; i < stops.size(); ++i) {
        const uint32_t last = stops[(i + stops.size() - 1) % stops.size()].chip;
        if (used.count(stops[i].chip) + used.count(last) != 0) continue;
        cut = i;
        break;
      }
      used.insert(stops[cut].chip);
      used.insert(stops[(cut + stops.size() - 1) % stops.size()].chip);
      cuts.push_back(cut);
    }
    return cuts;
  }

  // Every chip has a link to its equals on the next node, round an even number of nodes.
  bool joined_nodes() const {
    if (nodes_.size() % 2 != 0) return false;
    for (auto node = nodes_.begin(); node != nodes_.end(); ++node) {
      const auto next = std::next(node) == nodes_.end() ? nodes_.begin() : std::next(node);
      for (size_t i = 0; i < node->second.size(); ++i) {
        if (!linked(node->second[i], next->second[i])) return false;
      }
    }
    return true;
  }

  // 2.14: all chips of a sled before the next; up one rack, down the other.
  void switched() {
    std::map<uint32_t, std::map<uint32_t, uint32_t>> sleds;  // sled -> chip in it -> index
    for (uint32_t i = 0; i < chips_.size(); ++i) {
      sleds[chips_[i].chip / kSledChips][chips_[i].chip % kSledChips] = i;
    }
    const size_t width = sleds.begin()->second.size();
    // Sleds of unequal width, or platform-wide numbers used twice (other platforms): no cycle.
    size_t total = 0;
    for (const auto& [sled, chips] : sleds) {
      if (chips.size() != width) return;
      total += chips.size();
    }
    if (total != chips_.size()) return;
    for (uint32_t k = 0; k < width; ++k) rings_.push_back({sled_cycle(sleds, k), true});
    for (uint32_t k = 0; k < width; ++k) rings_.push_back({reversed(rings_[k].stops), true});
  }

  Stops sled_cycle(const std::map<uint32_t, std::map<uint32_t, uint32_t>>& sleds,
                   uint32_t k) const {
    Stops up;
    Stops down;
    for (const auto& [sled, chips] : sleds) {
      std::vector<uint32_t> order;
      for (const auto& [chip, index] : chips) order.push_back(index);
      std::rotate(order.begin(), order.begin() + k, order.end());
      const bool second = topology_.sleds_per_rack != 0 && sled >= topology_.sleds_per_rack;
      for (const uint32_t chip : order) {
        ChipStop s = stop(chip, k);
        // Any core may use any link: spread the channels over the cores.
        if (topology_.cores >= 4) s = {chip, k % 2, 2 + k % 2};
        (second ? down : up).push_back(s);
      }
    }
    std::reverse(down.begin(), down.end());
    up.insert(up.end(), down.begin(), down.end());
    return up;
  }

  // Order of node, device and core. Both directions if that is a ring of links. 2.5: an open line
  // of chips goes up by the even positions and down by the odd ones, and one channel uses both
  // directions of every link.
  void rank_order() {
    const auto k = static_cast<uint32_t>(chips_.size());
    bool line = true;
    for (uint32_t i = 0; i + 1 < k; ++i) line = line && linked(i, i + 1);
    const bool closed = line && linked(k - 1, 0);
    Stops stops;
    if (line && !closed) {
      for (uint32_t i = 0; i < k; i += 2) stops.push_back(stop(i, 0));
      for (uint32_t i = k; i-- > 0;) {
        if (i % 2 == 1) stops.push_back(stop(i, 0));
      }
    } else {
      for (uint32_t i = 0; i < k; ++i) stops.push_back(stop(i, 0));
    }
    rings_.push_back({stops, false});
    if (closed) rings_.push_back({reversed(stops), false});
  }

  const Topology& topology_;
  const std::vector<ChipRanks>& chips_;
  std::map<uint32_t, std::vector<uint32_t>> nodes_;  // node -> its chips, by device
  std::vector<ChipRing> rings_;
};

// The other core of the die.
uint32_t mate(uint32_t core) {
  return core < 2 ? 1 - core : 5 - core;
}

}  // namespace

std::vector<ChipRing> chip_rings(const Group& group, const std::vector<ChipRanks>& chips,
                                 uint32_t max_channels) {
  std::vector<ChipRing> rings = Rings(group, chips).build();
  rings.resize(std::min<size_t>(rings.size(), std::max(max_channels, 1u)));
  return rings;
}

std::vector<uint32_t> core_order(const Topology& topology, const ChipStop& stop) {
  if (topology.cores == 2) return {stop.in, 1 - stop.in};
  const std::vector<uint32_t> engines = {stop.in, mate(stop.in), mate(stop.out), stop.out};
  if (topology.cores == 4) return engines;
  std::vector<uint32_t> out;
  if (topology.cores == 8) {
    const uint32_t first = stop.in < 2 ? 0 : 1;
    for (const uint32_t engine : engines) {
      out.push_back(2 * engine + first);
      out.push_back(2 * engine + 1 - first);
    }
    return out;
  }
  for (uint32_t core = 0; core < topology.cores; ++core) out.push_back(core);
  return out;
}

std::vector<std::vector<uint32_t>> ring_orders(const Group& group, uint32_t max_channels) {
  const std::vector<ChipRanks> chips = by_chip(group);
  std::vector<std::vector<uint32_t>> out;
  for (const ChipRing& ring : chip_rings(group, chips, max_channels)) {
    std::vector<uint32_t> order;
    for (const ChipStop& stop : ring.stops) {
      for (const uint32_t core : core_order(group.topology, stop)) {
        for (const uint32_t member : chips[stop.chip].members) {
          if (group.members[member].core == core) order.push_back(member);
        }
      }
    }
    out.push_back(std::move(order));
  }
  return out;
}

base::Result<std::vector<std::pair<uint32_t, uint32_t>>> ring_pairs(const Group& group,
                                                                    uint32_t channel) {
  std::map<uint32_t, uint32_t> devices;  // of each node
  for (const ChipRanks& chip : by_chip(group)) ++devices[chip.node];
  const bool whole = std::all_of(devices.begin(), devices.end(), [&](const auto& node) {
    return node.second == group.topology.devices_per_node;
  });
  const std::vector<std::vector<uint32_t>> orders = ring_orders(group, whole ? 4 : 2);
  if (channel >= orders.size()) {
    return base::Error{base::Fault::kUsage, kNrtInvalid, "collectives",
                       "implicit permute on channel " + std::to_string(channel) + " over " +
                           std::to_string(group.ranks()) + " ranks, whose group has " +
                           std::to_string(orders.size())};
  }
  const std::vector<uint32_t>& order = orders[channel];
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  for (size_t i = 0; i < order.size(); ++i) {
    pairs.emplace_back(order[i], order[(i + 1) % order.size()]);
  }
  return pairs;
}

base::Result<std::vector<uint32_t>> permute_origins(const Group& group, uint32_t channel,
                                                    uint32_t member) {
  const auto pairs = ring_pairs(group, channel);
  if (!pairs) return pairs.error();
  std::vector<uint32_t> before(pairs->size());
  for (const auto& [source, target] : *pairs) before[target] = source;
  std::vector<uint32_t> origins;
  for (uint32_t at = member; origins.size() < before.size(); at = before[at]) origins.push_back(at);
  return origins;
}

}  // namespace ccl
