#include "tools/neuron-monitor/report.h"

#include <ndl/ndl.h>

#include <algorithm>
#include <sstream>

#include "base/file.h"
#include "tools/neuron_host/attributes.h"

namespace neuron_monitor {
namespace {

using neuron_host::Device;
using neuron_host::Devices;
using neuron_host::read_number;

constexpr char kDeviceTree[] = "/sys/devices/virtual/neuron_device/neuron";

// Counters may have been reset in between: nothing is reported twice, and nothing below zero.
uint64_t growth(uint64_t before, uint64_t now) {
  return now >= before ? now - before : now;
}

double percent(double part, double whole) {
  return whole <= 0 ? 0.0 : std::min(100.0, std::max(0.0, 100.0 * part / whole));
}

CoreCounters difference(const Interval& interval, const Application& application, uint32_t core) {
  CoreCounters delta = {};
  const auto now = application.cores.find(core);
  if (now == application.cores.end()) return delta;
  delta = now->second;
  const Application* old = interval.before.find(application.pid);
  const auto before = old == nullptr ? application.cores.end() : old->cores.find(core);
  if (old == nullptr || before == old->cores.end()) return delta;
  for (size_t id = 0; id < delta.size(); ++id) {
    delta[id] = growth(before->second[id], now->second[id]);
  }
  return delta;
}

// Logical cores that an application uses, with the counts of the physical ones that they are made
// of: sums, but for times, of which the longest counts.
struct LogicalCore {
  CoreCounters delta = {};
  std::map<uint32_t, uint64_t> busy_us;  // by physical core of the host
};

bool is_sum(size_t id) {
  return id == NDS_NC_COUNTER_MAC_COUNT;
}

std::map<uint32_t, LogicalCore> logical_cores(const Interval& interval,
                                              const Application& application,
                                              const Devices& devices) {
  std::map<uint32_t, LogicalCore> logical;
  for (const auto& [core, counters] : application.cores) {
    LogicalCore& entry = logical[core / devices.logical_size];
    const CoreCounters delta = difference(interval, application, core);
    for (size_t id = 0; id < delta.size(); ++id) {
      entry.delta[id] =
          is_sum(id) ? entry.delta[id] + delta[id] : std::max(entry.delta[id], delta[id]);
    }
    entry.busy_us[core] = delta[NDS_NC_COUNTER_TIME_IN_USE];
  }
  return logical;
}

double utilization(uint64_t busy_us, double seconds) {
  constexpr double kMicro = 1e6;
  return percent(static_cast<double>(busy_us), seconds * kMicro);
}

Json neuroncore_counters(const Interval& interval, const Application& application,
                         const Devices& devices) {
  Json in_use = Json::object();
  const double seconds = interval.seconds();
  for (const auto& [core, logical] : logical_cores(interval, application, devices)) {
    Json entry;
    entry["neuroncore_utilization"] =
        utilization(logical.delta[NDS_NC_COUNTER_TIME_IN_USE], seconds);
    const auto operations = 2.0 * static_cast<double>(logical.delta[NDS_NC_COUNTER_MAC_COUNT]);
    const auto flops = seconds > 0 ? static_cast<uint64_t>(operations / seconds) : uint64_t{0};
    entry["flops"] = flops;
    entry["effective_flops"] = flops;
    if (devices.logical_size > 1) {
      Json physical;
      const std::string prefix = "nc_v" + std::to_string(devices.all.front().architecture) + ".";
      for (const auto& [number, busy_us] : logical.busy_us) {
        physical[prefix + std::to_string(number)]["neuroncore_utilization"] =
            utilization(busy_us, seconds);
      }
      entry[core_version(devices)] = std::move(physical);
    }
    in_use[std::to_string(core)] = std::move(entry);
  }
  Json group;
  group["neuroncores_in_use"] = std::move(in_use);
  return group;
}

Json execution_stats(const Interval& interval, const Application& application,
                     const Devices& devices) {
  CoreCounters sum = {};
  for (const auto& [core, logical] : logical_cores(interval, application, devices)) {
    for (size_t id = 0; id < sum.size(); ++id) sum[id] += logical.delta[id];
  }
  Json errors;
  errors["numerical"] = sum[NDS_NC_COUNTER_ERR_NUMERICAL];
  errors["transient"] = sum[NDS_NC_COUNTER_ERR_TRANSIENT];
  errors["model"] = sum[NDS_NC_COUNTER_ERR_MODEL];
  errors["runtime"] = sum[NDS_NC_COUNTER_ERR_RT];
  errors["hardware"] = sum[NDS_NC_COUNTER_ERR_HW];
  Json executions;
  executions["completed"] = sum[NDS_NC_COUNTER_INFER_COMPLETED];
  executions["completed_with_err"] = sum[NDS_NC_COUNTER_INFER_COMPLETED_WITH_ERR];
  executions["completed_with_num_err"] = sum[NDS_NC_COUNTER_INFER_COMPLETED_WITH_NUM_ERR];
  executions["timed_out"] = sum[NDS_NC_COUNTER_INFER_TIMED_OUT];
  executions["incorrect_input"] = sum[NDS_NC_COUNTER_INFER_INCORRECT_INPUT];
  executions["failed_to_queue"] = sum[NDS_NC_COUNTER_INFER_FAILED_TO_QUEUE];
  Json group;
  group["error_summary"] = std::move(errors);
  group["execution_summary"] = std::move(executions);
  // The datastore holds sums of times: of percentiles nothing is known.
  group["latency_stats"] = {{"total_latency", nullptr}, {"device_latency", nullptr}};
  return group;
}

uint64_t core_memory(const Devices& devices, uint32_t core, const char* category) {
  const uint32_t per_device = std::max(1u, devices.all.front().cores);
  const std::string path = kDeviceTree + std::to_string(core / per_device) + "/neuron_core" +
                           std::to_string(core % per_device) + "/stats/memory_usage/device_mem/" +
                           category + "/total";
  return read_number(path).value_or(0);
}

Json memory_used(const Application& application, const Devices& devices) {
  constexpr const char* kCategories[] = {"constants", "model_code", "model_shared_scratchpad",
                                         "runtime_memory", "tensors"};
  Json host;
  host["application_memory"] = application.host_bytes;
  for (const char* other : {"constants", "dma_buffers", "tensors"}) host[other] = 0;
  Json cores = Json::object();
  for (const auto& [core, counters] : application.cores) {
    Json& entry = cores[std::to_string(core / devices.logical_size)];
    for (const char* category : kCategories) {
      const uint64_t sum = entry.contains(category) ? entry[category].get<uint64_t>() : 0;
      entry[category] = sum + core_memory(devices, core, category);
    }
  }
  Json used;
  used["host"] = application.host_bytes;
  used["neuron_device"] = application.device_bytes;
  used["usage_breakdown"] = {{"host", std::move(host)},
                             {"neuroncore_memory_usage", std::move(cores)}};
  Json group;
  group["neuron_runtime_used_bytes"] = std::move(used);
  group["loaded_models"] = Json::array();
  return group;
}

// Ticks of all processors since the host's start; 0: unknown.
uint64_t all_ticks(const Sample& sample) {
  uint64_t sum = 0;
  if (sample.cpus.empty()) return sum;
  for (const uint64_t ticks : sample.cpus.front().ticks) sum += ticks;
  return sum;
}

// Of the host's ticks and not of the interval: a machine may keep a time of its own.
Json runtime_vcpu(const Interval& interval, const Application& application) {
  const Application* old = interval.before.find(application.pid);
  const uint64_t user = growth(old == nullptr ? 0 : old->user_ticks, application.user_ticks);
  const uint64_t system = growth(old == nullptr ? 0 : old->system_ticks, application.system_ticks);
  // Both are read one after the other: the part may come out larger than the whole.
  const uint64_t all = growth(all_ticks(interval.before), all_ticks(interval.now));
  const auto whole = static_cast<double>(std::max(all, user + system));
  Json group;
  group["vcpu_usage"] = {{"user", percent(static_cast<double>(user), whole)},
                         {"system", percent(static_cast<double>(system), whole)}};
  return group;
}

Json cpu_usage(const CpuTicks& before, const CpuTicks& now) {
  constexpr const char* kNames[] = {"user", "nice", "system", "idle", "io_wait", "irq", "soft_irq"};
  uint64_t whole = 0;
  for (size_t i = 0; i < now.ticks.size(); ++i) whole += growth(before.ticks[i], now.ticks[i]);
  Json usage;
  for (size_t i = 0; i < now.ticks.size(); ++i) {
    const uint64_t part = growth(before.ticks[i], now.ticks[i]);
    usage[kNames[i]] = percent(static_cast<double>(part), static_cast<double>(whole));
  }
  return usage;
}

Json vcpu_usage(const Interval& interval) {
  Json average = cpu_usage({}, {});
  Json data = Json::object();
  for (const CpuTicks& cpu : interval.now.cpus) {
    CpuTicks before;
    for (const CpuTicks& old : interval.before.cpus) {
      if (old.name == cpu.name) before = old;
    }
    if (cpu.name == "cpu") {
      average = cpu_usage(before, cpu);
    } else {
      data[cpu.name.substr(3)] = cpu_usage(before, cpu);
    }
  }
  Json group;
  group["average_usage"] = std::move(average);
  group["usage_data"] = std::move(data);
  group["context_switch_count"] =
      growth(interval.before.context_switches, interval.now.context_switches);
  return group;
}

Json memory_info() {
  constexpr uint64_t kKiB = 1024;
  constexpr size_t kLimit = 1 << 16;
  std::map<std::string, uint64_t> fields;
  const auto text = base::read_file("/proc/meminfo", kLimit);
  std::istringstream lines(text ? *text : "");
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    uint64_t value = 0;
    if (words >> name >> value) fields[name] = value * kKiB;
  }
  Json group;
  group["memory_total_bytes"] = fields["MemTotal:"];
  group["memory_used_bytes"] =
      fields["MemTotal:"] - std::min(fields["MemTotal:"], fields["MemAvailable:"]);
  group["swap_total_bytes"] = fields["SwapTotal:"];
  group["swap_used_bytes"] =
      fields["SwapTotal:"] - std::min(fields["SwapTotal:"], fields["SwapFree:"]);
  return group;
}

Json hw_counters(const Interval& interval) {
  Json devices = Json::array();
  for (const DeviceErrors& now : interval.now.errors) {
    DeviceErrors before;
    for (const DeviceErrors& old : interval.before.errors) {
      if (old.device == now.device) before = old;
    }
    Json entry;
    entry["neuron_device_index"] = now.device;
    entry["mem_ecc_corrected"] = growth(before.mem_corrected, now.mem_corrected);
    entry["mem_ecc_uncorrected"] = growth(before.mem_uncorrected, now.mem_uncorrected);
    entry["sram_ecc_uncorrected"] = growth(before.sram_uncorrected, now.sram_uncorrected);
    entry["sram_ecc_corrected"] = growth(before.sram_corrected, now.sram_corrected);
    devices.push_back(std::move(entry));
  }
  Json group;
  group["neuron_devices"] = std::move(devices);
  return group;
}

Json framed(Json body, double seconds) {
  Json group;
  group["period"] = seconds;
  for (auto it = body.begin(); it != body.end(); ++it) group[it.key()] = std::move(it.value());
  group["error"] = "";
  return group;
}

// "trainium" is what tools print for the first generation (spec/clients.md 3.2).
std::string device_type() {
  const std::string path = std::string(kDeviceTree) + "0/info/architecture/device_name";
  std::string name = neuron_host::printable(neuron_host::read_attribute(path).value_or(""));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return name == "trainium1" ? "trainium" : name;
}

}  // namespace

std::string core_version(const Devices& devices) {
  const std::string version = "v" + std::to_string(devices.all.front().architecture);
  return devices.logical_size > 1 ? version + "d" : version;
}

double Interval::seconds() const {
  return std::chrono::duration<double>(now.time - before.time).count();
}

Json runtime_group(Group group, const Interval& interval, const Application& application,
                   const Devices& devices) {
  const double seconds = interval.seconds();
  switch (group) {
    case Group::kNeuroncoreCounters:
      return framed(neuroncore_counters(interval, application, devices), seconds);
    case Group::kExecutionStats:
      return framed(execution_stats(interval, application, devices), seconds);
    case Group::kMemoryUsed:
      return framed(memory_used(application, devices), seconds);
    default:
      return framed(runtime_vcpu(interval, application), seconds);
  }
}

Json system_group(Group group, const Interval& interval) {
  const double seconds = interval.seconds();
  switch (group) {
    case Group::kVcpuUsage:
      return framed(vcpu_usage(interval), seconds);
    case Group::kHwCounters:
      return framed(hw_counters(interval), seconds);
    default:
      return framed(memory_info(), seconds);
  }
}

Json instance_info(const neuron_host::Instance& instance) {
  Json info;
  info["instance_name"] = "";
  info["instance_id"] = instance.id;
  info["instance_type"] = instance.type;
  for (const char* unknown : {"instance_availability_zone", "instance_availability_zone_id",
                              "instance_region", "ami_id", "subnet_id"}) {
    info[unknown] = "";
  }
  info["error"] = "";
  return info;
}

Json hardware_info(const Devices& devices) {
  const Device& first = devices.all.front();
  Json info;
  info["neuron_device_type"] = device_type();
  info["neuroncore_version"] = core_version(devices);
  info["neuron_device_count"] = devices.all.size();
  info["neuron_device_memory_size"] = first.memory;
  info["neuroncore_per_device_count"] = devices.logical_cores(first);
  info["logical_neuroncore_config"] = devices.logical_size;
  info["error"] = "";
  return info;
}

}  // namespace neuron_monitor
