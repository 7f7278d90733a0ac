// Hardware abstraction of the device's small processors (CC-cores, management controller): what
// their firmware may do to the chip. Freestanding: no allocation, no exceptions, no library calls;
// the machine implements it over its fabric, a RISC-V build would over volatile pointers.
//
// Firmware is written as resumable state machines: a function never blocks. It returns what it
// waits for (time, a semaphore, a barrier), and its processor calls it again when that is over. So
// an idle core costs nothing and an active one no stack.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arch/contract/notification.h"

namespace firmware {

class Hal {
 public:
  // 32-bit access by device address, naturally aligned. False: nothing claims the address.
  virtual bool read32(uint64_t address, uint32_t* value) = 0;
  virtual bool write32(uint64_t address, uint32_t value) = 0;  // posted, in order
  // Bulk access to memory (host window included), for mailbox buffers.
  virtual bool read(uint64_t address, void* to, size_t bytes) = 0;
  virtual bool write(uint64_t address, const void* from, size_t bytes) = 0;
  // Device time in picoseconds.
  virtual uint64_t now() = 0;
  // Posts an entry to the processor's notification queue.
  virtual void notify(contract::NqType type, uint32_t payload, uint32_t pc, uint32_t info) = 0;

 protected:
  ~Hal() = default;
};

// What the processor has beside it, without going through the fabric.
class SemaphoreBank {
 public:
  virtual uint32_t value(uint32_t semaphore) const = 0;
  virtual void subtract(uint32_t semaphore, uint32_t value) = 0;

 protected:
  ~SemaphoreBank() = default;
};

// What the management controller measures on its chip.
class Sensors {
 public:
  // Share of sample period number `sample` in which the compute engines of a die worked, averaged
  // over them, in basis points (0 to 10000). The period is the one before the present one.
  virtual uint32_t utilisation(uint32_t die, uint64_t sample) = 0;

 protected:
  ~Sensors() = default;
};

}  // namespace firmware
