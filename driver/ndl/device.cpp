// Versions, discovery, opening, registers and firmware settings (spec/ndl-api.md 3.1 and 3.2).
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver/ndl/library.h"

using driver::ndl::call;
using driver::ndl::fail;
using driver::ndl::fd_of;
using driver::ndl::Library;
using driver::ndl::priv;
namespace uapi = driver::uapi;
using Guard = std::lock_guard<std::recursive_mutex>;

namespace {

uint32_t log2_of(uint64_t size) {
  uint32_t bits = 0;
  while (size > 1) {
    size >>= 1;
    ++bits;
  }
  return bits;
}

// Maps the HBM windows that the driver offers; v2 offers none and that is not an error.
int map_windows(ndl_device_t* device) {
  for (uint32_t hbm = device->hbm_va_cnt; hbm < MAX_HBM_PER_DEVICE; ++hbm) {
    uapi::resource_mmap_info info = {};
    info.block = NEURON_DM_BLOCK_HBM;
    info.block_id = hbm;
    info.resource = NEURON_DM_RESOURCE_DMEM;
    if (call(fd_of(device), uapi::kResourceMmapInfo, &info) != 0) {
      return errno == EINVAL ? 0 : -1;  // past the last window
    }
    void* va = mmap(nullptr, info.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_of(device),
                    static_cast<off_t>(info.offset));
    if (va == MAP_FAILED) return -1;
    device->hbm_va[hbm] = va;
    device->hbm_offset[hbm] = info.offset;
    device->hbm_size = info.size;
    device->shift_hbm_size = log2_of(info.size);
    device->hbm_va_cnt = hbm + 1;
    Library::get().mappings[reinterpret_cast<uint64_t>(va)] = {info.size, device->device_index,
                                                               static_cast<int>(hbm)};
  }
  return 0;
}

void unmap_windows(ndl_device_t* device) {
  for (uint32_t hbm = 0; hbm < device->hbm_va_cnt; ++hbm) {
    Library::get().mappings.erase(reinterpret_cast<uint64_t>(device->hbm_va[hbm]));
    munmap(device->hbm_va[hbm], device->hbm_size);
  }
  device->hbm_va_cnt = 0;
}

uint64_t read_features(int fd) {
  uapi::device_driver_info info = {};
  return call(fd, uapi::kDriverInfoGet, &info) == 0 ? info.feature_flags1 : 0;
}

ndl_device_t* make_device(int index, int fd) {
  uapi::device_info info = {};
  if (call(fd, uapi::kDeviceInfo, &info) != 0) return nullptr;
  auto* device = static_cast<ndl_device_t*>(
      calloc(1, sizeof(ndl_device_t) + sizeof(driver::ndl::DevicePrivate)));
  if (device == nullptr) return nullptr;
  device->device_index = static_cast<uint8_t>(index);
  device->device_type = static_cast<uint8_t>(info.architecture);
  device->device_revision = static_cast<uint16_t>(info.revision);
  constexpr uint32_t kMaxConnected = sizeof info.connected_devices / sizeof(uint32_t);
  device->connected_device_count = static_cast<uint8_t>(
      info.connected_device_count < kMaxConnected ? info.connected_device_count : kMaxConnected);
  for (uint32_t i = 0; i < device->connected_device_count; ++i) {
    device->connected_devices[i] = static_cast<uint8_t>(info.connected_devices[i]);
  }
  for (int bar = 0; bar < 2; ++bar) {
    device->csr_base[bar] = info.bar_address[bar];
    device->csr_size[bar] = info.bar_size[bar];
  }
  for (ndl_copy_buf_t& buffer : device->cpy_bufs) pthread_mutex_init(&buffer.lock, nullptr);
  priv(device)->context.nd_fd = fd;
  priv(device)->references = 1;
  priv(device)->features = read_features(fd);
  priv(device)->chunks = new std::map<ndl_mem_info_t*, bool>;
  priv(device)->queues = new std::set<ndl_notification_context_t*>;
  return device;
}

// Everything but the records of chunks and queues, which the caller has released.
void destroy_device(ndl_device_t* device) {
  unmap_windows(device);
  delete priv(device)->chunks;
  delete priv(device)->queues;
  for (ndl_copy_buf_t& buffer : device->cpy_bufs) pthread_mutex_destroy(&buffer.lock);
  free(device);
}

int bdf_of(int fd, uint32_t relative_index, uapi::device_bdf_ext* bdf) {
  *bdf = {};
  bdf->nd_index = relative_index;
  return call(fd, uapi::kDeviceBdfExt, bdf);
}

}  // namespace

int ndl_get_version(ndl_version_info_t* version) {
  if (version == nullptr) return fail(EINVAL);
  const driver::ndl::DriverVersion* read = Library::get().version();
  if (read == nullptr) return fail(ENODEV);
  *version = {};
  version->driver_major_version = read->major;
  version->driver_minor_version = read->minor;
  memcpy(version->driver_full_version, read->text, sizeof version->driver_full_version);
  version->library_major_version = NEURON_DRIVER_LIBRARY_MAJOR;
  version->library_minor_version = NEURON_DRIVER_LIB_MINOR;
  return 0;
}

int ndl_get_compatible_version(uint32_t* min_compatible_version, uint32_t* max_compatible_version) {
  if (min_compatible_version == nullptr || max_compatible_version == nullptr) return fail(EINVAL);
  const int fd = Library::get().control();
  if (fd < 0) return -1;
  uapi::compatible_version range = {};
  if (call(fd, uapi::kCompatibleVersion, &range) != 0) return -1;
  *min_compatible_version = range.min;
  *max_compatible_version = range.max;
  return 0;
}

int ndl_register_soft_incompat_callback(void (*callback)(const char*)) {
  const Guard guard(Library::get().lock);
  Library::get().soft_incompat = callback;
  return 0;
}

bool ndl_feature_supported(int nd_fd, uint64_t feature) {
  const int fd = nd_fd >= 0 ? nd_fd : Library::get().control();
  return fd >= 0 && feature != 0 && (read_features(fd) & feature) == feature;
}

int ndl_available_devices(int* device_indexes, int device_indexes_size) {
  return driver::ndl::list_devices(device_indexes, device_indexes_size);
}

int ndl_open_device(int device_index, ndl_device_init_param_t* params, ndl_device_t** device) {
  if (device == nullptr || device_index < 0 || device_index >= NEURON_MAX_DEVICES) {
    return fail(EINVAL);
  }
  Library& library = Library::get();
  const Guard guard(library.lock);
  const bool map_hbm = params != nullptr && params->map_hbm;
  ndl_device_t*& entry = library.devices[device_index];
  if (entry != nullptr) {
    if (map_hbm && map_windows(entry) != 0) return -1;
    ++priv(entry)->references;
    *device = entry;
    return 0;
  }
  char path[32];
  snprintf(path, sizeof path, NEURON_DEVICE_PREFIX "%d", device_index);
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return -1;
  ndl_device_t* opened = make_device(device_index, fd);
  if (opened == nullptr || (map_hbm && map_windows(opened) != 0)) {
    const int code = errno;
    if (opened != nullptr) destroy_device(opened);
    close(fd);
    return fail(code);
  }
  entry = opened;
  *device = opened;
  return 0;
}

int ndl_close_device(ndl_device_t* device) {
  Library& library = Library::get();
  const Guard guard(library.lock);
  if (!library.is_open(device)) return -1;
  if (--priv(device)->references > 0) return 0;
  while (!priv(device)->queues->empty()) {
    ndl_notification_destroy(reinterpret_cast<uint64_t>(*priv(device)->queues->begin()));
  }
  while (!priv(device)->chunks->empty()) {
    const auto [info, owned] = *priv(device)->chunks->begin();
    if (owned) {
      ndl_memory_free(reinterpret_cast<uint64_t>(info));
    } else {
      driver::ndl::forget_chunk(info);
    }
  }
  const int fd = fd_of(device);
  library.devices[device->device_index] = nullptr;
  destroy_device(device);
  return close(fd);
}

void ndl_device_cached_fd_close_all(void) {
  Library::get().close_control();
}

int ndl_get_board_info(uint32_t* architecture, uint32_t* revision) {
  if (architecture == nullptr || revision == nullptr) return fail(EINVAL);
  const int fd = Library::get().control();
  if (fd < 0) return -1;
  uapi::device_basic_info info = {};
  if (call(fd, uapi::kDeviceBasicInfo, &info) != 0) return -1;
  *architecture = info.architecture;
  *revision = info.revision;
  return 0;
}

int ndl_get_device_bdf(int device_index, uint32_t* bus_num, uint8_t* pci_slot, uint8_t* dev_func) {
  if (bus_num == nullptr || pci_slot == nullptr || dev_func == nullptr) return fail(EINVAL);
  ndl_device_t* device = Library::get().device(device_index);
  if (device == nullptr) return -1;
  uapi::device_bdf bdf = {};
  if (call(fd_of(device), uapi::kDeviceBdf, &bdf) != 0) return -1;
  *bus_num = bdf.bus_number;
  *pci_slot = bdf.slot;
  *dev_func = bdf.func;
  return 0;
}

int ndl_get_device_bdf_ext(int device_index, uint32_t* domain, uint32_t* bus_num, uint8_t* pci_slot,
                           uint8_t* dev_func) {
  if (domain == nullptr || bus_num == nullptr || pci_slot == nullptr || dev_func == nullptr ||
      device_index < 0) {
    return fail(EINVAL);
  }
  const int fd = Library::get().control();
  if (fd < 0) return -1;
  uapi::device_bdf_ext bdf = {};
  if (bdf_of(fd, static_cast<uint32_t>(device_index), &bdf) != 0) return -1;
  *domain = bdf.domain;
  *bus_num = bdf.bus_number;
  *pci_slot = bdf.slot;
  *dev_func = bdf.func;
  return 0;
}

int ndl_get_host_device_id(ndl_device_t* device, uint32_t* host_device_id) {
  if (host_device_id == nullptr || !Library::get().is_open(device)) return fail(EINVAL);
  uapi::host_device_id id = {};
  if (call(fd_of(device), uapi::kHostDeviceId, &id) != 0) return -1;
  *host_device_id = id.host_device_id;
  return 0;
}

int ndl_get_host_device_id_to_rid_map(uint32_t* count, uint32_t* host_did_to_rid_map) {
  if (count == nullptr || host_did_to_rid_map == nullptr) return fail(EINVAL);
  const int fd = Library::get().control();
  if (fd < 0) return -1;
  uapi::host_device_id_to_rid_map map = {};
  if (call(fd, uapi::kHostDeviceIdToRidMap, &map) != 0) return -1;
  if (map.count > NEURON_MAX_DEVICES) return fail(EINVAL);
  const uint32_t capacity = *count;
  *count = map.count;
  if (capacity < map.count) return fail(ENOSPC);
  memcpy(host_did_to_rid_map, map.host_did_to_rid_map, map.count * sizeof(uint32_t));
  return 0;
}

int ndl_get_logical_to_physical_nc_map(struct neuron_ioctl_nc_map* map, uint32_t max_num_entries,
                                       enum neuron_ioctl_nc_mapping_type mapping_version) {
  if (map == nullptr) return fail(EINVAL);
  const int fd = Library::get().control();
  if (fd < 0) return -1;
  uapi::get_logical_to_physical_nc_map request = {};
  request.map = reinterpret_cast<uint64_t>(map);
  request.max_map_entries = max_num_entries;
  request.mapping_version = static_cast<uint32_t>(mapping_version);
  return call(fd, uapi::kGetLogicalToPhysicalNcMap, &request);
}

namespace {

int bar_access(ndl_device_t* device, uint32_t request, uint8_t bar, uint64_t* addresses,
               uint32_t count, uint32_t* data) {
  if (addresses == nullptr || data == nullptr || !Library::get().is_open(device)) {
    return fail(EINVAL);
  }
  uapi::bar_rw access = {};
  access.bar = bar;
  access.address = reinterpret_cast<uint64_t>(addresses);
  access.data = reinterpret_cast<uint64_t>(data);
  access.count = count;
  return call(fd_of(device), request, &access);
}

}  // namespace

int ndl_bar_read(ndl_device_t* device, uint8_t bar, uint64_t* addresses, uint32_t count,
                 uint32_t* buffer) {
  return bar_access(device, uapi::kBarRead, bar, addresses, count, buffer);
}

int ndl_bar_write(ndl_device_t* device, uint8_t bar, uint64_t* addresses, uint32_t count,
                  uint32_t* data) {
  return bar_access(device, uapi::kBarWrite, bar, addresses, count, data);
}

int ndl_read_hw_counters(ndl_device_t* device, uint64_t* addresses, uint32_t count,
                         uint32_t* data) {
  if (addresses == nullptr || data == nullptr || !Library::get().is_open(device)) {
    return fail(EINVAL);
  }
  uapi::read_hw_counters request = {};
  request.address = reinterpret_cast<uint64_t>(addresses);
  request.data = reinterpret_cast<uint64_t>(data);
  request.count = count;
  return call(fd_of(device), uapi::kReadHwCounters, &request);
}

int ndl_mmap_bar_region(ndl_device_t* device, enum neuron_dm_block_type block, uint32_t block_id,
                        enum neuron_dm_resource_type resource, void** va, uint64_t* size) {
  if (va == nullptr || size == nullptr || !Library::get().is_open(device)) return fail(EINVAL);
  uapi::resource_mmap_info info = {};
  info.block = static_cast<uint32_t>(block);
  info.block_id = block_id;
  info.resource = static_cast<uint32_t>(resource);
  if (call(fd_of(device), uapi::kResourceMmapInfo, &info) != 0) return -1;
  const int protection =
      // read-only (spec/driver-ioctl.md 4.2)
      resource == NEURON_DM_RESOURCE_ALL ? PROT_READ : PROT_READ | PROT_WRITE;
  void* mapped = mmap(nullptr, info.size, protection, MAP_SHARED, fd_of(device),
                      static_cast<off_t>(info.offset));
  if (mapped == MAP_FAILED) return -1;
  *va = mapped;
  *size = info.size;
  return 0;
}

int ndl_metrics_ctrl(ndl_device_t* device, enum neuron_metrics_mode mode) {
  if (!Library::get().is_open(device)) return -1;
  uapi::metrics_ctrl request = {};
  request.mode = static_cast<uint32_t>(mode);
  if (call(fd_of(device), uapi::kMetricsCtrl, &request) == 0) return 0;
  return errno == EINVAL ? 0 : -1;  // drivers before 2.26 do not know the request
}

int ndl_set_performance_profile(ndl_device_t* device, uint32_t profile) {
  if (!Library::get().is_open(device)) return -1;
  uapi::power_profile request = {};
  request.sz = sizeof request;
  request.profile = profile;
  return call(fd_of(device), uapi::kPowerProfile, &request);
}

int ndl_enable_throttling_notifications(ndl_device_t* device, bool enable) {
  if (!Library::get().is_open(device)) return -1;
  uapi::throttling_notifications request = {};
  request.enable = enable ? 1 : 0;
  return call(fd_of(device), uapi::kThrottlingNotifications, &request);
}
