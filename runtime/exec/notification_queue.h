// Consumer side of one hardware notification ring in host memory (docs/hardware-contract.md 4).
#pragma once

#include <cstdint>
#include <memory>

#include "arch/contract/notification.h"
#include "base/error.h"
#include "runtime/exec/device.h"

namespace nrt {

// Reads entries of a ring by their phase bit. The memory is written by the device at any time.
class NotificationReader {
 public:
  NotificationReader() = default;
  NotificationReader(const void* ring, uint32_t bytes);

  bool has_next() const;
  // Takes the next entry if there is one.
  bool next(contract::NqEntry* entry);
  uint32_t offset() const { return index_ * static_cast<uint32_t>(sizeof(contract::NqEntry)); }

 private:
  const uint8_t* ring_ = nullptr;
  uint32_t entries_ = 0;
  uint32_t index_ = 0;
  bool phase_ = true;
};

// Set `set` of the block of a core or of a CC-core, with a fresh ring.
class NotificationQueue {
 public:
  enum class Owner { kCore, kCcCore };
  static base::Result<NotificationQueue> create(std::shared_ptr<Device> device, Owner owner,
                                                uint32_t block, uint32_t set, uint32_t bytes);
  NotificationQueue() = default;
  NotificationQueue(NotificationQueue&& other) noexcept;
  NotificationQueue& operator=(NotificationQueue&& other) noexcept;
  NotificationQueue(const NotificationQueue&) = delete;
  NotificationQueue& operator=(const NotificationQueue&) = delete;
  ~NotificationQueue();

  NotificationReader& reader() { return reader_; }
  uint64_t head_register() const { return head_register_; }  // BAR0 offset

 private:
  std::shared_ptr<Device> device_;
  uint64_t context_ = 0;
  uint64_t head_register_ = 0;
  NotificationReader reader_;
};

}  // namespace nrt
