// The configuration of neuron-monitor (spec/tools.md 5.2).
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace neuron_monitor {

using Period = std::chrono::milliseconds;
constexpr Period kDefaultPeriod{5000};

enum class Group {
  kNeuroncoreCounters,
  kMemoryUsed,
  kRuntimeVcpuUsage,
  kExecutionStats,
  kVcpuUsage,
  kMemoryInfo,
  kHwCounters,
};
const char* name_of(Group group);

struct Metric {
  Group group = Group::kMemoryInfo;
  Period period = kDefaultPeriod;
};

struct RuntimeFilter {
  std::string tag_filter = ".*";  // POSIX extended, found anywhere in the tag
  std::vector<Metric> metrics;
};

struct Config {
  std::vector<RuntimeFilter> runtimes;
  std::vector<Metric> system;
};

// Everything, every five seconds.
Config default_config();
// Keys that nobody knows are ignored, as the published tool does; wrong types, unknown metrics and
// bad expressions are errors that name them.
base::Result<Config> parse_config(std::string_view text);
// "500ms", "2s", "1m", "1h"; what else a text says is the default (spec/tools.md 5.2: "1.0s").
Period parse_period(const std::string& text);

}  // namespace neuron_monitor
