// Facts about the instance: its type and memory (spec/nrt-api.md 5).
#pragma once

#include <nrt/nrt.h>

#include <string>

#include "base/error.h"
#include "runtime/exec/device.h"

namespace nrt {

// From the product name of the host (for example "trn1.2xlarge"), else from the devices.
nrt_instance_info_t read_instance_info();
nrt_instance_info_t parse_instance_type(const std::string& product);

base::Result<uint64_t> hbm_bytes_in_use(Device& device, uint32_t hbm);

}  // namespace nrt
