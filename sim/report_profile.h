// The part of a report about lines of source and the course of an execution (`soma run --profile`).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/units.h"

namespace sim {

// What a line of source cost on one engine, over all executions of a program.
struct LineRow {
  std::string line;    // "softmax.cpp:42 (activation)"; "pc 3" if nothing is known
  std::string engine;  // "act"
  std::vector<std::string> instructions;
  uint64_t executed = 0;
  base::Ps busy = 0;
  // What its instructions had waited for: an engine ("act") or another cause ("dma").
  std::vector<std::pair<std::string, base::Ps>> waited;
};

// Some time of a lane, from the start of the execution on.
struct TimelineSpan {
  base::Ps begin = 0;
  base::Ps end = 0;
  uint32_t what = 0;   // Timeline::kinds
  uint32_t name = 0;   // Timeline::names
  uint32_t count = 1;  // of spans that became one; `what` and `name` are those of the longest
};

struct TimelineLane {
  std::string name;    // "pe", "dma3"
  base::Ps grain = 0;  // neighbours that together lasted no longer became one
  uint64_t bytes = 0;  // of DMA
  std::vector<TimelineSpan> spans;
};

// The first execution of a program.
struct Timeline {
  base::Ps total = 0;
  std::vector<std::string> kinds;  // "busy", or what was waited for
  std::vector<std::string> names;  // "MATMUL attention.cpp:90 (matmul)", "copy"
  std::vector<TimelineLane> lanes;
};

struct ProfileRow {
  std::vector<LineRow> lines;  // the most expensive first
  uint64_t more_lines = 0;     // that are left out
  Timeline timeline;           // without lanes: not kept
};

nlohmann::ordered_json profile_json(const ProfileRow& row);

}  // namespace sim
