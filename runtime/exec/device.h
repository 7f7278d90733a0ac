// One opened device and its memory, through the driver library only.
// Source of truth: spec/ndl-api.md 3.2 to 3.4, docs/hardware-contract.md 1.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "arch/contract/address_map.h"
#include "base/error.h"
#include "base/span.h"

struct ndl_device;
struct nds_instance;

namespace nrt {

struct RegisterWrite {
  uint64_t bar0 = 0;  // offset in BAR0
  uint32_t value = 0;
};

class Device {
 public:
  static base::Result<std::shared_ptr<Device>> open(int index);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();

  void close();
  // Open, and this process opened it: a forked child must not touch it.
  bool usable() const;

  ndl_device* handle() const { return handle_; }
  int index() const { return index_; }
  uint32_t chip() const { return chip_; }  // platform-wide number
  // Devices of this host at the other ends of links.
  std::vector<uint32_t> neighbours() const;
  const contract::AddressMap& map() const { return map_; }

  // One more result of this status on core `nc` in the counters that tools read
  // (spec/nrt-api.md 2.3).
  void count_status(uint32_t nc, int status);

  // In order, in as few requests as possible.
  base::Status write_registers(const std::vector<RegisterWrite>& writes);
  base::Result<std::vector<uint32_t>> read_registers(const std::vector<uint64_t>& bar0_offsets);

 private:
  Device() = default;
  base::Result<uint32_t> read_chip();
  // Tells tools who uses the device: version and label (spec/ndl-api.md 6.3, 6.6).
  void publish_process();

  ndl_device* handle_ = nullptr;
  nds_instance* datastore_ = nullptr;  // null: the driver has none, counting is skipped
  void* process_info_ = nullptr;       // objects of the datastore; deleting them takes them out
  void* process_info_ext_ = nullptr;
  int index_ = 0;
  uint32_t chip_ = 0;
  pid_t owner_ = 0;
  std::atomic<bool> open_{false};
  contract::AddressMap map_;
};

struct MemoryPlace {
  uint32_t nc = 0;
  uint32_t hbm = 0;
  bool host = false;
  uint32_t category = 0;  // mem_alloc_category_t
  uint64_t alignment = 0;
  bool addressed = true;  // false: nobody asks for the address, which costs a request
};

// A chunk of device or host memory; freed with the object unless the device is closed.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  static base::Result<DeviceBuffer> allocate(std::shared_ptr<Device> device, uint64_t size,
                                             const MemoryPlace& place);
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer();

  bool valid() const { return handle_ != 0; }
  uint64_t handle() const { return handle_; }
  uint64_t address() const { return address_; }  // device-visible
  uint64_t size() const { return size_; }
  const MemoryPlace& place() const { return place_; }
  const std::shared_ptr<Device>& device() const { return device_; }

  // The caller has checked the range.
  base::Status write(uint64_t offset, base::ConstByteSpan from);
  base::Status read(uint64_t offset, base::ByteSpan to) const;
  base::Status fill(uint64_t offset, uint8_t value, uint64_t size);
  // Descriptors go through the driver's validating request.
  base::Status write_descriptors(uint64_t offset, base::ConstByteSpan descriptors, bool receive);
  base::Result<void*> map();

 private:
  void release();  // what follows gives it another chunk or ends it

  std::shared_ptr<Device> device_;
  MemoryPlace place_;
  uint64_t handle_ = 0;
  uint64_t address_ = 0;
  uint64_t size_ = 0;
};

base::Status copy(const DeviceBuffer& from, uint64_t from_offset, DeviceBuffer& to,
                  uint64_t to_offset, uint64_t size);

}  // namespace nrt
