// Register services, firmware counters and metrics, semaphores and events:
// spec/driver-ioctl.md 3.2, 3.6.
#include <algorithm>
#include <vector>

#include "contract/regs/misc.h"
#include "contract/regs/sem.h"
#include "driver/kernel/ioctl.h"

namespace driver::ioctls {
namespace {

namespace misc = contract::misc;
namespace sem = contract::sem;

constexpr uint32_t kMaxReads = 100;  // silicon, 3.2.1
// The kernel's largest temporary buffer (4 MiB) holds this many addresses.
constexpr uint32_t kMaxAddresses = 4 * 1024 * 1024 / sizeof(uint64_t);

// BAR offset of a client's address; false outside the register BAR.
bool to_offset(const Call& call, uint64_t address, uint64_t& offset) {
  const uint64_t base = call.device.bar_cookie();
  offset = address - base;
  return address >= base && offset < call.device.registers().size() &&
         call.device.registers().size() - offset >= sizeof(uint32_t);
}

// An array in the client's memory, as far as it is accessible: fetched up to the end of a page at a
// time, so that an element fails exactly when its own bytes are missing.
template <typename T>
class UserArray {
 public:
  UserArray(const Call& call, uint64_t address, uint32_t count)
      : memory_(*call.caller.memory), address_(address), values_(count) {}

  bool get(uint32_t index, T& value) {
    if (index >= fetched_ && !fetch(index)) return false;
    value = values_[index];
    return true;
  }

 private:
  // Elements are asked for in order.
  bool fetch(uint32_t index) {
    const uint64_t at = address_ + uint64_t{index} * sizeof(T);
    const uint64_t room = uapi::kPageSize - at % uapi::kPageSize;
    const auto left = static_cast<uint64_t>(values_.size() - index);
    const uint64_t count = std::clamp<uint64_t>(room / sizeof(T), 1, left);
    const base::ByteSpan to(reinterpret_cast<uint8_t*>(&values_[index]), count * sizeof(T));
    if (!memory_.read(at, to)) return false;
    fetched_ = index + static_cast<uint32_t>(count);
    return true;
  }

  UserMemory& memory_;
  uint64_t address_;
  std::vector<T> values_;
  uint32_t fetched_ = 0;
};

bool mailbox_word(const Call& call, uint64_t offset) {
  const uint64_t base = call.device.dhal().map.misc_ram().bar0;
  for (const uint32_t word :
       {misc::kRequestHi, misc::kRequestLo, misc::kResponseHi, misc::kResponseLo, misc::kTrigger}) {
    if (offset - base < word + 4 && offset - base + 4 > word && offset + 4 > base) return true;
  }
  return false;
}

}  // namespace

int bar_read(const Call& call) {
  uapi::bar_rw request{};
  if (!call.get(request)) return -EFAULT;
  const uint32_t bar = request.bar & 0xff;
  if (bar != 0 && bar != 2) return -EINVAL;
  if (!call.device.qemu() && !call.device.emulator() && request.count > kMaxReads) return -EINVAL;
  if (request.count > kMaxAddresses) return -ENOMEM;
  // Each address is checked before anything is read.
  UserArray<uint64_t> addresses(call, request.address, request.count);
  std::vector<uint64_t> offsets(request.count);
  for (uint32_t i = 0; i < request.count; ++i) {
    uint64_t address = 0;
    if (!addresses.get(i, address)) return -EFAULT;
    if (!to_offset(call, address, offsets[i])) return -EINVAL;
  }
  std::vector<uint32_t> values(request.count);
  for (uint32_t i = 0; i < request.count; ++i) {
    values[i] = call.device.registers().read(offsets[i]);
  }
  const base::ConstByteSpan out(reinterpret_cast<const uint8_t*>(values.data()),
                                values.size() * sizeof(uint32_t));
  return call.caller.memory->write(request.data, out) ? 0 : -EFAULT;
}

int bar_write(const Call& call) {
  uapi::bar_rw request{};
  if (!call.get(request)) return -EFAULT;
  if ((request.bar & 0xff) != 0) return -EINVAL;
  if (request.count > kMaxAddresses) return -ENOMEM;
  // One by one: earlier writes stay in effect when a later one fails.
  UserArray<uint64_t> addresses(call, request.address, request.count);
  UserArray<uint32_t> values(call, request.data, request.count);
  for (uint32_t i = 0; i < request.count; ++i) {
    uint64_t address = 0;
    uint32_t value = 0;
    if (!addresses.get(i, address) || !values.get(i, value)) return -EFAULT;
    uint64_t offset = 0;
    if (!to_offset(call, address, offset)) return -EINVAL;
    if (call.device.engines().write_blocked(offset) || mailbox_word(call, offset)) return -EINVAL;
    call.device.registers().write(offset, value);
  }
  return 0;
}

int read_hw_counters(const Call& call) {
  uapi::read_hw_counters request{};
  if (!call.get(request)) return -EFAULT;
  if (request.count > FirmwareIo::kMaxCounters) return -EINVAL;
  std::vector<uint64_t> addresses(request.count);
  const base::ByteSpan in(reinterpret_cast<uint8_t*>(addresses.data()),
                          addresses.size() * sizeof(uint64_t));
  if (!call.caller.memory->read(request.address, in)) return -EFAULT;
  std::vector<uint32_t> values;
  if (const int error = call.device.firmware().read_counters(addresses, values); error != 0) {
    return error;
  }
  const base::ConstByteSpan out(reinterpret_cast<const uint8_t*>(values.data()),
                                values.size() * sizeof(uint32_t));
  return call.caller.memory->write(request.data, out) ? 0 : -EFAULT;
}

int post_metric(const Call& call) {
  uapi::post_metric request{};
  if (!call.get(request)) return -EFAULT;
  if (request.data_size > FirmwareIo::kMaxMetricBytes) return -E2BIG;
  std::vector<uint8_t> blob(request.data_size);
  if (!call.caller.memory->read(request.data, blob)) return -EFAULT;
  return call.device.firmware().post_metric(blob);
}

int semaphore(const Call& call) {
  uapi::semaphore request{};
  if (!call.get(request)) return -EFAULT;
  const uint32_t index = request.semaphore_index & 0xffff;
  if (request.nc_id >= call.device.nc_count()) return -E2BIG;
  if (index >= sem::kReadCount) return -EINVAL;
  const uint64_t block = call.device.dhal().map.nc(request.nc_id).bar0 + contract::tpb::kSemaphores;
  const Registers& registers = call.device.registers();
  switch (call.request) {
    case uapi::kSemaphoreRead:
      request.value = registers.read(block + sem::kRead + index * sem::kReadStride);
      return call.put(request) ? 0 : -EFAULT;
    case uapi::kSemaphoreWrite:
      registers.write(block + sem::kSet + index * sem::kSetStride, request.value);
      return 0;
    case uapi::kSemaphoreIncrement:
      registers.write(block + sem::kInc + index * sem::kIncStride, request.value);
      return 0;
    default:
      registers.write(block + sem::kDec + index * sem::kDecStride, request.value);
      return 0;
  }
}

int event(const Call& call) {
  uapi::event request{};
  if (!call.get(request)) return -EFAULT;
  const uint32_t nc = request.nc_id & 0xff;
  const uint32_t index = request.event_index & 0xffff;
  if (nc >= call.device.nc_count()) return -E2BIG;
  if (index > sem::kEventCount) return -EINVAL;  // 256 itself is accepted (3.6)
  const uint64_t at = call.device.dhal().map.nc(nc).bar0 + contract::tpb::kSemaphores +
                      sem::kEvent + uint64_t{index} * sem::kEventStride;
  if (call.request == uapi::kEventSet) {
    call.device.registers().write(at, request.value);
    return 0;
  }
  request.value = call.device.registers().read(at);
  return call.put(request) ? 0 : -EFAULT;
}

}  // namespace driver::ioctls
