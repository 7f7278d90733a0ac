// Zero-copy transfers and extra host-copy queues: spec/driver-ioctl.md 3.4.6, 3.4.7, 3.18, 6.4.
// Client pages are not host memory of the emulated machine, so "pinning" copies them through host
// memory of the arena, a group at a time. Exact: checks, queue choice, direct-write path,
// descriptors of at most 64 KiB. Approximate: one group is in flight instead of two.
#include <algorithm>
#include <vector>

#include "driver/kernel/ioctl.h"

namespace driver::ioctls {
namespace {

constexpr uint64_t kGroup = 256 * base::kKiB;           // 64 pages
constexpr uint32_t kDirectLimit = 2 * uapi::kPageSize;  // 3.4.6, with Appendix C item 11
constexpr uint64_t kUserLimit = 1ull << 47;             // end of the user half of the address space

struct Transfer {
  uint64_t pa = 0;
  uint64_t buffer = 0;
  uint64_t size = 0;
  bool to_device = false;
};

bool plausible(uint64_t buffer, uint64_t size) {
  return buffer < kUserLimit && size <= kUserLimit - buffer;
}

bool direct_write(const Call& call, const Chunk& chunk, uint64_t offset, uint64_t size,
                  bool to_device, uint32_t threshold) {
  return !call.device.qemu() && to_device && !chunk.host &&
         size <= std::min(threshold, kDirectLimit) && size % 4 == 0 && offset % 4 == 0 &&
         call.device.pci().identity().bar_size[4] != 0;
}

// Group sizes of 6.4: `lead` is the distance of the buffer from its page.
uint64_t group_bytes(uint64_t buffer, uint64_t size) {
  const uint64_t lead = buffer % uapi::kPageSize;
  const uint64_t span = size + lead;
  if (span <= kGroup) return size;
  if (span > 2 * kGroup) return kGroup;
  const uint64_t half = (span / 2 + uapi::kPageSize - 1) & ~uint64_t{uapi::kPageSize - 1};
  return half - lead;
}

int direct(const Call& call, const Transfer& transfer) {
  std::vector<uint8_t> bytes(transfer.size);
  if (!call.caller.memory->read(transfer.buffer, bytes)) return -EFAULT;
  if (!bytes.empty()) call.device.pci().bar_write(4, call.device.bar4_offset(transfer.pa), bytes);
  return 0;
}

int by_dma(const Call& call, H2tRing& ring, const Transfer& transfer) {
  uint64_t step = group_bytes(transfer.buffer, transfer.size);
  BounceChunk pages(call, std::max<uint64_t>(step, std::min(kGroup, transfer.size)), ring.id().nc);
  if (!pages.ok()) return -ENOMEM;
  for (uint64_t at = 0; at < transfer.size; at += step) {
    const uint64_t bytes = std::min(step, transfer.size - at);
    const uint64_t user = transfer.buffer + at;
    const uint64_t device = transfer.pa + at;
    if (transfer.to_device && !call.caller.memory->read(user, {pages.bytes(), bytes})) {
      return -ENOMEM;  // the pages cannot be pinned
    }
    const int error = transfer.to_device ? ring.copy(pages.pa(), device, bytes)
                                         : ring.copy(device, pages.pa(), bytes);
    if (error != 0) return error;
    if (!transfer.to_device && !call.caller.memory->write(user, {pages.bytes(), bytes})) {
      return -ENOMEM;
    }
  }
  return 0;
}

// The copy ring a request names, in the order of checks of 3.4.6; null with `error` set.
std::shared_ptr<H2tRing> pick_ring(const Call& call, uint32_t nc, int32_t qid, int& error) {
  if (qid < -1 || qid >= uapi::kQueuesPerEngine) {
    error = -ENOENT;
    return nullptr;
  }
  if (!call.device.dhal().zerocopy && !call.driver.params().zerocopy_trn1_override) {
    error = -EINVAL;
    return nullptr;
  }
  const uint32_t queue = qid < 0 && nc < call.device.dhal().map.ncs()
                             ? call.device.dhal().map.h2t_queue(nc)
                             : static_cast<uint32_t>(qid);
  auto ring = call.device.copy_ring(nc, queue);
  if (ring == nullptr) error = -ENOENT;
  return ring;
}

}  // namespace

int zerocopy(const Call& call) {
  uapi::mem_buf_copy64zc request{};
  if (!call.get(request)) return -EFAULT;
  const Memory& memory = call.device.memory();
  const Chunk* found = memory.by_handle(request.mem_handle);
  if (found == nullptr || !memory.in_bounds(*found, request.offset, request.size)) return -EINVAL;
  if (!plausible(request.buffer, request.size)) return -EFAULT;
  const Chunk chunk = *found;
  const bool to_device = request.is_copy_to_device != 0;
  const Transfer transfer{chunk.pa + request.offset, request.buffer, request.size, to_device};
  if (direct_write(call, chunk, request.offset, request.size, to_device,
                   request.bar4_wr_threshold)) {
    return direct(call, transfer);
  }
  int error = 0;
  const auto ring = pick_ring(call, chunk.nc, request.h2t_qid, error);
  if (ring == nullptr) return error;
  return request.size == 0 ? 0 : by_dma(call, *ring, transfer);
}

namespace {

int run_batch(const Call& call, const uapi::mem_buf_copy64zc_batches& request,
              const uapi::memcpy_batch& batch) {
  const Memory& memory = call.device.memory();
  const Chunk* found = memory.by_handle(batch.mem_handle);
  if (found == nullptr) return -EINVAL;
  const Chunk chunk = *found;
  const bool to_device = request.is_copy_to_device != 0;
  bool all_direct = true;
  std::vector<uapi::tensor_batch_op> ops;
  for (uint32_t i = 0; i < batch.num_ops; ++i) {
    uapi::tensor_batch_op op{};
    if (!call.read(batch.ops_ptr + i * sizeof op, op)) return -EFAULT;
    if (op.size == 0 || op.buffer == 0) return -EINVAL;
    op.offset += batch.mem_handle_offset;
    if (op.offset < batch.mem_handle_offset || !memory.in_bounds(chunk, op.offset, op.size)) {
      return -EINVAL;
    }
    if (!plausible(op.buffer, op.size)) return -EFAULT;
    all_direct = all_direct &&
                 direct_write(call, chunk, op.offset, op.size, to_device, batch.bar4_wr_threshold);
    ops.push_back(op);
  }
  int error = 0;
  const auto ring = all_direct ? nullptr : pick_ring(call, chunk.nc, request.h2t_qid, error);
  if (error != 0) return error;
  for (const uapi::tensor_batch_op& op : ops) {
    const Transfer transfer{chunk.pa + op.offset, op.buffer, op.size, to_device};
    error = all_direct ? direct(call, transfer) : by_dma(call, *ring, transfer);
    if (error != 0) return error;
  }
  return 0;
}

}  // namespace

int zerocopy_batches(const Call& call) {
  uapi::mem_buf_copy64zc_batches request{};
  if (!call.get(request)) return -EFAULT;
  if (request.batches_ptr == 0 || request.num_batches == 0) return -EINVAL;
  std::vector<uapi::memcpy_batch> batches;
  for (uint32_t i = 0; i < request.num_batches; ++i) {
    uapi::memcpy_batch batch{};
    if (!call.read(request.batches_ptr + i * sizeof batch, batch)) return -EFAULT;
    if (batch.num_ops == 0 || batch.ops_ptr == 0) return -EINVAL;
    batches.push_back(batch);
  }
  // One after another, so an error leaves the batches before it done.
  for (const uapi::memcpy_batch& batch : batches) {
    if (const int error = run_batch(call, request, batch); error != 0) return error;
  }
  return 0;
}

int h2t_alloc_queues(const Call& call) {
  uapi::h2t_dma_alloc_queues request{};
  if (!call.get(request)) return -EFAULT;
  NeuronDevice& device = call.device;
  if (request.nc_id >= device.nc_count()) return -E2BIG;
  if (request.copy_queue_cnt + request.service_queue_cnt >= uapi::kQueuesPerEngine) return -E2BIG;
  const contract::AddressMap& map = device.dhal().map;
  const uint32_t nc = request.nc_id;
  const uint32_t engine = map.h2t_engine(nc);
  uint32_t defaults = 0;  // queues of all cores that share the engine
  for (uint32_t n = 0; n < map.ncs(); ++n) {
    if (map.h2t_engine(n) == engine) defaults |= 1u << map.h2t_queue(n);
  }
  uint32_t copy = 0;
  uint32_t service = 0;
  int error = 0;
  const uint32_t wanted = request.copy_queue_cnt + request.service_queue_cnt;
  for (uint32_t taken = 0; taken < wanted && error == 0; ++taken) {
    const uint32_t used = defaults | copy | service;
    uint32_t q = 0;
    while (q < uapi::kQueuesPerEngine &&
           ((used >> q & 1) != 0 || device.engines().queue(engine, q).nc >= 0)) {
      ++q;
    }
    if (q == uapi::kQueuesPerEngine) {
      error = -EPERM;
    } else if (taken < request.copy_queue_cnt) {
      error = device.allocate_copy_queue(nc, q);
      if (error == 0) copy |= 1u << q;
    } else {
      DmaQueue& queue = device.engines().queue(engine, q);
      queue.use = QueueUse::kService;
      queue.nc = static_cast<int32_t>(nc);
      queue.owner = call.caller.tgid;
      service |= 1u << q;
    }
  }
  request.copy_queue_bmap = copy;
  request.service_queue_bmap = service;
  request.copy_default_queue = map.h2t_queue(nc);
  if (error == 0 && call.put(request)) return 0;
  for (uint32_t q = 0; q < uapi::kQueuesPerEngine; ++q) {
    if (((copy | service) >> q & 1) != 0) device.free_extra_queue(nc, q);
  }
  return error == 0 ? -EFAULT : error;
}

int h2t_free_queues(const Call& call) {
  uapi::h2t_dma_free_queues request{};
  if (!call.get(request)) return -EFAULT;
  NeuronDevice& device = call.device;
  if (request.nc_id >= device.nc_count()) return -E2BIG;
  const contract::AddressMap& map = device.dhal().map;
  int result = 0;
  for (uint32_t q = 0; q < uapi::kQueuesPerEngine; ++q) {
    if ((request.queue_bmap >> q & 1) == 0 || q == map.h2t_queue(request.nc_id)) continue;
    const DmaQueue& queue = device.engines().queue(map.h2t_engine(request.nc_id), q);
    if (queue.nc != static_cast<int32_t>(request.nc_id)) {
      result = -ENXIO;
    } else {
      device.free_extra_queue(request.nc_id, q);
    }
  }
  return result;
}

}  // namespace driver::ioctls
