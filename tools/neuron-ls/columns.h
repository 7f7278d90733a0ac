// The views of neuron-ls as text (spec/tools.md 3.2, spec/clients.md 3.1).
#pragma once

#include <string>

#include "tools/neuron_host/devices.h"
#include "tools/neuron_host/instance.h"

namespace neuron_ls {

enum class View {
  kDefault,   // processes only if there are any, without their commands
  kWide,      // -w: processes that use the runtime, long commands
  kAll,       // -a: all processes, shorter commands
  kTopology,  // -t: the short table above a drawing
};

constexpr size_t kWideCommand = 80;
constexpr size_t kShortCommand = 40;

std::string heading(const neuron_host::Instance& instance, const neuron_host::Devices& devices);
std::string table(const neuron_host::Devices& devices, View view);

}  // namespace neuron_ls
