#include "sim/report_profile.h"

namespace sim {

using nlohmann::ordered_json;

namespace {

ordered_json line_json(const LineRow& row) {
  ordered_json waited = ordered_json::object();
  for (const auto& [cause, time] : row.waited) waited[cause] = time;
  return {{"line", row.line},         {"engine", row.engine}, {"instructions", row.instructions},
          {"executed", row.executed}, {"busy_ps", row.busy},  {"waited_ps", waited}};
}

// A text for each span: a report has a line for each value, and there are thousands.
std::string span_text(const TimelineSpan& span) {
  return std::to_string(span.begin) + " " + std::to_string(span.end - span.begin) + " " +
         std::to_string(span.what) + " " + std::to_string(span.name) + " " +
         std::to_string(span.count);
}

ordered_json lane_json(const TimelineLane& lane) {
  ordered_json spans = ordered_json::array();
  for (const TimelineSpan& span : lane.spans) spans.push_back(span_text(span));
  ordered_json json = {{"name", lane.name}, {"grain_ps", lane.grain}};
  if (lane.bytes != 0) json["bytes"] = lane.bytes;
  json["spans"] = std::move(spans);
  return json;
}

}  // namespace

ordered_json profile_json(const ProfileRow& row) {
  ordered_json lines = ordered_json::array();
  for (const LineRow& line : row.lines) lines.push_back(line_json(line));
  ordered_json lanes = ordered_json::array();
  for (const TimelineLane& lane : row.timeline.lanes) lanes.push_back(lane_json(lane));
  return {{"lines", lines},
          {"more_lines", row.more_lines},
          {"timeline",
           {{"total_ps", row.timeline.total},
            {"kinds", row.timeline.kinds},
            {"names", row.timeline.names},
            {"lanes", lanes}}}};
}

}  // namespace sim
