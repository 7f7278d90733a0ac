// What `soma report` shows of the executions in a report (docs/report.md): for a terminal, and as a
// page with bars and a roofline.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace soma {

using Shares = std::vector<std::pair<std::string, double>>;  // name, picoseconds or bytes

struct EngineView {
  std::string name;
  uint64_t instructions = 0;
  double busy = 0;  // picoseconds, of all executions together
  Shares stalled;
  Shares waited_for;  // of stalled "semaphore", by engine
  Shares bytes;
};

// A line of source on one engine, of all executions together.
struct LineView {
  std::string line;
  std::string engine;
  std::string instructions;
  uint64_t executed = 0;
  double busy = 0;
  Shares waited;  // by engine that was waited for, or another cause

  double all_waits() const;
};

struct SpanView {
  double begin = 0;  // picoseconds from the start of the execution
  double end = 0;
  uint32_t what = 0;  // TimelineView::kinds
  uint32_t name = 0;  // TimelineView::names
  uint32_t count = 1;
};

struct LaneView {
  std::string name;
  double grain = 0;
  double bytes = 0;
  std::vector<SpanView> spans;
};

struct TimelineView {
  double total = 0;
  std::vector<std::string> kinds;
  std::vector<std::string> names;
  std::vector<LaneView> lanes;
};

// Operations of the Tensor engine with numbers of one kind.
struct OperationsView {
  std::string kind;
  double operations = 0;
  double peak = 0;  // per picosecond
};

struct ExecutionView {
  std::string core;
  uint64_t program = 0;
  uint64_t count = 0;
  double total = 0;  // picoseconds
  double least = 0;
  double most = 0;
  double hbm_bytes = 0;
  double operations = 0;
  double peak_operations = 0;  // per picosecond, with 16-bit numbers
  std::vector<OperationsView> by_kind;
  double peak_hbm_bytes = 0;
  Shares critical_path;
  std::vector<EngineView> engines;
  std::vector<LineView> lines;  // of `soma run --profile`
  uint64_t more_lines = 0;
  std::optional<TimelineView> timeline;

  // The most operations per picosecond with the kinds of numbers that it used.
  double peak() const;
  double operations_rate() const { return operations / total; }
  double hbm_rate() const { return hbm_bytes / total; }
  // Operations per byte of HBM; 0 if it moved none.
  double intensity() const { return hbm_bytes == 0 ? 0 : operations / hbm_bytes; }
  // The most that the roofline allows at this intensity, per picosecond.
  double roof() const;
  bool bound_by_memory() const;
};

// Of a report's text. Fails if it is not one, or of a schema that is not known.
base::Result<std::vector<ExecutionView>> parse_executions(const std::string& report);

std::string executions_text(const std::vector<ExecutionView>& executions);
std::string executions_page(const std::string& title, const std::vector<ExecutionView>& executions);

// Pictures as SVG files.
struct Window {  // picoseconds from the start of the execution
  double from = 0;
  double to = 0;
};
// Errors: no timeline, or an empty window.
base::Result<std::string> timeline_picture(const std::vector<ExecutionView>& executions,
                                           const std::optional<Window>& window);
// Error: no program used the Tensor engine and HBM.
base::Result<std::string> roofline_picture(const std::vector<ExecutionView>& executions);

}  // namespace soma
