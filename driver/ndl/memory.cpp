// Memory: allocation, addresses, mappings, placement, scrubbing (spec/ndl-api.md 3.3).
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include <limits>

#include "driver/ndl/library.h"

using driver::ndl::call;
using driver::ndl::fail;
using driver::ndl::fd_of;
using driver::ndl::Library;
using driver::ndl::priv;
namespace uapi = driver::uapi;
using Guard = std::lock_guard<std::recursive_mutex>;

namespace {

struct Allocation {
  uint64_t size;
  uint64_t align;
  uint32_t host_memory;
  uint32_t dram_channel;
  uint32_t dram_region;
  uint32_t nc_id;
  uint32_t mem_type;
};

template <typename Request>
Request common_fields(const Allocation& what, uint64_t* handle) {
  Request request = {};
  request.size = what.size;
  request.align = what.align;
  request.host_memory = what.host_memory;
  request.dram_channel = what.dram_channel;
  request.dram_region = what.dram_region;
  request.nc_id = what.nc_id;
  request.mem_handle = reinterpret_cast<uint64_t>(handle);
  return request;
}

// The widest form that the driver announces: 2.2 lets a library probe or read the feature bits, and
// the bits are unambiguous where EINVAL is not.
int request_chunk(ndl_device_t* device, const Allocation& what, uint64_t* handle) {
  const uint64_t features = priv(device)->features;
  if ((features & NEURON_DRIVER_FEATURE_MEM_ALLOC64) != 0) {
    auto request = common_fields<uapi::mem_alloc_v2_mem_type64>(what, handle);
    request.mem_type = what.mem_type;
    return call(fd_of(device), uapi::kMemAllocV2Mt64, &request);
  }
  if (what.size > std::numeric_limits<uint32_t>::max()) return fail(EINVAL);
  if ((features & NEURON_DRIVER_FEATURE_MEM_ALLOC_TYPE) != 0) {
    auto request = common_fields<uapi::mem_alloc_v2_mem_type>(what, handle);
    request.mem_type = what.mem_type;
    return call(fd_of(device), uapi::kMemAllocV2Mt, &request);
  }
  auto request = common_fields<uapi::mem_alloc_v2>(what, handle);
  return call(fd_of(device), uapi::kMemAllocV2, &request);
}

int allocate(ndl_device_t* device, const Allocation& what, uint64_t* mem_handle) {
  if (mem_handle == nullptr || !Library::get().is_open(device)) return fail(EINVAL);
  uint64_t driver_handle = 0;
  if (request_chunk(device, what, &driver_handle) != 0) return -1;
  ndl_mem_info_t facts = {};
  facts.device = device;
  facts.driver_handle = driver_handle;
  facts.size = what.size;
  facts.align = static_cast<uint32_t>(what.align);
  facts.host_memory = what.host_memory;
  facts.nc_id = static_cast<int>(what.nc_id);
  ndl_mem_info_t* info = driver::ndl::adopt_new_chunk(facts, true);
  if (info == nullptr) {
    const int code = errno;
    uapi::mem_free release = {driver_handle};
    call(fd_of(device), uapi::kMemFree, &release);
    return fail(code);
  }
  *mem_handle = reinterpret_cast<uint64_t>(info);
  return 0;
}

// HBM of a device address (spec/driver-ioctl.md 4.3); -1 when the address is outside every HBM.
int hbm_of(const ndl_device_t* device, uint64_t pa) {
  constexpr uint64_t kV2Base[] = {0x0, 0x1000000000};
  constexpr uint64_t kV3Base[] = {0x0, 0x4000000000, 0x800000000000, 0x804000000000};
  constexpr uint64_t kV2Size = 0x400000000;
  constexpr uint64_t kV3Size = 0x600000000;
  constexpr uint64_t kV4Size = 0x900000000;
  const bool v2 = device->device_type == 2;
  const uint64_t size = v2 ? kV2Size : device->device_type == 3 ? kV3Size : kV4Size;
  const int count = v2 ? 2 : MAX_HBM_PER_DEVICE;
  for (int hbm = 0; hbm < count; ++hbm) {
    const uint64_t base = v2 ? kV2Base[hbm] : kV3Base[hbm];
    if (pa >= base && pa - base < size) return hbm;
  }
  return -1;
}

int map_chunk(uint64_t mem_handle, uint64_t size, void** va) {
  Library& library = Library::get();
  const Guard guard(library.lock);
  ndl_mem_info_t* info = library.memory(mem_handle);
  if (info == nullptr || va == nullptr) return fail(EINVAL);
  if (!driver::ndl::locate(info)) return -1;
  if (info->mmap_va == nullptr) {
    void* mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_of(info->device),
                        static_cast<off_t>(info->mmap_offset));
    if (mapped == MAP_FAILED) return -1;
    info->mmap_va = mapped;
    library.mappings[reinterpret_cast<uint64_t>(mapped)] = {
        size, info->device->device_index,
        info->host_memory != 0 ? -1 : hbm_of(info->device, info->pa)};
  }
  *va = info->mmap_va;
  return 0;
}

}  // namespace

int ndl_memory_alloc(ndl_device_t* device, size_t size, uint64_t align, uint32_t host_memory,
                     uint32_t dram_channel, uint32_t dram_region, uint32_t nc_id,
                     uint32_t mem_alloc_type, uint64_t* mem_handle) {
  return allocate(device,
                  {size, align, host_memory, dram_channel, dram_region, nc_id, mem_alloc_type},
                  mem_handle);
}

int ndl_alloc_contiguous_scratchpad(ndl_device_t* device, uint64_t size, uint32_t hbm_index,
                                    uint32_t nc_id, uint64_t* mem_handle) {
  return allocate(
      device, {size, 0, 0, hbm_index, 0, nc_id, NEURON_MEMALLOC_TYPE_CONTIGUOUS_SCRATCHPAD_DEVICE},
      mem_handle);
}

int ndl_memory_free(uint64_t mem_handle) {
  Library& library = Library::get();
  uapi::mem_free request = {};
  int fd = -1;
  {
    const Guard guard(library.lock);
    ndl_mem_info_t* info = library.memory(mem_handle);
    if (info == nullptr) return -1;
    request.mem_handle = info->driver_handle;
    fd = fd_of(info->device);
    driver::ndl::forget_chunk(info);  // unmaps first: the driver leaves mappings alone
  }
  return call(fd, uapi::kMemFree, &request);
}

int ndl_memory_get_pa(uint64_t mem_handle, uint64_t* pa) {
  ndl_mem_info_t* info = Library::get().memory(mem_handle);
  if (info == nullptr || pa == nullptr) return fail(EINVAL);
  if (!driver::ndl::locate(info)) return -1;
  *pa = info->pa;
  return 0;
}

int ndl_memory_map(uint64_t mem_handle, void** va) {
  ndl_mem_info_t* info = Library::get().memory(mem_handle);
  if (info == nullptr || !driver::ndl::locate(info)) return -1;
  return map_chunk(mem_handle, info->size, va);
}

int ndl_memory_map_contiguous_scratchpad(uint64_t mem_handle, void** va, uint64_t size) {
  return map_chunk(mem_handle, driver::ndl::page_round(size), va);
}

int ndl_memory_unmap(uint64_t mem_handle) {
  Library& library = Library::get();
  const Guard guard(library.lock);
  ndl_mem_info_t* info = library.memory(mem_handle);
  if (info == nullptr) return -1;
  if (info->mmap_va == nullptr) return fail(EINVAL);
  const auto mapping = library.mappings.find(reinterpret_cast<uint64_t>(info->mmap_va));
  if (mapping == library.mappings.end()) return fail(EINVAL);
  const int result = munmap(info->mmap_va, mapping->second.size);
  library.mappings.erase(mapping);
  info->mmap_va = nullptr;
  return result;
}

int ndl_get_hbm_va(ndl_device_t* device, int hbm_idx, void** va, size_t* size) {
  if (va == nullptr || size == nullptr || hbm_idx < 0 || !Library::get().is_open(device)) {
    return -EINVAL;
  }
  if (static_cast<uint32_t>(hbm_idx) >= device->hbm_va_cnt) return -ENOENT;
  *va = device->hbm_va[hbm_idx];
  *size = device->hbm_size;
  return *va == nullptr ? -EINVAL : 0;
}

int ndl_mem_get_mc_mmap_info(ndl_device_t* device, uint64_t pa, uint64_t* mmap_offset,
                             uint64_t* size, uint64_t* mem_handle) {
  if (mmap_offset == nullptr || size == nullptr || !Library::get().is_open(device)) {
    return fail(EINVAL);
  }
  Library& library = Library::get();
  const Guard guard(library.lock);
  uapi::mem_get_mc_mmap_info_v2 request = {};
  request.pa = pa;
  if (call(fd_of(device), uapi::kMemMcGetInfoV2, &request) != 0) {
    if (errno != EINVAL) return -1;
    uapi::mem_get_mc_mmap_info v1 = {};
    v1.pa = pa;
    if (call(fd_of(device), uapi::kMemMcGetInfo, &v1) != 0) return -1;
    request.mmap_offset = v1.mmap_offset;
    request.size = v1.size;
    request.mem_handle = 0;
  }
  *mmap_offset = request.mmap_offset;
  *size = request.size;
  if (mem_handle == nullptr) return 0;
  *mem_handle = 0;
  if (request.mem_handle == 0) return 0;
  // A chunk of this process keeps its one record; others get a record of their own.
  for (const auto& [known, owned] : *priv(device)->chunks) {
    if (known->driver_handle == request.mem_handle) {
      *mem_handle = reinterpret_cast<uint64_t>(known);
      return 0;
    }
  }
  ndl_mem_info_t* info = driver::ndl::adopt_chunk(device, request.mem_handle);
  if (info == nullptr) return -1;
  *mem_handle = reinterpret_cast<uint64_t>(info);
  return 0;
}

int ndl_get_dmabuf_fd(uint64_t addr, uint64_t size, int* fd) {
  if (fd == nullptr) return fail(EINVAL);
  const int control = Library::get().control();
  if (control < 0) return -1;
  uapi::dmabuf_fd request = {};
  request.va = addr;
  request.size = size;
  request.fd = reinterpret_cast<uint64_t>(fd);
  return call(control, uapi::kDmabufFd, &request);
}

int ndl_get_va_placement(const void* va, int* device_index, int* hbm_index) {
  if (device_index == nullptr || hbm_index == nullptr) return fail(EINVAL);
  *device_index = -1;
  *hbm_index = -1;
  Library& library = Library::get();
  const int fd = library.control();
  if (fd < 0) return -1;
  uapi::get_va_placement request = {};
  request.va = reinterpret_cast<uint64_t>(va);
  if (call(fd, uapi::kGetVaPlacement, &request) == 0) {
    *device_index = request.device_index;
    *hbm_index = request.hbm_index;
    return 0;
  }
  if (errno != EINVAL) return -1;
  // Drivers before 2.26 do not know the request: answer from the library's own mappings.
  const Guard guard(library.lock);
  auto mapping = library.mappings.upper_bound(request.va);
  if (mapping == library.mappings.begin()) return fail(ENXIO);
  --mapping;
  if (request.va - mapping->first >= mapping->second.size || mapping->second.hbm_index < 0) {
    return fail(ENXIO);
  }
  *device_index = mapping->second.device_index;
  *hbm_index = mapping->second.hbm_index;
  return 0;
}

int ndl_dump_device_allocation_info(ndl_device_t* device, uint32_t hbm_index,
                                    struct neuron_ioctl_mem_chunk_info* data,
                                    uint32_t* num_entries) {
  if (num_entries == nullptr || !Library::get().is_open(device)) return fail(EINVAL);
  if (data == nullptr && *num_entries != 0) return fail(EINVAL);
  uapi::dump_mem_chunks request = {};
  request.hbm_index = hbm_index;
  request.num_entries_in = *num_entries;
  request.data = reinterpret_cast<uint64_t>(data);
  const int result = call(fd_of(device), uapi::kDumpMemChunks, &request);
  if (result == 0 || errno == EAGAIN) *num_entries = request.num_entries_out;
  return result;
}

int ndl_hbm_scrub_start(ndl_device_t* device, uint32_t nc_id, uint32_t hbm_index, uint32_t axi_port,
                        uint32_t init_val) {
  if (!Library::get().is_open(device)) return -1;
  uapi::hbm_scrub_start request = {nc_id, hbm_index, axi_port, init_val};
  return call(fd_of(device), uapi::kHbmScrubStart, &request);
}

int ndl_hbm_scrub_wait(ndl_device_t* device, uint32_t nc_id, uint32_t hbm_index) {
  if (!Library::get().is_open(device)) return -1;
  uapi::hbm_scrub_wait request = {nc_id, hbm_index};
  return call(fd_of(device), uapi::kHbmScrubWait, &request);
}
