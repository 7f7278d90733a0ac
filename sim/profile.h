// What the engines of all cores did, by line of source and in the course of an execution: between
// the machine and whoever else traces it.
//
// Bounded: of a program, the kLines most expensive lines; of the first execution of the first
// kTimelines programs, a timeline of kSpans spans for each engine and kDmaSpans for each DMA engine
// of the core. A lane that would have more gets a grain: neighbours that together last no longer
// than that become one, which keeps the kind and name of the longest.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "hw/core/instruction_trace.h"
#include "hw/stats.h"
#include "sim/report_profile.h"
#include "sim/source_lines.h"

namespace sim {

// Spans in order of time, made coarser when there are too many.
class LaneBuilder {
 public:
  LaneBuilder(std::string name, size_t most) : most_(most) { lane_.name = std::move(name); }
  // What lies before the end of the span before it is cut off.
  void add(TimelineSpan span);
  void add_bytes(uint64_t bytes) { lane_.bytes += bytes; }
  const std::string& name() const { return lane_.name; }
  TimelineLane take(base::Ps total);

 private:
  void append(const TimelineSpan& span, base::Ps weight);
  void coarsen();

  TimelineLane lane_;
  std::vector<base::Ps> weights_;  // of each span's longest part
  size_t most_;
};

class Profile final : public hw::Tracer {
 public:
  static constexpr size_t kLines = 256;
  static constexpr size_t kTimelines = 8;
  static constexpr size_t kSpans = 3000;
  static constexpr size_t kDmaSpans = 400;

  // `next` may be null; `lines` outlives it.
  Profile(SourceLines& lines, hw::Tracer* next) : source_(lines), next_(next) {}

  uint32_t track(const std::string& name) override;
  void span(uint32_t track, base::Ps begin, base::Ps end, const char* name, uint64_t bytes,
            uint64_t flow = 0) override;
  void instruction(uint32_t track, const hw::InstructionEvent& event) override;
  void execution_begins(const std::string& core, uint64_t program, base::Ps now) override;
  void execution_ends(const std::string& core, base::Ps now, bool complete) override;

  // Of a program that has been executed on a core since the last call.
  ProfileRow take(const std::string& core, uint64_t program);

 private:
  using EnginePlace = std::tuple<uint32_t, uint64_t, uint32_t>;  // engine, program, pc
  struct Program {
    std::vector<LineRow> lines;
    std::map<std::pair<uint32_t, std::string>, size_t> by_line;
    std::map<EnginePlace, std::pair<size_t, uint32_t>> by_place;  // line, name in the timeline
    std::map<std::string, uint32_t> names;
    Timeline timeline;
  };
  struct Core {
    Program* program = nullptr;  // that is being executed
    base::Ps begin = 0;
    std::vector<LineRow> lines_before;  // of the program, without this execution
    bool timeline = false;              // of this execution
    std::string chip;                   // "d0."
    uint32_t first_dma = 0;
    std::vector<LaneBuilder> engines;
    std::map<uint32_t, LaneBuilder> dma;
    std::vector<base::Ps> busy_until;
  };
  struct Track {
    uint32_t next = 0;
    std::string chip;     // "d0." of a DMA queue; else empty
    uint32_t engine = 0;  // of DMA
  };
  static void forget_lines(Core* core);
  static uint32_t name_index(Program& program, const std::string& name);
  std::pair<size_t, uint32_t> place(Program& program, const hw::InstructionEvent& event);

  SourceLines& source_;
  hw::Tracer* next_;
  std::vector<Track> tracks_;
  std::map<std::string, Core> cores_;
  std::map<std::pair<std::string, uint64_t>, Program> programs_;
  size_t timelines_ = 0;
};

}  // namespace sim
