// Bytes per link, and which nodes are drawn: of those whose links carry the same only the first.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "runtime/collectives/schedule/crossings.h"
#include "tools/soma/schedule_parts.h"

namespace soma {
namespace {

constexpr size_t kMostUnits = 4;  // that are drawn

std::map<Link, uint64_t> flows(const ccl::Program& program, const Map& map, bool within) {
  std::map<Link, uint64_t> out;
  for (uint32_t r = 0; r < program.shape.ranks; ++r) {
    for (const ccl::Step& step : program.ranks[r]) {
      ccl::crossings(step, r, [&](uint32_t from, uint32_t to, uint64_t bytes) {
        if (!within || map.place_of(from) == map.place_of(to)) out[{from, to}] += bytes;
      });
    }
  }
  return out;
}

Link most_of(const std::map<Link, uint64_t>& loads) {
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  return std::max_element(loads.begin(), loads.end(), less)->first;
}

// Links and ports of switches, those of chips that no rank of the group is near left out.
std::map<Link, uint64_t> all_links(const config::Platform& platform, const Map& map) {
  std::map<Link, uint64_t> out;
  const auto join = [&](uint32_t a, uint32_t b) {
    const auto& places = map.places();
    if (places[a].unit == kNoUnit && places[b].unit == kNoUnit) return;
    out[{a, b}] = out[{b, a}] = 0;
  };
  for (const config::Edge& edge : platform.edges) join(edge.a, edge.b);
  for (size_t s = 0; s < platform.switches.size(); ++s) {
    const auto number = static_cast<uint32_t>(platform.chips.size() + s);
    for (const uint32_t member : platform.switches[s].members) join(member, number);
  }
  return out;
}

// What the links at a unit carry, without saying which unit it is.
using Pattern = std::vector<std::tuple<size_t, size_t, uint32_t, uint64_t>>;

std::vector<Pattern> patterns_of(const Links& links, const std::vector<Place>& places,
                                 const std::vector<Unit>& units) {
  std::vector<size_t> local(places.size());
  for (const Unit& unit : units) {
    for (size_t i = 0; i < unit.places.size(); ++i) local[unit.places[i]] = i;
  }
  constexpr size_t kOutside = ~size_t{0};
  std::vector<Pattern> patterns(units.size());
  for (const auto& [link, bytes] : links.bytes) {
    const Place& from = places[link.first];
    const Place& to = places[link.second];
    if (from.unit != kNoUnit) {
      const bool stays = to.unit == from.unit;
      patterns[from.unit].emplace_back(local[link.first], stays ? local[link.second] : kOutside,
                                       to.level, bytes);
    }
    if (to.unit != kNoUnit && to.unit != from.unit) {
      patterns[to.unit].emplace_back(kOutside, local[link.second], from.level, bytes);
    }
  }
  for (Pattern& pattern : patterns) std::sort(pattern.begin(), pattern.end());
  return patterns;
}

}  // namespace

std::map<Link, uint64_t> schedule_loads(const ccl::Schedule& schedule, const ccl::Group& group,
                                        const sim::RouteTable& routes) {
  return ccl::link_loads(schedule, group,
                         [&](uint32_t from, uint32_t to) { return links_along(routes[from][to]); });
}

Links links_of(const config::Platform& platform, const ccl::Program& program, const Map& map,
               const std::map<Link, uint64_t>& loads) {
  Links out;
  if (map.on_chip()) {
    out.bytes = flows(program, map, false);
  } else {
    out.bytes = all_links(platform, map);
    for (const auto& [link, bytes] : loads) out.bytes[link] = bytes;
    const std::map<Link, uint64_t> within = flows(program, map, true);
    if (!within.empty()) {
      const Link most = most_of(within);
      out.busiest_on_chip = fmt::format(
          "within chips at most {} bytes from a rank to another "
          "(rank {} to {})",
          within.at(most), most.first, most.second);
    }
  }
  if (out.bytes.empty()) return out;
  out.busiest = most_of(out.bytes);
  out.most = out.bytes.at(out.busiest);
  for (const auto& [link, bytes] : out.bytes) {
    out.sum += bytes;
    out.busy += bytes != 0 ? 1 : 0;
  }
  return out;
}

void choose_units(const Links& links, const std::vector<Place>& places, std::vector<Unit>& units,
                  std::string& hidden) {
  const auto row = [](const Unit& unit) { return unit.in_row(); };
  const bool rows = std::any_of(units.begin(), units.end(), row);
  if (units.size() <= kMostUnits && !rows) return;
  const std::vector<Pattern> patterns = patterns_of(links, places, units);
  const uint32_t at = places[links.busiest.first].unit;
  const size_t busiest = at != kNoUnit ? at : places[links.busiest.second].unit;
  const auto same = [&](size_t a) {
    return static_cast<size_t>(std::find(patterns.begin(), patterns.end(), patterns[a]) -
                               patterns.begin());
  };
  size_t kinds = 1;  // the busiest one's has its place
  size_t others = 0;
  for (size_t u = 0; u < units.size(); ++u) {
    const size_t first = same(u);
    units[u].drawn = first == u && (first == same(busiest) || kinds < kMostUnits);
    if (units[u].drawn) {
      kinds += first == same(busiest) ? 0 : 1;
    } else if (first != u && units[first].drawn) {
      units[first].alike.push_back(units[u].name);
    } else {
      ++others;
    }
  }
  if (others != 0)
    hidden = fmt::format("{} more nodes carry other loads and are not drawn", others);
}

}  // namespace soma
