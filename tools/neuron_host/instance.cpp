#include "tools/neuron_host/instance.h"

#include "tools/neuron_host/attributes.h"

namespace neuron_host {
namespace {

constexpr char kDmi[] = "/sys/devices/virtual/dmi/id/";

bool is_instance_id(const std::string& text) {
  return text.size() > 2 && text.compare(0, 2, "i-") == 0 &&
         text.find_first_not_of("0123456789abcdef", 2) == std::string::npos;
}

}  // namespace

Instance read_instance() {
  Instance instance;
  instance.type = printable(read_attribute(std::string(kDmi) + "product_name").value_or(""));
  // Hosts of other makers keep other things there.
  const std::string tag = read_attribute(std::string(kDmi) + "board_asset_tag").value_or("");
  if (is_instance_id(tag)) instance.id = tag;
  return instance;
}

}  // namespace neuron_host
