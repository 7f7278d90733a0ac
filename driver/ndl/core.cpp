// Reset, core set-up, semaphores and events, notification queues, core ownership
// (spec/ndl-api.md 3.6 to 3.9).
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>

#include "driver/ndl/library.h"

using driver::ndl::call;
using driver::ndl::fail;
using driver::ndl::fd_of;
using driver::ndl::Library;
using driver::ndl::priv;
namespace uapi = driver::uapi;
using Guard = std::lock_guard<std::recursive_mutex>;

int ndl_reset_ncs(int device_index, int nc_map, uint32_t* request_id) {
  ndl_device_t* device = Library::get().device(device_index);
  if (device == nullptr) return -1;
  if (request_id == nullptr) return fail(EINVAL);
  uapi::device_reset request = {static_cast<uint32_t>(nc_map), 0};
  // A positive result means an unfinished or uncollected request of this process
  // (spec/ndl-api.md 2.1).
  if (call(fd_of(device), uapi::kNcReset, &request) != 0) {
    return fail(errno == EFAULT ? EBUSY : errno);
  }
  *request_id = request.request_id;
  return 0;
}

int ndl_ready_ncs(int device_index, uint32_t request_id, uint8_t* result) {
  ndl_device_t* device = Library::get().device(device_index);
  if (device == nullptr) return -1;
  if (result == nullptr) return fail(EINVAL);
  uapi::device_ready request = {request_id, 0};
  if (call(fd_of(device), uapi::kNcResetReady, &request) != 0) return -1;
  *result = request.result == 0 ? 1 : 0;
  return 0;
}

int ndl_nc_init_set_state(ndl_device_t* device, uint32_t nc_id, uint32_t state,
                          uint32_t* new_state) {
  if (new_state == nullptr || !Library::get().is_open(device)) return fail(EINVAL);
  uapi::cinit_set request = {nc_id, state, 0};
  if (call(fd_of(device), uapi::kCinitSetState, &request) != 0) return -1;
  *new_state = request.new_state;
  return 0;
}

int ndl_nc_model_started_count(ndl_device_t* device, uint32_t nc_id, uint64_t* started_count) {
  if (started_count == nullptr || !Library::get().is_open(device)) return fail(EINVAL);
  uapi::nc_model_started_count request = {};
  request.nc_id = nc_id;
  if (call(fd_of(device), uapi::kNcModelStartedCount, &request) != 0) return -1;
  *started_count = request.started_count;
  return 0;
}

namespace {

int semaphore(ndl_device_t* device, uint32_t request, int nc_index, uint32_t index,
              uint32_t* value) {
  if (nc_index < 0 || value == nullptr || !Library::get().is_open(device)) return fail(EINVAL);
  uapi::semaphore argument = {static_cast<uint32_t>(nc_index), index, *value};
  if (call(fd_of(device), request, &argument) != 0) return -1;
  *value = argument.value;
  return 0;
}

int event(ndl_device_t* device, uint32_t request, int nc_index, uint32_t index, uint32_t* value) {
  if (nc_index < 0 || value == nullptr || !Library::get().is_open(device)) return fail(EINVAL);
  uapi::event argument = {static_cast<uint32_t>(nc_index), index, *value};
  if (call(fd_of(device), request, &argument) != 0) return -1;
  *value = argument.value;
  return 0;
}

}  // namespace

int ndl_nc_semaphore_increment(ndl_device_t* device, int nc_index, uint32_t semaphore_index,
                               uint32_t value) {
  return semaphore(device, uapi::kSemaphoreIncrement, nc_index, semaphore_index, &value);
}

int ndl_nc_semaphore_decrement(ndl_device_t* device, int nc_index, uint32_t semaphore_index,
                               uint32_t value) {
  return semaphore(device, uapi::kSemaphoreDecrement, nc_index, semaphore_index, &value);
}

int ndl_nc_semaphore_read(ndl_device_t* device, int nc_index, uint32_t semaphore_index,
                          uint32_t* value) {
  return semaphore(device, uapi::kSemaphoreRead, nc_index, semaphore_index, value);
}

int ndl_nc_semaphore_write(ndl_device_t* device, int nc_index, uint32_t semaphore_index,
                           uint32_t value) {
  return semaphore(device, uapi::kSemaphoreWrite, nc_index, semaphore_index, &value);
}

int ndl_nc_event_set(ndl_device_t* device, int nc_index, uint32_t event_index, uint32_t value) {
  return event(device, uapi::kEventSet, nc_index, event_index, &value);
}

int ndl_nc_event_get(ndl_device_t* device, int nc_index, uint32_t event_index, uint32_t* value) {
  return event(device, uapi::kEventGet, nc_index, event_index, value);
}

namespace {

constexpr uint64_t kNoOffset = ~uint64_t{0};  // of a ring in device memory

struct QueueRequest {
  int nq_dev_id;
  ndl_nq_dev_t nq_dev_type;
  uint8_t nq_type;
  uint8_t engine_index;
  uint32_t size;
  bool on_host_memory;
  uint32_t dram_channel;
  uint32_t dram_region;
  bool force_alloc_mem;
};

template <typename Request>
Request queue_fields(const QueueRequest& what) {
  Request request = {};
  request.nq_dev_id = static_cast<uint32_t>(what.nq_dev_id);
  request.nq_dev_type = static_cast<uint32_t>(what.nq_dev_type);
  request.nq_type = what.nq_type;
  request.engine_index = what.engine_index;
  request.size = what.size;
  request.on_host_memory = what.on_host_memory ? 1 : 0;
  request.dram_channel = what.dram_channel;
  request.dram_region = what.dram_region;
  return request;
}

// The library record of a ring; several contexts of one ring share it.
ndl_mem_info_t* ring_record(ndl_device_t* device, const QueueRequest& what, uint64_t driver_handle,
                            uint64_t mmap_offset) {
  for (const auto& [known, owned] : *priv(device)->chunks) {
    if (known->driver_handle == driver_handle) return known;
  }
  // A ring that existed before keeps its size whatever was asked for (spec/ndl-api.md 3.8); one in
  // device memory comes without its address.
  if (!what.force_alloc_mem || mmap_offset == kNoOffset) {
    return driver::ndl::adopt_chunk(device, driver_handle);
  }
  ndl_mem_info_t facts = {};
  facts.device = device;
  facts.driver_handle = driver_handle;
  facts.pa = mmap_offset;  // spec/driver-ioctl.md 3.7
  facts.mmap_offset = mmap_offset;
  facts.size = what.size;
  facts.host_memory = what.on_host_memory ? 1 : 0;
  return driver::ndl::adopt_new_chunk(facts, false);
}

int make_context(ndl_device_t* device, const QueueRequest& what, uint64_t driver_handle,
                 uint64_t mmap_offset, uint64_t* notification_context) {
  Library& library = Library::get();
  const Guard guard(library.lock);
  ndl_mem_info_t* info = ring_record(device, what, driver_handle, mmap_offset);
  if (info == nullptr) return -1;
  auto* context =
      static_cast<ndl_notification_context_t*>(calloc(1, sizeof(ndl_notification_context_t)));
  if (context == nullptr) return -1;
  context->nq_dev_id = static_cast<uint8_t>(what.nq_dev_id);
  context->nq_dev_type = what.nq_dev_type;
  context->nq_type = what.nq_type;
  context->engine_index = what.engine_index;
  context->size = static_cast<uint32_t>(std::min<uint64_t>(info->size, UINT32_MAX));
  if (what.size < info->size && driver::ndl::page_round(what.size) == info->size) {
    context->size = what.size;
  }
  context->fd = fd_of(device);
  context->offset = mmap_offset == kNoOffset ? info->pa : mmap_offset;
  context->mem_handle = reinterpret_cast<uint64_t>(info);
  context->mem_info = info;
  library.queues.insert(context);
  priv(device)->queues->insert(context);
  *notification_context = reinterpret_cast<uint64_t>(context);
  return 0;
}

}  // namespace

int ndl_notification_init(ndl_device_t* device, int nq_dev_id, ndl_nq_dev_t nq_dev_type,
                          uint8_t nq_type, uint8_t engine_index, uint32_t size, bool on_host_memory,
                          uint32_t dram_channel, uint32_t dram_region,
                          uint64_t* notification_context) {
  if (notification_context == nullptr || !Library::get().is_open(device)) return fail(EINVAL);
  const QueueRequest what = {nq_dev_id,      nq_dev_type,  nq_type,     engine_index, size,
                             on_host_memory, dram_channel, dram_region, false};
  auto request = queue_fields<uapi::notifications_init_v2>(what);
  if (call(fd_of(device), uapi::kNotificationsInitV2, &request) != 0) return -1;
  return make_context(device, what, request.mem_handle, request.mmap_offset, notification_context);
}

int ndl_notification_init_with_realloc(ndl_device_t* device, int nq_dev_id,
                                       ndl_nq_dev_t nq_dev_type, uint8_t nq_type,
                                       uint8_t engine_index, uint32_t size, bool on_host_memory,
                                       uint32_t dram_channel, uint32_t dram_region,
                                       bool force_alloc_mem, uint64_t* notification_context) {
  if (notification_context == nullptr || !Library::get().is_open(device)) return fail(EINVAL);
  const QueueRequest what = {nq_dev_id,      nq_dev_type,  nq_type,     engine_index,   size,
                             on_host_memory, dram_channel, dram_region, force_alloc_mem};
  auto request = queue_fields<uapi::notifications_init_with_realloc_v2>(what);
  request.force_alloc_mem = force_alloc_mem ? 1 : 0;
  if (call(fd_of(device), uapi::kNotificationsInitWithReallocV2, &request) != 0) return -1;
  return make_context(device, what, request.mem_handle, request.mmap_offset, notification_context);
}

int ndl_notification_get_mem_handle(uint64_t notification_context, uint64_t* mem_handle) {
  const ndl_notification_context_t* context = Library::get().queue(notification_context);
  if (context == nullptr || mem_handle == nullptr) return 1;
  *mem_handle = context->mem_handle;
  return 0;
}

int ndl_notification_get_size(uint64_t notification_context, uint32_t* size) {
  const ndl_notification_context_t* context = Library::get().queue(notification_context);
  if (context == nullptr || size == nullptr) return 1;
  *size = context->size;
  return 0;
}

int ndl_notification_map(uint64_t notification_context, void** va) {
  Library& library = Library::get();
  const Guard guard(library.lock);
  ndl_notification_context_t* context = library.queue(notification_context);
  if (context == nullptr || va == nullptr) return fail(EINVAL);
  if (ndl_memory_map(context->mem_handle, &context->va) != 0) return -1;
  *va = context->va;
  return 0;
}

int ndl_notification_destroy(uint64_t notification_context) {
  Library& library = Library::get();
  const Guard guard(library.lock);
  ndl_notification_context_t* context = library.queue(notification_context);
  if (context == nullptr) return -1;
  ndl_mem_info_t* info = context->mem_info;
  ndl_device_t* device = info->device;
  uint64_t ignored = 0;  // the request is accepted without effect (spec/driver-ioctl.md 3.7)
  call(fd_of(device), uapi::kNotificationsDestroyV1, &ignored);
  library.queues.erase(context);
  priv(device)->queues->erase(context);
  free(context);
  const auto shared = std::find_if(library.queues.begin(), library.queues.end(),
                                   [info](const auto* other) { return other->mem_info == info; });
  // The ring's memory belongs to the device: the record goes, the chunk stays.
  if (shared == library.queues.end()) driver::ndl::forget_chunk(info);
  return 0;
}

namespace {

int model_lock(ndl_device_t* device, uint32_t request, int nc_index, const neuron_uuid& uuid) {
  if (nc_index < 0 || !Library::get().is_open(device)) return fail(EINVAL);
  uapi::crwl argument = {};
  argument.nc_id = static_cast<uint32_t>(nc_index);
  memcpy(argument.uuid, uuid.value, sizeof argument.uuid);
  return call(fd_of(device), request, &argument);
}

// Legacy maps have 64 bits (spec/driver-ioctl.md 3.10.2).
constexpr uint32_t kLegacyMapBits = 64;
constexpr size_t kMapWords = 8;

bool big_core_maps() {
  return ndl_feature_supported(-1, NEURON_DRIVER_FEATURE_BIG_CORE_MAPS);
}

int mark_legacy(int fd, uapi::crwl_nc_map_ext* wide) {
  uapi::crwl_nc_map request = {wide->nc_count, wide->start_nc_index, wide->end_nc_index, 0, 0};
  const int result = call(fd, uapi::kCrwlNcRangeMark, &request);
  wide->max_nc_available = request.max_nc_available;
  wide->bitmap[0] = request.bitmap;
  return result;
}

}  // namespace

int ndl_crwl_reader_enter(ndl_device_t* device, int nc_index, struct neuron_uuid uuid) {
  return model_lock(device, uapi::kCrwlReaderEnter, nc_index, uuid);
}

int ndl_crwl_reader_exit(ndl_device_t* device, int nc_index, struct neuron_uuid uuid) {
  return model_lock(device, uapi::kCrwlReaderExit, nc_index, uuid);
}

int ndl_crwl_writer_enter(ndl_device_t* device, int nc_index, struct neuron_uuid uuid) {
  return model_lock(device, uapi::kCrwlWriterEnter, nc_index, uuid);
}

int ndl_crwl_writer_downgrade(ndl_device_t* device, int nc_index, struct neuron_uuid uuid) {
  return model_lock(device, uapi::kCrwlWriterDowngrade, nc_index, uuid);
}

int ndl_crwl_nc_range_mark(uint32_t nc_count, uint32_t start_nc, uint32_t end_nc,
                           uint32_t* max_nc_available, uint64_t* bitmap, size_t size) {
  const size_t words = size / sizeof(uint64_t);
  if (max_nc_available == nullptr || bitmap == nullptr || end_nc / 64 >= words) {
    return fail(EINVAL);
  }
  const int fd = Library::get().control();
  if (fd < 0) return -1;
  uapi::crwl_nc_map_ext request = {};
  request.nc_count = nc_count;
  request.start_nc_index = start_nc;
  request.end_nc_index = end_nc;
  int result;
  if (big_core_maps()) {
    result = call(fd, uapi::kCrwlNcRangeMarkExt0, &request);
  } else if (end_nc >= kLegacyMapBits) {
    return fail(EINVAL);
  } else {
    result = mark_legacy(fd, &request);
  }
  const int code = errno;
  *max_nc_available = request.max_nc_available;
  if (result == 0) {
    memset(bitmap, 0, size);
    memcpy(bitmap, request.bitmap, std::min(words, kMapWords) * sizeof(uint64_t));
  }
  errno = code;
  return result;
}

int ndl_crwl_nc_range_unmark(uint64_t* bitmap, size_t size) {
  if (bitmap == nullptr) return fail(EINVAL);
  const int fd = Library::get().control();
  if (fd < 0) return -1;
  const size_t words = std::min(size / sizeof(uint64_t), kMapWords);
  if (big_core_maps()) {
    uapi::crwl_nc_map_ext request = {};
    memcpy(request.bitmap, bitmap, words * sizeof(uint64_t));
    return call(fd, uapi::kCrwlNcRangeUnmarkExt0, &request);
  }
  uapi::crwl_nc_map request = {};
  request.bitmap = words > 0 ? bitmap[0] : 0;
  return call(fd, uapi::kCrwlNcRangeUnmark, &request);
}

int ndl_dump_nc_pid_info(uint32_t nc_id, bool filter_log_owner, uint32_t log_dump_limit) {
  const int fd = Library::get().control();
  if (fd < 0) return -1;
  uapi::nc_pid_state_dump request = {};
  request.size = sizeof request;
  request.nc_id = nc_id;
  request.filter_log_owner = filter_log_owner ? 1 : 0;
  request.log_dump_limit = log_dump_limit;
  return call(fd, uapi::kNcPidStateDump, &request);
}
