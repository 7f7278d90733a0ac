// What `neff info` prints (spec/neff.md 1.11): the header, then nodes, tensors and programs.
#pragma once

#include <string>

#include "base/error.h"
#include "base/span.h"

namespace tool {

struct InfoOptions {
  bool json = false;
  bool weights = false;
  bool spills = false;
};

// Version and feature bits never make this fail; a file that would not load says why.
base::Result<std::string> describe(base::ConstByteSpan file, const InfoOptions& options);

}  // namespace tool
