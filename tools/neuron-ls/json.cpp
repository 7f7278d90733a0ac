#include "tools/neuron-ls/json.h"

#include "base/json.h"
#include "tools/neuron-ls/columns.h"

namespace neuron_ls {
namespace {

using Json = nlohmann::ordered_json;

Json processes_of(const neuron_host::Device& device) {
  Json all = Json::array();
  for (const neuron_host::Process& process : device.processes) {
    if (!process.uses_runtime()) continue;
    Json entry;
    entry["pid"] = process.pid;
    entry["command"] = neuron_host::shortened(process.command, kShortCommand);
    entry["neuron_runtime_version"] = process.runtime_version;
    all.push_back(std::move(entry));
  }
  return all;
}

}  // namespace

std::string json(const neuron_host::Instance& instance, const neuron_host::Devices& devices) {
  constexpr int kIndent = 4;
  Json all = Json::array();
  for (const neuron_host::Device& device : devices.all) {
    Json entry;
    entry["instance_type"] = instance.type;
    entry["instance_id"] = instance.id;
    entry["neuron_device"] = device.index;
    entry["bdf"] = device.bdf;
    entry["cpu_affinity"] = device.cpu_affinity;
    entry["numa_node"] = std::to_string(device.numa_node);
    entry["connected_to"] = device.neighbours.empty() ? Json() : Json(device.neighbours);
    entry["nc_count"] = devices.logical_cores(device);
    if (devices.has_logical) entry["logical_neuroncore_config"] = devices.logical_size;
    entry["memory_size"] = device.memory;
    Json ids = Json::array();
    for (uint32_t core = 0; core < devices.logical_cores(device); ++core) {
      ids.push_back(devices.first_core(device) + core);
    }
    entry["neuroncore_ids"] = std::move(ids);
    entry["neuron_processes"] = processes_of(device);
    all.push_back(std::move(entry));
  }
  return base::json_text(all, kIndent);
}

}  // namespace neuron_ls
