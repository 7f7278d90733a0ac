// "VFIO_USER_VERSION" of the vfio-user document: what a client proposes and what it is answered.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/span.h"
#include "driver/qemu/vfio_user_protocol.h"

namespace driver::qemu::vfio {

struct Negotiated {
  uint16_t minor = 0;
  uint32_t max_transfer = kDefaultMaxTransfer;  // of a message to the client
  bool write_multiple = false;
  std::vector<uint8_t> reply;  // version and JSON, without a header
};

// The payload of the client's message. Capabilities of the reply are a subset of those proposed;
// unknown ones are left out. An error: the connection must be closed.
base::Result<Negotiated> negotiate(base::ConstByteSpan proposal);

}  // namespace driver::qemu::vfio
