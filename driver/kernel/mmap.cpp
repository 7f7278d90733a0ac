// Client mappings: resolution order, permissions, tracking. Source: spec/driver-ioctl.md 4.
// Raw mappings of device memory need CAP_SYS_RAWIO, which clients here never have: EPERM.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "driver/kernel/kernel_driver.h"
#include "driver/kernel/resource_table.h"
#include "driver/uapi/limits.h"

namespace driver {
namespace {

base::Error errno_of(int code, const char* what) {
  return {base::Fault::kUsage, code, "mmap", what};
}

uint64_t page_up(uint64_t length) {
  return (length + uapi::kPageSize - 1) & ~uint64_t{uapi::kPageSize - 1};
}

// The chunk that a mapping of `length` bytes at `offset` names, or null (4.1 steps 1 and 2).
Chunk* mappable_chunk(NeuronDevice& device, uint64_t offset, uint64_t length) {
  Memory& memory = device.memory();
  Chunk* chunk = memory.containing(offset);
  if (chunk == nullptr || chunk->size % uapi::kPageSize != 0 || chunk->pa % uapi::kPageSize != 0) {
    return nullptr;
  }
  // reach() exceeds the size only for contiguous scratchpad.
  const uint64_t reach = memory.reach(*chunk);
  if (length != chunk->size && (reach == chunk->size || length > reach)) return nullptr;
  return chunk;
}

base::Result<MmapTarget> map_bar(NeuronDevice& device, int bar, uint64_t offset, uint64_t length,
                                 bool write) {
  auto mapping = device.pci().bar_map(bar, offset, length);
  if (!mapping) {
    base::Error error = mapping.error();
    error.code = EINVAL;
    return error;
  }
  MmapTarget target;
  target.fd = mapping->fd;
  target.fd_offset = mapping->fd_offset;
  target.length = length;
  target.writable = write && mapping->writable;
  target.store_is_mmio = write && !mapping->writable;
  target.mmio_bar_offset = offset;
  return target;
}

}  // namespace

std::vector<Resource> resources(const NeuronDevice& device) {
  namespace tpb = contract::tpb;
  const contract::AddressMap& map = device.dhal().map;
  std::vector<Resource> table;
  for (uint32_t n = 0; n < map.ncs(); ++n) {
    // v3 and v4 use tokens that are 64 MiB apart from the first NC on, not its device addresses.
    const uint64_t token = map.nc(0).device + n * tpb::kBarWindow;
    const uint64_t bar0 = map.nc(n).bar0;
    table.push_back({uapi::kBlockTpb, n, uapi::kResourceSemaphore, token + tpb::kSemaphores,
                     contract::kSemaphoreBlock, 0, bar0 + tpb::kSemaphores, false});
    table.push_back({uapi::kBlockTpb, n, uapi::kResourceStateBuffer, token + tpb::kSbuf,
                     tpb::kSbufWindow, 0, bar0 + tpb::kSbuf, false});
  }
  for (uint32_t t = 0; t < map.topsps(); ++t) {
    const contract::Window window = map.topsp(t);
    table.push_back({uapi::kBlockTopsp, t, uapi::kResourceSemaphore, window.device,
                     contract::kSemaphoreBlock, 0, window.bar0, false});
    table.push_back({uapi::kBlockTopsp, t, uapi::kResourceAll, window.device, window.size, 0,
                     window.bar0, true});
  }
  for (uint32_t h = 0; device.dhal().hbm_resource && h < map.hbms(); ++h) {
    table.push_back({uapi::kBlockHbm, h, uapi::kResourceDeviceMemory, map.hbm_base(h),
                     map.hbm_size(), 4, h * map.bar4_stride(), false});
  }
  return table;
}

std::optional<Resource> find_resource(const NeuronDevice& device, uint32_t block, uint32_t id,
                                      uint32_t kind) {
  for (const Resource& resource : resources(device)) {
    if (resource.block == block && resource.id == id && resource.kind == kind) return resource;
  }
  return std::nullopt;
}

base::Result<MmapTarget> KernelDriver::mmap(int file, uint64_t offset, uint64_t length, bool read,
                                            bool write, const Caller& caller) {
  const auto it = files_.find(file);
  if (it == files_.end()) return errno_of(EBADF, "no such file");
  (void)read;
  const int access = it->second.flags & O_ACCMODE;
  if (access == O_WRONLY) return errno_of(EACCES, "the file is not open for reading");
  if (write && access == O_RDONLY) return errno_of(EACCES, "the file is not open for writing");
  if (length == 0) return errno_of(EINVAL, "a mapping of length 0");
  length = page_up(length);
  NeuronDevice& target = *device(it->second.minor);
  if (const Chunk* chunk = mappable_chunk(target, offset, length)) {
    const bool owner = chunk->pid == caller.tgid || chunk->lifespan == Lifespan::kDevice;
    const bool may_write = write && owner;  // others silently get a read-only mapping (4.2)
    if (chunk->host) {
      MmapTarget out;
      out.fd = context_.arena.fd();
      out.fd_offset = HostArena::fd_offset(target.memory().host_phys(*chunk));
      out.length = length;
      out.writable = may_write;
      return out;
    }
    if (target.pci().identity().bar_size[4] == 0) return errno_of(EINVAL, "BAR4 is absent");
    return map_bar(target, 4, target.bar4_offset(chunk->pa), length, may_write);
  }
  for (const Resource& resource : resources(target)) {
    if (resource.mmap_offset != offset || resource.length != length) continue;
    return map_bar(target, resource.bar, resource.bar_offset, length, write && !resource.read_only);
  }
  return errno_of(EPERM, "no chunk or resource has this offset and length");
}

void KernelDriver::mmap_done(int file, uint64_t va, uint64_t offset, uint64_t length,
                             const Caller& caller) {
  const auto it = files_.find(file);
  if (it == files_.end()) return;
  NeuronDevice& target = *device(it->second.minor);
  Process* process = target.process(caller.tgid);
  if (process == nullptr) return;  // works, but is not tracked (4.2)
  MappingRecord record;
  record.va = va;
  record.length = page_up(length);
  record.pa = offset;
  if (const Chunk* chunk = mappable_chunk(target, offset, record.length)) {
    record.device_chunk = !chunk->host;
    record.pa = chunk->pa;
    record.hbm = chunk->hbm;
  }
  process->mappings.push_back(record);
}

void KernelDriver::munmap(int file, uint64_t offset, uint64_t length, const Caller& caller) {
  const auto it = files_.find(file);
  if (it == files_.end()) return;
  Process* process = device(it->second.minor)->process(caller.tgid);
  if (process == nullptr) return;
  // Only an unmap of exactly a whole mapping removes its record (4.3).
  const auto record = std::find_if(
      process->mappings.begin(), process->mappings.end(), [&](const MappingRecord& mapping) {
        return mapping.length == page_up(length) && offset - mapping.pa < mapping.length;
      });
  if (record != process->mappings.end()) process->mappings.erase(record);
}

int KernelDriver::mmio_write(int file, uint64_t bar_offset, uint32_t value, const Caller&) {
  const auto it = files_.find(file);
  if (it == files_.end()) return -EBADF;
  if (it->second.free_access || (it->second.flags & O_ACCMODE) != O_RDWR) return -EACCES;
  if (bar_offset % sizeof(uint32_t) != 0) return -EINVAL;
  NeuronDevice& target = *device(it->second.minor);
  for (const Resource& resource : resources(target)) {
    if (resource.bar != 0 || resource.read_only || bar_offset < resource.bar_offset ||
        bar_offset - resource.bar_offset >= resource.length) {
      continue;
    }
    target.registers().write(bar_offset, value);
    return 0;
  }
  return -EACCES;
}

}  // namespace driver
