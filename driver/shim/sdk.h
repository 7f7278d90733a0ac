// The directory where programs expect the SDK, /opt/aws/neuron: its bin, lib and include lead to
// those of the machine. Other names below it are the host's.
#pragma once

#include "driver/node/protocol.h"

namespace driver::shim {

// A name to use in a call of libc in place of `path`: the same, but for the SDK's.
class SdkName {
 public:
  explicit SdkName(const char* path);
  SdkName(const SdkName&) = delete;
  SdkName& operator=(const SdkName&) = delete;

  bool ours() const { return name_ == buffer_; }
  const char* get() const { return name_; }

 private:
  const char* name_;
  char buffer_[2 * wire::kMaxPath];  // untouched unless the name is the SDK's
};

bool is_sdk_name(const char* path);

}  // namespace driver::shim
