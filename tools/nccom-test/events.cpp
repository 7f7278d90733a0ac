#include "events.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/json.h"
#include "golden.h"

namespace nccom {
namespace {

// Core, execution id, stream, operation.
using Key = std::tuple<uint32_t, uint64_t, uint32_t, uint32_t>;

base::Error trace_error(const std::string& what) {
  return {base::Fault::kIo, 1, "system trace", what};
}

struct Span {
  bool started = false;
  bool stopped = false;
  uint64_t start = 0;
  uint64_t stop = 0;
  std::string algorithm;
};

base::Status add(const nlohmann::json& event, std::map<Key, Span>* spans) {
  if (event.value("event_type", "") != "cc_running") return {};
  const nlohmann::json data = event.value("data", nlohmann::json::object());
  for (const char* field : {"exec_id", "op_index", "stream", "nc_timestamp_ps"}) {
    if (!data.contains(field) || !data[field].is_number_unsigned()) {
      return trace_error(std::string("cc_running event without ") + field);
    }
  }
  if (!event.contains("nc_idx") || !event["nc_idx"].is_number_unsigned()) {
    return trace_error("cc_running event without nc_idx");
  }
  Span& span = (*spans)[{event["nc_idx"].get<uint32_t>(), data["exec_id"].get<uint64_t>(),
                         data["stream"].get<uint32_t>(), data["op_index"].get<uint32_t>()}];
  const auto time = data["nc_timestamp_ps"].get<uint64_t>();
  const std::string phase = event.value("phase", "");
  if (phase == "start") {
    span.started = true;
    span.start = time;
  } else if (phase == "stop") {
    span.stopped = true;
    span.stop = time;
  } else {
    return trace_error("cc_running event with phase '" + phase + "'");
  }
  if (data.contains("algorithm") && data["algorithm"].is_string()) {
    span.algorithm = data["algorithm"].get<std::string>();
  }
  return {};
}

}  // namespace

base::Result<std::vector<OpTimes>> parse_events(const std::string& document) {
  const nlohmann::json json = base::parse_json(document);
  if (json.is_discarded() || !json.is_object() || !json.contains("events") ||
      !json["events"].is_array()) {
    return trace_error("not a document with an events array");
  }
  std::map<Key, Span> spans;
  for (const nlohmann::json& event : json["events"]) {
    if (!event.is_object()) return trace_error("an event that is no object");
    if (base::Status status = add(event, &spans); !status) return status.error();
  }
  std::map<uint32_t, std::set<uint64_t>> executions;
  for (const auto& [key, span] : spans) executions[std::get<0>(key)].insert(std::get<1>(key));
  std::vector<OpTimes> out;
  for (const auto& [key, span] : spans) {
    const auto& [core, execution, stream, operation] = key;
    if (!span.started || !span.stopped || span.stop < span.start) {
      return trace_error("operation " + std::to_string(operation) + " of core " +
                         std::to_string(core) + " has no complete pair of events");
    }
    const auto& ids = executions[core];
    const auto index = static_cast<uint64_t>(std::distance(ids.begin(), ids.find(execution)));
    out.push_back({core, index, stream, operation, span.start, span.stop, span.algorithm});
  }
  return out;
}

base::Status check_barriers(const std::vector<Options>& streams,
                            const std::vector<OpTimes>& events) {
  struct Window {
    uint64_t last_start = 0;
    uint64_t first_stop = UINT64_MAX;
  };
  // Stream, group, execution, operation.
  std::map<std::tuple<uint32_t, uint32_t, uint64_t, uint32_t>, Window> windows;
  for (const OpTimes& e : events) {
    if (e.stream >= streams.size()) continue;
    const Options& o = streams[e.stream];
    if (o.operation != Operation::kBarrier || o.check == Check::kOff) continue;
    const uint32_t leader = group_of(o, o.rank_start + e.core).front();
    Window& window = windows[{e.stream, leader, e.execution, e.operation}];
    window.last_start = std::max(window.last_start, e.start_ps);
    window.first_stop = std::min(window.first_stop, e.stop_ps);
  }
  for (const auto& [key, window] : windows) {
    if (window.first_stop >= window.last_start) continue;
    return base::Error{base::Fault::kProgram, 1, "",
                       "check failed: barrier " + std::to_string(std::get<3>(key)) +
                           " ends on a rank " +
                           std::to_string(window.last_start - window.first_stop) +
                           " ps before another one begins it"};
  }
  return {};
}

}  // namespace nccom
