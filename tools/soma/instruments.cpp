#include "tools/soma/instruments.h"

#include <string>
#include <utility>

namespace soma {

base::Status Instruments::open(const MachineOptions& options) {
  if (!options.log.empty()) {
    base::Status configured = logger_.configure(options.log);
    if (!configured) return configured;
  }
  if (!options.trace.empty()) {
    auto trace = sim::PerfettoTrace::create(options.trace, options.trace_limit);
    if (!trace) return trace.error();
    trace_ = std::move(*trace);
  }
  return {};
}

base::Status Instruments::finish_trace() {
  if (!trace_) return {};
  if (trace_->dropped_events() > 0) {
    complain("the trace reached its limit; " + std::to_string(trace_->dropped_events()) +
             " events are missing (--trace-limit)");
  }
  return trace_->close();
}

}  // namespace soma
