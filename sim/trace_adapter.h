// Puts what the devices tell ("d0.dma2.q7", from, to) on a tree of trace tracks.
//
// The dots of a name become parents. Spans of one track may overlap on hardware that pipelines; a
// trace viewer nests them, so an overlapping span goes to a further row of its track.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/trace.h"
#include "hw/stats.h"
#include "sim/source_lines.h"

namespace sim {

class TraceAdapter final : public hw::Tracer {
 public:
  // `lines` may be null.
  explicit TraceAdapter(base::TraceSink& sink, SourceLines* lines = nullptr)
      : sink_(sink), lines_(lines) {}

  uint32_t track(const std::string& name) override;
  void span(uint32_t track, base::Ps begin, base::Ps end, const char* name, uint64_t bytes,
            uint64_t flow = 0) override;
  // Its pauses and itself become spans, with what is known of it.
  void instruction(uint32_t track, const hw::InstructionEvent& event) override;
  void execution_begins(const std::string& core, uint64_t program, base::Ps now) override;

 private:
  struct Row {
    base::Track track;
    base::Ps busy_until = 0;
  };
  struct Entry {
    std::string label;  // last part of the name
    base::Track parent;
    std::vector<Row> rows;
  };
  base::Track node(const std::string& name);
  // A row that is free from `begin` on, taken until `end`.
  const base::Track& row(uint32_t track, base::Ps begin, base::Ps end);

  base::TraceSink& sink_;
  SourceLines* lines_;
  std::map<std::string, base::Track> nodes_;
  std::map<std::string, uint32_t> ids_;
  std::vector<Entry> entries_;
};

}  // namespace sim
