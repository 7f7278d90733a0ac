// The character-device boundary inside driver/: what the kernel's VFS would hand to a driver.
// kernel/ implements it; node/ (transport to client processes) and in-process tests call it. All
// calls are made from a driver task on the machine's kernel thread and may consume simulated time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/span.h"

namespace driver {

// The calling process's memory. Both return false when any byte of the range is not accessible;
// an ioctl then ends with EFAULT.
class UserMemory {
 public:
  virtual ~UserMemory() = default;
  virtual bool read(uint64_t address, base::ByteSpan to) = 0;
  virtual bool write(uint64_t address, base::ConstByteSpan from) = 0;
};

struct Caller {
  int32_t tgid = 0;  // all "process" identity in the driver (spec/driver-ioctl.md 0.2)
  int32_t tid = 0;
  UserMemory* memory = nullptr;
};

// What a client maps. `fd` stays owned by the driver.
struct MmapTarget {
  int fd = -1;
  uint64_t fd_offset = 0;
  uint64_t length = 0;
  bool writable = false;
  // For register windows: loads hit `fd`; a store must be carried to the device as
  // CharDevice::mmio_write(file, mmio_offset + distance, ...). Zero-length for plain memory.
  bool store_is_mmio = false;
  uint64_t mmio_bar_offset = 0;  // BAR0 offset of the first byte
};

struct SysfsFile {
  std::string path;      // absolute, "/sys/class/neuron_device/neuron0/core_count"
  uint32_t mode = 0444;  // permission bits
  bool writable() const { return (mode & 0222) != 0; }
};

// What poll(2) of an attribute goes by.
struct SysfsEvents {
  uint32_t changes = 0;    // of its value, ever; may wrap
  bool announced = false;  // whether pollers are told of changes now
};

class CharDevice {
 public:
  virtual ~CharDevice() = default;

  virtual std::vector<int> minors() const = 0;  // the N of each /dev/neuronN
  // Returns a file id > 0, or an Error whose code is the errno. `flags` as given to open(2).
  virtual base::Result<int> open(int minor, int flags, const Caller& caller) = 0;
  // Returns >= 0 as the ioctl's result or -errno. `arg` is the address of the structure.
  virtual int ioctl(int file, uint32_t request, uint64_t arg, const Caller& caller) = 0;
  // `write`: the mapping is shared and its file open for writing, so that stores into it are, or
  // may later be made, allowed.
  virtual base::Result<MmapTarget> mmap(int file, uint64_t offset, uint64_t length, bool read,
                                        bool write, const Caller& caller) = 0;
  // Optional: where the client placed a mapping; without it GET_VA_PLACEMENT finds nothing.
  virtual void mmap_done(int /*file*/, uint64_t /*va*/, uint64_t /*offset*/, uint64_t /*length*/,
                         const Caller& /*caller*/) {}
  virtual void munmap(int file, uint64_t offset, uint64_t length, const Caller& caller) = 0;
  // A store by a client into a register window that it has mapped; 4 bytes, aligned.
  virtual int mmio_write(int file, uint64_t bar_offset, uint32_t value, const Caller& caller) = 0;
  virtual void flush(int file, const Caller& caller) = 0;  // every close(2) of any descriptor
  virtual void release(int file) = 0;                      // last reference gone

  // Of device `minor`, below its directory; of kNoDevice, all others. A large host has tens of
  // thousands of files, so nobody asks for those of a device before a client looks at it.
  static constexpr int kNoDevice = -1;
  virtual std::vector<SysfsFile> sysfs_files(int minor) const = 0;
  virtual base::Result<std::string> sysfs_read(const std::string& path) = 0;
  virtual base::Status sysfs_write(const std::string& path, const std::string& text) = 0;
  virtual SysfsEvents sysfs_events(const std::string& /*path*/) { return {}; }
};

}  // namespace driver
