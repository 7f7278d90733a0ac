#include "sim/identity.h"

#include "driver/kernel/pod.h"

namespace sim {

std::string product_name(const config::Node& node) {
  if (node.instance_type == "trn3-gen1-server") return "trn3.48xlarge";
  if (node.instance_type == "trn3-gen2-server") return "trn3e.24xlarge";
  return node.instance_type;
}

std::string host_name(const config::Platform& platform, const config::Node& node) {
  return platform.nodes.size() == 1 ? "" : "node-" + std::to_string(node.id);
}

base::Status check_devices(const config::Platform& platform) {
  for (const config::Node& node : platform.nodes) {
    const bool max = driver::platform_type(product_name(node)) == driver::PlatformType::kMax;
    const uint32_t limit = max ? 4 : platform.generation == config::Generation::kV2 ? 64 : 16;
    for (const config::Chip& chip : platform.chips) {
      if (chip.node != node.id || chip.local_id < limit) continue;
      return base::Error{base::Fault::kConfig, 0, platform.name,
                         "node " + std::to_string(node.id) + " (" + node.instance_type +
                             "): drivers number at most " + std::to_string(limit) +
                             " devices of such a host"};
    }
  }
  return {};
}

}  // namespace sim
