// The page: title, three maps over the same base, tables.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "tools/soma/schedule_maps.h"
#include "tools/soma/schedule_parts.h"
#include "tools/soma/text.h"

namespace soma {
namespace {

constexpr double kWidth = 1180;
constexpr double kEdge = 16;
constexpr double kColumn = 560;  // width of a map
constexpr double kRight = kWidth - kEdge - kColumn;
constexpr double kLine = 15;
constexpr double kGap = 28;
constexpr size_t kLetters = 86;    // of a line under a map
constexpr size_t kFirstHops = 16;  // rows of the table of hops
constexpr size_t kLastHops = 6;
constexpr size_t kRanks = 14;  // letters of their numbers; more are only counted
constexpr const char* kMono =
    "font-family='DejaVu Sans Mono, Consolas, monospace' font-size='11' "
    "xml:space='preserve'";

struct Block {
  std::string elements;
  double height = 0;
};

// Lines of at most so many letters, broken at spaces.
std::vector<std::string> wrapped(const std::string& text, size_t letters) {
  std::vector<std::string> out;
  size_t at = 0;
  while (text.size() - at > letters) {
    size_t end = text.rfind(' ', at + letters);
    if (end == std::string::npos || end <= at) end = at + letters;
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  out.push_back(text.substr(at));
  return out;
}

std::string heading(double x, double y, const std::string& text) {
  return text_at(x, y, "font-size='14' font-weight='bold'", text);
}

Block legend(const std::vector<LegendRow>& rows, double x, double y) {
  Block out;
  for (const LegendRow& row : rows) {
    if (!row.colour.empty()) {
      out.elements +=
          fmt::format("<rect x='{:.1f}' y='{:.1f}' width='18' height='6' rx='2' fill='{}'/>\n", x,
                      y + out.height - 8, row.colour);
    }
    for (const std::string& line : wrapped(row.text, kLetters)) {
      out.elements +=
          text_at(x + (row.colour.empty() ? 0 : 24), y + out.height, "font-size='11'", line);
      out.height += kLine;
    }
  }
  return out;
}

Block map_block(const std::string& title, const MapDrawing& map, double x, double y,
                double height) {
  constexpr double kTitle = 16;
  constexpr double kBelow = 20;
  Block out;
  out.elements = heading(x, y, title);
  out.elements += fmt::format(
      "<g transform='translate({:.1f} {:.1f})'><use href='#wires'/>\n{}<use href='#boxes'/>\n"
      "{}</g>\n",
      x, y + kTitle, map.below, map.above);
  const Block rows = legend(map.legend, x, y + kTitle + height + kBelow);
  out.elements += rows.elements;
  out.height = kTitle + height + kBelow + rows.height;
  return out;
}

struct TableRow {
  const char* colour = nullptr;    // of a square before it
  std::vector<std::string> cells;  // one only: over all columns
};

// The first row is the head. Numbers of the columns `right` are aligned to the right.
Block table(const std::vector<TableRow>& rows, const std::set<size_t>& right, double x, double y) {
  std::vector<size_t> widths(rows.front().cells.size());
  for (const TableRow& row : rows) {
    for (size_t c = 0; c < row.cells.size() && row.cells.size() > 1; ++c) {
      widths[c] = std::max(widths[c], row.cells[c].size());
    }
  }
  Block out;
  for (const TableRow& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.cells.size(); ++c) {
      const char align = right.count(c) != 0 && row.cells.size() > 1 ? '>' : '<';
      line += align == '>' ? fmt::format("{:>{}}   ", row.cells[c], widths[c])
                           : fmt::format("{:<{}}   ", row.cells[c], widths[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    if (row.colour != nullptr) {
      out.elements +=
          fmt::format("<rect x='{:.1f}' y='{:.1f}' width='10' height='10' rx='2' fill='{}'/>\n", x,
                      y + out.height - 9, row.colour);
    }
    const bool grey = &row == &rows.front() || row.cells.size() == 1;
    out.elements += fmt::format("<text x='{:.1f}' y='{:.1f}' {} fill='{}'>{}</text>\n", x + 16,
                                y + out.height, kMono, grey ? "#666" : "#222", escape(line));
    out.height += kLine;
  }
  return out;
}

std::string way_text(const ScheduleView& view, const Move& move) {
  if (view.on_chip) return "";
  if (move.links.empty()) return "on the chip";
  std::string out = view.places[move.links.front().first].name;
  for (const Link& link : move.links) out += " > " + view.places[link.second].label;
  return out;
}

TableRow hop_row(const ScheduleView& view, const std::vector<const Move*>& moves) {
  std::set<uint32_t> from;
  std::set<uint32_t> to;
  std::set<Link> links;
  size_t folded = 1;
  for (const Move* move : moves) {
    from.insert(move->from);
    to.insert(move->to);
    links.insert(move->links.begin(), move->links.end());
    folded = std::max(folded, move->folded);
  }
  const auto ranks = [](const std::set<uint32_t>& all) {
    const std::string text = numbers_text({all.begin(), all.end()});
    return text.size() <= kRanks ? text : fmt::format("{} ranks", all.size());
  };
  std::string way = way_text(view, *moves.front());
  if (moves.size() > 1) {
    way = fmt::format("{} transfers", moves.size());
    if (!view.on_chip && links.empty()) way += " on chips";
    if (!links.empty() && !view.on_chip) {
      way += fmt::format(" over {} link{}", links.size(), links.size() == 1 ? "" : "s");
    }
  }
  return {nullptr,
          {std::to_string(moves.front()->hop), ranks(from), ranks(to),
           folded > 1 ? fmt::format("reduce {}", folded) : "copy", way}};
}

Block hop_table(const ScheduleView& view, double x, double y) {
  std::map<uint32_t, std::vector<const Move*>> hops;
  for (const Move& move : view.way.moves) hops[move.hop].push_back(&move);
  std::vector<TableRow> rows{
      {nullptr, {"hop", "from rank", "to rank", "what", view.on_chip ? "" : "way"}}};
  for (const auto& [hop, moves] : hops) rows.push_back(hop_row(view, moves));
  if (rows.size() > kFirstHops + kLastHops + 1) {
    const size_t left = rows.size() - kFirstHops - kLastHops;
    rows.erase(rows.begin() + kFirstHops, rows.end() - kLastHops);
    rows.insert(rows.begin() + kFirstHops,
                {nullptr, {fmt::format("      ... {} hops more ...", left)}});
  }
  Block out;
  out.elements = heading(x, y, "Its hops");
  out.height = 22;
  if (hops.empty()) return out;
  const Block below = table(rows, {0}, x - 16, y + out.height);
  return {out.elements + below.elements, out.height + below.height};
}

const char* colour_of(StepRow::Kind kind) {
  switch (kind) {
    case StepRow::Kind::kSend:
      return "#1f6fb2";
    case StepRow::Kind::kReceive:
      return "#2b8a4b";
    case StepRow::Kind::kReduce:
      return "#d1561f";
    case StepRow::Kind::kCopy:
      return "#8c96a8";
    case StepRow::Kind::kSignal:
      return "#d5d9de";
  }
  return "#000";
}

Block step_table(const StepTable& steps, double y) {
  std::vector<TableRow> rows{{nullptr, {"step", "what", "bytes", "from, to whom", "waits for"}}};
  const auto add = [&](const std::vector<StepRow>& all) {
    for (const StepRow& row : all) {
      rows.push_back({colour_of(row.kind), {row.number, row.text, row.bytes, row.peer, row.waits}});
    }
  };
  add(steps.first);
  if (!steps.between.empty()) rows.push_back({nullptr, {"       ... " + steps.between + " ..."}});
  add(steps.last);
  Block out;
  out.elements = heading(kEdge, y, "4. Steps of one rank") +
                 text_at(kEdge + 180, y, "font-size='11'", steps.title);
  const Block below = table(rows, {0, 2}, kEdge, y + 22);
  return {out.elements + below.elements, 22 + below.height};
}

}  // namespace

std::string schedule_svg(const ScheduleView& view) {
  const bool wide = Layout::wide(view);
  const Layout layout(view, wide ? kWidth - 2 * kEdge : kColumn);
  double y = 26;
  std::string body = text_at(kEdge, y, "font-size='17' font-weight='bold'", view.title);
  std::string platform = view.platform;
  if (!view.hidden.empty()) platform += "; " + view.hidden;
  body += text_at(kEdge, y + 20, "font-size='12' fill='#555'", platform);
  y += 54;
  // Side by side, or one below the other.
  const auto pair = [&](const Block& left, const std::function<Block(double x, double y)>& right) {
    body += left.elements;
    y += wide ? left.height + kGap : 0;
    const Block other = right(wide ? kEdge : kRight, y);
    body += other.elements;
    y += (wide ? other.height : std::max(left.height, other.height)) + kGap;
  };
  pair(map_block("1. Who gives to whom", order_map(view, layout), kEdge, y, layout.height()),
       [&](double x, double at) {
         return map_block("2. Bytes per link", load_map(view, layout), x, at, layout.height());
       });
  pair(map_block("3. The way of one slice", way_map(view, layout), kEdge, y, layout.height()),
       [&](double x, double at) { return hop_table(view, x, at); });
  const Block steps = step_table(view.steps, y);
  body += steps.elements;
  const double height = y + steps.height + kEdge;
  return fmt::format(
             "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0:.0f} {1:.0f}' "
             "width='{0:.0f}' height='{1:.0f}' font-family='DejaVu Sans, Arial, sans-serif' "
             "fill='#222'>\n<rect width='100%' height='100%' fill='#fff'/>\n"
             "<defs><g id='wires'>\n{2}</g><g id='boxes'>\n{3}</g></defs>\n",
             kWidth, height, wires(view, layout), boxes(view, layout)) +
         body + "</svg>\n";
}

}  // namespace soma
