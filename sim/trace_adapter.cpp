#include "sim/trace_adapter.h"

#include <utility>

namespace sim {

// The track of a name without spans of its own, made on first use.
base::Track TraceAdapter::node(const std::string& name) {
  const auto known = nodes_.find(name);
  if (known != nodes_.end()) return known->second;
  const size_t dot = name.rfind('.');
  const base::Track track = dot == std::string::npos
                                ? base::Track(&sink_, name)
                                : node(name.substr(0, dot)).child(name.substr(dot + 1));
  return nodes_.emplace(name, track).first->second;
}

uint32_t TraceAdapter::track(const std::string& name) {
  const auto [at, added] = ids_.emplace(name, static_cast<uint32_t>(entries_.size()));
  if (added) {
    const size_t dot = name.rfind('.');
    Entry entry;
    entry.label = name.substr(dot == std::string::npos ? 0 : dot + 1);
    entry.parent = node(dot == std::string::npos ? "machine" : name.substr(0, dot));
    entries_.push_back(std::move(entry));
  }
  return at->second;
}

void TraceAdapter::span(uint32_t track, base::Ps begin, base::Ps end, const char* name,
                        uint64_t bytes) {
  Entry& entry = entries_.at(track);
  Row* row = nullptr;
  for (Row& each : entry.rows) {
    if (row == nullptr && each.busy_until <= begin) row = &each;
  }
  if (row == nullptr) {
    const std::string number =
        entry.rows.empty() ? "" : " #" + std::to_string(entry.rows.size() + 1);
    row = &entry.rows.emplace_back();
    row->track = entry.parent.child(entry.label + number);
  }
  row->busy_until = end;
  row->track.span(
      begin, end,
      bytes == 0 ? std::string(name) : std::string(name) + " " + std::to_string(bytes) + " B");
}

}  // namespace sim
