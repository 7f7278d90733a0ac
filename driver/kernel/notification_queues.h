// Notification queues as the driver books and programs them (spec/hw-registers.md 5;
// spec/driver-ioctl.md 3.7). Exact: bookings, reuse rules, register writes and their order. The
// driver reads no entry.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "driver/kernel/context.h"
#include "driver/kernel/dhal.h"
#include "driver/kernel/memory.h"
#include "driver/kernel/registers.h"

namespace driver {

struct NqRequest {
  uint32_t dev_id = 0;
  uint32_t dev_type = 0;
  uint32_t type = 0;
  uint32_t engine_index = 0;
  uint32_t size = 0;
  bool host = false;
  uint32_t hbm = 0;
  bool force_alloc = false;
  int32_t pid = 0;  // who asks
};

class NotificationQueues {
 public:
  NotificationQueues(const Context& context, const Dhal& dhal, const Registers& registers,
                     Memory& memory, uint32_t active_ncs);

  // 0, -ENOSYS, -EINVAL or -ENOMEM; `out` is the chunk of the queue, new or kept.
  int init(const NqRequest& request, Chunk** out);
  // Disables and frees the queues of an NC and of its TopSPs; waits for the drain.
  void destroy(uint32_t nc);
  // The register writes alone, for a device that is being removed.
  void disable_all() const;

 private:
  struct Booking {
    Chunk* chunk = nullptr;
    uint64_t set = 0;  // BAR0 offset of its register set
  };
  using Bookings = std::array<Booking, uapi::kNqBookings>;

  // BAR0 offset of the register set, 0 when there is none.
  uint64_t set_of(bool topsp, uint32_t id, uint32_t type, uint32_t engine_index) const;
  void program(uint64_t set, uint64_t base, uint32_t size) const;
  bool disable(const Bookings& bookings) const;
  void free_chunks(Bookings& bookings);

  const Context& context_;
  const Dhal& dhal_;
  Registers registers_;
  Memory& memory_;
  uint32_t active_ncs_;
  std::vector<Bookings> nc_;
  std::vector<Bookings> topsp_;
};

}  // namespace driver
