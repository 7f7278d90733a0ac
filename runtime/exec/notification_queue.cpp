#include "runtime/exec/notification_queue.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "contract/regs/nq.h"
#include "driver/ndl/ndl.h"
#include "runtime/nrt/status.h"

namespace nrt {

NotificationReader::NotificationReader(const void* ring, uint32_t bytes)
    : ring_(static_cast<const uint8_t*>(ring)),
      entries_(bytes / static_cast<uint32_t>(sizeof(contract::NqEntry))) {}

bool NotificationReader::has_next() const {
  if (entries_ == 0) return false;
  const uint8_t* at = ring_ + index_ * sizeof(contract::NqEntry);
  // The header word carries the phase; the rest of the entry is read after it.
  const uint32_t header = *reinterpret_cast<const volatile uint32_t*>(at);
  return ((header & contract::NqEntry::kPhase) != 0) == phase_;
}

bool NotificationReader::next(contract::NqEntry* entry) {
  if (!has_next()) return false;
  std::atomic_thread_fence(std::memory_order_acquire);
  std::memcpy(entry, ring_ + index_ * sizeof(contract::NqEntry), sizeof *entry);
  if (++index_ == entries_) {
    index_ = 0;
    phase_ = !phase_;
  }
  return true;
}

base::Result<NotificationQueue> NotificationQueue::create(std::shared_ptr<Device> device,
                                                          Owner owner, uint32_t block, uint32_t set,
                                                          uint32_t bytes) {
  NotificationQueue queue;
  const bool core = owner == Owner::kCore;
  errno = 0;
  // A ring left by an earlier process stands at an unknown position: always a new one.
  if (ndl_notification_init_with_realloc(device->handle(), static_cast<int>(block),
                                         core ? NQ_DEV_TYPE_NEURON_CORE : NQ_DEV_TYPE_TOPSP,
                                         NQ_TYPE_NOTIFY, static_cast<uint8_t>(set), bytes, true, 0,
                                         0, true, &queue.context_) != 0) {
    return driver_error("notification queue", errno);
  }
  queue.device_ = device;
  void* ring = nullptr;
  if (ndl_notification_map(queue.context_, &ring) != 0) {
    return driver_error("notification queue mapping", errno);
  }
  queue.reader_ = NotificationReader(ring, bytes);
  const contract::Window window = core ? device->map().nc_nq(block) : device->map().topsp_nq(block);
  queue.head_register_ =
      window.bar0 + contract::nq::kSet + set * contract::nq::kSetStride + contract::nq::kSetHead;
  return queue;
}

NotificationQueue::NotificationQueue(NotificationQueue&& other) noexcept {
  *this = std::move(other);
}

NotificationQueue& NotificationQueue::operator=(NotificationQueue&& other) noexcept {
  if (this != &other) {
    if (context_ != 0 && device_->usable()) ndl_notification_destroy(context_);
    device_ = std::move(other.device_);
    context_ = std::exchange(other.context_, 0);
    head_register_ = other.head_register_;
    reader_ = other.reader_;
  }
  return *this;
}

NotificationQueue::~NotificationQueue() {
  if (context_ != 0 && device_->usable()) ndl_notification_destroy(context_);
}

}  // namespace nrt
