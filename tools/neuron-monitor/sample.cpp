#include "tools/neuron-monitor/sample.h"

#include <ndl/ndl.h>
#include <nrt/nds/neuron_ds.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "base/file.h"
#include "tools/neuron_host/attributes.h"

namespace neuron_monitor {
namespace {

constexpr size_t kProcLimit = 1 << 20;

std::string label_of(nds_instance_t* datastore, pid_t pid) {
  std::string tag;
  const nds_obj_handle_t object = nds_read_process_info_ext(datastore);
  if (const nds_process_info_ext_t* info = nds_obj_handle_to_process_info_ext(object)) {
    tag.assign(info->tag, strnlen(info->tag, sizeof info->tag - 1));
  }
  if (object != nullptr) nds_obj_delete(object);
  return tag.empty() ? std::to_string(pid) : neuron_host::printable(tag);
}

// A core is in use by who has counted anything on it.
void add_cores(nds_instance_t* datastore, uint32_t first, uint32_t count,
               Application& application) {
  for (uint32_t core = 0; core < count; ++core) {
    CoreCounters counters = {};
    bool used = false;
    for (uint32_t id = 0; id < counters.size(); ++id) {
      nds_get_nc_counter(datastore, static_cast<int>(core), id, &counters[id]);
      used = used || counters[id] != 0;
    }
    if (used) application.cores[first + core] = counters;
  }
}

// Fields 14 and 15 of /proc/PID/stat, behind the name, which may hold anything.
void add_ticks(Application& application) {
  const auto text =
      base::read_file("/proc/" + std::to_string(application.pid) + "/stat", kProcLimit);
  const size_t name_end = text ? text->rfind(')') : std::string::npos;
  if (name_end == std::string::npos) return;
  std::istringstream fields(text->substr(name_end + 1));
  std::string skipped;
  constexpr int kBefore = 11;  // fields 3 to 13
  for (int i = 0; i < kBefore; ++i) fields >> skipped;
  fields >> application.user_ticks >> application.system_ticks;
}

void read_stat(Sample& sample) {
  const auto text = base::read_file("/proc/stat", kProcLimit);
  if (!text) return;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string name;
    fields >> name;
    if (name == "ctxt") fields >> sample.context_switches;
    if (name.compare(0, 3, "cpu") != 0) continue;
    CpuTicks cpu;
    cpu.name = name;
    for (uint64_t& ticks : cpu.ticks) fields >> ticks;
    sample.cpus.push_back(std::move(cpu));
  }
}

DeviceErrors errors_of(int device) {
  const std::string base =
      "/sys/devices/virtual/neuron_device/neuron" + std::to_string(device) + "/stats/hardware/";
  const auto number = [&base](const char* name) {
    return neuron_host::read_number(base + name).value_or(0);
  };
  return {device, number("mem_ecc_corrected"), number("mem_ecc_uncorrected"),
          number("sram_ecc_corrected"), number("sram_ecc_uncorrected")};
}

void add_applications(const neuron_host::Device& device, std::map<pid_t, Application>& all) {
  neuron_app_info* raw = nullptr;
  size_t count = 0;
  ndl_device* handle = device.handle.get();
  if (ndl_get_all_apps_info(handle, &raw, &count, APP_INFO_ALL) != 0) return;
  const std::vector<neuron_app_info> apps(raw, raw + count);
  std::free(raw);
  for (const neuron_app_info& app : apps) {
    nds_instance_t* datastore = nullptr;
    // No datastore: a tool, or a process that has just ended.
    if (nds_open(handle, app.pid, &datastore) != 0) continue;
    Application& application = all[app.pid];
    application.pid = app.pid;
    application.tag = label_of(datastore, app.pid);
    application.host_bytes += app.host_mem_size;
    application.host_by_device[device.index] += app.host_mem_size;
    application.device_bytes += app.device_mem_size;
    add_cores(datastore, static_cast<uint32_t>(device.index) * device.cores, device.cores,
              application);
    nds_close(datastore);
  }
}

}  // namespace

const Application* Sample::find(pid_t pid) const {
  for (const Application& application : applications) {
    if (application.pid == pid) return &application;
  }
  return nullptr;
}

Sample take_sample(const neuron_host::Devices& devices) {
  Sample sample;
  sample.time = Clock::now();
  std::map<pid_t, Application> all;
  for (const neuron_host::Device& device : devices.all) add_applications(device, all);
  for (auto& [pid, application] : all) {
    add_ticks(application);
    sample.applications.push_back(std::move(application));
  }
  read_stat(sample);
  return sample;
}

std::vector<DeviceErrors> read_errors(const neuron_host::Devices& devices) {
  std::vector<DeviceErrors> errors;
  for (const neuron_host::Device& device : devices.all) {
    errors.push_back(errors_of(device.index));
  }
  return errors;
}

}  // namespace neuron_monitor
