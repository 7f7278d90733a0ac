#include "tools/soma/schedule_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace soma {
namespace {

constexpr double kMargin = 46;      // round the places of a unit: links round the outside
constexpr double kMostPitch = 118;  // distance of places
constexpr double kAside = 4.5;      // of an arrow from the middle of the link
constexpr double kStub = 26;        // length of half a link round the outside
constexpr double kCorner = 13;      // length of a link to another unit
constexpr double kToBar = 46;       // from a chip to a switch
constexpr double kTitle = 20;

Segment shifted(const Segment& s, double aside) {
  const double dx = s.to.x - s.from.x;
  const double dy = s.to.y - s.from.y;
  const double length = std::hypot(dx, dy);
  const Spot side{-dy / length * aside, dx / length * aside};
  return {{s.from.x + side.x, s.from.y + side.y}, {s.to.x + side.x, s.to.y + side.y}};
}

Segment turned(const Segment& s) {
  return {s.to, s.from};
}

}  // namespace

Layout::Layout(const ScheduleView& view, double width)
    : view_(view), drawn_(view.places.size()), spots_(view.places.size()) {
  place_units(width);
  number_corners();
}

bool Layout::wide(const ScheduleView& view) {
  return std::any_of(view.units.begin(), view.units.end(),
                     [](const Unit& unit) { return unit.in_row(); });
}

void Layout::place_units(double width) {
  std::vector<const Unit*> units;
  double columns = 1;
  for (const Unit& unit : view_.units) {
    if (!unit.drawn) continue;
    units.push_back(&unit);
    columns = std::max(columns, unit.columns);
  }
  const size_t across = units.size() == 1 || wide(view_) ? 1 : 2;
  const double cell = width / static_cast<double>(across);
  pitch_ = std::min(kMostPitch, (cell - 2 * kMargin) / std::max(1.0, columns - 1));
  box_ = std::clamp(0.42 * pitch_, 12.0, 46.0);
  double top = 0;
  double bottom = 0;
  for (size_t i = 0; i < units.size(); ++i) {
    if (i % across == 0) top = bottom;
    place_unit(*units[i], static_cast<double>(i % across) * cell, top, cell);
    bottom = std::max(bottom, height_);
  }
  height_ = bottom;
}

void Layout::place_unit(const Unit& unit, double left, double top, double width) {
  const bool above = std::any_of(view_.places.begin(), view_.places.end(),
                                 [](const Place& p) { return p.is_switch && p.level > 1; });
  const bool below = std::any_of(view_.places.begin(), view_.places.end(),
                                 [](const Place& p) { return p.is_switch && p.level <= 1; });
  double y = top;
  std::string title = unit.name;
  if (!unit.alike.empty()) title += fmt::format(" ({} alike)", unit.alike.size());
  if (!title.empty()) {
    y += kTitle;
    titles_.push_back({title, {left + width / 2, y - 6}});
  }
  y += (above ? kToBar + 24 : kMargin - box_ / 2) + box_ / 2;
  const double x = left + (width - (unit.columns - 1) * pitch_) / 2;
  for (const uint32_t place : unit.places) {
    drawn_[place] = true;
    spots_[place] = {x + view_.places[place].x * pitch_, y + view_.places[place].y * pitch_};
  }
  add_bars(unit, y);
  y += (unit.rows - 1) * pitch_ + box_ / 2;
  height_ = y + (below ? kToBar + 24 : kMargin - box_ / 2);
}

void Layout::add_bars(const Unit& unit, double y) {
  std::map<uint32_t, Bar> bars;
  for (const auto& [link, bytes] : view_.links.bytes) {
    const Place& to = view_.places[link.second];
    const uint32_t chip = link.first;
    if (!to.is_switch) continue;
    if (std::find(unit.places.begin(), unit.places.end(), chip) == unit.places.end()) continue;
    const auto [at, is_new] = bars.try_emplace(link.second);
    Bar& bar = at->second;
    bar.left = is_new ? spots_[chip].x : std::min(bar.left, spots_[chip].x);
    bar.right = is_new ? spots_[chip].x : std::max(bar.right, spots_[chip].x);
    bar.y = to.level > 1 ? y - box_ / 2 - kToBar : y + box_ / 2 + kToBar;
    bar.label = to.label;
  }
  for (const auto& [place, bar] : bars) bars_.push_back(bar);
}

void Layout::number_corners() {
  for (const auto& [link, bytes] : view_.links.bytes) {
    const Place& from = view_.places[link.first];
    const Place& to = view_.places[link.second];
    if (from.is_switch || to.is_switch || from.unit == to.unit) continue;
    outside_[link.first].push_back(link.second);
  }
}

size_t Layout::corner_of(uint32_t place, uint32_t other) const {
  const auto found = outside_.find(place);
  if (found == outside_.end()) return 0;
  const std::vector<uint32_t>& all = found->second;
  return static_cast<size_t>(std::find(all.begin(), all.end(), other) - all.begin());
}

Segment Layout::between(uint32_t from, uint32_t to) const {
  const Spot a = spots_[from];
  const Spot b = spots_[to];
  const double dx = b.x - a.x;
  const double dy = b.y - a.y;
  const double reach = std::max(std::abs(dx), std::abs(dy));
  const double cut = (box_ / 2 + 2) / reach;
  return {{a.x + dx * cut, a.y + dy * cut}, {b.x - dx * cut, b.y - dy * cut}};
}

Segment Layout::corner(uint32_t place, size_t number, bool outwards) const {
  constexpr std::array<Spot, 4> kCorners{{{1, -1}, {-1, 1}, {-1, -1}, {1, 1}}};
  const Spot way = kCorners.at(number % kCorners.size());
  const Spot at = spots_[place];
  const double near = box_ / 2 + 1;
  const double far = near + kCorner;
  const Segment out{{at.x + way.x * near, at.y + way.y * near},
                    {at.x + way.x * far, at.y + way.y * far}};
  return shifted(outwards ? out : turned(out), kAside - 1);
}

std::vector<Segment> Layout::round_outside(const Link& link) const {
  const Spot a = spots_[link.first];
  const Spot b = spots_[link.second];
  const double length = std::hypot(b.x - a.x, b.y - a.y);
  const Spot way{(a.x - b.x) / length, (a.y - b.y) / length};  // away from the other end
  const double near = box_ / 2 + 2;
  const double far = near + std::min(kStub, 0.45 * pitch_);
  const Segment leaves{{a.x + way.x * near, a.y + way.y * near},
                       {a.x + way.x * far, a.y + way.y * far}};
  const Segment comes{{b.x - way.x * far, b.y - way.y * far},
                      {b.x - way.x * near, b.y - way.y * near}};
  return {shifted(leaves, kAside), shifted(comes, kAside)};
}

Segment Layout::to_switch(uint32_t chip, uint32_t place, bool up) const {
  const Spot at = spots_[chip];
  const double way = view_.places[place].level > 1 ? -1 : 1;
  const Segment out{{at.x, at.y + way * (box_ / 2 + 2)},
                    {at.x, at.y + way * (box_ / 2 + kToBar - 6)}};
  return shifted(up ? out : turned(out), kAside);
}

std::vector<Segment> Layout::arrows(const Link& link) const {
  const Place& from = view_.places[link.first];
  const Place& to = view_.places[link.second];
  if (to.is_switch || from.is_switch) {
    const uint32_t chip = to.is_switch ? link.first : link.second;
    if (!drawn_[chip]) return {};
    return {to_switch(chip, to.is_switch ? link.second : link.first, to.is_switch)};
  }
  if (from.unit != to.unit) {
    std::vector<Segment> out;
    const size_t here = corner_of(link.first, link.second);
    const size_t there = corner_of(link.second, link.first);
    if (drawn_[link.first]) out.push_back(corner(link.first, here, true));
    if (drawn_[link.second]) out.push_back(corner(link.second, there, false));
    return out;
  }
  if (!drawn_[link.first]) return {};
  const double dx = std::abs(from.x - to.x);
  const double dy = std::abs(from.y - to.y);
  if (view_.units[from.unit].closed && dx + dy > 1) return round_outside(link);
  return {shifted(between(link.first, link.second), kAside)};
}

}  // namespace soma
