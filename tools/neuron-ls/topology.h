// neuron-ls -t: how the devices are linked, as a drawing (spec/tools.md 3.3).
#pragma once

#include <string>

#include "tools/neuron_host/devices.h"

namespace neuron_ls {

// Rows of a torus, a ring or a chain as one row; anything else as a list of neighbours. With the
// blank lines, the title and, where links wrap around, the legend.
std::string topology(const neuron_host::Devices& devices);

}  // namespace neuron_ls
