// The numbers on the screen: those of neuron-monitor's reports (spec/tools.md 4.4), of all
// processes together or of one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/neuron-monitor/report.h"

namespace neuron_top {

constexpr pid_t kAll = 0;

struct Core {
  double utilization = 0;  // percent of the interval
  double tflops = 0;
  std::map<std::string, uint64_t> memory;  // bytes by category, as reports name them
};

struct Usage {
  double user = 0;  // percent
  double system = 0;
};

struct Figures {
  std::map<uint32_t, Core> cores;  // logical ones that are in use, by number on the host
  Usage system_cpu;
  Usage runtime_cpu;
  std::map<std::string, uint64_t> host;    // bytes by category
  std::map<std::string, uint64_t> device;  // the same, of all cores
  std::map<int, uint64_t> host_by_device;  // bytes
  uint64_t host_total = 0;
  uint64_t device_total = 0;
};

// `pid`: the process to show, or kAll.
Figures figures_of(const neuron_monitor::Interval& interval, const neuron_host::Devices& devices,
                   pid_t pid);

// "0B", "999B", "1.5KB", "12.0GB": multiples of 1024.
std::string human(uint64_t bytes);

}  // namespace neuron_top
