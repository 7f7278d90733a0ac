// Notification queues, datastore, core locks, core init and resets: spec/driver-ioctl.md 3.7
// - 3.12.
#include <algorithm>

#include "driver/kernel/ioctl.h"
#include "driver/kernel/reset_manager.h"

namespace driver::ioctls {
namespace {

constexpr uint64_t kNoMmapOffset = ~uint64_t{0};  // device queues, 3.7

template <typename T>
NqRequest nq_request(const T& in) {
  NqRequest request;
  request.dev_id = in.nq_dev_id;
  request.dev_type = in.nq_dev_type;
  request.type = in.nq_type;
  request.engine_index = in.engine_index;
  request.size = in.size;
  request.host = in.on_host_memory != 0;
  request.hbm = in.dram_channel;
  return request;
}

template <typename T>
int init_nq(const Call& call, T& in, bool force) {
  NqRequest request = nq_request(in);
  request.force_alloc = force;
  request.pid = call.caller.tgid;
  Chunk* chunk = nullptr;
  if (const int error = call.device.notifications().init(request, &chunk); error != 0) return error;
  in.mmap_offset = chunk->host ? chunk->pa : kNoMmapOffset;
  in.mem_handle = chunk->handle;
  return call.put(in) ? 0 : -EFAULT;
}

}  // namespace

int notifications_init(const Call& call) {
  if (call.request == uapi::kNotificationsInitV2) {
    uapi::notifications_init_v2 in{};
    return call.get(in) ? init_nq(call, in, false) : -EFAULT;
  }
  if (call.request == uapi::kNotificationsInitWithReallocV2) {
    uapi::notifications_init_with_realloc_v2 in{};
    return call.get(in) ? init_nq(call, in, in.force_alloc_mem != 0) : -EFAULT;
  }
  uapi::notifications_init_v1 in{};
  if (!call.get(in)) return -EFAULT;
  NqRequest request;
  request.dev_id = in.nc_id;
  request.dev_type = uapi::kNqDevNc;
  request.type = in.nq_type;
  request.engine_index = in.engine_index;
  request.size = in.size;
  request.host = true;
  request.pid = call.caller.tgid;
  Chunk* chunk = nullptr;
  if (const int error = call.device.notifications().init(request, &chunk); error != 0) return error;
  in.mmap_offset = chunk->pa;
  return call.put(in) ? 0 : -EFAULT;
}

int nc_model_started_count(const Call& call) {
  uapi::nc_model_started_count request{};
  if (!call.get(request)) return -EFAULT;
  if (request.nc_id >= call.device.nc_count()) return -E2BIG;
  request.started_count = 0;
  return call.put(request) ? 0 : -EFAULT;
}

int acquire_datastore(const Call& call) {
  uapi::neuron_ds_info request{};
  if (!call.get(request)) return -EFAULT;
  const Chunk* chunk = nullptr;
  if (const int error = call.device.datastore().acquire(request.pid, call.caller.tgid, &chunk);
      error != 0) {
    return error;
  }
  request.mmap_offset = chunk->pa;
  request.size = uapi::kDatastoreSize;
  return call.put(request) ? 0 : -EFAULT;
}

int release_datastore(const Call& call) {
  uapi::neuron_ds_info request{};
  if (!call.get(request)) return -EFAULT;
  call.device.datastore().release(request.pid, call.caller.tgid);
  return 0;
}

int crwl(const Call& call) {
  uapi::crwl request{};
  if (!call.get(request)) return -EFAULT;
  if (request.nc_id >= static_cast<uint32_t>(uapi::kMaxNcPerDevice)) return -EINVAL;
  CrwlLocks::Uuid uuid;
  std::copy(std::begin(request.uuid), std::end(request.uuid), uuid.begin());
  CrwlLocks& locks = call.device.crwl();
  const int32_t tgid = call.caller.tgid;
  switch (call.request) {
    case uapi::kCrwlReaderEnter:
      return locks.reader_enter(request.nc_id, uuid, tgid);
    case uapi::kCrwlReaderExit:
      return locks.reader_exit(request.nc_id, uuid, tgid);
    case uapi::kCrwlWriterEnter:
      return locks.writer_enter(request.nc_id, uuid, tgid);
    default:
      return locks.writer_downgrade(request.nc_id, uuid, tgid);
  }
}

int range_mark(const Call& call) {
  const uint32_t offset = call.device.nc_count() * call.device.index();
  uapi::crwl_nc_map_ext request{};
  uapi::crwl_nc_map legacy{};
  const bool extended = call.request == uapi::kCrwlNcRangeMarkExt0;
  if (extended ? !call.get(request) : !call.get(legacy)) return -EFAULT;
  if (!extended) {
    request.nc_count = legacy.nc_count;
    request.start_nc_index = legacy.start_nc_index;
    request.end_nc_index = legacy.end_nc_index;
  }
  const int error = call.driver.range_marks().mark(request, offset, call.caller.tgid);
  legacy.max_nc_available = request.max_nc_available;
  legacy.bitmap = request.bitmap[0];
  // Written back with errors too (3.10.2).
  if (extended ? !call.put(request) : !call.put(legacy)) return -EFAULT;
  return error;
}

int range_unmark(const Call& call) {
  const uint32_t offset = call.device.nc_count() * call.device.index();
  uapi::crwl_nc_map_ext request{};
  if (call.request == uapi::kCrwlNcRangeUnmarkExt0) {
    if (!call.get(request)) return -EFAULT;
  } else {
    uapi::crwl_nc_map legacy{};
    if (!call.get(legacy)) return -EFAULT;
    request.bitmap[0] = legacy.bitmap;
  }
  call.driver.range_marks().unmark(request.bitmap, offset, call.caller.tgid);
  if (!call.driver.range_marks().any()) call.driver.election().no_core_marked();
  return 0;
}

int cinit_set_state(const Call& call) {
  uapi::cinit_set request{};
  if (!call.get(request)) return -EFAULT;
  if (request.nc_id >= call.device.nc_count()) return -E2BIG;
  request.new_state = call.device.core_init().set(request.nc_id, request.state);
  return call.put(request) ? 0 : -EFAULT;
}

int nc_reset(const Call& call) {
  uapi::device_reset request{};
  if (!call.get(request)) return -EFAULT;
  request.request_id = static_cast<uint32_t>(call.caller.tgid);
  const int result = call.device.resets().request(request.nc_map, request.request_id);
  if (result != 0) return result;
  return call.put(request) ? 0 : -EFAULT;
}

int nc_reset_ready(const Call& call) {
  uapi::device_ready request{};
  if (!call.get(request)) return -EFAULT;
  request.result = call.device.resets().collect(request.request_id);
  return call.put(request) ? 0 : -EFAULT;
}

int device_reset(const Call& call) {
  (void)call.device.resets().request(uapi::kResetWholeDevice,
                                     static_cast<uint32_t>(call.caller.tgid));
  return 0;
}

int device_ready(const Call& call) {
  const auto id = static_cast<uint32_t>(call.caller.tgid);
  ResetManager& resets = call.device.resets();
  const bool ok = !resets.pending(id) || resets.collect(id) == 0;
  return call.put(static_cast<uint8_t>(ok ? 1 : 0)) ? 0 : -EFAULT;
}

int device_reset_status(const Call& call) {
  return call.put(uint8_t{1}) ? 0 : -EFAULT;
}

}  // namespace driver::ioctls
