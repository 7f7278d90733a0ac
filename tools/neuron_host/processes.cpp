#include "tools/neuron_host/processes.h"

#include <ndl/ndl.h>
#include <nrt/nds/neuron_ds.h>

#include <algorithm>
#include <cstdlib>

#include "base/file.h"
#include "tools/neuron_host/attributes.h"

namespace neuron_host {
namespace {

// Packed as nmetric_version_t (spec/ndl-api.md 6.3).
std::string version_text(uint64_t packed) {
  nmetric_version_t version = {};
  version.all = packed;
  return std::to_string(version.major_ver) + "." + std::to_string(version.minor_ver) + "." +
         std::to_string(version.build_num);
}

std::string runtime_version(ndl_device* device, pid_t pid) {
  nds_instance_t* datastore = nullptr;
  if (nds_open(device, pid, &datastore) != 0) return "";
  uint64_t packed = 0;
  const bool read = nds_get_nd_counter(datastore, NDS_ND_COUNTER_RUNTIME_VERSION, &packed) == 0;
  nds_close(datastore);
  return read && packed != 0 ? version_text(packed) : "";
}

}  // namespace

std::string read_command(pid_t pid) {
  constexpr size_t kLimit = 1 << 20;
  auto text = base::read_file("/proc/" + std::to_string(pid) + "/cmdline", kLimit);
  if (!text) return "";
  while (!text->empty() && text->back() == 0) text->pop_back();
  std::replace(text->begin(), text->end(), '\0', ' ');
  return printable(std::move(*text));
}

std::string shortened(const std::string& command, size_t limit) {
  return command.size() <= limit ? command : command.substr(0, limit - 3) + "...";
}

std::vector<Process> read_processes(ndl_device* device) {
  neuron_app_info* raw = nullptr;
  size_t count = 0;
  std::vector<Process> processes;
  if (ndl_get_all_apps_info(device, &raw, &count, APP_INFO_PID_NC_LOCK_INFO) != 0) return processes;
  const std::vector<neuron_app_info> apps(raw, raw + count);
  std::free(raw);
  for (const neuron_app_info& app : apps) {
    const pid_t pid = app.pid;
    processes.push_back({pid, read_command(pid), runtime_version(device, pid)});
  }
  std::sort(processes.begin(), processes.end(),
            [](const Process& a, const Process& b) { return a.pid < b.pid; });
  return processes;
}

}  // namespace neuron_host
