// What `soma run --profile` adds to a report: its text form, and what lines of source cost.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "tools/soma/execution_parts.h"
#include "tools/soma/text.h"

namespace soma {
namespace {

using nlohmann::ordered_json;

LineView line_of(const ordered_json& row) {
  LineView line;
  line.line = row.at("line").get<std::string>();
  line.engine = row.at("engine").get<std::string>();
  for (const ordered_json& name : row.at("instructions")) {
    line.instructions += (line.instructions.empty() ? "" : ", ") + name.get<std::string>();
  }
  line.executed = row.at("executed").get<uint64_t>();
  line.busy = row.at("busy_ps").get<double>();
  line.waited = shares(row.at("waited_ps"));
  for (auto& [cause, time] : line.waited) {
    for (const StallCause& each : kStallCauses) {
      if (cause == each.name) cause = each.title;
    }
  }
  return line;
}

[[noreturn]] void refuse(const std::string& text) {
  throw std::runtime_error("'" + text + "' is not a span");
}

// "begin length what name count".
SpanView span_of(const std::string& text, const TimelineView& timeline) {
  uint64_t numbers[5] = {};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (uint64_t& number : numbers) {
    while (at != end && *at == ' ') ++at;
    const auto parsed = std::from_chars(at, end, number);
    if (parsed.ec != std::errc()) refuse(text);
    at = parsed.ptr;
  }
  if (at != end || numbers[2] >= timeline.kinds.size() || numbers[3] >= timeline.names.size()) {
    refuse(text);
  }
  const auto begin = static_cast<double>(numbers[0]);
  return {begin, begin + static_cast<double>(numbers[1]), static_cast<uint32_t>(numbers[2]),
          static_cast<uint32_t>(numbers[3]), static_cast<uint32_t>(numbers[4])};
}

LaneView lane_of(const ordered_json& row, const TimelineView& timeline) {
  LaneView lane;
  lane.name = row.at("name").get<std::string>();
  lane.grain = row.at("grain_ps").get<double>();
  lane.bytes = row.value("bytes", 0.0);
  for (const ordered_json& span : row.at("spans")) {
    lane.spans.push_back(span_of(span.get<std::string>(), timeline));
  }
  return lane;
}

// What is less than this of the time is not worth a row.
constexpr double kLeastShare = 0.0005;

template <typename Value>
std::vector<const LineView*> largest(const ExecutionView& e, size_t count, Value value) {
  std::vector<const LineView*> lines;
  for (const LineView& line : e.lines) {
    if (value(line) >= kLeastShare * e.total) lines.push_back(&line);
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [&](const LineView* a, const LineView* b) { return value(*a) > value(*b); });
  if (lines.size() > count) lines.resize(count);
  return lines;
}

}  // namespace

double LineView::all_waits() const {
  double sum = 0;
  for (const auto& [cause, time] : waited) sum += time;
  return sum;
}

void parse_profile(const ordered_json& profile, ExecutionView* view) {
  for (const ordered_json& row : profile.at("lines")) view->lines.push_back(line_of(row));
  view->more_lines = profile.at("more_lines").get<uint64_t>();
  const ordered_json& row = profile.at("timeline");
  if (row.at("lanes").empty()) return;
  TimelineView timeline;
  timeline.total = std::max(row.at("total_ps").get<double>(), 1.0);
  timeline.kinds = row.at("kinds").get<std::vector<std::string>>();
  timeline.names = row.at("names").get<std::vector<std::string>>();
  for (const ordered_json& lane : row.at("lanes")) {
    timeline.lanes.push_back(lane_of(lane, timeline));
  }
  view->timeline = std::move(timeline);
}

std::vector<const LineView*> hot_lines(const ExecutionView& e, size_t count) {
  return largest(e, count, [](const LineView& line) { return line.busy; });
}

std::vector<const LineView*> waiting_lines(const ExecutionView& e, size_t count) {
  return largest(e, count, [](const LineView& line) { return line.all_waits(); });
}

std::string lines_text(const ExecutionView& e) {
  if (e.lines.empty()) return {};
  std::string out = "  lines that keep an engine busy longest:\n";
  const auto add = [&](const LineView& line) {
    out += fmt::format("    {:<44} {:<4} {:>8} x {:>7.1f}% busy", line.line, line.engine,
                       line.executed, percent(line.busy, e.total));
    if (!line.waited.empty()) out += ", waits for " + shares_text(line.waited, e.total);
    out += "\n";
  };
  for (const LineView* line : hot_lines(e, kHotLines)) add(*line);
  out += "  lines that wait longest:\n";
  for (const LineView* line : waiting_lines(e, kLongWaits)) add(*line);
  return out;
}

std::string lines_table(const ExecutionView& e) {
  if (e.lines.empty()) return {};
  std::string out =
      "<table class='lines'><tr><th>line<th>engine<th>instructions<th>times<th>busy<th>busy, "
      "% of the time<th>waits, % of the time\n";
  constexpr size_t kRows = 40;
  for (const LineView* line : hot_lines(e, kRows)) {
    out += fmt::format("<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{:.1f}<td>{}\n", escape(line->line),
                       escape(line->engine), escape(line->instructions), line->executed,
                       duration_text(line->busy), percent(line->busy, e.total),
                       escape(shares_text(line->waited, e.total)));
  }
  return out + "</table>\n";
}

}  // namespace soma
