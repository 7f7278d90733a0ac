// Counts and codes of the character-device ABI: spec/driver-ioctl.md 1.1, 3.1.6, 3.7, Appendix A.
#pragma once

#include <cstdint>

namespace driver::uapi {

constexpr int kMaxDevices = 64;
constexpr int kMaxNcPerDevice = 8;
constexpr int kMaxTopsp = 16;
constexpr int kMaxDmaEngines = 132;
constexpr int kQueuesPerEngine = 16;
constexpr int kMaxProcessesPerDevice = 16;
constexpr int kDatastoreSlots = 16;
constexpr int kMaxNcRangeMarks = 512;
constexpr uint32_t kPageSize = 4096;  // Appendix C item 11

// Feature bits of DRIVER_INFO_GET (spec/driver-ioctl.md 3.1.6).
constexpr uint64_t kFeatureDmabuf = 1u << 0;
constexpr uint64_t kFeatureAsyncDma = 1u << 1;
constexpr uint64_t kFeatureBatchDmaqInit = 1u << 2;
constexpr uint64_t kFeatureBigCoreMaps = 1u << 3;
constexpr uint64_t kFeatureMemAllocType = 1u << 4;
constexpr uint64_t kFeatureHbmScrub = 1u << 5;
constexpr uint64_t kFeatureMemAlloc64 = 1u << 6;
constexpr uint64_t kFeatureContiguousScratchpad = 1u << 7;
constexpr uint64_t kFeatureZerocopy = 1u << 8;

// Memory categories (Appendix A).
enum MemCategory : uint32_t {
  kMemUnknownHost = 0,
  kMemCodeHost = 1,
  kMemTensorsHost = 2,
  kMemConstantsHost = 3,
  kMemMiscHost = 4,
  kMemNcdevHost = 5,
  kMemNotificationHost = 6,
  kMemUnknownDevice = 7,
  kMemCodeDevice = 8,
  kMemTensorsDevice = 9,
  kMemConstantsDevice = 10,
  kMemScratchpadDevice = 11,
  kMemMiscDevice = 12,
  kMemNcdevDevice = 13,
  kMemCollectivesDevice = 14,
  kMemScratchpadNonsharedDevice = 15,
  kMemNotificationDevice = 16,
  kMemDmaRingsHost = 17,
  kMemDmaRingsDevice = 18,
  kMemContiguousScratchpadDevice = 19,
  kMemCategoryCount = 20,
};

// Notification queues (spec/driver-ioctl.md 3.7).
enum NqDevType : uint32_t { kNqDevNc = 0, kNqDevTopsp = 1 };
enum NqType : uint32_t {
  kNqTrace = 0,
  kNqNotify = 1,
  kNqEvent = 2,
  kNqError = 3,
  kNqTraceDma = 4,
  kNqThrottle = 5,
};
constexpr int kNqBookings = 96;

// RESOURCE_MMAP_INFO (spec/driver-ioctl.md 3.14).
enum ResourceBlock : uint32_t { kBlockTpb = 0, kBlockTopsp = 1, kBlockHbm = 2 };
enum ResourceKind : uint32_t {
  kResourceSemaphore = 0,
  kResourceAll = 1,
  kResourceStateBuffer = 2,
  kResourceDeviceMemory = 3,
};

// DMA engine and queue states as reported (spec/driver-ioctl.md 3.5.1, 3.5.6).
enum DmaState : uint32_t {
  kDmaDisable = 0,
  kDmaIdle = 1,
  kDmaNormal = 2,
  kDmaAbort = 3,
};
enum DmaQueueSwStatus : uint32_t { kQueueDisabled = 1, kQueueEnabled = 2, kQueueAborted = 3 };
enum DmaQueueType : uint32_t { kQueueTx = 0, kQueueRx = 1 };

// Asynchronous copy handles (spec/driver-ioctl.md 3.4.2).
constexpr int32_t kAsyncNone = -1;
constexpr int32_t kAsyncSync = 0;
constexpr int32_t kAsync1 = 1;
constexpr int32_t kAsync2 = 2;

// NC_RESET (spec/driver-ioctl.md 3.12) and CINIT_SET_STATE (spec/driver-ioctl.md 3.11).
constexpr uint32_t kResetWholeDevice = 0xffffffffu;
enum CinitState : uint32_t { kCinitStarted = 1, kCinitCompleted = 2, kCinitInvalid = 3 };

// Datastore (spec/driver-ioctl.md 3.9; spec/ndl-api.md 6.2).
constexpr uint32_t kDatastoreSize = 256 * 1024;
constexpr uint32_t kDsDeviceCounters = 8;
constexpr uint32_t kDsNcCounters = 256;
constexpr uint32_t kDsObjects = 1248;
constexpr uint32_t kDsExtNcCounters = 55936;
constexpr uint32_t kDsExtNcData = 57984;
constexpr uint32_t kDsEnd = 67200;
constexpr uint32_t kDsBaseCounters = 31;  // ids in the first section
constexpr uint32_t kDsExtCounters = 64;   // ids 31..94
constexpr uint32_t kDsTotalCounters = 95;
constexpr uint32_t kDsExtNcStride = 96;  // words per NC 4..15
constexpr uint32_t kDsInvalidOffset = ~0u;

// Byte offset of counter `id` of NC `nc` in a datastore slot, or kDsInvalidOffset.
constexpr uint32_t ds_nc_counter_offset(uint32_t nc, uint32_t id) {
  if (nc >= 16 || id >= kDsTotalCounters) return kDsInvalidOffset;
  if (nc >= 4) return kDsExtNcData + (kDsExtNcStride * (nc - 4) + id) * 8;
  if (id < kDsBaseCounters) return kDsNcCounters + (kDsBaseCounters * nc + id) * 8;
  return kDsExtNcCounters + (kDsExtCounters * nc + id - kDsBaseCounters) * 8;
}
static_assert(ds_nc_counter_offset(3, 30) + 8 == kDsObjects, "spec/driver-ioctl.md 3.9");
static_assert(ds_nc_counter_offset(3, 94) + 8 == kDsExtNcData, "spec/driver-ioctl.md 3.9");
static_assert(ds_nc_counter_offset(15, 94) + 16 == kDsEnd, "spec/driver-ioctl.md 3.9");

}  // namespace driver::uapi
