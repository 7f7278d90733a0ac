// The PCIe seam: everything a host can do to a device and a device to a host. The machine (hw/)
// stands below it; driver/kernel, the QEMU front ends and the trace player stand above it, and
// nothing else of the machine is visible to them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/span.h"
#include "base/units.h"

namespace pcie {

// How a function presents its BARs. kFull: 64-bit BARs with room for everything
// (spec/hw-registers.md 1.3). k32Bit: 32-bit BARs that fit the hole below 4 GiB of a guest without
// 64-bit BARs; v2 only, and BAR4 holds the first part of HBM 0 (the rest is reached by DMA).
enum class BarLayout : uint8_t { kFull, k32Bit };

// Command register of the standard configuration header.
constexpr uint32_t kCommand = 4;
constexpr uint32_t kCommandMemory = 1u << 1;
constexpr uint32_t kCommandMaster = 1u << 2;

struct Identity {
  uint16_t vendor = 0;  // 0x1D0F
  uint16_t device = 0;  // spec/hw-registers.md 1.1
  // spec/hw-registers.md 1.2: selects silicon, emulator or QEMU paths of a driver
  uint8_t revision = 0;
  uint64_t bar_size[6] = {};  // bytes, 0 = absent; 64-bit BARs occupy the even index
};

// Backing store of part of a BAR, for direct mapping into a client.
struct BarMapping {
  int fd = -1;  // owned by the device, valid as long as the device lives
  uint64_t fd_offset = 0;
  uint64_t length = 0;
  bool writable = false;  // false: loads hit memory, stores must go through bar_write
};

// A stretch of a BAR.
struct BarArea {
  uint64_t offset = 0;
  uint64_t length = 0;
};

// One PCIe function. All calls are made from the kernel thread of the machine, take no simulated
// time and have their effect before they return (posted writes are never reordered or delayed).
class Device {
 public:
  virtual ~Device() = default;

  virtual const Identity& identity() const = 0;
  // Config space. Any offset, `size` up to 4 and alignment: bytes outside the 256 of the header and
  // its capabilities read zero and ignore writes.
  virtual uint32_t config_read(uint32_t offset, unsigned size) = 0;
  virtual void config_write(uint32_t offset, unsigned size, uint32_t value) = 0;
  // Any size and alignment; registers answer aligned 32-bit accesses (spec/hw-registers.md 0.2
  // rule 2). An access that no block claims reads zero, ignores the write, and is counted in the
  // report.
  virtual void bar_read(int bar, uint64_t offset, base::ByteSpan to) = 0;
  virtual void bar_write(int bar, uint64_t offset, base::ConstByteSpan from) = 0;
  // A conventional PCI reset: the function is as after power on (configuration space, all blocks,
  // misc RAM), DMA in flight is lost, HBM keeps its content.
  virtual void reset() = 0;
  // Fails with Fault::kUnsupported where a window has no plain memory behind it.
  virtual base::Result<BarMapping> bar_map(int bar, uint64_t offset, uint64_t length) = 0;
  // What one file lies behind, everywhere at the same distance from its place in the BAR: bar_map()
  // of the first page says which file. Ascending, whole pages, writable; empty where there is none.
  virtual std::vector<BarArea> bar_areas(int /*bar*/) const { return {}; }

  uint32_t read32(int bar, uint64_t offset) {
    uint8_t bytes[4] = {};
    bar_read(bar, offset, {bytes, 4});
    return base::load<uint32_t>(bytes);
  }
  void write32(int bar, uint64_t offset, uint32_t value) {
    uint8_t bytes[4];
    base::store(bytes, value);
    bar_write(bar, offset, {bytes, 4});
  }
};

// Host physical memory as the device's DMA sees it. Physical addresses start at 0 and are below the
// host window limit of the generation (2^44 on v2, 2^46 on v3 and v4).
class HostMemory {
 public:
  virtual ~HostMemory() = default;
  // Pointer to [phys, phys + length) if it is one host mapping, else null (unmapped or accessor
  // only).
  virtual uint8_t* direct(uint64_t phys, uint64_t length) = 0;
  // False when any byte of the range is not host memory; then nothing was transferred.
  virtual bool read(uint64_t phys, base::ByteSpan to) = 0;
  virtual bool write(uint64_t phys, base::ConstByteSpan from) = 0;
};

// Runs driver code as coroutines on the machine's kernel thread, in simulated time. A driver task
// may block only in delay() and wait(); everything else it does is a plain call.
class HostExecutor {
 public:
  virtual ~HostExecutor() = default;
  // Starts `task` as soon as the caller yields; an exception that leaves it ends the machine.
  virtual void spawn(std::string name, std::function<void()> task) = 0;
  // Suspends the calling task for `time` of simulated time.
  virtual void delay(base::Ps time) = 0;
  // Suspends the calling task until wake() is called for `channel` (any address used as a key), or
  // until `timeout` of simulated time has passed; false on time-out. A waiter with timeout
  // kForever does not keep the machine busy.
  virtual bool wait(const void* channel, base::Ps timeout) = 0;
  virtual void wake(const void* channel) = 0;
  virtual base::Ps now() const = 0;

  static constexpr base::Ps kForever = ~base::Ps{0};
};

}  // namespace pcie
