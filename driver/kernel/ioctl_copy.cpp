// Copies, fills and engine programming over the driver's rings: spec/driver-ioctl.md 3.4.
#include <algorithm>

#include "driver/kernel/ioctl.h"

namespace driver::ioctls {
namespace {

constexpr uint64_t kBounce = 64 * base::kKiB;

// 3.4.1: the destination's core if it is device memory, else the source's, else the destination's.
uint32_t copy_nc(const Chunk& from, const Chunk& to) {
  return !to.host ? to.nc : !from.host ? from.nc : to.nc;
}

// 3.4.2 picks the other way round: the source's core first.
uint32_t async_nc(const Chunk& from, const Chunk& to) {
  return !from.host ? from.nc : to.nc;
}

struct CopyForm {
  uint64_t from_handle = 0, to_handle = 0;
  uint64_t size = 0, from_offset = 0, to_offset = 0;
};
template <typename T>
CopyForm copy_form(const T& in) {
  return {in.src_mem_handle, in.dst_mem_handle, in.size, in.src_offset, in.dst_offset};
}

// Chunks of a copy; EINVAL for an unknown handle or a range outside (release 2.26).
int resolve(const Call& call, const CopyForm& form, Chunk** from, Chunk** to) {
  Memory& memory = call.device.memory();
  *from = memory.by_handle(form.from_handle);
  *to = memory.by_handle(form.to_handle);
  if (*from == nullptr || *to == nullptr) return -EINVAL;
  if (!memory.in_bounds(**from, form.from_offset, form.size) ||
      !memory.in_bounds(**to, form.to_offset, form.size)) {
    return -EINVAL;
  }
  return 0;
}

struct BufferForm {
  uint64_t handle = 0, buffer = 0, size = 0, offset = 0;
  bool to_chunk = false;
};
template <typename T>
BufferForm buffer_form(const T& in) {
  return {in.mem_handle, in.buffer, in.size, in.offset, in.copy_to_mem_handle != 0};
}

int copy_host_chunk(const Call& call, const BufferForm& form, const Chunk& chunk) {
  uint8_t* const bytes = call.device.memory().host_bytes(chunk) + form.offset;
  const bool ok = form.to_chunk ? call.caller.memory->read(form.buffer, {bytes, form.size})
                                : call.caller.memory->write(form.buffer, {bytes, form.size});
  return ok ? 0 : -EFAULT;
}

// 64 KiB at a time over a bounce chunk; a fault leaves the earlier part copied. The chunk's
// address and core are taken once: the handle may be freed by another task while this one waits.
int copy_device_chunk(const Call& call, const BufferForm& form, uint64_t pa, uint32_t nc) {
  BounceChunk bounce(call, std::min(kBounce, form.size), nc);
  if (!bounce.ok()) return -ENOMEM;
  for (uint64_t at = 0; at < form.size; at += kBounce) {
    const uint64_t bytes = std::min(kBounce, form.size - at);
    const uint64_t device = pa + form.offset + at;
    if (form.to_chunk) {
      if (!call.caller.memory->read(form.buffer + at, {bounce.bytes(), bytes})) return -EFAULT;
      if (const int error = call.device.copy(nc, bounce.pa(), device, bytes); error != 0) {
        return error;
      }
    } else {
      if (const int error = call.device.copy(nc, device, bounce.pa(), bytes); error != 0) {
        return error;
      }
      if (!call.caller.memory->write(form.buffer + at, {bounce.bytes(), bytes})) return -EFAULT;
    }
  }
  return 0;
}

struct ProgramForm {
  uint32_t nc = 0;
  uint64_t to = 0, buffer = 0, size = 0, offset = 0;
};

bool read_program(const Call& call, ProgramForm& form) {
  if (call.request == uapi::kProgramEngine) {
    uapi::program_engine in{};
    if (!call.get(in)) return false;
    form = {0, in.dst, in.buffer, in.size, in.offset};
  } else if (call.request == uapi::kProgramEngineNc) {
    uapi::program_engine_nc in{};
    if (!call.get(in)) return false;
    form = {in.nc_id, in.dst, in.buffer, in.size, in.offset};
  } else {
    uapi::program_engine_nc64 in{};
    if (!call.get(in)) return false;
    form = {in.nc_id, in.dst, in.buffer, in.size, in.offset};
  }
  return true;
}

// The handle after `previous` (3.4.2); false for a value that is none.
bool next_handle(int32_t previous, int32_t& next) {
  switch (previous) {
    case uapi::kAsyncNone:
      next = uapi::kAsync1;
      return true;
    case uapi::kAsync1:
      next = uapi::kAsync2;
      return true;
    case uapi::kAsync2:
      next = uapi::kAsync1;
      return true;
    case uapi::kAsyncSync:
      next = uapi::kAsyncSync;
      return true;
    default:
      return false;
  }
}

template <typename T>
int run_async(const Call& call, T& request) {
  const CopyForm form = copy_form(request);
  Chunk* from = nullptr;
  Chunk* to = nullptr;
  if (const int error = resolve(call, form, &from, &to); error != 0) return error;
  int32_t next = 0;
  if (!next_handle(request.pwait_handle, next)) return -EINVAL;
  H2tRing& ring = call.device.default_ring(async_nc(*from, *to));
  const uint64_t source = from->pa + form.from_offset;
  const uint64_t target = to->pa + form.to_offset;
  request.wait_handle = next;
  if (next == uapi::kAsyncSync) {
    if (form.size != 0) {
      if (const int error = ring.copy(source, target, form.size); error != 0) return error;
    }
    return call.put(request) ? 0 : -EFAULT;
  }
  const int32_t previous = request.pwait_handle;
  if (previous != uapi::kAsyncNone && !ring.async_in_use(previous)) return -EINVAL;
  if (const int error = ring.start_async(next, source, target, form.size); error != 0) {
    return error;
  }
  if (previous != uapi::kAsyncNone) {
    if (const int error = ring.wait_async(previous); error != 0) return error;
  }
  return call.put(request) ? 0 : -EFAULT;
}

}  // namespace

int mem_copy(const Call& call) {
  CopyForm form;
  if (call.request == uapi::kMemCopy64) {
    uapi::mem_copy64 in{};
    if (!call.get(in)) return -EFAULT;
    form = copy_form(in);
  } else {
    uapi::mem_copy in{};
    if (!call.get(in)) return -EFAULT;
    form = copy_form(in);
  }
  Chunk* from = nullptr;
  Chunk* to = nullptr;
  if (const int error = resolve(call, form, &from, &to); error != 0) return error;
  return call.device.copy(copy_nc(*from, *to), from->pa + form.from_offset, to->pa + form.to_offset,
                          form.size);
}

int mem_buf_copy(const Call& call) {
  BufferForm form;
  if (call.request == uapi::kMemBufCopy64) {
    uapi::mem_buf_copy64 in{};
    if (!call.get(in)) return -EFAULT;
    form = buffer_form(in);
  } else {
    uapi::mem_buf_copy in{};
    if (!call.get(in)) return -EFAULT;
    form = buffer_form(in);
  }
  const Chunk* chunk = call.device.memory().by_handle(form.handle);
  if (chunk == nullptr || !call.device.memory().in_bounds(*chunk, form.offset, form.size)) {
    return -EINVAL;
  }
  if (form.size == 0) return 0;
  return chunk->host ? copy_host_chunk(call, form, *chunk)
                     : copy_device_chunk(call, form, chunk->pa, chunk->nc);
}

int memset(const Call& call) {
  uapi::memset64 request{};
  if (call.request == uapi::kMemset64) {
    if (!call.get(request)) return -EFAULT;
  } else {
    uapi::memset in{};
    if (!call.get(in)) return -EFAULT;
    request.mem_handle = in.mem_handle;
    request.offset = in.offset;
    request.value = in.value;
    request.size = in.size;
  }
  const Chunk* chunk = call.device.memory().by_handle(request.mem_handle);
  if (chunk == nullptr || !call.device.memory().in_bounds(*chunk, request.offset, request.size)) {
    return -EINVAL;
  }
  return call.device.memset(chunk->nc, chunk->pa + request.offset,
                            static_cast<uint8_t>(request.value), request.size);
}

int program_engine(const Call& call) {
  ProgramForm form;
  if (!read_program(call, form)) return -EFAULT;
  const uint64_t to = form.to + form.offset;
  if (!call.device.dhal().programmable(to, form.size)) return -ENOMEM;
  if (form.size == 0) return 0;
  BounceChunk bounce(call, form.size, form.nc);
  if (!bounce.ok()) return -ENOMEM;
  if (!call.caller.memory->read(form.buffer + form.offset, {bounce.bytes(), form.size})) {
    return -EFAULT;
  }
  return call.device.copy(form.nc, bounce.pa(), to, form.size);
}

int mem_copy_async(const Call& call) {
  if (call.request == uapi::kMemCopyAsync64) {
    uapi::mem_copy_async64 request{};
    return call.get(request) ? run_async(call, request) : -EFAULT;
  }
  uapi::mem_copy_async request{};
  return call.get(request) ? run_async(call, request) : -EFAULT;
}

int mem_copy_async_wait(const Call& call) {
  uapi::mem_copy_async_wait request{};
  if (!call.get(request)) return -EFAULT;
  const Chunk* from = call.device.memory().by_handle(request.src_mem_handle);
  const Chunk* to = call.device.memory().by_handle(request.dst_mem_handle);
  if (from == nullptr || to == nullptr) return -EINVAL;
  if (request.pwait_handle != uapi::kAsync1 && request.pwait_handle != uapi::kAsync2) {
    return -EINVAL;
  }
  return call.device.default_ring(async_nc(*from, *to)).wait_async(request.pwait_handle);
}

}  // namespace driver::ioctls
