// Memory allocation and information: spec/driver-ioctl.md 3.3, 3.14.
#include <vector>

#include "driver/kernel/ioctl.h"
#include "driver/kernel/resource_table.h"

namespace driver::ioctls {
namespace {

struct AllocForm {
  AllocRequest request;
  uint64_t handle_address = 0;
};

template <typename T>
AllocForm base_form(const T& in) {
  AllocForm form;
  form.request.size = in.size;
  form.request.host = in.host_memory != 0;
  form.request.hbm = in.dram_channel;
  form.request.nc = in.nc_id;
  form.request.category = form.request.host ? uapi::kMemUnknownHost : uapi::kMemUnknownDevice;
  form.handle_address = in.mem_handle;
  return form;
}

// Reads the structure that the request value names; false when it is not accessible.
bool read_form(const Call& call, AllocForm& form) {
  if (call.request == uapi::kMemAlloc) {
    uapi::mem_alloc in{};
    if (!call.get(in)) return false;
    form = base_form(in);
  } else if (call.request == uapi::kMemAllocV2) {
    uapi::mem_alloc_v2 in{};
    if (!call.get(in)) return false;
    form = base_form(in);
    form.request.align = in.align;
  } else {
    // The 48- and 56-byte forms differ only in trailing padding.
    uapi::mem_alloc_v2_mem_type in{};
    if (!call.get(in)) return false;
    form = base_form(in);
    form.request.align = in.align;
    form.request.category = in.mem_type;
  }
  return true;
}

// Handle -> chunk; the lookup failure of release 2.26 is EINVAL (3.4).
Chunk* find(const Call& call, uint64_t handle) {
  return call.device.memory().by_handle(handle);
}

}  // namespace

int mem_alloc(const Call& call) {
  AllocForm form;
  // The oldest form has an errno of its own (spec/driver-ioctl.md 0.4).
  if (!read_form(call, form)) return call.request == uapi::kMemAlloc ? -EACCES : -EFAULT;
  if (call.process() == nullptr) return -EACCES;  // 2.3, rule for emulators
  form.request.lifespan = Lifespan::kProcess;
  form.request.pid = call.caller.tgid;
  Memory& memory = call.device.memory();
  Chunk* chunk = nullptr;
  if (const int error = memory.allocate(form.request, &chunk, call.charge()); error != 0) {
    return error;
  }
  int error = memory.assign_handle(chunk);
  if (error == 0 && !call.write(form.handle_address, chunk->handle)) error = -EFAULT;
  if (error != 0) memory.release(chunk, call.charge());
  return error;
}

int mem_free(const Call& call) {
  uapi::mem_free request{};
  if (!call.get(request)) return -EFAULT;
  Chunk* chunk = find(call, request.mem_handle);
  if (chunk == nullptr) return -EINVAL;
  // MEM_MC_GET_INFO_V2 mints handles for rings, datastore and carve-outs too. Freeing those breaks
  // a real driver; here it is an error.
  if (chunk->lifespan != Lifespan::kProcess) return -EINVAL;
  call.device.memory().release(chunk, call.charge());
  return 0;
}

int mem_get_pa(const Call& call) {
  uapi::mem_get_pa request{};
  if (!call.get(request)) return -EFAULT;
  const Chunk* chunk = find(call, request.mem_handle);
  if (chunk == nullptr) return -EINVAL;
  return call.write(request.pa, chunk->pa) ? 0 : -EFAULT;
}

int mem_get_info(const Call& call) {
  uapi::mem_get_info request{};
  if (!call.get(request)) return -EFAULT;
  const Chunk* chunk = find(call, request.mem_handle);
  if (chunk == nullptr) return -EINVAL;
  if (request.mmap_offset != 0 && !call.write(request.mmap_offset, chunk->pa)) return -EFAULT;
  return call.write(request.pa, chunk->pa) ? 0 : -EFAULT;
}

int mem_get_extended_info(const Call& call) {
  uapi::mem_get_extended_info info{};
  if (!call.get(info)) return -EFAULT;
  const Chunk* chunk = find(call, info.mem_handle);
  if (chunk == nullptr) return EINVAL;  // positive, as the driver returns it (3.3.4)
  info.host_memory = chunk->host ? 1 : 0;
  info.mmap_offset = chunk->pa;
  info.pa = chunk->pa;
  info.pid = static_cast<uint64_t>(chunk->pid);
  info.size = chunk->size;
  return call.put(info) ? 0 : -EFAULT;
}

int mem_mc_get_info(const Call& call) {
  uapi::mem_get_mc_mmap_info_v2 info{};
  const bool v2 = uapi::request_size(call.request) == sizeof info;
  uapi::mem_get_mc_mmap_info v1{};
  if (v2 ? !call.get(info) : !call.get(v1)) return -EFAULT;
  if (!v2) info.pa = v1.pa;
  Memory& memory = call.device.memory();
  Chunk* chunk = memory.containing(info.pa);
  if (chunk == nullptr) return -ENOMEM;
  info.mmap_offset = v1.mmap_offset = chunk->pa;
  info.size = v1.size = chunk->size;
  if (!v2) return call.put(v1) ? 0 : -EFAULT;
  if (const int error = memory.assign_handle(chunk); error != 0) return error;
  info.mem_handle = chunk->handle;
  return call.put(info) ? 0 : -EFAULT;
}

int dump_mem_chunks(const Call& call) {
  uapi::dump_mem_chunks request{};
  if (!call.get(request)) return -EFAULT;
  const auto chunks = call.device.memory().chunks_of_hbm(request.hbm_index);
  request.num_entries_out = static_cast<uint32_t>(chunks.size());
  if (!call.put(request)) return -EFAULT;
  if (request.num_entries_in < request.num_entries_out) return -EAGAIN;
  for (size_t i = 0; i < chunks.size(); ++i) {
    uapi::mem_chunk_info info{};
    info.pa = chunks[i]->pa;
    info.size = chunks[i]->size;
    info.mem_type = chunks[i]->category;
    if (!call.write(request.data + i * sizeof info, info)) return -EFAULT;
  }
  return 0;
}

int get_va_placement(const Call& call) {
  uapi::get_va_placement request{};
  if (!call.get(request)) return -EFAULT;
  request.device_index = -1;
  request.hbm_index = -1;
  for (const int minor : call.driver.minors()) {
    NeuronDevice& device = *call.driver.device(minor);
    const Process* process = device.process(call.caller.tgid);
    if (process == nullptr) continue;
    for (const MappingRecord& mapping : process->mappings) {
      if (!mapping.device_chunk || request.va < mapping.va ||
          request.va - mapping.va >= mapping.length) {
        continue;
      }
      request.device_index = minor;
      request.hbm_index = static_cast<int32_t>(mapping.hbm);
    }
  }
  if (!call.put(request)) return -EFAULT;
  return request.device_index < 0 ? -ENXIO : 0;
}

int resource_mmap_info(const Call& call) {
  uapi::resource_mmap_info request{};
  if (!call.get(request)) return -EFAULT;
  const auto resource =
      find_resource(call.device, request.block, request.block_id, request.resource);
  if (!resource) return -EINVAL;
  request.offset = resource->mmap_offset;
  request.size = resource->length;
  return call.put(request) ? 0 : -EFAULT;
}

}  // namespace driver::ioctls
