#include "tools/neuron_host/devices.h"

#include <ndl/ndl.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "arch/contract/address_map.h"
#include "tools/neuron_host/attributes.h"

namespace neuron_host {
namespace {

constexpr char kConfigFile[] = "/opt/aws/neuron/logical_nc_config";  // spec/nrt-api.md 18
constexpr char kConfigName[] = "NEURON_LOGICAL_NC_CONFIG";
constexpr uint32_t kDefaultSize = 2;

base::Error bad_size(const std::string& text) {
  return {base::Fault::kUsage, EINVAL, kConfigName, "'" + text + "' is neither 1 nor 2"};
}

// As libnrt chooses it: the variables, the file, the devices' default.
base::Result<uint32_t> logical_size() {
  for (const char* name : {kConfigName, "NEURON_RT_VIRTUAL_CORE_SIZE"}) {
    const char* text = std::getenv(name);
    if (text == nullptr || *text == 0) continue;
    const std::string value = text;
    if (value != "1" && value != "2") return bad_size(printable(value));
    return value == "1" ? 1u : 2u;
  }
  const std::string prefix = std::string(kConfigName) + "=";
  const std::string file = read_attribute(kConfigFile).value_or("");
  const size_t at = file.find(prefix);
  if (at == std::string::npos) return kDefaultSize;
  const std::string value = file.substr(at + prefix.size(), 1);
  if (value != "1" && value != "2") return bad_size(printable(value));
  return value == "1" ? 1u : 2u;
}

std::string bdf_of(int index) {
  uint32_t domain = 0;
  uint32_t bus = 0;
  uint8_t slot = 0;
  uint8_t function = 0;
  if (ndl_get_device_bdf_ext(index, &domain, &bus, &slot, &function) != 0) return "";
  char text[32];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", domain, bus, slot, function);
  return text;
}

// What is known of the place of a PCI function; another maker's function of the same address is
// the host's own and says nothing about an emulated one.
void read_place(Device& device) {
  const std::string directory = "/sys/bus/pci/devices/" + device.bdf + "/";
  const bool ours = !device.bdf.empty() && read_attribute(directory + "vendor") == "0x1d0f";
  if (ours) {
    device.cpu_affinity = printable(read_attribute(directory + "local_cpulist").value_or(""));
    const std::string node = read_attribute(directory + "numa_node").value_or("");
    if (!node.empty()) device.numa_node = std::atoi(node.c_str());
  }
  if (device.cpu_affinity.empty()) {
    device.cpu_affinity = printable(read_attribute("/sys/devices/system/cpu/online").value_or(""));
  }
}

// Error: the device cannot be opened, whoever holds it is reason enough to go on without.
base::Status read_device(Device& device) {
  ndl_device_init_param_t parameters = {};
  ndl_device_t* handle = nullptr;
  if (ndl_open_device(device.index, &parameters, &handle) != 0) {
    return base::Error{base::Fault::kIo, errno, "/dev/neuron" + std::to_string(device.index),
                       "cannot be opened"};
  }
  device.handle.reset(handle, ndl_close_device);
  device.architecture = handle->device_type;
  for (int i = 0; i < handle->connected_device_count; ++i) {
    device.neighbours.push_back(handle->connected_devices[i]);
  }
  device.processes = read_processes(handle);
  return {};
}

}  // namespace

base::Result<Devices> read_devices() {
  std::vector<int> indexes(NEURON_MAX_DEVICES);
  const int found = ndl_available_devices(indexes.data(), static_cast<int>(indexes.size()));
  const base::Error none{base::Fault::kIo, ENODEV, "/dev", "there is no Neuron device"};
  if (found <= 0) return none;
  indexes.resize(static_cast<size_t>(found));
  Devices devices;
  for (const int index : indexes) {
    Device device;
    device.index = index;
    if (!read_device(device)) continue;
    device.bdf = bdf_of(index);
    read_place(device);
    contract::AddressMap map;
    if (device.architecture < 2 || device.architecture > 4) continue;
    map.gen = static_cast<contract::Gen>(device.architecture);
    device.cores = map.ncs();
    device.memory = map.hbm_size() * map.hbms();
    devices.has_logical = devices.has_logical || map.max_lnc() > 1;
    devices.all.push_back(std::move(device));
  }
  if (devices.all.empty()) return none;
  if (devices.has_logical) {
    const auto size = logical_size();
    if (!size) return size.error();
    devices.logical_size = *size;
  }
  return devices;
}

}  // namespace neuron_host
