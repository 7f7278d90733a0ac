// Binds requests to handlers and applies the two gates in front of them: the free-access set and
// the attach gate. Source: spec/driver-ioctl.md 2.1 to 2.3.
#include "driver/kernel/ioctl.h"
#include "driver/kernel/kernel_driver.h"

namespace driver {
namespace {

using namespace ioctls;  // NOLINT(google-build-using-namespace): the rows below name every handler

int succeed(const Call&) {
  return 0;
}
int not_an_ioctl(const Call&) {
  return -ENOTTY;
}
int generic_failure(const Call&) {
  return -EPERM;
}

enum class Match {
  kExact,   // the whole request value
  kSize,    // number and encoded size
  kNumber,  // the number alone; the handler looks at the rest
};
enum Gate : uint8_t {
  kOpen = 0,
  kAttached = 1,  // A: the caller's process must be attached
  kMisc = 2,      // F: also on a free-access file
};
struct Row {
  uint32_t request;
  Match match;
  uint8_t gate;
  IoctlHandler handler;
};

constexpr Row kRows[] = {
    {uapi::kDeviceReset, Match::kExact, kOpen, device_reset},
    {uapi::kDeviceReady, Match::kExact, kOpen, device_ready},
    {uapi::kDeviceInfo, Match::kExact, kOpen, device_info},
    {uapi::kDeviceInit, Match::kExact, kOpen, succeed},
    {uapi::kDeviceRelease, Match::kExact, kOpen, succeed},
    {uapi::kDeviceAppPid, Match::kExact, kOpen, device_app_pid},
    {uapi::kDeviceGetAllAppsInfo, Match::kExact, kOpen, get_all_apps_info},
    {uapi::kBarRead, Match::kExact, kOpen, bar_read},
    {uapi::kBarWrite, Match::kExact, kAttached, bar_write},
    {uapi::kPostMetric, Match::kExact, kAttached, post_metric},
    {uapi::kMemAlloc, Match::kExact, kAttached, mem_alloc},
    {uapi::kMemFree, Match::kExact, kAttached, mem_free},
    {uapi::kMemCopy, Match::kExact, kAttached, mem_copy},
    {uapi::kMemCopy64, Match::kExact, kOpen, mem_copy},
    {uapi::kMemBufCopy, Match::kExact, kOpen, mem_buf_copy},
    {uapi::kMemBufCopy64, Match::kExact, kOpen, mem_buf_copy},
    {uapi::kMemGetPa, Match::kExact, kAttached, mem_get_pa},
    {uapi::kMemGetInfo, Match::kExact, kAttached, mem_get_info},
    {uapi::kProgramEngine, Match::kExact, kOpen, program_engine},
    {uapi::kMemset, Match::kExact, kOpen, ioctls::memset},
    {uapi::kMemset64, Match::kExact, kOpen, ioctls::memset},
    {uapi::kMemGetExtendedInfo, Match::kExact, kOpen, mem_get_extended_info},
    {uapi::kDmaEngInit, Match::kExact, kAttached, succeed},
    {uapi::kDmaEngSetState, Match::kExact, kAttached, dma_eng_set_state},
    {uapi::kDmaEngGetState, Match::kExact, kOpen, dma_eng_get_state},
    {uapi::kDmaQueueInit, Match::kExact, kAttached, dma_queue_init},
    {uapi::kDmaQueueInitBatch, Match::kExact, kOpen, dma_queue_init_batch},
    {uapi::kDmaQueueRelease, Match::kExact, kAttached, ioctls::dma_queue_release},
    {uapi::kDmaQueueCopyStart, Match::kExact, kOpen, dma_queue_copy_start},
    {uapi::kDmaAckCompleted, Match::kExact, kAttached, dma_ack_completed},
    {uapi::kDmaQueueGetState, Match::kExact, kOpen, dma_queue_get_state},
    {uapi::kDmaCopyDescriptors, Match::kExact, kAttached, dma_copy_descriptors},
    {uapi::kDmaCopyDescriptors64, Match::kExact, kOpen, dma_copy_descriptors},
    {uapi::kDmaDescriptorCopyout, Match::kExact, kOpen, dma_descriptor_copyout},
    {uapi::kDmaQuiesceQueues, Match::kExact, kOpen, not_an_ioctl},
    {uapi::kSemaphoreIncrement, Match::kExact, kOpen, semaphore},
    {uapi::kSemaphoreDecrement, Match::kExact, kOpen, semaphore},
    {uapi::kSemaphoreRead, Match::kExact, kOpen, semaphore},
    {uapi::kSemaphoreWrite, Match::kExact, kOpen, semaphore},
    {uapi::kEventSet, Match::kExact, kOpen, event},
    {uapi::kEventGet, Match::kExact, kOpen, event},
    {uapi::kNotificationsInitV1, Match::kExact, kAttached, notifications_init},
    {uapi::kNotificationsDestroyV1, Match::kExact, kOpen, succeed},
    {uapi::kNotificationsInitV2, Match::kExact, kAttached, notifications_init},
    {uapi::kNotificationsInitWithReallocV2, Match::kExact, kAttached, notifications_init},
    {uapi::kNotificationsQueueInfo, Match::kExact, kOpen, generic_failure},
    {uapi::kReadHwCounters, Match::kExact, kOpen, read_hw_counters},
    {uapi::kAcquireNeuronDs, Match::kExact, kOpen, acquire_datastore},
    {uapi::kReleaseNeuronDs, Match::kExact, kOpen, release_datastore},
    {uapi::kCrwlReaderEnter, Match::kExact, kOpen, ioctls::crwl},
    {uapi::kCrwlReaderExit, Match::kExact, kOpen, ioctls::crwl},
    {uapi::kCrwlWriterEnter, Match::kExact, kOpen, ioctls::crwl},
    {uapi::kCrwlWriterDowngrade, Match::kExact, kOpen, ioctls::crwl},
    {uapi::kCrwlNcRangeMark, Match::kExact, kMisc, range_mark},
    {uapi::kCrwlNcRangeMarkExt0, Match::kExact, kMisc, range_mark},
    {uapi::kCrwlNcRangeUnmark, Match::kExact, kMisc, range_unmark},
    {uapi::kCrwlNcRangeUnmarkExt0, Match::kExact, kMisc, range_unmark},
    {uapi::kCinitSetState, Match::kExact, kOpen, cinit_set_state},
    {uapi::kNcModelStartedCount, Match::kExact, kOpen, nc_model_started_count},
    {uapi::kCompatibleVersion, Match::kExact, kMisc, compatible_version},
    {uapi::kDeviceBasicInfo, Match::kExact, kMisc, device_basic_info},
    {uapi::kDeviceBdf, Match::kExact, kOpen, device_bdf},
    {uapi::kMemAllocV2, Match::kExact, kOpen, mem_alloc},
    {uapi::kMemAllocV2Mt, Match::kExact, kOpen, mem_alloc},
    {uapi::kMemAllocV2Mt64, Match::kExact, kOpen, mem_alloc},
    {uapi::kNcReset, Match::kExact, kOpen, nc_reset},
    {uapi::kNcResetReady, Match::kExact, kOpen, nc_reset_ready},
    {uapi::kProgramEngineNc, Match::kExact, kOpen, program_engine},
    {uapi::kProgramEngineNc64, Match::kExact, kOpen, program_engine},
    {uapi::kDeviceResetStatus, Match::kExact, kOpen, device_reset_status},
    {uapi::kDeviceBdfExt, Match::kExact, kMisc, device_bdf_ext},
    {uapi::kDmabufFd, Match::kExact, kMisc, ioctls::dmabuf_fd},
    {uapi::kMemCopyAsync, Match::kExact, kAttached, mem_copy_async},
    {uapi::kMemCopyAsync64, Match::kExact, kOpen, mem_copy_async},
    {uapi::kMemCopyAsyncWait, Match::kExact, kAttached, mem_copy_async_wait},
    {uapi::kDriverInfoSet, Match::kExact, kAttached | kMisc, driver_info},
    {uapi::kDriverInfoGet, Match::kNumber, kMisc, driver_info},
    {uapi::kMemMcGetInfo, Match::kSize, kOpen, mem_mc_get_info},
    {uapi::kMemMcGetInfoV2, Match::kSize, kOpen, mem_mc_get_info},
    {uapi::kResourceMmapInfo, Match::kExact, kOpen, ioctls::resource_mmap_info},
    {uapi::kPrintk, Match::kExact, kMisc, ioctls::printk},
    {uapi::kHostDeviceId, Match::kExact, kOpen, host_device_id},
    {uapi::kHostDeviceIdToRidMap, Match::kSize, kMisc, host_device_id_to_rid_map},
    {uapi::kDumpMemChunks, Match::kExact, kOpen, dump_mem_chunks},
    {uapi::kNcPidStateDump, Match::kExact, kMisc, nc_pid_state_dump},
    {uapi::kHbmScrubStart, Match::kExact, kOpen, hbm_scrub_start},
    {uapi::kHbmScrubWait, Match::kExact, kOpen, hbm_scrub_wait},
    {uapi::kGetLogicalToPhysicalNcMap, Match::kExact, kMisc, logical_to_physical_nc_map},
    {uapi::kPodInfo, Match::kExact, kMisc, ioctls::pod_info},
    {uapi::kPodStatus, Match::kExact, kMisc, ioctls::pod_status},
    {uapi::kPodStatusV2, Match::kExact, kMisc, ioctls::pod_status},
    {uapi::kPodCtrl, Match::kExact, kMisc, ioctls::pod_ctrl},
    {uapi::kPodCtrlV2, Match::kExact, kMisc, ioctls::pod_ctrl},
    {uapi::kMemBufZerocopy64, Match::kSize, kOpen, zerocopy},
    {uapi::kMemBufZerocopy64Batches, Match::kExact, kOpen, zerocopy_batches},
    {uapi::kH2tDmaAllocQueues, Match::kExact, kOpen, h2t_alloc_queues},
    {uapi::kH2tDmaFreeQueues, Match::kExact, kOpen, h2t_free_queues},
    {uapi::kPowerProfile, Match::kExact, kOpen, ioctls::power_profile},
    {uapi::kMetricsCtrl, Match::kExact, kOpen, ioctls::metrics_ctrl},
    {uapi::kThrottlingNotifications, Match::kExact, kOpen, ioctls::throttling_notifications},
    {uapi::kGetVaPlacement, Match::kNumber, kMisc, ioctls::get_va_placement},
};

bool matches(const Row& row, uint32_t request) {
  if (row.request == request) return true;
  if (uapi::request_type(request) != uapi::kIoctlType ||
      uapi::request_number(request) != uapi::request_number(row.request)) {
    return false;
  }
  return row.match == Match::kNumber ||
         (row.match == Match::kSize &&
          uapi::request_size(request) == uapi::request_size(row.request));
}

}  // namespace

int KernelDriver::ioctl(int file, uint32_t request, uint64_t arg, const Caller& caller) {
  const auto it = files_.find(file);
  if (it == files_.end()) return -EBADF;
  NeuronDevice* target = device(it->second.minor);
  if (target == nullptr) return -ENODEV;
  for (const Row& row : kRows) {
    if (!matches(row, request)) continue;
    if (it->second.free_access) {
      // No device state stands behind a free-access file: the gate does not apply to it.
      if ((row.gate & kMisc) == 0) break;
    } else if ((row.gate & kAttached) != 0 && target->process(caller.tgid) == nullptr) {
      return -EACCES;
    }
    const OpenFile open = it->second;  // the table of files may change while the call waits
    return row.handler({*this, *target, open, caller, request, arg});
  }
  ++counters_.unknown_ioctls[request];
  return -EINVAL;
}

}  // namespace driver
