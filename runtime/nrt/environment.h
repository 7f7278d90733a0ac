// The runtime's environment variables (spec/nrt-api.md 18): parsing rules and what nrt_init reads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"

namespace nrt {

// A variable's text; an empty one counts as unset.
std::optional<std::string> environment(const char* name);

// Tolerant readers: a malformed value is a warning and the default is used.
bool environment_flag(const char* name, bool fallback);
uint64_t environment_number(const char* name, uint64_t fallback, uint64_t max);

std::optional<uint64_t> parse_number(const std::string& text);
std::optional<bool> parse_flag(const std::string& text);

struct CoreRange {
  uint32_t first = 0;
  uint32_t count = 0;
};

// "a-b" ranges and single numbers, comma-separated, ascending and without a gap.
std::optional<CoreRange> parse_core_list(const std::string& text);

// What NEURON_RT_VISIBLE_CORES and NEURON_RT_NUM_CORES ask for. `fixed` is set by the former.
struct CoreSelection {
  std::optional<CoreRange> fixed;
  uint32_t count = 0;  // 0 = all
};
base::Result<CoreSelection> read_core_selection(uint32_t total);

// Physical cores per logical core: NEURON_LOGICAL_NC_CONFIG, else NEURON_RT_VIRTUAL_CORE_SIZE, else
// the line NEURON_LOGICAL_NC_CONFIG=<n> of the file, else what is usual on the platform. The latter
// is also the largest value that the platform has (spec/nrt-api.md 18.1).
constexpr const char* kLogicalCoreFile = "/opt/aws/neuron/logical_nc_config";
base::Result<uint32_t> read_logical_core_size(uint32_t platform,
                                              const char* file = kLogicalCoreFile);

// Seconds per execution, 0 = no limit; read at every load.
uint64_t read_execution_timeout();

// Where NEURON_RT_INSPECT_ENABLE=1 wants files: NEURON_RT_INSPECT_OUTPUT_DIR, or ./output.
std::optional<std::string> read_inspect_directory();

}  // namespace nrt
