#include "sim/trace_adapter.h"

#include <utility>

#include "sim/instruction_text.h"

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

const base::Track& TraceAdapter::row(uint32_t track, base::Ps begin, base::Ps end) {
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
  return row->track;
}

void TraceAdapter::span(uint32_t track, base::Ps begin, base::Ps end, const char* name,
                        uint64_t bytes, uint64_t flow) {
  const std::string text =
      bytes == 0 ? std::string(name) : std::string(name) + " " + std::to_string(bytes) + " B";
  base::SpanNotes notes;
  if (bytes != 0) notes.numbers.emplace_back("bytes", bytes);
  if (flow != 0) notes.departing.push_back(flow);
  row(track, begin, end).span(begin, end, text, notes);
}

void TraceAdapter::execution_begins(const std::string& /*core*/, uint64_t /*program*/,
                                    base::Ps /*now*/) {
  if (lines_ != nullptr) lines_->refresh();
}

void TraceAdapter::instruction(uint32_t track, const hw::InstructionEvent& event) {
  const std::string line =
      lines_ == nullptr
          ? ""
          : lines_->find(*event.core, event.engine, event.program, event.instruction.debug_id);
  const char* name = name_of(event.instruction);
  base::SpanNotes notes;
  base::Ps stood = 0;
  std::string causes;
  for (const hw::InstructionEvent::Pause& pause : event.pauses) {
    base::SpanNotes wait;
    wait.texts.emplace_back("instruction", name);
    if (!line.empty()) wait.texts.emplace_back("line", line);
    wait.texts.emplace_back("cause", hw::name_of(pause.cause));
    row(track, pause.begin, pause.end)
        .span(pause.begin, pause.end, std::string("wait: ") + wait_name(pause), wait);
    stood += pause.end - pause.begin;
    causes += (causes.empty() ? "" : ", ") + std::string(wait_name(pause));
  }
  if (!line.empty()) notes.texts.emplace_back("line", line);
  std::string operands = operands_of(event.instruction);
  if (!operands.empty()) notes.texts.emplace_back("operands", std::move(operands));
  if (stood != 0) notes.texts.emplace_back("waited for", causes);
  notes.numbers.emplace_back("pc", event.pc);
  if (stood != 0) notes.numbers.emplace_back("waited ps", stood);
  if (event.done > event.end) {
    notes.numbers.emplace_back("result after ps", event.done - event.begin);
  }
  notes.departing = event.releases;
  if (event.released_by != 0) notes.arriving.push_back(event.released_by);
  row(track, event.begin, event.end).span(event.begin, event.end, name, notes);
}

}  // namespace sim
