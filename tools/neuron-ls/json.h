// neuron-ls -j: the keys of tools 2.31 and later, in their order (spec/clients.md 3.1).
#pragma once

#include <string>

#include "tools/neuron_host/devices.h"
#include "tools/neuron_host/instance.h"

namespace neuron_ls {

// An array with one object per device, four blanks of indentation, no newline at the end.
std::string json(const neuron_host::Instance& instance, const neuron_host::Devices& devices);

}  // namespace neuron_ls
