// What `soma report` shows of the executions in a report (docs/report.md): for a terminal, and as a
// page with bars and a roofline.
#pragma once

#include <cstdint>
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
  Shares bytes;
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
  double peak_operations = 0;  // per picosecond
  double peak_hbm_bytes = 0;
  Shares critical_path;
  std::vector<EngineView> engines;

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

}  // namespace soma
