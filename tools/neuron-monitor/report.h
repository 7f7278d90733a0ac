// Groups of a report, as JSON (spec/tools.md 5.3 to 5.5, spec/clients.md 3.2).
#pragma once

#include <nlohmann/json.hpp>

#include "tools/neuron-monitor/config.h"
#include "tools/neuron-monitor/sample.h"
#include "tools/neuron_host/devices.h"
#include "tools/neuron_host/instance.h"

namespace neuron_monitor {

using Json = nlohmann::ordered_json;

// The same group at two moments; `before` may hold less.
struct Interval {
  const Sample& before;
  const Sample& now;
  double seconds() const;
};

// A group of an application: `Application` of the later sample.
Json runtime_group(Group group, const Interval& interval, const Application& application,
                   const neuron_host::Devices& devices);
Json system_group(Group group, const Interval& interval);
// "v3", and "v3d" where a core is two physical ones.
std::string core_version(const neuron_host::Devices& devices);
Json instance_info(const neuron_host::Instance& instance);
Json hardware_info(const neuron_host::Devices& devices);

}  // namespace neuron_monitor
