// Request numbers of /dev/neuronN: spec/driver-ioctl.md 2.1. Two names may share a number (variants
// are told apart by the encoded size, 2.2); the direction bits carry no meaning, only equality
// does. Baseline 2.26.5.0; later additions carry the release in their comment.
#pragma once

#include <cstdint>

namespace driver::uapi {

constexpr uint32_t kIoctlType = 0x4e;  // 'N'

constexpr uint32_t encode_request(uint32_t direction, uint32_t number, uint32_t size) {
  return direction << 30 | size << 16 | kIoctlType << 8 | number;
}
constexpr uint32_t request_number(uint32_t request) {
  return request & 0xff;
}
constexpr uint32_t request_type(uint32_t request) {
  return request >> 8 & 0xff;
}
constexpr uint32_t request_size(uint32_t request) {
  return request >> 16 & 0x3fff;
}
constexpr uint32_t request_direction(uint32_t request) {
  return request >> 30;
}

constexpr uint32_t kDirNone = 0;
constexpr uint32_t kDirWrite = 1;
constexpr uint32_t kDirRead = 2;
constexpr uint32_t kDirBoth = 3;

constexpr uint32_t io(uint32_t number) {
  return encode_request(kDirNone, number, 0);
}
constexpr uint32_t ior(uint32_t number, uint32_t size) {
  return encode_request(kDirRead, number, size);
}
constexpr uint32_t iow(uint32_t number, uint32_t size) {
  return encode_request(kDirWrite, number, size);
}
constexpr uint32_t iowr(uint32_t number, uint32_t size) {
  return encode_request(kDirBoth, number, size);
}

// Identity, discovery
constexpr uint32_t kDeviceReset = io(1);
constexpr uint32_t kDeviceReady = ior(2, 1);
constexpr uint32_t kDeviceInfo = ior(3, 8);
constexpr uint32_t kDeviceInit = ior(4, 8);
constexpr uint32_t kDeviceRelease = io(5);
constexpr uint32_t kDeviceAppPid = ior(6, 4);
constexpr uint32_t kDeviceGetAllAppsInfo = ior(7, 8);
// Registers, firmware
constexpr uint32_t kBarRead = ior(11, 8);
constexpr uint32_t kBarWrite = iow(12, 8);
constexpr uint32_t kPostMetric = iow(13, 8);
// Memory
constexpr uint32_t kMemAlloc = ior(21, 8);
constexpr uint32_t kMemFree = ior(22, 8);
constexpr uint32_t kMemCopy = ior(23, 8);
constexpr uint32_t kMemCopy64 = ior(23, 40);
constexpr uint32_t kMemCopy64Seq = ior(23, 56);  // 2.30
constexpr uint32_t kMemBufCopy = iowr(24, 8);
constexpr uint32_t kMemBufCopy64 = iowr(24, 40);
constexpr uint32_t kMemGetPa = ior(25, 8);
constexpr uint32_t kMemGetInfo = ior(26, 8);
constexpr uint32_t kProgramEngine = iowr(27, 8);
constexpr uint32_t kMemset = ior(28, 8);
constexpr uint32_t kMemset64 = ior(28, 32);
constexpr uint32_t kMemGetExtendedInfo = ior(29, 8);
// DMA
constexpr uint32_t kDmaEngInit = ior(30, 8);
constexpr uint32_t kDmaEngSetState = ior(31, 8);
constexpr uint32_t kDmaEngGetState = iowr(32, 8);
constexpr uint32_t kDmaQueueInit = ior(33, 8);
constexpr uint32_t kDmaQueueRelease = ior(34, 8);
constexpr uint32_t kDmaQueueCopyStart = ior(35, 8);
constexpr uint32_t kDmaAckCompleted = ior(36, 8);
constexpr uint32_t kDmaQueueGetState = iowr(37, 8);
constexpr uint32_t kDmaCopyDescriptors = ior(38, 8);
constexpr uint32_t kDmaCopyDescriptors64 = ior(38, 40);
constexpr uint32_t kDmaDescriptorCopyout = iowr(39, 8);
constexpr uint32_t kDmaQuiesceQueues = ior(40, 8);
// Semaphores, events, notifications
constexpr uint32_t kSemaphoreIncrement = ior(41, 8);
constexpr uint32_t kSemaphoreDecrement = ior(42, 8);
constexpr uint32_t kSemaphoreRead = iowr(43, 8);
constexpr uint32_t kSemaphoreWrite = ior(44, 8);
constexpr uint32_t kEventSet = ior(45, 8);
constexpr uint32_t kEventGet = iowr(46, 8);
constexpr uint32_t kNotificationsInitV1 = ior(51, 8);
constexpr uint32_t kNotificationsDestroyV1 = ior(52, 8);
constexpr uint32_t kNotificationsInitV2 = ior(53, 8);
constexpr uint32_t kNotificationsInitWithReallocV2 = ior(54, 8);
constexpr uint32_t kNotificationsQueueInfo = ior(58, 8);
constexpr uint32_t kReadHwCounters = ior(61, 8);
// Datastore, locks, core state
constexpr uint32_t kAcquireNeuronDs = ior(71, 8);
constexpr uint32_t kReleaseNeuronDs = ior(72, 8);
constexpr uint32_t kCrwlReaderEnter = iow(81, 8);
constexpr uint32_t kCrwlReaderExit = iow(82, 8);
constexpr uint32_t kCrwlWriterEnter = iow(83, 8);
constexpr uint32_t kCrwlWriterDowngrade = iow(84, 8);
constexpr uint32_t kCrwlNcRangeMark = iow(85, 8);
constexpr uint32_t kCrwlNcRangeMarkExt0 = iowr(85, 80);
constexpr uint32_t kCrwlNcRangeUnmark = iow(86, 8);
constexpr uint32_t kCrwlNcRangeUnmarkExt0 = iow(86, 80);
constexpr uint32_t kCinitSetState = iow(91, 8);
constexpr uint32_t kNcModelStartedCount = iow(92, 8);
constexpr uint32_t kCompatibleVersion = iow(93, 8);
constexpr uint32_t kDeviceBasicInfo = iow(100, 8);
constexpr uint32_t kDeviceBdf = ior(101, 8);
constexpr uint32_t kMemAllocV2 = ior(102, 8);
constexpr uint32_t kMemAllocV2Mt = ior(102, 48);
constexpr uint32_t kMemAllocV2Mt64 = ior(102, 56);
constexpr uint32_t kMemAllocV2Mt64Pa = iowr(102, 64);  // 2.30
constexpr uint32_t kNcReset = ior(103, 8);
constexpr uint32_t kNcResetReady = ior(104, 8);
constexpr uint32_t kProgramEngineNc = iowr(105, 8);
constexpr uint32_t kProgramEngineNc64 = iowr(105, 40);
constexpr uint32_t kDeviceResetStatus = ior(106, 1);
constexpr uint32_t kDeviceBdfExt = ior(106, 8);
constexpr uint32_t kDmabufFd = ior(107, 8);
constexpr uint32_t kMemCopyAsync = iowr(108, 48);
constexpr uint32_t kMemCopyAsync64 = iowr(108, 56);
constexpr uint32_t kMemCopyAsyncWait = iow(109, 24);
constexpr uint32_t kDriverInfoGet = ior(110, 24);
constexpr uint32_t kDriverInfoSet = iow(110, 24);
constexpr uint32_t kMemMcGetInfo = iowr(111, 24);
constexpr uint32_t kMemMcGetInfoV2 = iowr(111, 32);
constexpr uint32_t kResourceMmapInfo = iowr(112, 32);
constexpr uint32_t kPrintk = iow(113, 16);
constexpr uint32_t kHostDeviceId = ior(114, 4);
constexpr uint32_t kHostDeviceIdToRidMap = iowr(115, 260);
constexpr uint32_t kDumpMemChunks = ior(116, 8);
constexpr uint32_t kNcPidStateDump = iowr(117, 16);
constexpr uint32_t kHbmScrubStart = iowr(118, 16);
constexpr uint32_t kHbmScrubWait = iowr(119, 8);
constexpr uint32_t kGetLogicalToPhysicalNcMap = iowr(120, 16);
constexpr uint32_t kPodInfo = iowr(121, 260);
constexpr uint32_t kPodStatus = iowr(122, 268);
constexpr uint32_t kPodStatusV2 = iowr(122, 276);
constexpr uint32_t kPodCtrl = iowr(123, 16);
constexpr uint32_t kPodCtrlV2 = iowr(123, 20);
constexpr uint32_t kMemBufZerocopy64 = iowr(124, 48);  // the one size of 2.25-2.28
constexpr uint32_t kH2tDmaAllocQueues = iowr(125, 20);
constexpr uint32_t kH2tDmaFreeQueues = iowr(126, 8);
constexpr uint32_t kPowerProfile = iow(127, 8);
constexpr uint32_t kMetricsCtrl = iow(128, 4);
constexpr uint32_t kMemBufZerocopy64Batches = iowr(129, 32);
constexpr uint32_t kThrottlingNotifications = iow(130, 4);
constexpr uint32_t kGetVaPlacement = iow(131, 16);
constexpr uint32_t kDmaQueueInitBatch = ior(133, 12296);
// Added after the baseline, by release 2.30
constexpr uint32_t kGetPerformanceProfile = iowr(132, 8);
constexpr uint32_t kAvailablePerfProfiles = iowr(134, 36);
constexpr uint32_t kGetAsyncH2tDmaComplQueues = iowr(135, 264);
constexpr uint32_t kHostMemPin = iowr(136, 24);
constexpr uint32_t kHostMemUnpin = iow(137, 8);
constexpr uint32_t kDmabufFdV2 = ior(138, 8);
constexpr uint32_t kGetBarInfo = iowr(139, 200);

}  // namespace driver::uapi
