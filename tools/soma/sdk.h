// The directory that programs on a machine find at /opt/aws/neuron, where the SDK is installed on
// real hosts: links to this project's programs, libraries and headers.
#pragma once

#include <filesystem>
#include <string>

#include "base/error.h"

namespace soma {

// Where this executable and what belongs to it lie.
struct Installation {
  std::filesystem::path bin;
  std::filesystem::path lib;  // holds libsoma-shim.so; empty: it is missing
  std::filesystem::path include;
};
Installation find_installation();

// Makes it below a machine's private directory. What is not installed has no link.
base::Status make_sdk(const std::string& directory);
std::string sdk_of(const std::string& directory);

}  // namespace soma
