#include "tools/neuron-top/figures.h"

#include <algorithm>
#include <cstdio>

namespace neuron_top {
namespace {

using neuron_monitor::Group;
using neuron_monitor::Json;

void add_cores(const Json& counters, Figures& figures) {
  constexpr double kTera = 1e12;
  for (const auto& [number, core] : counters["neuroncores_in_use"].items()) {
    Core& sum = figures.cores[static_cast<uint32_t>(std::stoul(number))];
    const auto utilization = core["neuroncore_utilization"].get<double>();
    sum.utilization = std::min(100.0, sum.utilization + utilization);
    sum.tflops += core["flops"].get<double>() / kTera;
  }
}

// Memory of a core is that of all processes, from whichever of them it is known.
void add_memory(const Json& memory, Figures& figures) {
  const Json& used = memory["neuron_runtime_used_bytes"];
  figures.host_total += used["host"].get<uint64_t>();
  figures.device_total += used["neuron_device"].get<uint64_t>();
  const Json& breakdown = used["usage_breakdown"];
  for (const auto& [category, bytes] : breakdown["host"].items()) {
    figures.host[category] += bytes.get<uint64_t>();
  }
  for (const auto& [number, core] : breakdown["neuroncore_memory_usage"].items()) {
    auto& known = figures.cores[static_cast<uint32_t>(std::stoul(number))].memory;
    for (const auto& [category, bytes] : core.items()) known[category] = bytes.get<uint64_t>();
  }
}

}  // namespace

Figures figures_of(const neuron_monitor::Interval& interval, const neuron_host::Devices& devices,
                   pid_t pid) {
  Figures figures;
  for (const neuron_monitor::Application& application : interval.now.applications) {
    if (pid != kAll && application.pid != pid) continue;
    const auto group = [&](Group which) {
      return neuron_monitor::runtime_group(which, interval, application, devices);
    };
    add_cores(group(Group::kNeuroncoreCounters), figures);
    add_memory(group(Group::kMemoryUsed), figures);
    const Json usage = group(Group::kRuntimeVcpuUsage)["vcpu_usage"];
    figures.runtime_cpu.user += usage["user"].get<double>();
    figures.runtime_cpu.system += usage["system"].get<double>();
    for (const auto& [device, bytes] : application.host_by_device) {
      figures.host_by_device[device] += bytes;
    }
  }
  for (const auto& [number, core] : figures.cores) {
    for (const auto& [category, bytes] : core.memory) figures.device[category] += bytes;
  }
  const Json usage = neuron_monitor::system_group(Group::kVcpuUsage, interval)["average_usage"];
  const auto sum = [&usage](std::initializer_list<const char*> names) {
    double total = 0;
    for (const char* name : names) total += usage[name].get<double>();
    return total;
  };
  figures.system_cpu = {sum({"user", "nice"}), sum({"system", "io_wait", "irq", "soft_irq"})};
  return figures;
}

std::string human(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
  constexpr double kStep = 1024;
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= kStep) {
    value /= kStep;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f%s" : "%.1f%s", value, kUnits[unit]);
  return text;
}

}  // namespace neuron_top
