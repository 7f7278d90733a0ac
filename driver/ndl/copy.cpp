// Copies between host and device memory (spec/ndl-api.md 3.4).
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "driver/ndl/library.h"

using driver::ndl::call;
using driver::ndl::fail;
using driver::ndl::fd_of;
using driver::ndl::Library;
using driver::ndl::priv;
namespace uapi = driver::uapi;

namespace {

// The published driver keeps parts of its bookkeeping in 32 bits (spec/ndl-api.md 3.4), so requests
// stay below 4 GiB.
constexpr uint64_t kMaxRequest = uint64_t{2} << 30;

// Calls step(offset, size) for each part of [0, size); an empty range is one call.
template <typename Step>
int in_parts(uint64_t size, Step step) {
  uint64_t done = 0;
  do {
    const uint64_t part = std::min(size - done, kMaxRequest);
    if (step(done, part) != 0) return -1;
    done += part;
  } while (done < size);
  return 0;
}

int buffer_copy(uint64_t mem_handle, void* buffer, uint64_t offset, uint64_t size, bool to_device) {
  const ndl_mem_info_t* info = Library::get().memory(mem_handle);
  if (info == nullptr) return -1;
  return in_parts(size, [&](uint64_t done, uint64_t part) {
    uapi::mem_buf_copy64 request = {};
    request.mem_handle = info->driver_handle;
    request.buffer = reinterpret_cast<uint64_t>(buffer) + done;
    request.size = part;
    request.offset = offset + done;
    request.copy_to_mem_handle = to_device ? 1 : 0;
    return call(fd_of(info->device), uapi::kMemBufCopy64, &request);
  });
}

// The form since 2.29; 2.24 takes mem_buf_copy64 and 2.25 to 2.28 mem_buf_copy64zc
// (spec/driver-ioctl.md 3.4.6).
struct ZeroCopySequenced {
  uapi::mem_buf_copy64zc base;
  uint64_t sequence_num;
  uint64_t context;
};
static_assert(sizeof(ZeroCopySequenced) == 64, "spec/driver-ioctl.md 3.4.6");
constexpr uint32_t kZerocopy224 = uapi::iowr(124, 40);
constexpr uint32_t kZerocopy229 = uapi::iowr(124, 64);

int zerocopy_request(int fd, const uapi::mem_buf_copy64zc& zero_copy) {
  const driver::ndl::DriverVersion* version = Library::get().version();
  if (version == nullptr) return fail(ENODEV);
  if (version->major == 2 && version->minor <= 24) {
    uapi::mem_buf_copy64 request = {};
    request.mem_handle = zero_copy.mem_handle;
    request.buffer = zero_copy.buffer;
    request.size = zero_copy.size;
    request.offset = zero_copy.offset;
    request.copy_to_mem_handle = zero_copy.is_copy_to_device;
    return call(fd, kZerocopy224, &request);
  }
  if (version->major == 2 && version->minor <= 28) {
    uapi::mem_buf_copy64zc request = zero_copy;
    return call(fd, uapi::kMemBufZerocopy64, &request);
  }
  ZeroCopySequenced request = {zero_copy, 0, 0};
  return call(fd, kZerocopy229, &request);
}

int zero_copy(uint64_t mem_handle, void* buffer, uint64_t offset, uint64_t size, bool to_device,
              int qid, uint32_t bar4_wr_threshold) {
  const ndl_mem_info_t* info = Library::get().memory(mem_handle);
  if (info == nullptr) return -1;
  if ((priv(info->device)->features & NEURON_DRIVER_FEATURE_ZEROCOPY) == 0) {
    return buffer_copy(mem_handle, buffer, offset, size, to_device);
  }
  uint64_t accepted = 0;
  const int result = in_parts(size, [&](uint64_t done, uint64_t part) {
    uapi::mem_buf_copy64zc request = {};
    request.mem_handle = info->driver_handle;
    request.buffer = reinterpret_cast<uint64_t>(buffer) + done;
    request.size = part;
    request.offset = offset + done;
    request.is_copy_to_device = to_device ? 1 : 0;
    request.bar4_wr_threshold = bar4_wr_threshold;
    request.h2t_qid = qid;
    if (zerocopy_request(fd_of(info->device), request) != 0) return -1;
    accepted += part;
    return 0;
  });
  // v2 drivers announce the feature and then refuse the request (spec/driver-ioctl.md 3.1.6): copy
  // what is left.
  if (result != 0 && errno == EINVAL && info->device->device_type == 2) {
    return buffer_copy(mem_handle, static_cast<char*>(buffer) + accepted, offset + accepted,
                       size - accepted, to_device);
  }
  return result;
}

int copy_batch_parts(const neuron_memcpy_batch_t& batch, bool to_device) {
  for (uint32_t i = 0; i < batch.num_ops; ++i) {
    const nrt_tensor_batch_op_t& op = batch.ops_ptr[i];
    if (op.size == 0 || op.buffer == nullptr) return fail(EINVAL);
    if (buffer_copy(batch.mem_handle, op.buffer, batch.mem_handle_offset + op.offset, op.size,
                    to_device) != 0) {
      return -1;
    }
  }
  return 0;
}

}  // namespace

int ndl_memory_buf_copyin(uint64_t mem_handle, void* buffer, uint64_t offset, size_t size) {
  return buffer_copy(mem_handle, buffer, offset, size, true);
}

int ndl_memory_buf_copyout(uint64_t mem_handle, void* buffer, uint64_t offset, size_t size) {
  return buffer_copy(mem_handle, buffer, offset, size, false);
}

int ndl_memory_buf_zerocopyin(uint64_t mem_handle, void* buffer, uint64_t offset, size_t size,
                              int qid, uint32_t bar4_wr_threshold) {
  return zero_copy(mem_handle, buffer, offset, size, true, qid, bar4_wr_threshold);
}

int ndl_memory_buf_zerocopyout(uint64_t mem_handle, void* buffer, uint64_t offset, size_t size,
                               int qid) {
  return zero_copy(mem_handle, buffer, offset, size, false, qid, 0);
}

int ndl_memory_buf_batch_copy(neuron_memcpy_batch_t* batches, uint64_t num_batches,
                              uint32_t direction, int qid) {
  if (batches == nullptr || num_batches == 0 || num_batches > UINT32_MAX || direction > 1) {
    return fail(EINVAL);
  }
  const bool to_device = direction == 0;
  std::vector<neuron_memcpy_batch_t> translated(batches, batches + num_batches);
  const ndl_mem_info_t* first = nullptr;
  bool one_device = true;
  for (neuron_memcpy_batch_t& batch : translated) {
    const ndl_mem_info_t* info = Library::get().memory(batch.mem_handle);
    if (info == nullptr || batch.num_ops == 0 || batch.ops_ptr == nullptr) return fail(EINVAL);
    if (first == nullptr) first = info;
    one_device = one_device && info->device == first->device;
    batch.mem_handle = info->driver_handle;
  }
  if (!one_device) return fail(EINVAL);
  if ((priv(first->device)->features & NEURON_DRIVER_FEATURE_ZEROCOPY) != 0) {
    uapi::mem_buf_copy64zc_batches request = {};
    request.batches_ptr = reinterpret_cast<uint64_t>(translated.data());
    request.num_batches = static_cast<uint32_t>(num_batches);
    request.is_copy_to_device = to_device ? 1 : 0;
    request.h2t_qid = qid;
    if (call(fd_of(first->device), uapi::kMemBufZerocopy64Batches, &request) == 0) return 0;
    // Absent before 2.26; refused by v2 drivers. Checks of our own follow in the loop.
    if (errno != EINVAL) return -1;
  }
  for (uint64_t i = 0; i < num_batches; ++i) {
    if (copy_batch_parts(batches[i], to_device) != 0) return -1;
  }
  return 0;
}

int ndl_memory_copy(uint64_t src_mem_handle, uint64_t dst_mem_handle, uint64_t src_offset,
                    uint64_t dst_offset, size_t size) {
  const ndl_mem_info_t* src = Library::get().memory(src_mem_handle);
  const ndl_mem_info_t* dst = Library::get().memory(dst_mem_handle);
  if (src == nullptr || dst == nullptr || src->device != dst->device) return fail(EINVAL);
  return in_parts(size, [&](uint64_t done, uint64_t part) {
    uapi::mem_copy64 request = {};
    request.src_mem_handle = src->driver_handle;
    request.dst_mem_handle = dst->driver_handle;
    request.size = part;
    request.src_offset = src_offset + done;
    request.dst_offset = dst_offset + done;
    return call(fd_of(src->device), uapi::kMemCopy64, &request);
  });
}

namespace {

// The driver selects the ring of a wait by the pair of chunks, the interface has only one of them:
// the last pair started with that handle is remembered in the library.
struct Pair {
  uint64_t src;
  uint64_t dst;
};
std::map<std::pair<uint64_t, int>, Pair>& pending_pairs() {
  static auto* pairs = new std::map<std::pair<uint64_t, int>, Pair>;
  return *pairs;
}

}  // namespace

int ndl_memory_copy_as(uint64_t src_mem_handle, uint64_t dst_mem_handle, uint64_t src_offset,
                       uint64_t dst_offset, size_t size, uint64_t prefetch_addr, int* wait_handle) {
  Library& library = Library::get();
  const ndl_mem_info_t* src = library.memory(src_mem_handle);
  const ndl_mem_info_t* dst = library.memory(dst_mem_handle);
  if (src == nullptr || dst == nullptr || wait_handle == nullptr || src->device != dst->device) {
    return fail(EINVAL);
  }
  uapi::mem_copy_async64 request = {};
  request.src_mem_handle = src->driver_handle;
  request.dst_mem_handle = dst->driver_handle;
  request.size = size;
  request.src_offset = src_offset;
  request.dst_offset = dst_offset;
  request.host_prefetch_addr = prefetch_addr;
  request.pwait_handle = *wait_handle;
  if (call(fd_of(src->device), uapi::kMemCopyAsync64, &request) != 0) return -1;
  *wait_handle = request.wait_handle;
  const std::lock_guard<std::recursive_mutex> guard(library.lock);
  const Pair pair = {src->driver_handle, dst->driver_handle};
  pending_pairs()[{src_mem_handle, request.wait_handle}] = pair;
  pending_pairs()[{dst_mem_handle, request.wait_handle}] = pair;
  return 0;
}

int ndl_memory_copy_as_wait(uint64_t mem_handle, int wait_handle) {
  Library& library = Library::get();
  const ndl_mem_info_t* info = library.memory(mem_handle);
  if (info == nullptr) return -1;
  uapi::mem_copy_async_wait request = {info->driver_handle, info->driver_handle, wait_handle};
  {
    const std::lock_guard<std::recursive_mutex> guard(library.lock);
    const auto known = pending_pairs().find({mem_handle, wait_handle});
    if (known != pending_pairs().end()) {
      request.src_mem_handle = known->second.src;
      request.dst_mem_handle = known->second.dst;
    }
  }
  return call(fd_of(info->device), uapi::kMemCopyAsyncWait, &request);
}

int ndl_memset(const uint64_t addr, uint64_t offset, const int value, const size_t size) {
  const ndl_mem_info_t* info = Library::get().memory(addr);
  if (info == nullptr) return -1;
  return in_parts(size, [&](uint64_t done, uint64_t part) {
    uapi::memset64 request = {};
    request.mem_handle = info->driver_handle;
    request.offset = offset + done;
    request.value = static_cast<uint32_t>(value) & 0xff;
    request.size = part;
    return call(fd_of(info->device), uapi::kMemset64, &request);
  });
}

int ndl_program_engine(ndl_device_t* device, uint32_t nc_id, uint64_t dst, void* buffer,
                       uint64_t offset, size_t size) {
  if (buffer == nullptr || !Library::get().is_open(device)) return fail(EINVAL);
  uapi::program_engine_nc64 request = {};
  request.nc_id = nc_id;
  request.dst = dst;
  request.buffer = reinterpret_cast<uint64_t>(buffer);
  request.size = size;
  request.offset = offset;
  return call(fd_of(device), uapi::kProgramEngineNc64, &request);
}

int ndl_get_copy_buf(ndl_device_t* device, uint32_t nc_id, ndl_copy_buf_t** cpy_buf) {
  if (cpy_buf == nullptr || nc_id >= MAX_NC_PER_DEVICE) return fail(EINVAL);
  Library& library = Library::get();
  const std::lock_guard<std::recursive_mutex> guard(library.lock);
  if (!library.is_open(device)) return -1;
  ndl_copy_buf_t* buffer = &device->cpy_bufs[nc_id];
  if (buffer->mem_handle == 0) {
    uint64_t handle = 0;
    if (ndl_memory_alloc(device, NDL_COPY_BUF_SIZE, 0, 1, 0, 0, nc_id,
                         NEURON_MEMALLOC_TYPE_MISC_HOST, &handle) != 0) {
      return -1;
    }
    if (ndl_memory_map(handle, &buffer->mmap_va) != 0) {
      const int code = errno;
      ndl_memory_free(handle);
      return fail(code);
    }
    buffer->mem_handle = handle;
  }
  *cpy_buf = buffer;
  return 0;
}

int ndl_h2t_dma_queue_alloc(ndl_device_t* device, uint32_t nc_id, uint32_t copy_queue_cnt,
                            uint32_t service_queue_cnt, uint32_t* copy_queue_bmap,
                            uint32_t* service_queue_bmap, uint32_t* copy_default_queue) {
  if (copy_queue_bmap == nullptr || service_queue_bmap == nullptr ||
      copy_default_queue == nullptr || !Library::get().is_open(device)) {
    return fail(EINVAL);
  }
  if (nc_id >= MAX_NC_PER_DEVICE || copy_queue_cnt > UINT16_MAX || service_queue_cnt > UINT16_MAX) {
    return fail(E2BIG);  // the request's fields have 16 bits
  }
  uapi::h2t_dma_alloc_queues request = {};
  request.sz = sizeof request;
  request.nc_id = static_cast<uint16_t>(nc_id);
  request.copy_queue_cnt = static_cast<uint16_t>(copy_queue_cnt);
  request.service_queue_cnt = static_cast<uint16_t>(service_queue_cnt);
  if (call(fd_of(device), uapi::kH2tDmaAllocQueues, &request) != 0) {
    return fail(errno == EINVAL ? ENOTSUP : errno);  // EINVAL: a driver before 2.26
  }
  *copy_queue_bmap = request.copy_queue_bmap;
  *service_queue_bmap = request.service_queue_bmap;
  *copy_default_queue = request.copy_default_queue;
  return 0;
}

int ndl_h2t_dma_queue_free(ndl_device_t* device, uint32_t nc_id, uint32_t queue_bmap) {
  if (!Library::get().is_open(device)) return -1;
  if (nc_id >= MAX_NC_PER_DEVICE) return fail(E2BIG);
  uapi::h2t_dma_free_queues request = {};
  request.sz = sizeof request;
  request.nc_id = static_cast<uint8_t>(nc_id);
  request.queue_bmap = queue_bmap;
  return call(fd_of(device), uapi::kH2tDmaFreeQueues, &request);
}
