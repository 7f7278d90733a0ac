#include "driver/kernel/notification_queues.h"

#include <cerrno>

#include "contract/regs/nq.h"

namespace driver {

namespace nq = contract::nq;

namespace {

constexpr uint32_t kIndicesPerType = 16;
// The DMA-trace block stands behind the SDMA wrapper (spec/hw-registers.md 3.8).
constexpr uint64_t kDmaTraceBlock = 0x1000;

}  // namespace

NotificationQueues::NotificationQueues(const Context& context, const Dhal& dhal,
                                       const Registers& registers, Memory& memory,
                                       uint32_t active_ncs)
    : context_(context),
      dhal_(dhal),
      registers_(registers),
      memory_(memory),
      active_ncs_(active_ncs),
      nc_(dhal.map.ncs(), Bookings{}),
      topsp_(dhal.map.topsps(), Bookings{}) {}

// The set is engine_index; the type takes no part except for DMA tracing
// (spec/driver-ioctl.md 3.7).
uint64_t NotificationQueues::set_of(bool topsp, uint32_t id, uint32_t type,
                                    uint32_t engine_index) const {
  const uint64_t in_block = nq::kSet + uint64_t{engine_index} * nq::kSetStride;
  if (topsp) return dhal_.map.topsp_nq(id).bar0 + in_block;
  if (type != uapi::kNqTraceDma) return dhal_.map.nc_nq(id).bar0 + in_block;
  if (engine_index >= contract::kDmaPerNc) return 0;
  const uint32_t engine = id * contract::kDmaPerNc + engine_index;
  return dhal_.map.sdma(engine).bar0 + kDmaTraceBlock + nq::kSet;
}

void NotificationQueues::program(uint64_t set, uint64_t base, uint32_t size) const {
  registers_.write(set + nq::kSetBaseHi, static_cast<uint32_t>(base >> 32));
  registers_.write(set + nq::kSetBaseLo, static_cast<uint32_t>(base));
  registers_.write(set + nq::kSetSize, size);
}

int NotificationQueues::init(const NqRequest& request, Chunk** out) {
  if (request.dev_type != uapi::kNqDevNc && request.dev_type != uapi::kNqDevTopsp) return -ENOSYS;
  if ((request.size & (request.size - 1)) != 0) return -EINVAL;
  const bool topsp = request.dev_type == uapi::kNqDevTopsp;
  const uint32_t id = request.dev_id & 0xff;
  const uint32_t engine_index = request.engine_index & 0xff;
  if (topsp ? id >= dhal_.map.topsps() : (id >= dhal_.map.ncs() || (active_ncs_ >> id & 1) == 0)) {
    return -EINVAL;
  }
  const uint32_t index = (request.type * kIndicesPerType + engine_index) & 0xff;
  if (index >= static_cast<uint32_t>(uapi::kNqBookings)) return -EINVAL;
  if (engine_index >= nq::kSetCount) return -EINVAL;
  const uint64_t set = set_of(topsp, id, request.type, engine_index);
  if (set == 0) return -EINVAL;

  Booking& booking = topsp ? topsp_[id][index] : nc_[id][index];
  if (booking.chunk != nullptr && !request.force_alloc) {
    *out = booking.chunk;
    return 0;
  }
  AllocRequest alloc;
  alloc.size = request.size;
  alloc.align = request.host ? 0 : request.size;
  alloc.host = request.host;
  alloc.hbm = request.hbm;
  alloc.nc = topsp ? dhal_.map.nc_of_topsp(id) : id;
  alloc.category = request.host ? uapi::kMemNotificationHost : uapi::kMemNotificationDevice;
  alloc.lifespan = Lifespan::kDevice;
  alloc.pid = request.pid;
  Chunk* chunk = nullptr;
  if (const int error = memory_.allocate(alloc, &chunk); error != 0) return error;
  program(set, chunk->pa, request.size);
  if (booking.chunk != nullptr) memory_.release(booking.chunk);
  booking = {chunk, set};
  *out = chunk;
  return memory_.assign_handle(chunk);  // the one that has just become free, if there was one
}

bool NotificationQueues::disable(const Bookings& bookings) const {
  bool any = false;
  for (const Booking& booking : bookings) {
    if (booking.chunk == nullptr) continue;
    any = true;
    program(booking.set, 0, 0);
  }
  return any;
}

void NotificationQueues::free_chunks(Bookings& bookings) {
  for (Booking& booking : bookings) {
    if (booking.chunk != nullptr) memory_.release(booking.chunk);
    booking = {};
  }
}

void NotificationQueues::destroy(uint32_t nc) {
  if (disable(nc_[nc])) context_.executor.delay(base::ms(1));  // drain, spec/hw-registers.md 5.3
  free_chunks(nc_[nc]);
  for (uint32_t t = 0; t < dhal_.map.topsps(); ++t) {
    if (dhal_.map.nc_of_topsp(t) != nc) continue;
    disable(topsp_[t]);
    free_chunks(topsp_[t]);
  }
}

void NotificationQueues::disable_all() const {
  for (const Bookings& bookings : nc_) disable(bookings);
  for (const Bookings& bookings : topsp_) disable(bookings);
}

}  // namespace driver
