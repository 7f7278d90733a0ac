// What can be read at one moment: applications with their datastores, the host's processors and
// memory, error counts of devices. Rates come from two samples (report.h).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/neuron_host/devices.h"

namespace neuron_monitor {

using Clock = std::chrono::steady_clock;

// Of one physical core, by the ids of spec/ndl-api.md 6.4.
using CoreCounters = std::array<uint64_t, 31>;

struct Application {
  pid_t pid = 0;
  std::string tag;
  uint64_t host_bytes = 0;
  std::map<int, uint64_t> host_by_device;  // the same, by index
  uint64_t device_bytes = 0;
  std::map<uint32_t, CoreCounters> cores;  // by physical core of the host; those in use
  uint64_t user_ticks = 0;                 // of processor time
  uint64_t system_ticks = 0;
};

struct CpuTicks {
  std::string name;  // "cpu" for all, "cpu3"
  // user, nice, system, idle, io_wait, irq, soft_irq
  std::array<uint64_t, 7> ticks = {};
};

struct DeviceErrors {
  int device = 0;
  uint64_t mem_corrected = 0;
  uint64_t mem_uncorrected = 0;
  uint64_t sram_corrected = 0;
  uint64_t sram_uncorrected = 0;
};

struct Sample {
  Clock::time_point time;
  std::vector<Application> applications;  // ascending pid
  std::vector<CpuTicks> cpus;             // the sum first
  uint64_t context_switches = 0;
  std::vector<DeviceErrors> errors;

  const Application* find(pid_t pid) const;
};

// All but the error counts.
Sample take_sample(const neuron_host::Devices& devices);
// Costs an emulated driver milliseconds per device, the first time.
std::vector<DeviceErrors> read_errors(const neuron_host::Devices& devices);

}  // namespace neuron_monitor
