// The support matrix (data/support.json): what `describe --support` prints and what Unsupported
// errors refer to.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace config {

struct Feature {
  std::string feature;
  std::string status;  // yes, partial, no
  std::string since;   // first release that has it
  std::string note;
};

base::Result<std::vector<Feature>> load_support();

}  // namespace config
