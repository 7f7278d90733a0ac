// Durations of collectives out of a system-trace document (spec/nrt-api.md 15.2).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "options.h"

namespace nccom {

struct OpTimes {
  uint32_t core = 0;       // process-relative
  uint64_t execution = 0;  // 0-based per core, in order of execution
  uint32_t stream = 0;
  uint32_t operation = 0;  // of the stream, in the program
  uint64_t start_ps = 0;   // device clock
  uint64_t stop_ps = 0;
  std::string algorithm;
};

// Pairs the start and stop of every cc_running event. Unpaired events are an error.
base::Result<std::vector<OpTimes>> parse_events(const std::string& document);

// --check of barriers: none ends on a rank before the last one of its group that runs here has
// begun it. For devices that share a clock.
base::Status check_barriers(const std::vector<Options>& streams,
                            const std::vector<OpTimes>& events);

}  // namespace nccom
