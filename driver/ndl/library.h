// Inside of libndl: request helper, device table, handle registry, control descriptor. One per
// process, because the C interface has no context argument (spec/ndl-api.md 2.2).
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "driver/ndl/ndl.h"
#include "driver/uapi/requests.h"
#include "driver/uapi/structs.h"

namespace driver::ndl {

// Issues a request. Success is 0; a positive result is a failed user copy and becomes EFAULT
// (spec/ndl-api.md 2.1).
int call(int fd, uint32_t request, void* arg);
template <typename T>
int call(int fd, uint32_t request, T* arg) {
  return call(fd, request, static_cast<void*>(arg));
}

// Sets errno and returns -1.
int fail(int code);

constexpr uint64_t kPageSize = 4096;  // spec/driver-ioctl.md Appendix C item 11
inline uint64_t page_round(uint64_t size) {
  return (size + kPageSize - 1) & ~(kPageSize - 1);
}

// The library-private tail of ndl_device_t.
struct DevicePrivate {
  ndl_device_context_t context;  // disclosed to be the first member (spec/ndl-api.md 5.1)
  int references;
  uint64_t features;                        // DRIVER_INFO_GET, 0 on drivers without it
  std::map<ndl_mem_info_t*, bool>* chunks;  // true: allocated here, so closing frees it
  std::set<ndl_notification_context_t*>* queues;
};
inline DevicePrivate* priv(ndl_device_t* device) {
  return reinterpret_cast<DevicePrivate*>(device->context);
}
inline int fd_of(ndl_device_t* device) {
  return priv(device)->context.nd_fd;
}

struct DriverVersion {
  uint16_t major = 0;
  uint16_t minor = 0;
  char text[DRIVER_VERSION_MAX_SIZE] = {};
};

class Library {
 public:
  static Library& get();

  // The opened device of that index, or null with errno ENODEV.
  ndl_device_t* device(int index);
  bool is_open(const ndl_device_t* device);
  // The record behind a library handle, or null with errno EINVAL.
  ndl_mem_info_t* memory(uint64_t handle);
  ndl_notification_context_t* queue(uint64_t handle);

  // A descriptor that accepts the device-independent requests; opened on first use, -1 with errno.
  int control();
  void close_control();
  const DriverVersion* version();  // null: the driver is not loaded

  std::recursive_mutex lock;
  ndl_device_t* devices[NEURON_MAX_DEVICES] = {};
  std::set<ndl_mem_info_t*> chunks;
  std::set<ndl_notification_context_t*> queues;
  struct Placement {
    uint64_t size;
    int device_index;
    int hbm_index;  // -1: not device memory
  };
  std::map<uint64_t, Placement> mappings;  // by CPU address
  void (*soft_incompat)(const char*) = nullptr;

 private:
  int control_fd_ = -1;
  bool version_read_ = false;
  DriverVersion version_;
};

// Creates the record of a chunk that somebody made, asking the driver for address and size.
ndl_mem_info_t* adopt_chunk(ndl_device_t* device, uint64_t driver_handle);
// Creates the record of a chunk that this library has just had made. Many are never looked at by
// address, so the driver is asked for it by the first who wants it: locate().
ndl_mem_info_t* adopt_new_chunk(const ndl_mem_info_t& facts, bool owned);
// Fills in what adopt_new_chunk left out; false with errno. No chunk has the address 0, where the
// firmware's memory lies.
bool locate(ndl_mem_info_t* info);
// Unmaps and forgets, without freeing the driver's chunk.
void forget_chunk(ndl_mem_info_t* info);
int list_devices(int* indexes, int capacity);  // ascending; the number found

}  // namespace driver::ndl
