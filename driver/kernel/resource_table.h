// The windows of a device that clients may map besides memory chunks: spec/driver-ioctl.md 4.4.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "driver/uapi/limits.h"

namespace driver {

class NeuronDevice;

struct Resource {
  uint32_t block = 0;  // uapi::ResourceBlock
  uint32_t id = 0;
  uint32_t kind = 0;         // uapi::ResourceKind
  uint64_t mmap_offset = 0;  // a token; on v3 and v4 not always the device address
  uint64_t length = 0;
  int bar = 0;
  uint64_t bar_offset = 0;
  bool read_only = false;
};

std::vector<Resource> resources(const NeuronDevice& device);
std::optional<Resource> find_resource(const NeuronDevice& device, uint32_t block, uint32_t id,
                                      uint32_t kind);

}  // namespace driver
