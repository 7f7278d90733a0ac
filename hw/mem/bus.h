// The control plane's plain interface: what stands behind a register window of our own blocks. They
// call each other through it, several times per DMA packet; TLM sockets stand where blocks of
// others are attached (hw/block).
#pragma once

#include <cstddef>
#include <cstdint>

namespace hw {

class BusTarget {
 public:
  virtual ~BusTarget() = default;
  // Immediate, takes no simulated time. `debug` accesses have no side effects. False is a bus
  // error.
  virtual bool access(uint64_t offset, uint8_t* data, size_t size, bool write, bool debug) = 0;
};

}  // namespace hw
