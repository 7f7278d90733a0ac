// Places and units of the picture of a schedule, and the run of it that other parts follow.
#include "tools/soma/schedule_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/soma/schedule_parts.h"
#include "tools/soma/text.h"

namespace soma {
namespace {

constexpr size_t kCorners = 4;  // up to so many places in a square, more on a circle

bool is_torus(const config::Platform& platform) {
  return (platform.topology == "torus2d" || platform.topology == "torus3d") &&
         platform.dims.size() >= 2;
}

// What is drawn together: node, and the outer coordinates of a torus.
std::vector<uint32_t> unit_key(const config::Platform& platform, const config::Chip& chip) {
  std::vector<uint32_t> key{chip.node};
  if (is_torus(platform)) key.insert(key.end(), chip.coord.begin(), chip.coord.end() - 2);
  return key;
}

std::string unit_name(const config::Platform& platform, const config::Chip& chip) {
  if (platform.nodes.size() > 1) return fmt::format("node {}", chip.node);
  if (!is_torus(platform) || chip.coord.size() == 2) return "";
  return fmt::format("plane {}", fmt::join(chip.coord.begin(), chip.coord.end() - 2, ","));
}

void put_circle(std::vector<Place>& places, Unit& unit) {
  const size_t n = unit.places.size();
  if (n <= kCorners) {
    for (size_t i = 0; i < n; ++i) {  // clockwise, so that a ring has no crossings
      places[unit.places[i]].x = i == 1 || i == 2 ? 1 : 0;
      places[unit.places[i]].y = i >= 2 ? 1 : 0;
    }
    unit.columns = n > 1 ? 2 : 1;
    unit.rows = n > 2 ? 2 : 1;
    return;
  }
  const double turn = 2 * std::acos(-1.0) / static_cast<double>(n);
  const double radius = 0.75 / std::sin(turn / 2);  // neighbours 1.5 apart
  for (size_t i = 0; i < n; ++i) {
    places[unit.places[i]].x = radius * (1 + std::sin(turn * static_cast<double>(i)));
    places[unit.places[i]].y = radius * (1 - std::cos(turn * static_cast<double>(i)));
  }
  unit.columns = unit.rows = 2 * radius + 1;
}

void put_row(std::vector<Place>& places, Unit& unit) {
  for (size_t i = 0; i < unit.places.size(); ++i) {
    places[unit.places[i]].x = static_cast<double>(i);
  }
  unit.columns = static_cast<double>(unit.places.size());
}

// Forth and back, so that the last is the first one's neighbour.
void put_ring(std::vector<Place>& places, Unit& unit) {
  const size_t n = unit.places.size();
  const size_t half = (n + 1) / 2;
  for (size_t i = 0; i < n; ++i) {
    places[unit.places[i]].x = static_cast<double>(i < half ? i : n - 1 - i);
    places[unit.places[i]].y = i < half ? 0 : 1;
  }
  unit.columns = static_cast<double>(half);
  unit.rows = 2;
}

void put_grid(const config::Platform& platform, std::vector<Place>& places, Unit& unit) {
  for (const uint32_t chip : unit.places) {
    const std::vector<uint32_t>& at = platform.chips[chip].coord;
    places[chip].x = at.back();
    places[chip].y = at[at.size() - 2];
  }
  unit.columns = platform.dims.back();
  unit.rows = platform.dims[platform.dims.size() - 2];
  unit.closed = true;
}

void put(const config::Platform& platform, std::vector<Place>& places, Unit& unit) {
  if (is_torus(platform)) return put_grid(platform, places, unit);
  if (platform.topology == "chain" || !platform.switches.empty()) return put_row(places, unit);
  if (platform.topology == "ring") return put_ring(places, unit);
  put_circle(places, unit);
}

std::string platform_text(const config::Platform& platform, const ccl::Group& group) {
  std::string out = platform.name + ": " + platform.topology;
  if (platform.chips.size() > 1) out += fmt::format(" {}", fmt::join(platform.dims, " x "));
  const size_t chips = platform.chips.size();
  out += fmt::format(", {} {} {} ranks", chips, chips == 1 ? "chip with" : "chips, each with",
                     group.topology.cores);
  if (group.topology.lnc > 1) out += fmt::format(" (LNC={})", group.topology.lnc);
  if (platform.nodes.size() > 1) out += fmt::format(", {} nodes", platform.nodes.size());
  return out;
}

std::string title_text(const ccl::Shape& shape) {
  const auto bytes = [](uint64_t n) { return size_text(static_cast<double>(n)); };
  std::string out =
      fmt::format("{} {} of {} rank{}", to_string(shape.algorithm), to_string(shape.request.kind),
                  shape.ranks, shape.ranks == 1 ? "" : "s");
  if (ccl::report_size(shape.request) == 0) return out + ", no data";
  return out + fmt::format(", {} in and {} out per rank{}", bytes(shape.request.input_bytes),
                           bytes(shape.request.output_bytes), shape.in_place ? ", in place" : "");
}

}  // namespace

std::string numbers_text(const std::vector<uint32_t>& ascending, size_t most) {
  std::string out;
  for (size_t i = 0; i < ascending.size();) {
    size_t end = i + 1;
    while (end < ascending.size() && ascending[end] == ascending[end - 1] + 1) ++end;
    if (out.size() > most) return out + fmt::format(", ... ({})", ascending.size());
    if (i != 0) out += ", ";
    out += std::to_string(ascending[i]);
    if (end - i > 1) out += (end - i == 2 ? ", " : "-") + std::to_string(ascending[end - 1]);
    i = end;
  }
  return out;
}

std::string link_name(const std::vector<Place>& places, const Link& link) {
  const Place& from = places[link.first];
  const Place& to = places[link.second];
  const bool same = !from.is_switch && !to.is_switch;
  return from.name + " to " + (same ? to.label : to.name);
}

Map::Map(const config::Platform& platform, const ccl::Group& group, const sim::RouteTable& routes)
    : routes_(routes) {
  const uint32_t first = group.members.front().chip;
  on_chip_ = std::all_of(group.members.begin(), group.members.end(),
                         [&](const ccl::Position& p) { return p.chip == first; });
  if (on_chip_) {
    put_ranks(group);
  } else {
    put_chips(platform, group);
  }
}

void Map::put_ranks(const ccl::Group& group) {
  Unit& unit = units_.emplace_back();
  unit.name = fmt::format("chip {}", group.members.front().chip);
  for (uint32_t r = 0; r < group.ranks(); ++r) {
    Place& place = places_.emplace_back();
    place.name = fmt::format("rank {}", r);
    place.label = place.ranks = std::to_string(r);
    place_of_.push_back(r);
    unit.places.push_back(r);
  }
  put_circle(places_, unit);
}

void Map::put_chips(const config::Platform& platform, const ccl::Group& group) {
  std::vector<std::vector<uint32_t>> ranks(platform.chips.size());
  std::vector<bool> taken(platform.nodes.size());
  for (uint32_t r = 0; r < group.ranks(); ++r) {
    place_of_.push_back(group.members[r].chip);
    ranks[group.members[r].chip].push_back(r);
    taken[group.members[r].node] = true;
  }
  std::map<std::vector<uint32_t>, uint32_t> keys;
  for (const config::Chip& chip : platform.chips) {
    Place& place = places_.emplace_back();
    place.label = std::to_string(chip.id);
    place.name = "chip " + place.label;
    place.ranks = numbers_text(ranks[chip.id]);
    place.unit = kNoUnit;
    if (!taken[chip.node]) continue;
    const auto [at, is_new] =
        keys.emplace(unit_key(platform, chip), static_cast<uint32_t>(units_.size()));
    if (is_new) units_.emplace_back().name = unit_name(platform, chip);
    place.unit = at->second;
    units_[at->second].places.push_back(chip.id);
  }
  for (const config::Switch& each : platform.switches) {
    Place& place = places_.emplace_back();
    place.label = each.id;
    place.name = "switch " + each.id;
    place.is_switch = true;
    place.level = each.level;
    place.unit = kNoUnit;
  }
  for (Unit& unit : units_) put(platform, places_, unit);
}

std::vector<Link> links_along(const sim::Route& route) {
  std::vector<Link> out;
  for (size_t i = 1; i < route.size(); ++i) out.emplace_back(route[i - 1], route[i]);
  return out;
}

std::vector<Link> Map::way(uint32_t from_rank, uint32_t to_rank) const {
  const uint32_t from = place_of(from_rank);
  const uint32_t to = place_of(to_rank);
  if (from == to) return {};
  if (on_chip_) return {{from, to}};
  return links_along(routes_[from][to]);
}

ScheduleRun::ScheduleRun(const ccl::Program& program) : takes(program.refs.size()) {
  const size_t events = program.shape.events.size();
  std::vector<std::vector<uint32_t>> came(program.uses.size());  // by rank and event
  std::vector<size_t> next(program.tracks.size());
  const auto starts = [&](uint32_t id) {
    const ccl::Step& step = program.step(id);
    const size_t first = program.refs[id].rank * events;
    for (const ccl::Wait& wait : step.waits) {
      if (came[first + wait.event].size() < wait.signals) return false;
    }
    for (const ccl::Wait& wait : step.waits) {
      std::vector<uint32_t>& queue = came[first + wait.event];
      takes[id].insert(takes[id].end(), queue.begin(), queue.begin() + wait.signals);
      queue.erase(queue.begin(), queue.begin() + wait.signals);
    }
    for (const ccl::Signal& s : step.signals) came[s.rank * events + s.event].push_back(id);
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t t = 0; t < program.tracks.size(); ++t) {
      for (; next[t] < program.tracks[t].size() && starts(program.tracks[t][next[t]]); ++next[t]) {
        order.push_back(program.tracks[t][next[t]]);
        moved = true;
      }
    }
  }
}

base::Result<ScheduleView> schedule_view(const config::Platform& platform, const ccl::Group& group,
                                         const ccl::Schedule& schedule,
                                         const sim::RouteTable& routes,
                                         const std::map<Link, uint64_t>& loads) {
  const base::Result<ccl::Program> program = ccl::make_program(schedule);
  if (!program) return program.error();
  const Map map(platform, group, routes);
  const ScheduleRun run(*program);
  ScheduleView view;
  view.title = title_text(schedule.shape);
  view.platform = platform_text(platform, group);
  view.on_chip = map.on_chip();
  view.places = map.places();
  view.units = map.units();
  view.links = links_of(platform, *program, map, loads);
  choose_units(view.links, view.places, view.units, view.hidden);
  view.orders = orders_of(*program, map);
  view.way = way_of(*program, run, map);
  view.steps = steps_of(*program, run);
  return view;
}

}  // namespace soma
