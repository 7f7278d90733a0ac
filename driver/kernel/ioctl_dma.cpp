// DMA engines, queues and descriptors: spec/driver-ioctl.md 3.5, 3.15.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "arch/contract/descriptor.h"
#include "driver/kernel/ioctl.h"

namespace driver::ioctls {
namespace {

constexpr uint32_t kQueues = uapi::kQueuesPerEngine;
constexpr uint64_t kDescriptor = sizeof(contract::Descriptor);
// 4096 descriptors at a time (spec/driver-ioctl.md 3.5.4)
constexpr uint64_t kBlock = 64 * base::kKiB;

// 132 is the array bound of every generation; engines that a chip lacks are refused as well.
bool engine_exists(const Call& call, uint32_t engine) {
  return engine < call.device.engines().count();
}

int init_one(const Call& call, const uapi::dma_queue_init& in) {
  if (!engine_exists(call, in.eng_id) || in.qid >= kQueues) return -EINVAL;
  DmaEngines& engines = call.device.engines();
  DmaQueue& queue = engines.queue(in.eng_id, in.qid);
  if (queue.use == QueueUse::kDriverCopy) return -EALREADY;
  const Memory& memory = call.device.memory();
  const Chunk* tx = memory.by_handle(in.tx_handle);  // an unknown handle counts as none
  const Chunk* rx = memory.by_handle(in.rx_handle);
  const Chunk* completion = memory.by_handle(in.rxc_handle);
  queue.owner = call.caller.tgid;  // recorded even when a later check fails
  if (completion != nullptr) {
    return completion->size < in.rx_desc_count * kDescriptor ? -EINVAL : -EPERM;
  }
  const RingSetup tx_ring{tx == nullptr ? 0 : tx->pa, in.tx_desc_count};
  const RingSetup rx_ring{rx == nullptr ? 0 : rx->pa, in.rx_desc_count};
  return engines.init_queue(in.eng_id, in.qid, tx_ring, rx_ring);
}

// A descriptor may only name host memory that some device of the process tracks
// (spec/driver-ioctl.md 3.5.4).
bool addresses_allowed(const Call& call, const uint8_t* descriptors, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += kDescriptor) {
    const auto address = base::load<uint64_t>(descriptors + at + 8);
    if (call.device.dhal().names_host(address) &&
        !call.driver.is_host_chunk(address, call.caller.tgid))
      return false;
  }
  return true;
}

}  // namespace

int dma_eng_set_state(const Call& call) {
  uapi::dma_eng_set_state request{};
  if (!call.get(request)) return -EFAULT;
  if (!engine_exists(call, request.eng_id)) return -EINVAL;
  call.device.engines().set_state(request.eng_id, request.state);
  return 0;
}

int dma_eng_get_state(const Call& call) {
  uapi::dma_eng_get_state request{};
  if (!call.get(request)) return -EFAULT;
  if (!engine_exists(call, request.eng_id)) return -EINVAL;
  return call.write(request.state, call.device.engines().state(request.eng_id)) ? 0 : -EFAULT;
}

int dma_queue_init(const Call& call) {
  uapi::dma_queue_init request{};
  if (!call.get(request)) return -EACCES;  // not EFAULT (spec/driver-ioctl.md 0.4)
  return init_one(call, request);
}

int dma_queue_init_batch(const Call& call) {
  auto request = std::make_unique<uapi::dma_queue_init_batch>();
  if (!call.get(*request)) return -EACCES;  // as above
  if (request->count >= uapi::kMaxQueueInitBatch) return -E2BIG;
  for (uint32_t i = 0; i < request->count; ++i) {
    if (const int error = init_one(call, request->entries[i]); error != 0) return error;
  }
  return 0;
}

// Reads its structure and does nothing with it (3.5.3).
int dma_queue_release(const Call& call) {
  uapi::dma_queue_release request{};
  return call.get(request) ? 0 : -EFAULT;
}

int dma_queue_copy_start(const Call& call) {
  uapi::dma_queue_copy_start request{};
  if (!call.get(request)) return -EFAULT;
  if (!engine_exists(call, request.eng_id)) return -EINVAL;
  if (request.qid >= kQueues) return -EPERM;
  const DmaEngines& engines = call.device.engines();
  const DmaQueue& queue = call.device.engines().queue(request.eng_id, request.qid);
  if (request.rx_desc_count == 0 || request.rx_desc_count > queue.rx_length ||
      request.tx_desc_count > queue.tx_length) {
    return -EPERM;
  }
  engines.ring_rx(request.eng_id, request.qid, request.rx_desc_count);
  if (request.tx_desc_count != 0) {
    engines.ring_tx(request.eng_id, request.qid, request.tx_desc_count);
  }
  return 0;
}

int dma_ack_completed(const Call& call) {
  uapi::dma_ack_completed request{};
  if (!call.get(request)) return -EFAULT;
  if (!engine_exists(call, request.eng_id) || request.qid >= kQueues) return -EINVAL;
  const DmaQueue& queue = call.device.engines().queue(request.eng_id, request.qid);
  const auto power_of_two = [](uint32_t n) { return n != 0 && (n & (n - 1)) == 0; };
  // Moves a software index that only driver-built rings use (spec/driver-ioctl.md 3.5.5).
  return power_of_two(queue.tx_length) && power_of_two(queue.rx_length) ? 0 : -EPERM;
}

int dma_queue_get_state(const Call& call) {
  uapi::dma_queue_get_state request{};
  if (!call.get(request)) return -EFAULT;
  if (!engine_exists(call, request.eng_id) || request.qid >= kQueues) return -EINVAL;
  const DmaEngines& engines = call.device.engines();
  const uapi::dma_queue_state tx = engines.queue_state(request.eng_id, request.qid, true);
  const uapi::dma_queue_state rx = engines.queue_state(request.eng_id, request.qid, false);
  return call.write(request.tx, tx) && call.write(request.rx, rx) ? 0 : -EFAULT;
}

int dma_copy_descriptors(const Call& call) {
  uapi::dma_copy_descriptors64 request{};
  if (call.request == uapi::kDmaCopyDescriptors64) {
    if (!call.get(request)) return -EFAULT;
  } else {
    uapi::dma_copy_descriptors in{};
    if (!call.get(in)) return -EFAULT;
    request = {in.mem_handle, in.buffer, in.num_descs, in.offset, in.queue_type};
  }
  Memory& memory = call.device.memory();
  const Chunk* chunk = memory.by_handle(request.mem_handle);
  const uint64_t total = request.num_descs * kDescriptor;
  if (chunk == nullptr || !memory.in_bounds(*chunk, request.offset, total)) return -EINVAL;
  if (request.queue_type != uapi::kQueueTx && request.queue_type != uapi::kQueueRx) return -EPERM;
  if (total == 0) return 0;
  const Chunk ring = *chunk;
  BounceChunk bounce(call, std::min(kBlock, total), ring.nc);
  if (!bounce.ok()) return -ENOMEM;
  for (uint64_t at = 0; at < total; at += kBlock) {
    const uint64_t bytes = std::min(kBlock, total - at);
    if (!call.caller.memory->read(request.buffer + at, {bounce.bytes(), bytes})) return -EFAULT;
    if (!addresses_allowed(call, bounce.bytes(), bytes)) return -EINVAL;
    if (ring.host) {
      std::memcpy(memory.host_bytes(ring) + request.offset + at, bounce.bytes(), bytes);
      continue;
    }
    const int error = call.device.copy(ring.nc, bounce.pa(), ring.pa + request.offset + at, bytes);
    if (error != 0) return error;
  }
  return 0;
}

int dma_descriptor_copyout(const Call& call) {
  uapi::dma_descriptor_copyout request{};
  if (!call.get(request)) return -EFAULT;
  const uint32_t engine = request.eng_id & 0xff;
  const uint32_t queue = request.qid & 0xff;
  if (request.count == 0 || !engine_exists(call, engine) || queue >= kQueues) return -EINVAL;
  const DmaEngines& engines = call.device.engines();
  // Both halves are read before one is chosen (spec/hw-registers.md 3.11).
  const RingSetup tx = engines.ring_of(engine, queue, true);
  const RingSetup rx = engines.ring_of(engine, queue, false);
  const RingSetup& ring = request.type == uapi::kQueueTx ? tx : rx;
  if (uint64_t{request.count} + request.start_index > ring.length) return -EFBIG;
  if (request.type != uapi::kQueueTx && request.type != uapi::kQueueRx) return -EINVAL;
  Memory& memory = call.device.memory();
  const Chunk* found = memory.containing(ring.base);
  if (found == nullptr) return -EINVAL;
  const Chunk chunk = *found;
  const uint64_t offset = ring.base - chunk.pa + request.start_index * kDescriptor;
  const uint64_t bytes = request.count * kDescriptor;
  if (!memory.in_bounds(chunk, offset, bytes)) return -EINVAL;
  if (chunk.host) {
    return call.caller.memory->write(request.buffer, {memory.host_bytes(chunk) + offset, bytes})
               ? 0
               : -EFAULT;
  }
  BounceChunk bounce(call, bytes, chunk.nc);
  if (!bounce.ok()) return -ENOMEM;
  if (const int error = call.device.copy(chunk.nc, chunk.pa + offset, bounce.pa(), bytes);
      error != 0) {
    return error;
  }
  return call.caller.memory->write(request.buffer, {bounce.bytes(), bytes}) ? 0 : -EFAULT;
}

// 3.15. Live allocations are overwritten without any check.
int hbm_scrub_start(const Call& call) {
  uapi::hbm_scrub_start request{};
  if (!call.get(request)) return -EFAULT;
  if (request.nc_id >= static_cast<uint32_t>(uapi::kMaxNcPerDevice)) return -EINVAL;
  return call.device.scrub().start(request.hbm_index, request.nc_id, request.init_val,
                                   call.caller.tgid);
}

int hbm_scrub_wait(const Call& call) {
  uapi::hbm_scrub_wait request{};
  if (!call.get(request)) return -EFAULT;
  if (request.nc_id >= static_cast<uint32_t>(uapi::kMaxNcPerDevice)) return -EINVAL;
  return call.device.scrub().wait(request.hbm_index);
}

}  // namespace driver::ioctls
