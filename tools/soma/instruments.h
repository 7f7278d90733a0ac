// What every machine of the tool has besides itself: a log and perhaps a trace. They outlive the
// machine.
#pragma once

#include <memory>

#include "base/error.h"
#include "base/log.h"
#include "sim/trace_perfetto.h"
#include "tools/soma/options.h"

namespace soma {

class Instruments {
 public:
  base::Status open(const MachineOptions& options);
  base::Logger& logger() { return logger_; }
  sim::PerfettoTrace* trace() { return trace_.get(); }
  // Ends the trace; says what was lost.
  base::Status finish_trace();

 private:
  base::Logger logger_;
  std::unique_ptr<sim::PerfettoTrace> trace_;
};

}  // namespace soma
