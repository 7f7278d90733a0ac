#include "sim/identity.h"

namespace sim {

std::string product_name(const config::Node& node) {
  if (node.instance_type == "trn3-gen1-server") return "trn3.48xlarge";
  if (node.instance_type == "trn3-gen2-server") return "trn3e.24xlarge";
  return node.instance_type;
}

std::string host_name(const config::Platform& platform, const config::Node& node) {
  return platform.nodes.size() == 1 ? "" : "node-" + std::to_string(node.id);
}

}  // namespace sim
