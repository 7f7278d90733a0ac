#include "runtime/exec/device.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>
#include <utility>

#include "contract/regs/cc.h"
#include "driver/ndl/ndl.h"
#include "driver/ndl/nrt/nds/neuron_ds.h"
#include "runtime/nrt/environment.h"
#include "runtime/nrt/log.h"
#include "runtime/nrt/status.h"
#include "runtime/nrt/version.h"

namespace nrt {
namespace {

// the driver refuses more than 100 (spec/driver-ioctl.md 3.2.1)
constexpr size_t kReadBatch = 64;
constexpr size_t kWriteBatch = 512;          // bounds the driver's temporary copy
constexpr uint64_t kCopyBatch = 1ull << 30;  // spec/ndl-api.md 3.4: keep requests below 4 GiB

// Counter of the datastore for a status, or -1 (spec/nrt-api.md 2.3).
int counter_of(int status) {
  switch (status) {
    case NRT_SUCCESS:
      return NDS_NC_COUNTER_INFER_COMPLETED;
    case NRT_FAILURE:
      return NDS_NC_COUNTER_GENERIC_FAIL;
    case NRT_TIMEOUT:
      return NDS_NC_COUNTER_INFER_TIMED_OUT;
    case NRT_EXEC_BAD_INPUT:
      return NDS_NC_COUNTER_INFER_INCORRECT_INPUT;
    case NRT_HW_ERROR:
      return NDS_NC_COUNTER_ERR_HW;
    case NRT_EXEC_COMPLETED_WITH_ERR:
      return NDS_NC_COUNTER_INFER_COMPLETED_WITH_ERR;
    case NRT_EXEC_COMPLETED_WITH_NUM_ERR:
      return NDS_NC_COUNTER_INFER_COMPLETED_WITH_NUM_ERR;
    case NRT_RESOURCE:
      return NDS_NC_COUNTER_ERR_RESOURCE;
    case NRT_LOAD_NOT_ENOUGH_NC:
      return NDS_NC_COUNTER_ERR_RESOURCE_NC;
    case NRT_QUEUE_FULL:
      return NDS_NC_COUNTER_INFER_FAILED_TO_QUEUE;
    case NRT_INVALID:
      return NDS_NC_COUNTER_ERR_INVALID;
    case NRT_UNSUPPORTED_NEFF_VERSION:
      return NDS_NC_COUNTER_ERR_UNSUPPORTED_NEFF_VERSION;
    case NRT_EXEC_OOB:
      return NDS_NC_COUNTER_OOB;
    case NRT_EXEC_HW_ERR_COLLECTIVES:
      return NDS_EXT_NC_COUNTER_HW_ERR_COLLECTIVES;
    case NRT_EXEC_HW_ERR_HBM_UE:
      return NDS_EXT_NC_COUNTER_HW_ERR_HBM_UE;
    case NRT_EXEC_HW_ERR_NC_UE:
      return NDS_EXT_NC_COUNTER_HW_ERR_NC_UE;
    case NRT_EXEC_HW_ERR_DMA_ABORT:
      return NDS_EXT_NC_COUNTER_HW_ERR_DMA_ABORT;
    case NRT_EXEC_SW_NQ_OVERFLOW:
      return NDS_EXT_NC_COUNTER_ERR_SW_NQ_OVERFLOW;
    case NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE:
      return NDS_EXT_NC_COUNTER_HW_ERR_REPAIRABLE_HBM_UE;
    default:
      return -1;
  }
}

}  // namespace

base::Result<std::shared_ptr<Device>> Device::open(int index) {
  std::shared_ptr<Device> device(new Device);
  ndl_device_init_param_t params{};
  params.map_hbm = false;
  errno = 0;
  if (ndl_open_device(index, &params, &device->handle_) != 0) {
    log(LogLevel::kError, Component::kTdrv, "tdrv_init_mla_phase1", "Could not open the nd%d",
        index);
    base::Error e = driver_error("open", errno);
    e.code = NRT_FAILURE;
    return e;
  }
  device->index_ = index;
  device->owner_ = getpid();
  device->open_ = true;
  const uint8_t type = device->handle_->device_type;
  if (type < 2 || type > 4) {
    return unsupported(NRT_FAILURE, "Unsupported device architecture " + std::to_string(type));
  }
  device->map_.gen = static_cast<contract::Gen>(type);
  auto chip = device->read_chip();
  if (!chip) return chip.error();
  device->chip_ = *chip;
  if (nds_open(device->handle_, 0, &device->datastore_) != 0) {
    device->datastore_ = nullptr;
    log(LogLevel::kWarn, Component::kTdrv, "tdrv_init_mla_phase1",
        "nd%d has no datastore: no counters", index);
  }
  device->publish_process();
  return device;
}

void Device::publish_process() {
  if (datastore_ == nullptr) return;
  nmetric_version_t version = {};
  version.major_ver = kVersion[0] & 0xff;
  version.minor_ver = kVersion[1] & 0xff;
  version.build_num = kVersion[2] & 0xffffffff;
  uint64_t packed = version.all;
  nds_set_nd_counter(datastore_, NDS_ND_COUNTER_RUNTIME_VERSION, &packed);
  // spec/tools.md 5.2: the label, else the process id.
  const std::string tag = environment("NEURON_PROCESS_TAG").value_or(std::to_string(owner_));
  const nds_obj_handle_t process = nds_obj_new(datastore_, OBJECT_TYPE_PROCESS_INFO);
  if (nds_process_info_t* info = nds_obj_handle_to_process_info(process)) {
    std::snprintf(info->tag, sizeof info->tag, "%s", tag.c_str());
    info->runtime_version = {static_cast<uint8_t>(kVersion[0]), static_cast<uint8_t>(kVersion[1]),
                             static_cast<uint32_t>(kVersion[2])};
    nds_obj_commit(process);
  }
  const nds_obj_handle_t extended = nds_obj_new(datastore_, OBJECT_TYPE_PROCESS_INFO_EXT);
  if (nds_process_info_ext_t* info = nds_obj_handle_to_process_info_ext(extended)) {
    std::snprintf(info->tag, sizeof info->tag, "%s", tag.c_str());
    nds_obj_commit(extended);
  }
  process_info_ = process;
  process_info_ext_ = extended;
}

// Hosts number their devices from 0; the device knows its number among all of the platform since
// contract 1.1 (docs/hardware-contract.md 1).
base::Result<uint32_t> Device::read_chip() {
  constexpr uint32_t kFirstWithChip = 0x1'0001;
  constexpr uint32_t kMajor = 0xFFFF'0000;
  const uint64_t cc = map_.topsp(0).bar0;
  auto values = read_registers({cc + contract::cc::kContractVersion, cc + contract::cc::kChip});
  if (!values) return values.error();
  const uint32_t version = (*values)[0];
  if ((version & kMajor) == (kFirstWithChip & kMajor) && version >= kFirstWithChip) {
    return (*values)[1];
  }
  uint32_t host_id = 0;
  if (ndl_get_host_device_id(handle_, &host_id) == 0) return host_id;
  return static_cast<uint32_t>(index_);
}

Device::~Device() {
  close();
}

bool Device::usable() const {
  return open_ && owner_ == getpid();
}

void Device::close() {
  if (!open_.exchange(false)) return;
  if (owner_ != getpid()) return;
  for (void* object : {process_info_, process_info_ext_}) {
    if (object != nullptr) nds_obj_delete(object);
  }
  if (datastore_ != nullptr) nds_close(datastore_);
  ndl_close_device(handle_);
}

std::vector<uint32_t> Device::neighbours() const {
  const uint32_t count = std::min<uint32_t>(handle_->connected_device_count, NEURON_MAX_DEVICES);
  return {handle_->connected_devices, handle_->connected_devices + count};
}

void Device::count_status(uint32_t nc, int status) {
  const int counter = counter_of(status);
  if (datastore_ == nullptr || counter < 0) return;
  if (nds_increment_nc_counter(datastore_, static_cast<int>(nc), static_cast<uint32_t>(counter),
                               1) != 0) {
    log(LogLevel::kDebug, Component::kTdrv, "nds_increment_nc_counter", "Counter %d is refused",
        counter);
  }
}

base::Status Device::write_registers(const std::vector<RegisterWrite>& writes) {
  const uint64_t base = handle_->csr_base[0];
  std::vector<uint64_t> addresses;
  std::vector<uint32_t> values;
  for (size_t at = 0; at < writes.size(); at += kWriteBatch) {
    const size_t n = std::min(kWriteBatch, writes.size() - at);
    addresses.clear();
    values.clear();
    for (size_t i = at; i < at + n; ++i) {
      addresses.push_back(base + writes[i].bar0);
      values.push_back(writes[i].value);
    }
    errno = 0;
    if (ndl_bar_write(handle_, 0, addresses.data(), static_cast<uint32_t>(n), values.data()) != 0) {
      return driver_error("register write", errno);
    }
  }
  return {};
}

base::Result<std::vector<uint32_t>> Device::read_registers(
    const std::vector<uint64_t>& bar0_offsets) {
  const uint64_t base = handle_->csr_base[0];
  std::vector<uint32_t> values(bar0_offsets.size());
  std::vector<uint64_t> addresses;
  for (size_t at = 0; at < bar0_offsets.size(); at += kReadBatch) {
    const size_t n = std::min(kReadBatch, bar0_offsets.size() - at);
    addresses.clear();
    for (size_t i = at; i < at + n; ++i) addresses.push_back(base + bar0_offsets[i]);
    errno = 0;
    if (ndl_bar_read(handle_, 0, addresses.data(), static_cast<uint32_t>(n), &values[at]) != 0) {
      return driver_error("register read", errno);
    }
  }
  return values;
}

base::Result<DeviceBuffer> DeviceBuffer::allocate(std::shared_ptr<Device> device, uint64_t size,
                                                  const MemoryPlace& place) {
  DeviceBuffer buffer;
  uint64_t handle = 0;
  errno = 0;
  if (ndl_memory_alloc(device->handle(), size, place.host ? 0 : place.alignment, place.host ? 1 : 0,
                       place.hbm, 0, place.nc, place.category, &handle) != 0) {
    log(LogLevel::kError, Component::kTdrv, "log_dev_mem",
        "Failed to allocate %.3fGB (alignment: %llu, usage: %u) on ND %d:NC %u",
        static_cast<double>(size) / static_cast<double>(1ull << 30),
        static_cast<unsigned long long>(place.alignment), place.category, device->index(),
        place.nc);
    base::Error e = driver_error("allocation", errno);
    e.code = NRT_RESOURCE;
    return e;
  }
  buffer.device_ = std::move(device);
  buffer.handle_ = handle;
  buffer.size_ = size;
  buffer.place_ = place;
  if (place.addressed && ndl_memory_get_pa(handle, &buffer.address_) != 0) {
    return driver_error("address", errno);
  }
  return buffer;
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept {
  *this = std::move(other);
}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  if (this != &other) {
    release();
    device_ = std::move(other.device_);
    place_ = other.place_;
    handle_ = std::exchange(other.handle_, 0);
    address_ = std::exchange(other.address_, 0);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  release();
}

void DeviceBuffer::release() {
  if (handle_ != 0 && device_ && device_->usable() && ndl_memory_free(handle_) != 0) {
    log(LogLevel::kWarn, Component::kTdrv, "dmem_free", "Could not free device memory, errno %d",
        errno);
  }
}

base::Status DeviceBuffer::write(uint64_t offset, base::ConstByteSpan from) {
  for (uint64_t at = 0; at < from.size(); at += kCopyBatch) {
    const uint64_t n = std::min<uint64_t>(kCopyBatch, from.size() - at);
    errno = 0;
    if (ndl_memory_buf_copyin(handle_, const_cast<uint8_t*>(from.data() + at), offset + at, n) !=
        0) {
      return driver_error("copy to the device", errno);
    }
  }
  return {};
}

base::Status DeviceBuffer::read(uint64_t offset, base::ByteSpan to) const {
  for (uint64_t at = 0; at < to.size(); at += kCopyBatch) {
    const uint64_t n = std::min<uint64_t>(kCopyBatch, to.size() - at);
    errno = 0;
    if (ndl_memory_buf_copyout(handle_, to.data() + at, offset + at, n) != 0) {
      return driver_error("copy from the device", errno);
    }
  }
  return {};
}

base::Status DeviceBuffer::fill(uint64_t offset, uint8_t value, uint64_t size) {
  for (uint64_t at = 0; at < size; at += kCopyBatch) {
    const uint64_t n = std::min(kCopyBatch, size - at);
    errno = 0;
    if (ndl_memset(handle_, offset + at, value, n) != 0) {
      return driver_error("memset on the device", errno);
    }
  }
  return {};
}

base::Status DeviceBuffer::write_descriptors(uint64_t offset, base::ConstByteSpan descriptors,
                                             bool receive) {
  constexpr uint64_t kDescriptorBytes = 16;
  errno = 0;
  if (ndl_dma_copy_descriptors(handle_, const_cast<uint8_t*>(descriptors.data()), offset,
                               static_cast<uint32_t>(descriptors.size() / kDescriptorBytes),
                               receive ? NEURON_DMA_QUEUE_TYPE_RX : NEURON_DMA_QUEUE_TYPE_TX) !=
      0) {
    return driver_error("descriptor copy", errno);
  }
  return {};
}

base::Result<void*> DeviceBuffer::map() {
  void* va = nullptr;
  errno = 0;
  if (ndl_memory_map(handle_, &va) != 0) return driver_error("mapping", errno);
  return va;
}

base::Status copy(const DeviceBuffer& from, uint64_t from_offset, DeviceBuffer& to,
                  uint64_t to_offset, uint64_t size) {
  for (uint64_t at = 0; at < size; at += kCopyBatch) {
    const uint64_t n = std::min(kCopyBatch, size - at);
    errno = 0;
    if (ndl_memory_copy(from.handle(), to.handle(), from_offset + at, to_offset + at, n) != 0) {
      return driver_error("copy on the device", errno);
    }
  }
  return {};
}

}  // namespace nrt
