#include "hw/link/router.h"

#include <algorithm>
#include <queue>
#include <stdexcept>
#include <string>
#include <utility>

namespace hw {

namespace {

// A hop over a switch costs a little more than one over a link, however many there are.
constexpr uint64_t kLinkCost = uint64_t{1} << 32;
constexpr uint64_t kPortCost = kLinkCost / 2 + 1;
constexpr uint64_t kUnreached = ~uint64_t{0};

constexpr uint64_t kMostPlaces = 1 << 20;
constexpr uint32_t kPlane = 4;  // chips per side of the plane that the table is for
// spec/collectives.md 2.7.1, by displacement (rows, columns): N, S: row -1, +1; W, E: column -1,
// +1.
constexpr const char* kMoves[kPlane][kPlane] = {{"", "E", "WW", "W"},
                                                {"S", "ES", "WWS", "WS"},
                                                {"NN", "ENN", "SSEE", "SSW"},
                                                {"N", "EN", "NEE", "NW"}};

uint32_t step(uint32_t at, uint32_t size, bool up) {
  return (at + (up ? 1 : size - 1)) % size;
}

// The shorter way round; a tie is broken by the parity of the place where it starts.
bool goes_up(uint32_t from, uint32_t to, uint32_t size) {
  const uint32_t up = (to + size - from) % size;
  return 2 * up == size ? from % 2 == 0 : 2 * up < size;
}

}  // namespace

Router::Router(const RouteParams& params, uint32_t chips, const std::vector<LinkParams>& links,
               const std::vector<SwitchParams>& switches)
    : rule_(params.rule),
      switch_port_(params.switch_port),
      chips_(chips),
      next_(chips + switches.size()) {
  for (const LinkParams& link : links) {
    if (link.a >= chips || link.b >= chips || link.a == link.b) {
      throw std::invalid_argument("a link needs two chips of the machine, not " +
                                  std::to_string(link.a) + " and " + std::to_string(link.b));
    }
    join(link.a, link.b);
  }
  for (const SwitchParams& each : switches) {
    const auto vertex = chips + static_cast<uint32_t>(levels_.size());
    levels_.push_back(each.level);
    for (const uint32_t member : each.members) {
      if (member >= chips) {
        throw std::invalid_argument("switch " + each.name + " has no chip " +
                                    std::to_string(member));
      }
      join(member, vertex);
    }
  }
  for (auto& list : next_) {
    std::sort(list.begin(), list.end());
    if (std::adjacent_find(list.begin(), list.end()) != list.end()) {
      throw std::invalid_argument("two links join the same pair");
    }
  }
  if (rule_ == RouteParams::Rule::kTorus || !params.coords.empty()) place(params);
  if (params.routing) routing_ = params.routing(*this);
  if (params.switch_choice) switch_choice_ = params.switch_choice(*this);
}

void Router::join(uint32_t a, uint32_t b) {
  next_[a].push_back(b);
  next_[b].push_back(a);
}

// Places may stay empty, and the machine may have fewer chips than there are coordinates.
void Router::place(const RouteParams& params) {
  dims_ = params.dims;
  coords_ = params.coords;
  uint64_t places = 1;
  for (const uint32_t size : dims_) places = std::min(places * size, kMostPlaces + 1);
  bool fits = coords_.size() >= chips_ && places <= kMostPlaces;
  at_.assign(fits ? places : 0, ~0u);
  for (uint32_t chip = 0; fits && chip < chips_; ++chip) {
    fits = coords_[chip].size() == dims_.size();
    for (size_t d = 0; fits && d < dims_.size(); ++d) fits = coords_[chip][d] < dims_[d];
    fits = fits && chip_at(coords_[chip]) == ~0u;
    if (fits) at_[linear(coords_[chip])] = chip;
  }
  if (!fits) throw std::invalid_argument("coordinates of the chips do not fit the torus");
}

size_t Router::linear(const std::vector<uint32_t>& place) const {
  size_t index = 0;
  for (size_t d = 0; d < dims_.size(); ++d) index = index * dims_[d] + place[d];
  return index;
}

bool Router::joined(uint32_t a, uint32_t b) const {
  return std::binary_search(next_[a].begin(), next_[a].end(), b);
}

std::vector<Router::Route> Router::routes(uint32_t from) const {
  std::vector<Route> all(chips_);
  Costs costs;
  for (uint32_t to = 0; to < chips_; ++to) {
    if (to == from) continue;
    if (routing_ != nullptr) all[to] = asked(from, to);
    if (!all[to].empty()) continue;
    if (rule_ == RouteParams::Rule::kTorus) all[to] = torus(from, to);
    if (rule_ == RouteParams::Rule::kSwitched) all[to] = switched(from, to);
    if (!all[to].empty() && holds(all[to])) continue;
    if (costs.empty()) costs = this->costs(from);
    all[to] = shortest(costs, from, to);
  }
  return all;
}

// The route that a policy of others chooses; empty if it leaves that to us.
Router::Route Router::asked(uint32_t from, uint32_t to) const {
  Route route = routing_->route(from, to);
  if (route.empty()) return route;
  bool fits = route.front() == from && route.back() == to;
  for (const uint32_t vertex : route) fits = fits && vertex < vertices();
  if (fits && holds(route)) return route;
  std::string text;
  for (const uint32_t vertex : route) text += " " + std::to_string(vertex);
  throw std::runtime_error("the policy for routing answers with a route from chip " +
                           std::to_string(from) + " to chip " + std::to_string(to) +
                           " that does not exist:" + text);
}

bool Router::holds(const Route& route) const {
  for (size_t i = 1; i < route.size(); ++i) {
    if (route[i] == ~0u || !joined(route[i - 1], route[i])) return false;
  }
  return true;
}

uint64_t Router::cost(uint32_t a, uint32_t b) const {
  return is_switch(a) || is_switch(b) ? kPortCost : kLinkCost;
}

Router::Costs Router::costs(uint32_t from) const {
  Costs costs(next_.size(), kUnreached);
  using Entry = std::pair<uint64_t, uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  costs[from] = 0;
  open.push({0, from});
  while (!open.empty()) {
    const auto [so_far, vertex] = open.top();
    open.pop();
    if (so_far != costs[vertex]) continue;
    for (const uint32_t other : next_[vertex]) {
      const uint64_t there = so_far + cost(vertex, other);
      if (there >= costs[other]) continue;
      costs[other] = there;
      open.push({there, other});
    }
  }
  return costs;
}

Router::Route Router::shortest(const Costs& costs, uint32_t from, uint32_t to) const {
  if (costs[to] == kUnreached) return {};
  Route route{to};
  std::vector<uint32_t> before;
  while (route.back() != from) {
    const uint32_t at = route.back();
    before.clear();
    for (const uint32_t other : next_[at]) {
      if (costs[other] != kUnreached && costs[other] + cost(other, at) == costs[at]) {
        before.push_back(other);
      }
    }
    route.push_back(before[(from + to) % before.size()]);
  }
  std::reverse(route.begin(), route.end());
  return route;
}

Router::Route Router::torus(uint32_t from, uint32_t to) const {
  Route route{from};
  std::vector<uint32_t> here = coords_[from];
  const std::vector<uint32_t>& there = coords_[to];
  const auto move = [&](size_t d, bool up) {
    here[d] = step(here[d], dims_[d], up);
    route.push_back(chip_at(here));
  };
  size_t left = dims_.size();
  if (left >= 2 && dims_[left - 1] == kPlane && dims_[left - 2] == kPlane) {
    const size_t row = left - 2;
    const size_t column = left - 1;
    const uint32_t down = (there[row] + kPlane - here[row]) % kPlane;
    const uint32_t right = (there[column] + kPlane - here[column]) % kPlane;
    for (const char* m = kMoves[down][right]; *m != '\0'; ++m) {
      move(*m == 'N' || *m == 'S' ? row : column, *m == 'S' || *m == 'E');
    }
    left -= 2;
  }
  while (left-- > 0) {
    const bool up = goes_up(here[left], there[left], dims_[left]);
    while (here[left] != there[left]) move(left, up);
  }
  return route;
}

uint32_t Router::common_switch(uint32_t a, uint32_t b, uint32_t level) const {
  std::vector<uint32_t> all;
  for (const uint32_t vertex : next_[a]) {
    if (is_switch(vertex) && levels_[vertex - chips_] == level && joined(vertex, b)) {
      all.push_back(vertex);
    }
  }
  if (all.empty()) return 0;
  if (all.size() == 1) return all.front();
  size_t choice = switch_port_ == RouteParams::Switch::kSpread ? (a + b) % all.size() : 0;
  if (switch_choice_ != nullptr) choice = switch_choice_->choose(a, b, all);
  if (choice < all.size()) return all[choice];
  throw std::runtime_error("the policy for switch ports chooses number " + std::to_string(choice) +
                           " of " + std::to_string(all.size()) + " switches");
}

Router::Route Router::switched(uint32_t from, uint32_t to) const {
  for (const uint32_t level : {1u, 2u}) {
    if (const uint32_t over = common_switch(from, to, level)) return {from, over, to};
  }
  if (joined(from, to)) return {from, to};
  for (const uint32_t chip : next_[to]) {
    if (is_switch(chip)) continue;
    if (const uint32_t over = common_switch(from, chip, 2)) return {from, over, chip, to};
  }
  return {};
}

}  // namespace hw
