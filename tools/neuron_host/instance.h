// Which instance this is (spec/tools.md 1.4), from what the host tells about itself.
#pragma once

#include <string>

namespace neuron_host {

struct Instance {
  std::string type;  // "trn2.48xlarge"; empty: unknown
  std::string id;    // "i-" and hexadecimal digits; empty: unknown
};

Instance read_instance();

}  // namespace neuron_host
