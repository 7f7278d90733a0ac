// How ioctl handlers see a call. One handler file per family (ioctl_*.cpp); the table that binds
// requests to handlers is in ioctl_table.cpp. Handlers return >= 0 or -errno.
#pragma once

#include <cerrno>
#include <cstdint>

#include "driver/kernel/char_device.h"
#include "driver/kernel/kernel_driver.h"
#include "driver/uapi/limits.h"
#include "driver/uapi/requests.h"
#include "driver/uapi/structs.h"

namespace driver {

struct Call {
  KernelDriver& driver;
  NeuronDevice& device;
  const OpenFile& file;
  const Caller& caller;
  uint32_t request;
  uint64_t arg;

  template <typename T>
  bool get(T& value) const {
    return read(arg, value);
  }
  template <typename T>
  bool put(const T& value) const {
    return write(arg, value);
  }
  template <typename T>
  bool read(uint64_t address, T& value) const {
    return caller.memory->read(address, {reinterpret_cast<uint8_t*>(&value), sizeof value});
  }
  template <typename T>
  bool write(uint64_t address, const T& value) const {
    return caller.memory->write(address, {reinterpret_cast<const uint8_t*>(&value), sizeof value});
  }
  Process* process() const { return device.process(caller.tgid); }
  ProcessCharge* charge() const {
    Process* p = process();
    return p == nullptr ? nullptr : &p->charge;
  }
  void unsupported(const char* feature) const { ++driver.mutable_counters().unsupported[feature]; }
};

using IoctlHandler = int (*)(const Call& call);

// Bounce memory of one call; freed when the call ends.
class BounceChunk {
 public:
  BounceChunk(const Call& call, uint64_t size, uint32_t nc) : memory_(call.device.memory()) {
    AllocRequest request;
    request.size = size;
    request.host = true;
    request.nc = nc;
    request.category = uapi::kMemNcdevHost;
    if (memory_.allocate(request, &chunk_) != 0) chunk_ = nullptr;
  }
  ~BounceChunk() {
    if (chunk_ != nullptr) memory_.release(chunk_);
  }
  BounceChunk(const BounceChunk&) = delete;
  BounceChunk& operator=(const BounceChunk&) = delete;

  bool ok() const { return chunk_ != nullptr; }
  uint64_t pa() const { return chunk_->pa; }
  uint8_t* bytes() const { return memory_.host_bytes(*chunk_); }

 private:
  Memory& memory_;
  Chunk* chunk_ = nullptr;
};

namespace ioctls {

// ioctl_info.cpp
int device_info(const Call& call);
int device_basic_info(const Call& call);
int device_bdf(const Call& call);
int device_bdf_ext(const Call& call);
int host_device_id(const Call& call);
int host_device_id_to_rid_map(const Call& call);
int compatible_version(const Call& call);
int driver_info(const Call& call);
int logical_to_physical_nc_map(const Call& call);
int device_app_pid(const Call& call);
int get_all_apps_info(const Call& call);
// ioctl_registers.cpp
int bar_read(const Call& call);
int bar_write(const Call& call);
int read_hw_counters(const Call& call);
int post_metric(const Call& call);
int semaphore(const Call& call);
int event(const Call& call);
// ioctl_memory.cpp
int mem_alloc(const Call& call);
int mem_free(const Call& call);
int mem_get_pa(const Call& call);
int mem_get_info(const Call& call);
int mem_get_extended_info(const Call& call);
int mem_mc_get_info(const Call& call);
int dump_mem_chunks(const Call& call);
int get_va_placement(const Call& call);
int resource_mmap_info(const Call& call);
// ioctl_copy.cpp
int mem_copy(const Call& call);
int mem_buf_copy(const Call& call);
int memset(const Call& call);
int program_engine(const Call& call);
int mem_copy_async(const Call& call);
int mem_copy_async_wait(const Call& call);
// ioctl_zerocopy.cpp
int zerocopy(const Call& call);
int zerocopy_batches(const Call& call);
int h2t_alloc_queues(const Call& call);
int h2t_free_queues(const Call& call);
// ioctl_dma.cpp
int dma_eng_set_state(const Call& call);
int dma_eng_get_state(const Call& call);
int dma_queue_init(const Call& call);
int dma_queue_init_batch(const Call& call);
int dma_queue_release(const Call& call);
int dma_queue_copy_start(const Call& call);
int dma_ack_completed(const Call& call);
int dma_queue_get_state(const Call& call);
int dma_copy_descriptors(const Call& call);
int dma_descriptor_copyout(const Call& call);
int hbm_scrub_start(const Call& call);
int hbm_scrub_wait(const Call& call);
// ioctl_core.cpp
int notifications_init(const Call& call);
int nc_model_started_count(const Call& call);
int acquire_datastore(const Call& call);
int release_datastore(const Call& call);
int crwl(const Call& call);
int range_mark(const Call& call);
int range_unmark(const Call& call);
int cinit_set_state(const Call& call);
int nc_reset(const Call& call);
int nc_reset_ready(const Call& call);
int device_reset(const Call& call);
int device_ready(const Call& call);
int device_reset_status(const Call& call);
// ioctl_misc.cpp
int pod_info(const Call& call);
int pod_status(const Call& call);
int pod_ctrl(const Call& call);
int power_profile(const Call& call);
int throttling_notifications(const Call& call);
int metrics_ctrl(const Call& call);
int dmabuf_fd(const Call& call);
int printk(const Call& call);
int nc_pid_state_dump(const Call& call);

}  // namespace ioctls
}  // namespace driver
