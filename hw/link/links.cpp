#include "hw/link/links.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace hw {

namespace {

std::pair<uint32_t, uint32_t> ends(uint32_t from, uint32_t to) {
  return {from, to};
}

}  // namespace

Links::Links(const Params& params, std::vector<Fabric*> chips)
    : chips_(std::move(chips)), windows_(params.windows), wire_(params.wire) {
  const auto count = static_cast<uint32_t>(chips_.size());
  for (const LinkParams& link : params.links) {
    if (link.a >= count || link.b >= count || link.a == link.b) {
      throw std::invalid_argument("a link needs two chips of the machine, not " +
                                  std::to_string(link.a) + " and " + std::to_string(link.b));
    }
    add(link.a, link.b, link, params.tracer);
    add(link.b, link.a, link, params.tracer);
  }
  std::sort(directions_.begin(), directions_.end(), [](const Direction& x, const Direction& y) {
    return ends(x.from, x.to) < ends(y.from, y.to);
  });
  windows_.resize(count, Windows{kNoChip, kNoChip, kNoChip, kNoChip});
  for (uint32_t chip = 0; chip < count; ++chip) {
    for (const uint32_t other : windows_[chip]) {
      if (other == kNoChip || (other < count && other != chip)) continue;
      throw std::invalid_argument("a window of chip " + std::to_string(chip) + " leads to chip " +
                                  std::to_string(other));
    }
  }
}

void Links::add(uint32_t from, uint32_t to, const LinkParams& link, Tracer* tracer) {
  const std::string name = "link." + chips_[from]->name() + "-" + chips_[to]->name();
  resources_.push_back(std::make_unique<BandwidthResource>(name, link.rate));
  resources_.back()->set_tracer(tracer);
  directions_.push_back({from, to, resources_.back().get()});
}

void Links::path(uint32_t self, uint32_t chip, bool write, uint64_t bytes, Charges& to) {
  const auto wanted = write ? ends(self, chip) : ends(chip, self);
  const auto at = std::lower_bound(
      directions_.begin(), directions_.end(), wanted,
      [](const Direction& d, const auto& other) { return ends(d.from, d.to) < other; });
  if (at != directions_.end() && ends(at->from, at->to) == wanted) to.add(*at->resource, bytes);
}

uint32_t Links::neighbour(uint32_t self, uint32_t window) const {
  return self < windows_.size() && window < windows_[self].size() ? windows_[self][window]
                                                                  : kNoChip;
}

std::vector<BandwidthResource*> Links::resources() {
  std::vector<BandwidthResource*> all;
  for (auto& each : resources_) all.push_back(each.get());
  return all;
}

void Links::trace_last() {
  for (auto& each : resources_) each->trace_last();
}

}  // namespace hw
