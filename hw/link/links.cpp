#include "hw/link/links.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace hw {

namespace {

std::pair<uint32_t, uint32_t> ends(uint32_t from, uint32_t to) {
  return {from, to};
}

// The owner of a port that lies nearest to `near`: itself, else on its die, else the first.
uint32_t owner(uint8_t owners, uint32_t near) {
  if (owners == 0) return Fabric::kNoDomain;
  const auto first = static_cast<uint32_t>(__builtin_ctz(owners));
  if (near == Fabric::kNoDomain) return first;
  if ((owners >> near & 1) != 0) return near;
  return (owners >> (near ^ 1) & 1) != 0 ? near ^ 1 : first;
}

}  // namespace

Links::Links(const Params& params, std::vector<Fabric*> chips)
    : params_(params),
      chips_(std::move(chips)),
      router_(params.routes, static_cast<uint32_t>(chips_.size()), params.links, params.switches),
      group_(chips_.size()),
      sources_(chips_.size()) {
  const auto count = static_cast<uint32_t>(chips_.size());
  for (uint32_t chip = 0; chip < count; ++chip) group_[chip] = chip;
  for (const LinkParams& link : params.links) {
    const std::string a = chips_[link.a]->name();
    const std::string b = chips_[link.b]->name();
    add("link." + a + "-" + b, {link.a, link.b, nullptr, link.owners_a, link.owners_b}, link.rate,
        params.tracer);
    add("link." + b + "-" + a, {link.b, link.a, nullptr, link.owners_b, link.owners_a}, link.rate,
        params.tracer);
    unite(link.a, link.b);
  }
  for (uint32_t k = 0; k < params.switches.size(); ++k) {
    const SwitchParams& each = params.switches[k];
    for (const uint32_t chip : each.members) {
      const std::string name = "switch." + each.name;
      add(name + ".from." + chips_[chip]->name(), {chip, switch_vertex(k)}, each.rate,
          params.tracer);
      add(name + ".to." + chips_[chip]->name(), {switch_vertex(k), chip}, each.rate, params.tracer);
      unite(each.members.front(), chip);
    }
  }
  std::sort(directions_.begin(), directions_.end(), [](const Direction& x, const Direction& y) {
    return ends(x.from, x.to) < ends(y.from, y.to);
  });
  connect_windows();
}

void Links::connect_windows() {
  const auto count = static_cast<uint32_t>(chips_.size());
  params_.windows.resize(count, Windows{kNoChip, kNoChip, kNoChip, kNoChip});
  for (uint32_t chip = 0; chip < count; ++chip) {
    for (const uint32_t other : params_.windows[chip]) {
      if (other == kNoChip) continue;
      if (other >= count || other == chip) {
        throw std::invalid_argument("a window of chip " + std::to_string(chip) + " leads to chip " +
                                    std::to_string(other));
      }
      unite(chip, other);
    }
  }
}

void Links::unite(uint32_t a, uint32_t b) {
  const uint32_t from = group_[a];
  const uint32_t to = group_[b];
  if (from == to) return;
  std::replace(group_.begin(), group_.end(), from, to);
}

void Links::add(const std::string& name, const Direction& direction, base::Rate rate,
                Tracer* tracer) {
  resources_.push_back(std::make_unique<BandwidthResource>(name, rate));
  resources_.back()->set_tracer(tracer);
  if (params_.policy) resources_.back()->set_arbiter(params_.policy(rate));
  directions_.push_back(direction);
  directions_.back().resource = resources_.back().get();
  const uint8_t owners = direction.exits;
  if ((owners & (owners - 1)) != 0) variants_ = 2;
}

const Links::Direction* Links::find(uint32_t from, uint32_t to) const {
  const auto at = std::lower_bound(
      directions_.begin(), directions_.end(), ends(from, to),
      [](const Direction& d, const auto& other) { return ends(d.from, d.to) < other; });
  const bool found = at != directions_.end() && ends(at->from, at->to) == ends(from, to);
  return found ? &*at : nullptr;
}

Fabric* Links::peer(uint32_t self, uint32_t chip) {
  const bool reached = self < chips_.size() && chip < chips_.size() && group_[self] == group_[chip];
  return reached ? chips_[chip] : nullptr;
}

const Links::Source& Links::source(uint32_t chip) {
  auto& source = sources_[chip];
  if (source != nullptr) return *source;
  source = std::make_unique<Source>();
  source->routes.reserve(chips_.size() * variants_);
  for (const Router::Route& vertices : router_.routes(chip)) {
    for (uint32_t variant = 0; variant < variants_; ++variant) {
      source->routes.push_back(build(vertices, variant, source->hops));
    }
  }
  source->hops.shrink_to_fit();
  return *source;
}

// `variant`: the die from which the transfer comes, where that decides between two cables.
Links::Route Links::build(const Router::Route& vertices, uint32_t variant,
                          std::vector<BandwidthResource*>& hops) {
  Route route;
  route.first = static_cast<uint32_t>(hops.size());
  route.latency = params_.wire;
  uint32_t at = variants_ == 1 ? Fabric::kNoDomain : variant * Fabric::kDomainsPerDie;
  uint32_t chips_passed = 0;
  for (size_t i = 1; i < vertices.size(); ++i) {
    const Direction& hop = *find(vertices[i - 1], vertices[i]);
    const uint32_t exit = owner(hop.exits, at);
    if (i == 1) {
      route.exit = exit;
    } else if (vertices[i - 1] < chips_.size() && at != Fabric::kNoDomain &&
               exit != Fabric::kNoDomain) {
      chips_[vertices[i - 1]]->add_crossing(at, exit, hops);
    }
    hops.push_back(hop.resource);
    at = owner(hop.entries, exit);
    if (vertices[i] >= chips_.size()) {
      route.latency += params_.switch_time;
    } else if (++chips_passed > 1) {
      route.latency += params_.route_extra;
    }
  }
  route.entry = at;
  if (vertices.size() < 2) route.entry = Fabric::kNoDomain;
  route.count = static_cast<uint32_t>(hops.size()) - route.first;
  return route;
}

const Links::Route& Links::route(uint32_t from, uint32_t to, uint32_t variant) {
  return source(from).routes[size_t{to} * variants_ + variant];
}

ChipPort::RouteHops Links::hops(uint32_t from, uint32_t to, uint32_t domain) {
  const uint32_t variant =
      variants_ == 1 || domain == Fabric::kNoDomain ? 0 : domain / Fabric::kDomainsPerDie;
  const Source& all = source(from);
  const Route& route = all.routes[size_t{to} * variants_ + variant];
  return {all.hops.data() + route.first, route.count, route.exit, route.entry};
}

base::Ps Links::latency(uint32_t from, uint32_t to) {
  return route(from, to, 0).latency;
}

uint32_t Links::neighbour(uint32_t self, uint32_t window) const {
  const auto& windows = params_.windows;
  return self < windows.size() && window < windows[self].size() ? windows[self][window] : kNoChip;
}

bool Links::whole(uint32_t from, uint32_t to) {
  const RouteHops all = hops(from, to, Fabric::kNoDomain);
  return std::none_of(all.hops, all.hops + all.count, [this](const BandwidthResource* hop) {
    return std::find(down_.begin(), down_.end(), hop) != down_.end();
  });
}

// Data goes one way and its acknowledgement or request the other, which need not be the same links.
bool Links::answers(uint32_t self, uint32_t chip) {
  return down_.empty() || (whole(self, chip) && whole(chip, self));
}

bool Links::set_up(uint32_t a, uint32_t b, bool up) {
  const Direction* both[2] = {find(a, b), find(b, a)};
  if (both[0] == nullptr || both[1] == nullptr) return false;
  // Runs have looked at addresses ahead of time; what of them has not started has to look again.
  for (const auto& each : resources_) {
    if (up || each->run() == nullptr || params_.events == nullptr) continue;
    each->run()->yield_to({params_.events->now(), ~0u, Phase::kStart});
  }
  for (const Direction* each : both) {
    const auto at = std::find(down_.begin(), down_.end(), each->resource);
    if (up && at != down_.end()) down_.erase(at);
    if (!up && at == down_.end()) down_.push_back(each->resource);
  }
  for (Fabric* chip : chips_) chip->changed();
  if (up && params_.repaired) params_.repaired();
  return true;
}

std::optional<std::pair<uint32_t, uint32_t>> Links::ends_of(std::string_view name) const {
  for (const Direction& each : directions_) {
    if (each.resource->name() == name) return ends(each.from, each.to);
  }
  return std::nullopt;
}

void Links::who_waits(std::vector<std::string>& lines) const {
  for (const BandwidthResource* each : down_) lines.push_back(each->name() + " is down");
}

const BandwidthResource* Links::resource(uint32_t from, uint32_t to) const {
  const Direction* found = find(from, to);
  return found != nullptr ? found->resource : nullptr;
}

const BandwidthResource* Links::resource(std::string_view name) const {
  for (const auto& each : resources_) {
    if (each->name() == name) return each.get();
  }
  return nullptr;
}

std::vector<BandwidthResource*> Links::resources() {
  std::vector<BandwidthResource*> all;
  all.reserve(resources_.size());
  for (auto& each : resources_) all.push_back(each.get());
  return all;
}

void Links::trace_last() {
  for (auto& each : resources_) each->trace_last();
}

}  // namespace hw
