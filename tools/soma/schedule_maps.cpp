#include "tools/soma/schedule_maps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "tools/soma/schedule_parts.h"
#include "tools/soma/text.h"

namespace soma {
namespace {

constexpr size_t kMostOrders = 2;   // channels that are drawn
constexpr size_t kMostLabels = 80;  // hops written at links
constexpr std::array<const char*, kMostOrders> kOrderColours{"#1f6fb2", "#d1561f"};
// By sixths of the most.
constexpr std::array<const char*, 6> kLoadColours{"#b5dfae", "#7fcdbb", "#41b6c4",
                                                  "#1d91c0", "#225ea8", "#0c2c84"};
constexpr double kMostBend = 84;   // twice what a bent arrow rises; less than the margin of a map
constexpr size_t kFewBusiest = 4;  // that get a colour of their own
constexpr const char* kBusiestColour = "#d7191c";
constexpr const char* kWayColour = "#c0392b";

struct Paths {
  std::string lines;
  std::string heads;
};

std::string head(const Spot& tip, double dx, double dy, double size) {
  const double length = std::hypot(dx, dy);
  const Spot back{tip.x - dx / length * size, tip.y - dy / length * size};
  const Spot side{-dy / length * size * 0.55, dx / length * size * 0.55};
  return fmt::format("M{:.1f} {:.1f}L{:.1f} {:.1f}L{:.1f} {:.1f}Z", tip.x, tip.y, back.x + side.x,
                     back.y + side.y, back.x - side.x, back.y - side.y);
}

void add_straight(const Segment& s, double size, Paths& to) {
  const double dx = s.to.x - s.from.x;
  const double dy = s.to.y - s.from.y;
  const double length = std::hypot(dx, dy);
  const double end = std::max(0.0, 1 - 0.8 * size / length);
  to.lines += fmt::format("M{:.1f} {:.1f}L{:.1f} {:.1f}", s.from.x, s.from.y, s.from.x + dx * end,
                          s.from.y + dy * end);
  to.heads += head(s.to, dx, dy, size);
}

// Bends to the right of its way, so that there and back are apart; from box to box.
void add_bent(const Spot& from, const Spot& to, double box, double size, Paths& paths) {
  const double dx = to.x - from.x;
  const double dy = to.y - from.y;
  const double length = std::hypot(dx, dy);
  const double bend = std::min(20 + 0.35 * length, kMostBend);
  const Spot control{(from.x + to.x) / 2 - dy / length * bend,
                     (from.y + to.y) / 2 + dx / length * bend};
  const auto edge = [&](const Spot& of) {
    const double x = control.x - of.x;
    const double y = control.y - of.y;
    const double cut = (box / 2 + 2) / std::max(std::abs(x), std::abs(y));
    return Spot{of.x + x * cut, of.y + y * cut};
  };
  const Spot start = edge(from);
  const Spot end = edge(to);
  paths.lines += fmt::format("M{:.1f} {:.1f}Q{:.1f} {:.1f} {:.1f} {:.1f}", start.x, start.y,
                             control.x, control.y, end.x, end.y);
  paths.heads += head(end, end.x - control.x, end.y - control.y, size);
}

std::string drawn_paths(const Paths& paths, const char* colour, double width,
                        const std::string& title) {
  if (paths.lines.empty()) return "";
  const std::string hover = title.empty() ? "" : "<title>" + escape(title) + "</title>";
  return fmt::format(
      "<path d='{}' fill='none' stroke='{}' stroke-width='{:.1f}'>{}</path>\n"
      "<path d='{}' fill='{}'/>\n",
      paths.lines, colour, width, hover, paths.heads, colour);
}

double head_size(const Layout& layout) {
  return std::clamp(layout.box() / 4, 5.0, 9.0);
}

std::string squares(const Layout& layout, const std::vector<uint32_t>& places,
                    const char* attributes) {
  std::string d;
  const double side = layout.box();
  for (const uint32_t p : places) {
    if (!layout.drawn(p)) continue;
    const Spot at = layout.at(p);
    d += fmt::format("M{:.1f} {:.1f}h{:.1f}v{:.1f}h-{:.1f}z", at.x - side / 2, at.y - side / 2,
                     side, side, side);
  }
  return d.empty() ? "" : fmt::format("<path d='{}' {}/>\n", d, attributes);
}

std::string labels(const ScheduleView& view, const Layout& layout) {
  std::string out;
  const double side = layout.box();
  const char* attributes =
      side >= 22 ? "text-anchor='middle' font-size='12'" : "text-anchor='middle' font-size='9'";
  for (uint32_t p = 0; p < view.places.size(); ++p) {
    const Place& place = view.places[p];
    if (!layout.drawn(p) || side < 13) continue;
    const Spot at = layout.at(p);
    const bool two = side >= 38 && !view.on_chip && !place.ranks.empty();
    out += text_at(at.x, at.y + (two ? -1 : 4), attributes, place.label);
    if (!two) continue;
    out += text_at(at.x, at.y + 12, "text-anchor='middle' font-size='10' fill='#666'",
                   "r " + place.ranks);
  }
  return out;
}

// One arrow of an order: along the link or to the place beside if it is one, else bent over the
// map. False if only one end is drawn.
bool add_arrow(const ScheduleView& view, const Layout& layout, const Link& arrow, Paths& to) {
  const double size = head_size(layout);
  const bool here = layout.drawn(arrow.first);
  const bool there = layout.drawn(arrow.second);
  const Place& a = view.places[arrow.first];
  const Place& b = view.places[arrow.second];
  const bool beside = std::abs(a.x - b.x) + std::abs(a.y - b.y) == 1;
  const bool linked = view.links.bytes.count(arrow) != 0;
  if (here && there && a.unit == b.unit && (view.on_chip || beside || linked)) {
    for (const Segment& s : layout.arrows(arrow)) add_straight(s, size, to);
  } else if (here && there) {
    add_bent(layout.at(arrow.first), layout.at(arrow.second), layout.box(), size, to);
  } else if (here || there) {
    add_straight(layout.corner(here ? arrow.first : arrow.second, 0, here), size, to);
    return false;
  }
  return true;
}

std::string channels_text(const Order& order) {
  std::string out = order.channels.size() == 1 ? "channel " : "channels ";
  out += numbers_text(order.channels);
  if (!order.backwards.empty()) {
    out += fmt::format(" ({} the other way round)", numbers_text(order.backwards));
  }
  return out;
}

// Links that share a colour.
struct Level {
  const char* colour = "";
  std::vector<Link> links;
  uint64_t least = ~uint64_t{0};
  uint64_t most = 0;
};

std::vector<Level> levels_of(const Links& links) {
  std::vector<Level> out(kLoadColours.size() + 1);
  const auto top = [&](const auto& each) { return each.second == links.most; };
  const auto count = std::count_if(links.bytes.begin(), links.bytes.end(), top);
  const bool few = static_cast<size_t>(count) <= kFewBusiest && links.busy > kFewBusiest;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].colour = i < kLoadColours.size() ? kLoadColours.at(i) : kBusiestColour;
  }
  for (const auto& [link, bytes] : links.bytes) {
    if (bytes == 0) continue;
    const size_t sixth = (bytes - 1) / (links.most / kLoadColours.size() + 1);
    Level& level = out[few && bytes == links.most ? kLoadColours.size() : sixth];
    level.links.push_back(link);
    level.least = std::min(level.least, bytes);
    level.most = std::max(level.most, bytes);
  }
  const auto empty = [](const Level& level) { return level.links.empty(); };
  out.erase(std::remove_if(out.begin(), out.end(), empty), out.end());
  return out;
}

std::string bytes_text(uint64_t bytes) {
  return size_text(static_cast<double>(bytes));
}

void add_load_legend(const ScheduleView& view, std::vector<LegendRow>& legend) {
  const Links& links = view.links;
  const std::string what = view.on_chip                   ? "ways from rank to rank"
                           : view.places.back().is_switch ? "directed links and ports of switches"
                                                          : "directed links";
  if (links.busy == 0) {
    legend.push_back({"", "no bytes cross a link"});
    return;
  }
  const auto top = [&](const auto& each) { return each.second == links.most; };
  const auto count = std::count_if(links.bytes.begin(), links.bytes.end(), top);
  std::string busiest =
      fmt::format("busiest: {}, {} bytes", link_name(view.places, links.busiest), links.most);
  if (count > 1) busiest += fmt::format("; {} more as busy", count - 1);
  legend.push_back({"", busiest});
  legend.push_back({"", fmt::format("{} of {} {} carry bytes, {} on average", links.busy,
                                    links.bytes.size(), what, bytes_text(links.sum / links.busy))});
  if (!links.busiest_on_chip.empty()) legend.push_back({"", links.busiest_on_chip});
  const auto closed = [](const Unit& unit) { return unit.closed; };
  std::string edges;
  if (std::any_of(view.units.begin(), view.units.end(), closed)) {
    edges = "arrows at an edge go on at the opposite one";
  }
  const auto leaves = [&](const auto& each) {
    const Place& from = view.places[each.first.first];
    const Place& to = view.places[each.first.second];
    return !from.is_switch && !to.is_switch && from.unit != to.unit;
  };
  if (std::any_of(links.bytes.begin(), links.bytes.end(), leaves)) {
    edges += edges.empty() ? "" : "; ";
    edges += "arrows at corners: links to other nodes";
  }
  if (!edges.empty()) legend.push_back({"", edges});
}

// "1", "2, 34", "1-15"
std::map<Link, std::vector<uint32_t>> hops_of(const SliceWay& way) {
  std::map<Link, std::set<uint32_t>> hops;
  for (const Move& move : way.moves) {
    for (const Link& link : move.links) hops[link].insert(move.hop);
  }
  std::map<Link, std::vector<uint32_t>> out;
  for (const auto& [link, numbers] : hops) out[link] = {numbers.begin(), numbers.end()};
  return out;
}

// Beside the arrow, along it if that leads to a switch; `half` of a link has its box at one end.
std::string hop_label(const Segment& s, bool half, bool along, const std::string& text) {
  const double dx = s.to.x - s.from.x;
  const double dy = s.to.y - s.from.y;
  const double length = std::hypot(dx, dy);
  const Spot side{-dy / length, dx / length};
  Spot at{(s.from.x + s.to.x) / 2 + side.x * 5, (s.from.y + s.to.y) / 2 + 3.5 + side.y * 9};
  const char* anchor = side.x > 0.5 ? "start" : side.x < -0.5 ? "end" : "middle";
  std::string turn;
  if (along) {
    at = {(s.from.x + s.to.x) / 2 + side.x * 9 + 3.5, (s.from.y + s.to.y) / 2};
    anchor = "middle";
    turn = fmt::format(" transform='rotate(-90 {:.1f} {:.1f})'", at.x, at.y);
  } else if (half && std::abs(dx) > std::abs(dy)) {
    at.x = s.from.x;
    anchor = dx > 0 ? "start" : "end";
  }
  return fmt::format(
      "<text x='{:.1f}' y='{:.1f}' font-size='10' fill='#7b241c' text-anchor='{}'{}>{}</text>\n",
      at.x, at.y, anchor, turn, escape(text));
}

}  // namespace

std::string text_at(double x, double y, const char* attributes, const std::string& text) {
  return fmt::format("<text x='{:.1f}' y='{:.1f}' {}>{}</text>\n", x, y, attributes, escape(text));
}

std::string wires(const ScheduleView& view, const Layout& layout) {
  std::string d;
  for (const auto& [link, bytes] : view.links.bytes) {
    for (const Segment& s : layout.arrows(link)) {
      d += fmt::format("M{:.1f} {:.1f}L{:.1f} {:.1f}", s.from.x, s.from.y, s.to.x, s.to.y);
    }
  }
  return d.empty() ? "" : fmt::format("<path d='{}' stroke='#ddd' fill='none'/>\n", d);
}

std::string boxes(const ScheduleView& view, const Layout& layout) {
  std::string out;
  std::vector<uint32_t> used;
  std::vector<uint32_t> unused;
  for (uint32_t p = 0; p < view.places.size(); ++p) {
    (view.places[p].ranks.empty() ? unused : used).push_back(p);
  }
  out += squares(layout, used, "fill='#f3f6fa' stroke='#5a6b7b'");
  out += squares(layout, unused, "fill='#fff' stroke='#bbb' stroke-dasharray='3 2'");
  for (const Bar& bar : layout.bars()) {
    const double half = layout.box() / 2;
    out += fmt::format(
        "<rect x='{:.1f}' y='{:.1f}' width='{:.1f}' height='14' rx='3' fill='#e6e1d6'/>\n",
        bar.left - half, bar.y - 7, bar.right - bar.left + 2 * half);
    out += text_at((bar.left + bar.right) / 2, bar.y + 4, "text-anchor='middle' font-size='10'",
                   bar.label);
  }
  for (const Layout::Title& title : layout.titles()) {
    out += text_at(title.at.x, title.at.y, "text-anchor='middle' font-size='11' fill='#444'",
                   title.text);
  }
  return out + labels(view, layout);
}

MapDrawing order_map(const ScheduleView& view, const Layout& layout) {
  MapDrawing out;
  std::vector<uint32_t> not_drawn;
  bool leaves = false;
  for (size_t i = 0; i < view.orders.size(); ++i) {
    const Order& order = view.orders[i];
    if (i >= kMostOrders) {
      not_drawn.insert(not_drawn.end(), order.channels.begin(), order.channels.end());
      not_drawn.insert(not_drawn.end(), order.backwards.begin(), order.backwards.end());
      continue;
    }
    Paths paths;
    for (const Link& arrow : order.arrows) {
      if (!add_arrow(view, layout, arrow, paths)) leaves = true;
    }
    const std::string text = channels_text(order) + ": " + order.text;
    out.below += drawn_paths(paths, kOrderColours.at(i), 2, text);
    out.legend.push_back({kOrderColours.at(i), text});
  }
  std::sort(not_drawn.begin(), not_drawn.end());
  if (!not_drawn.empty()) {
    out.legend.push_back(
        {"", fmt::format("channels {} go other ways that are not drawn", numbers_text(not_drawn))});
  }
  if (leaves) out.legend.push_back({"", "arrows at corners: to and from nodes that are not drawn"});
  if (view.orders.empty()) out.legend.push_back({"", "no rank gives anything to another"});
  return out;
}

MapDrawing load_map(const ScheduleView& view, const Layout& layout) {
  MapDrawing out;
  add_load_legend(view, out.legend);
  const char* what = view.on_chip ? "way" : "link";
  for (const Level& level : levels_of(view.links)) {
    const double width =
        1.5 + 2.5 * static_cast<double>(level.most) / static_cast<double>(view.links.most);
    Paths paths;
    for (const Link& link : level.links) {
      for (const Segment& s : layout.arrows(link)) add_straight(s, width + 4, paths);
    }
    std::string text = bytes_text(level.least);
    if (bytes_text(level.most) != text) text += " to " + bytes_text(level.most);
    text += fmt::format(": {} {}{}", level.links.size(), what, level.links.size() == 1 ? "" : "s");
    out.below += drawn_paths(paths, level.colour, width, text);
    out.legend.push_back({level.colour, text});
  }
  return out;
}

MapDrawing way_map(const ScheduleView& view, const Layout& layout) {
  MapDrawing out;
  Paths paths;
  std::string numbers;
  const auto hops = hops_of(view.way);
  size_t labels = 0;
  for (const auto& [link, at] : hops) {
    const std::vector<Segment> segments = layout.arrows(link);
    for (const Segment& s : segments) add_straight(s, head_size(layout), paths);
    if (segments.empty() || ++labels > kMostLabels) continue;
    const bool along = view.places[link.first].is_switch || view.places[link.second].is_switch;
    numbers += hop_label(segments.front(), segments.size() > 1, along, numbers_text(at, 4));
  }
  out.below = drawn_paths(paths, kWayColour, 2, view.way.slice);
  if (labels <= kMostLabels) out.above = numbers;
  if (!view.way.moves.empty()) {
    const std::string bold = fmt::format("fill='none' stroke='{}' stroke-width='4'", kWayColour);
    out.below += squares(layout, {view.way.origin}, bold.c_str());
  }
  out.legend.push_back({view.way.moves.empty() ? "" : kWayColour, view.way.slice});
  if (labels > kMostLabels) {
    out.legend.push_back({"", fmt::format("{} links, too many to number", labels)});
  } else if (labels != 0) {
    out.legend.push_back({"", view.on_chip ? "numbers: hops of the table"
                                           : "numbers: hops of the table; hops within a chip are "
                                             "not drawn"});
  }
  const auto drawn = [](const Unit& unit) { return unit.drawn; };
  if (!std::all_of(view.units.begin(), view.units.end(), drawn)) {
    out.legend.push_back({"", "on nodes that are not drawn it goes on unseen"});
  }
  return out;
}

}  // namespace soma
