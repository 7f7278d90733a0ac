// The Neuron devices of a host, as requests to the driver and PCI's sysfs show them. Device
// directories of sysfs are not read: making one costs an emulated driver milliseconds.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "tools/neuron_host/processes.h"

namespace neuron_host {

struct Device {
  int index = 0;                // N of /dev/neuronN
  uint32_t architecture = 0;    // 2, 3, 4
  std::string bdf;              // "0000:10:1c.0"; empty: the driver does not say
  std::string cpu_affinity;     // a list of Linux, "0-47"
  int numa_node = -1;           // -1: unknown
  std::vector<int> neighbours;  // in the driver's order
  uint64_t memory = 0;          // bytes
  uint32_t cores = 0;           // physical
  std::vector<Process> processes;
  // Open as long as anybody keeps it: a driver needs 10 ms to close one (spec/driver-ioctl.md 1.5).
  std::shared_ptr<ndl_device> handle;
};

struct Devices {
  std::vector<Device> all;    // ascending index
  uint32_t logical_size = 1;  // physical cores per logical core
  bool has_logical = false;   // whether these devices know logical cores of two

  uint32_t logical_cores(const Device& device) const { return device.cores / logical_size; }
  // Logical cores are numbered device by device.
  uint32_t first_core(const Device& device) const {
    return static_cast<uint32_t>(device.index) * logical_cores(device);
  }
};

// Error: no driver, no device, or NEURON_LOGICAL_NC_CONFIG that is neither 1 nor 2.
base::Result<Devices> read_devices();

}  // namespace neuron_host
