// DMA engines and queues (spec/ndl-api.md 3.5).
#include <errno.h>

#include <memory>

#include "driver/ndl/library.h"

using driver::ndl::call;
using driver::ndl::fail;
using driver::ndl::fd_of;
using driver::ndl::Library;
using driver::ndl::priv;
namespace uapi = driver::uapi;

namespace {

// Translates a library handle, keeping 0 as "none"; false with errno for an unknown one.
bool translate(uint64_t handle, uint64_t* driver_handle) {
  *driver_handle = 0;
  if (handle == 0) return true;
  const ndl_mem_info_t* info = Library::get().memory(handle);
  if (info == nullptr) return false;
  *driver_handle = info->driver_handle;
  return true;
}

bool translate(const ndl_queue_init& from, uapi::dma_queue_init* to) {
  *to = {};
  to->eng_id = from.eng_id;
  to->qid = from.qid;
  to->tx_desc_count = from.tx_desc_count;
  to->rx_desc_count = from.rx_desc_count;
  to->axi_port = from.axi_port;
  return translate(from.tx_handle, &to->tx_handle) && translate(from.rx_handle, &to->rx_handle) &&
         translate(from.rxc_handle, &to->rxc_handle);
}

}  // namespace

int ndl_dma_eng_set_state(int device_index, uint32_t eng_id, uint32_t state) {
  ndl_device_t* device = Library::get().device(device_index);
  if (device == nullptr) return -1;
  uapi::dma_eng_set_state request = {eng_id, state};
  return call(fd_of(device), uapi::kDmaEngSetState, &request);
}

int ndl_dma_eng_get_state(int device_index, uint32_t eng_id, struct neuron_dma_eng_state* state) {
  ndl_device_t* device = Library::get().device(device_index);
  if (device == nullptr) return -1;
  if (state == nullptr) return fail(EINVAL);
  uapi::dma_eng_get_state request = {eng_id, reinterpret_cast<uint64_t>(state)};
  return call(fd_of(device), uapi::kDmaEngGetState, &request);
}

int ndl_dma_queue_get_state(int device_index, uint8_t eng_id, uint8_t qid,
                            struct neuron_dma_queue_state* tx, struct neuron_dma_queue_state* rx) {
  ndl_device_t* device = Library::get().device(device_index);
  if (device == nullptr) return -1;
  if (tx == nullptr || rx == nullptr) return fail(EINVAL);
  uapi::dma_queue_get_state request = {eng_id, qid, reinterpret_cast<uint64_t>(tx),
                                       reinterpret_cast<uint64_t>(rx)};
  return call(fd_of(device), uapi::kDmaQueueGetState, &request);
}

int ndl_dma_descriptor_copyout(int device_index, uint8_t eng_id, uint8_t qid,
                               enum neuron_dma_queue_type type, uint32_t start_index,
                               uint32_t count, void* buffer) {
  ndl_device_t* device = Library::get().device(device_index);
  if (device == nullptr) return -1;
  if (buffer == nullptr) return fail(EINVAL);
  uapi::dma_descriptor_copyout request = {};
  request.eng_id = eng_id;
  request.qid = qid;
  request.type = static_cast<uint32_t>(type);
  request.start_index = start_index;
  request.count = count;
  request.buffer = reinterpret_cast<uint64_t>(buffer);
  return call(fd_of(device), uapi::kDmaDescriptorCopyout, &request);
}

int ndl_dma_queue_init(int device_index, uint32_t eng_id, uint32_t qid, uint32_t tx_desc_count,
                       uint32_t rx_desc_count, uint64_t tx_handle, uint64_t rx_handle,
                       uint64_t rxc_handle, uint32_t axi_port) {
  ndl_device_t* device = Library::get().device(device_index);
  if (device == nullptr) return -1;
  const ndl_queue_init what = {eng_id,    qid,       tx_desc_count, rx_desc_count,
                               tx_handle, rx_handle, rxc_handle,    axi_port};
  uapi::dma_queue_init request = {};
  if (!translate(what, &request)) return -1;
  return call(fd_of(device), uapi::kDmaQueueInit, &request);
}

int ndl_dma_queue_init_batch(int device_idx, struct ndl_queue_init_batch* batch) {
  ndl_device_t* device = Library::get().device(device_idx);
  if (device == nullptr) return -1;
  if (batch == nullptr) return fail(EINVAL);
  if (batch->count >= MAX_NDL_QUEUE_INIT_BATCH) return fail(E2BIG);
  auto request = std::make_unique<uapi::dma_queue_init_batch>();
  request->count = batch->count;
  for (uint32_t i = 0; i < batch->count; ++i) {
    if (!translate(batch->entries[i], &request->entries[i])) return -1;
  }
  if ((priv(device)->features & NEURON_DRIVER_FEATURE_BATCH_DMAQ_INIT) != 0) {
    return call(fd_of(device), uapi::kDmaQueueInitBatch, request.get());
  }
  for (uint32_t i = 0; i < batch->count; ++i) {
    if (call(fd_of(device), uapi::kDmaQueueInit, &request->entries[i]) != 0) return -1;
  }
  return 0;
}

int ndl_dma_queue_release(int device_index, uint32_t eng_id, uint32_t qid) {
  ndl_device_t* device = Library::get().device(device_index);
  if (device == nullptr) return -1;
  uapi::dma_queue_release request = {eng_id, qid};
  return call(fd_of(device), uapi::kDmaQueueRelease, &request);
}

int ndl_dma_queue_copy_start(int device_index, uint32_t eng_id, uint32_t qid,
                             uint32_t tx_desc_count, uint32_t rx_desc_count) {
  ndl_device_t* device = Library::get().device(device_index);
  if (device == nullptr) return -1;
  uapi::dma_queue_copy_start request = {eng_id, qid, tx_desc_count, rx_desc_count};
  return call(fd_of(device), uapi::kDmaQueueCopyStart, &request);
}

int ndl_dma_ack_completed_desc(int device_index, uint32_t eng_id, uint32_t qid, uint32_t count) {
  ndl_device_t* device = Library::get().device(device_index);
  if (device == nullptr) return -1;
  uapi::dma_ack_completed request = {eng_id, qid, count};
  return call(fd_of(device), uapi::kDmaAckCompleted, &request);
}

int ndl_dma_copy_descriptors(uint64_t mem_handle, void* buffer, uint64_t offset, uint32_t num_descs,
                             enum neuron_dma_queue_type queue_type) {
  const ndl_mem_info_t* info = Library::get().memory(mem_handle);
  if (info == nullptr) return -1;
  if (buffer == nullptr) return fail(EINVAL);
  uapi::dma_copy_descriptors64 request = {};
  request.mem_handle = info->driver_handle;
  request.buffer = reinterpret_cast<uint64_t>(buffer);
  request.num_descs = num_descs;
  request.offset = offset;
  request.queue_type = static_cast<uint32_t>(queue_type);
  return call(fd_of(info->device), uapi::kDmaCopyDescriptors64, &request);
}
