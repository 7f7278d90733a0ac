#include "sim/hierarchy.h"

#include <systemc>

#include "sim/hardware.h"

namespace sim {
namespace {

void add(const std::vector<sc_core::sc_object*>& objects, std::vector<HierarchyObject>& to) {
  for (const sc_core::sc_object* each : objects) {
    to.push_back({each->name(), each->kind()});
    add(each->get_child_objects(), to);
  }
}

}  // namespace

base::Result<std::vector<HierarchyObject>> hierarchy(const config::Platform& platform,
                                                     const config::Timing& timing) {
  HardwareParams params{platform, timing, {}};
  params.touch_all = true;
  const auto hardware = build_hardware(params);
  if (!hardware) return hardware.error();
  std::vector<HierarchyObject> all;
  add(sc_core::sc_get_top_level_objects(), all);
  return all;
}

}  // namespace sim
