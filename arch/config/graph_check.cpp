#include "arch/config/graph_check.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace config {
namespace {

using Pair = std::pair<uint32_t, uint32_t>;

Pair pair_of(uint32_t a, uint32_t b) {
  return {std::min(a, b), std::max(a, b)};
}

// What the device model builds; a file may not promise anything else (spec/platforms.md 2).
struct Silicon {
  Generation generation;
  const char* names[2];
  uint32_t most_lnc;
  uint32_t cores, stacks;
  uint64_t stack_gib;
  uint32_t cc_cores, engines;
  uint64_t sbuf_kib;
  size_t most_chips;  // that peer windows address
};
constexpr Silicon kSilicon[] = {
    {Generation::kV2, {"trainium1", "inferentia2"}, 1, 2, 2, 16, 6, 32, 192, 16},
    {Generation::kV3, {"trainium2", "trainium2"}, 2, 8, 4, 24, 16, 128, 224, 1023},
    {Generation::kV4, {"trainium3", "trainium3"}, 2, 8, 4, 36, 16, 128, 256, 1023},
};
constexpr uint64_t kKib = 1024;
constexpr uint64_t kGib = kKib * kKib * kKib;
constexpr uint64_t kPsumBytes = 16 * kKib;
constexpr uint32_t kSbufPartitions = 128;

class GraphCheck {
 public:
  GraphCheck(const JsonFile& file, const Platform& platform) : file_(file), platform_(platform) {}

  base::Status run() {
    for (const auto check :
         {&GraphCheck::silicon, &GraphCheck::lnc, &GraphCheck::ids, &GraphCheck::local_ids,
          &GraphCheck::pci, &GraphCheck::edges, &GraphCheck::switches, &GraphCheck::neighbours,
          &GraphCheck::named, &GraphCheck::shape, &GraphCheck::reach}) {
      base::Status status = (this->*check)();
      if (!status) return status;
    }
    return {};
  }

 private:
  base::Error error(const char* list, size_t index, std::string what) const {
    return file_.error({list, std::to_string(index)}, std::move(what));
  }
  bool is_chip(uint32_t id) const { return id < platform_.chips.size(); }
  bool joined(uint32_t a, uint32_t b) const { return edges_.count(pair_of(a, b)) != 0; }
  bool on_one_switch(uint32_t a, uint32_t b) const {
    const auto& other = ports_[b];
    return std::any_of(ports_[a].begin(), ports_[a].end(),
                       [&](size_t s) { return std::binary_search(other.begin(), other.end(), s); });
  }

  base::Status silicon() {
    const ChipModel& chip = platform_.chip;
    const Silicon& known =
        *std::find_if(std::begin(kSilicon), std::end(kSilicon),
                      [this](const Silicon& s) { return s.generation == platform_.generation; });
    const std::string of = std::string(" of generation ") + to_string(platform_.generation);
    if (chip.name != known.names[0] && chip.name != known.names[1]) {
      return file_.error({"chip", "name"},
                         "chips" + of + " are " + known.names[0] + " or " + known.names[1]);
    }
    const struct {
      const char* key;
      uint64_t given, known;
    } numbers[] = {{"cores", chip.cores, known.cores},
                   {"hbm_stacks", chip.hbm_stacks, known.stacks},
                   {"hbm_stack_bytes", chip.hbm_stack_bytes, known.stack_gib * kGib},
                   {"cc_cores", chip.cc_cores, known.cc_cores},
                   {"dma_engines", chip.dma_engines, known.engines},
                   {"sbuf_partitions", chip.sbuf_partitions, kSbufPartitions},
                   {"sbuf_partition_bytes", chip.sbuf_partition_bytes, known.sbuf_kib * kKib},
                   {"psum_partition_bytes", chip.psum_partition_bytes, kPsumBytes}};
    for (const auto& each : numbers) {
      if (each.given == each.known) continue;
      return file_.error({"chip", each.key}, std::string(each.key) + " of chips" + of + " is " +
                                                 std::to_string(each.known));
    }
    for (const uint32_t option : chip.lnc_options) {
      if (option <= known.most_lnc && known.cores % option == 0) continue;
      return file_.error({"chip", "lnc_options"},
                         "chips" + of + " have no LNC " + std::to_string(option));
    }
    if (platform_.chips.size() > known.most_chips) {
      return error("chips", known.most_chips,
                   "chips" + of + " address " + std::to_string(known.most_chips) + " of them");
    }
    return {};
  }

  base::Status lnc() {
    const auto& options = platform_.chip.lnc_options;
    if (std::find(options.begin(), options.end(), platform_.chip.lnc_default) == options.end()) {
      return file_.error({"chip", "lnc_default"}, "lnc_default is not one of lnc_options");
    }
    return {};
  }

  base::Status ids() {
    for (size_t i = 0; i < platform_.nodes.size(); ++i) {
      if (platform_.nodes[i].id != i) return error("nodes", i, "node ids count up from 0");
    }
    for (size_t i = 0; i < platform_.chips.size(); ++i) {
      const Chip& chip = platform_.chips[i];
      if (chip.id != i) return error("chips", i, "chip ids count up from 0");
      if (chip.node >= platform_.nodes.size()) return error("chips", i, "no such node");
      if (chip.coord.size() != platform_.dims.size()) {
        return error("chips", i, "coord needs one number per dimension of the topology");
      }
    }
    for (size_t i = 0; i < platform_.nics.size(); ++i) {
      if (platform_.nics[i].node >= platform_.nodes.size()) return error("nics", i, "no such node");
    }
    return {};
  }

  // They number the device files of a node.
  base::Status local_ids() {
    std::vector<uint32_t> count(platform_.nodes.size());
    for (const Chip& chip : platform_.chips) ++count[chip.node];
    std::set<Pair> seen;
    for (size_t i = 0; i < platform_.chips.size(); ++i) {
      const Chip& chip = platform_.chips[i];
      if (!seen.insert({chip.node, chip.local_id}).second) {
        return error("chips", i, "another chip of this node has the same local_id");
      }
      if (chip.local_id >= count[chip.node]) {
        return error("chips", i, "the local ids of a node count up from 0");
      }
    }
    for (size_t n = 0; n < count.size(); ++n) {
      if (count[n] == 0) return error("nodes", n, "this node has no chip");
    }
    return {};
  }

  // Chips without an address get one that is made up, so a node has either all or none.
  base::Status pci() {
    std::set<std::pair<uint32_t, std::string>> seen;
    std::map<uint32_t, bool> published;
    for (size_t i = 0; i < platform_.chips.size(); ++i) {
      const Chip& chip = platform_.chips[i];
      const bool has = !chip.pci_bdf.empty();
      if (published.emplace(chip.node, has).first->second != has) {
        return error("chips", i, "either all chips of a node have a pci_bdf or none");
      }
      if (has && !seen.insert({chip.node, chip.pci_bdf}).second) {
        return error("chips", i, "another chip of this node has the same pci_bdf");
      }
    }
    return {};
  }

  base::Status edges() {
    for (size_t i = 0; i < platform_.edges.size(); ++i) {
      const Edge& edge = platform_.edges[i];
      if (edge.a >= edge.b || !is_chip(edge.b)) return error("edges", i, "expected a < b < chips");
      if (!edges_.insert({edge.a, edge.b}).second) {
        return error("edges", i, "this edge stands twice");
      }
    }
    return {};
  }

  base::Status switches() {
    std::set<std::string> ids;
    ports_.resize(platform_.chips.size());
    for (size_t i = 0; i < platform_.switches.size(); ++i) {
      const Switch& sw = platform_.switches[i];
      if (!ids.insert(sw.id).second) return error("switches", i, "this id stands twice");
      const std::set<uint32_t> members(sw.members.begin(), sw.members.end());
      if (members.size() != sw.members.size() || !is_chip(*members.rbegin())) {
        return error("switches", i, "members are chips, each named once");
      }
      for (const uint32_t chip : members) ports_[chip].push_back(i);
    }
    return {};
  }

  base::Status neighbours_of(size_t index, std::vector<uint32_t> Chip::*list) const {
    const Chip& chip = platform_.chips[index];
    for (const uint32_t other : chip.*list) {
      const std::string name = std::to_string(other);
      if (!is_chip(other) || other == chip.id) {
        return error("chips", index, "neighbour " + name + " does not exist");
      }
      const auto& back = platform_.chips[other].*list;
      if (std::find(back.begin(), back.end(), chip.id) == back.end()) {
        return error("chips", index, "chip " + name + " does not name this one as its neighbour");
      }
      if (!joined(chip.id, other) && !on_one_switch(chip.id, other)) {
        return error("chips", index, "nothing joins this chip and its neighbour " + name);
      }
    }
    return {};
  }

  base::Status neighbours() {
    for (size_t i = 0; i < platform_.chips.size(); ++i) {
      for (const auto list : {&Chip::connected_to, &Chip::connected_to_z}) {
        base::Status status = neighbours_of(i, list);
        if (!status) return status;
      }
    }
    return {};
  }

  // Listings show what is wired, except on a switched fabric, where that is a matter of taste.
  base::Status named() {
    if (!platform_.switches.empty()) return {};
    for (size_t i = 0; i < platform_.edges.size(); ++i) {
      const Chip& chip = platform_.chips[platform_.edges[i].a];
      const uint32_t other = platform_.edges[i].b;
      const auto has = [other](const std::vector<uint32_t>& list) {
        return std::find(list.begin(), list.end(), other) != list.end();
      };
      if (has(chip.connected_to) || has(chip.connected_to_z)) continue;
      return error("edges", i, "the chips of this edge do not name each other in connected_to");
    }
    return {};
  }

  base::Status shape() {
    const std::string& kind = platform_.topology;
    if (kind == "single" && platform_.chips.size() != 1) {
      return file_.error({"topology", "kind"}, "a platform of one chip has the kind \"single\"");
    }
    if (kind == "switched" && platform_.switches.empty()) {
      return file_.error({"topology", "kind"}, "a switched platform has switches");
    }
    const size_t dims = kind == "chain" || kind == "ring" ? 1
                        : kind == "torus2d"               ? 2
                        : kind == "torus3d"               ? 3
                                                          : 0;
    if (dims == 0) return {};
    if (!platform_.switches.empty()) return error("switches", 0, only(kind) + "has no switches");
    if (platform_.dims.size() != dims) {
      return file_.error({"topology", "dims"},
                         only(kind) + "has " + std::to_string(dims) + " dims");
    }
    base::Status placed = places();
    return placed ? grid(kind != "chain") : placed;
  }
  static std::string only(const std::string& kind) {
    return "a platform of kind \"" + kind + "\" (\"graph\" takes any) ";
  }

  base::Status places() {
    uint64_t places = 1;
    for (const uint32_t size : platform_.dims) {
      places = std::min<uint64_t>(places * size, platform_.chips.size() + 1);
    }
    if (places != platform_.chips.size()) {
      return file_.error({"topology", "dims"}, "the dims make another number of chips");
    }
    for (size_t i = 0; i < platform_.chips.size(); ++i) {
      const auto& coord = platform_.chips[i].coord;
      for (size_t d = 0; d < coord.size(); ++d) {
        if (coord[d] >= platform_.dims[d]) return error("chips", i, "coord lies outside the dims");
      }
      if (!at_.emplace(coord, static_cast<uint32_t>(i)).second) {
        return error("chips", i, "another chip has the same coord");
      }
    }
    return {};
  }

  // Each chip is joined with the next one in every dimension, and nothing else.
  base::Status grid(bool closed) {
    std::set<Pair> expected;
    for (size_t i = 0; i < platform_.chips.size(); ++i) {
      for (size_t d = 0; d < platform_.dims.size(); ++d) {
        std::vector<uint32_t> next = platform_.chips[i].coord;
        next[d] = (next[d] + 1) % platform_.dims[d];
        const uint32_t other = at_.at(next);
        if (other == i || (next[d] == 0 && !closed)) continue;
        expected.insert(pair_of(static_cast<uint32_t>(i), other));
        if (joined(static_cast<uint32_t>(i), other)) continue;
        return error("chips", i,
                     only(platform_.topology) + "joins this chip with chip " +
                         std::to_string(other) + ", but no edge does");
      }
    }
    for (size_t i = 0; i < platform_.edges.size(); ++i) {
      if (expected.count({platform_.edges[i].a, platform_.edges[i].b}) != 0) continue;
      return error("edges", i, only(platform_.topology) + "does not have this edge");
    }
    return {};
  }

  uint32_t root(uint32_t chip) {
    while (group_[chip] != chip) chip = group_[chip] = group_[group_[chip]];
    return chip;
  }

  base::Status reach() {
    group_.resize(platform_.chips.size());
    std::iota(group_.begin(), group_.end(), 0);
    for (const auto& [a, b] : edges_) group_[root(a)] = root(b);
    for (const Switch& each : platform_.switches) {
      for (const uint32_t chip : each.members) group_[root(chip)] = root(each.members.front());
    }
    std::vector<uint32_t> first(platform_.nodes.size(), ~0u);
    for (size_t i = 0; i < platform_.chips.size(); ++i) {
      uint32_t& other = first[platform_.chips[i].node];
      if (other == ~0u) other = static_cast<uint32_t>(i);
      if (root(other) == root(static_cast<uint32_t>(i))) continue;
      return error("chips", i,
                   "no way leads from here to chip " + std::to_string(other) + " of the same node");
    }
    return {};
  }

  const JsonFile& file_;
  const Platform& platform_;
  std::set<Pair> edges_;
  std::vector<std::vector<size_t>> ports_;  // by chip: its switches
  std::map<std::vector<uint32_t>, uint32_t> at_;
  std::vector<uint32_t> group_;
};

}  // namespace

base::Status check_graph(const JsonFile& file, const Platform& platform) {
  return GraphCheck(file, platform).run();
}

}  // namespace config
