// Dispatch, gates, identity and registers: spec/driver-ioctl.md 2, 3.1, 3.2, 3.6, 3.16 - 3.19.
#include "tests/driver_kernel/driver_bench.h"

namespace driver_test {
namespace {

constexpr int32_t kMe = DriverBench::kTgid;
constexpr int32_t kOther = 200;
constexpr uint64_t kBadPointer = 8;  // never accessible

TEST_F(Ioctl, UnknownRequestsAreRefusedAndCounted) {
  uint32_t word = 0;
  EXPECT_EQ(bench.ioctl(file, uapi::ior(9, 4), word), -EINVAL);
  EXPECT_EQ(bench.ioctl(file, uapi::ior(9, 4), word), -EINVAL);
  EXPECT_EQ(bench.ioctl(file, uapi::kHostMemPin, word), -EINVAL) << "added after the baseline";
  EXPECT_EQ(bench.ioctl(file, uapi::ior(23, 36), word), -EINVAL) << "no such variant";
  EXPECT_EQ(bench.ioctl(file, uapi::iowr(124, 64), word), -EINVAL);
  EXPECT_EQ(bench.driver().counters().unknown_ioctls.at(uapi::ior(9, 4)), 2u);
  EXPECT_EQ(bench.ioctl(file, uapi::kDmaQuiesceQueues, word), -ENOTTY);
  EXPECT_EQ(bench.ioctl(file, uapi::kNotificationsQueueInfo, word), -EPERM);
  EXPECT_EQ(bench.ioctl(file, uapi::kDmaEngInit, word), 0);
  EXPECT_EQ(bench.ioctl(777, uapi::kDeviceInfo, word), -EBADF);
}

TEST_F(Ioctl, BadPointersFault) {
  for (const uint32_t request :
       {uapi::kDeviceInfo, uapi::kMemAllocV2Mt64, uapi::kMemCopy64, uapi::kMemBufCopy64,
        uapi::kDmaCopyDescriptors64, uapi::kNotificationsInitV2, uapi::kCrwlWriterEnter,
        uapi::kSemaphoreRead, uapi::kBarRead, uapi::kNcReset, uapi::kPodStatusV2}) {
    EXPECT_EQ(bench.ioctl_at(file, request, kBadPointer), -EFAULT) << std::hex << request;
  }
  const uint64_t before = bench.driver().device(0)->memory().stats().nc[0].device.total;
  uapi::mem_alloc_v2_mem_type64 alloc{};
  alloc.size = 4096;
  alloc.mem_handle = kBadPointer;
  EXPECT_EQ(bench.ioctl(file, uapi::kMemAllocV2Mt64, alloc), -EFAULT);
  EXPECT_EQ(bench.driver().device(0)->memory().stats().nc[0].device.total, before);
}

TEST_F(Ioctl, ForkedChildIsNotAttached) {
  uapi::mem_free request{1};
  EXPECT_EQ(bench.ioctl(file, uapi::kMemFree, request, kOther), -EACCES);
  EXPECT_EQ(bench.alloc(file, 4096, false, 0, 0, 0, 0, kOther), 0u);
  EXPECT_EQ(bench.last_alloc_error, -EACCES);
  // Ungated requests go on: the 64-bit copy, for one.
  const uint64_t handle = bench.alloc(file, 4096, false);
  uint32_t value = 5;
  EXPECT_EQ(bench.buf_copy(file, handle, &value, 4, 0, true, kOther), 0);
  uapi::mem_copy legacy{handle, handle, 4, 0, 8};
  EXPECT_EQ(bench.ioctl(file, uapi::kMemCopy, legacy, kOther), -EACCES);
}

TEST_F(Ioctl, SeventeenthProcessIsBusy) {
  std::vector<int> files;
  for (int32_t tgid = 1000; tgid < 1015; ++tgid) {
    files.push_back(bench.open(tgid));
    EXPECT_GT(files.back(), 0);
  }
  EXPECT_EQ(bench.open(2000), -EBUSY);
  EXPECT_GT(bench.open(kMe), 0) << "an attached process may open again";
  bench.close(files[3], 1003);
  EXPECT_GT(bench.open(2000), 0);
  EXPECT_EQ(bench.open(kMe, O_RDWR, 5), -ENODEV);
}

TEST_F(Ioctl, FreeAccessFileTakesOnlyTheMiscSet) {
  const int free_file = bench.open(kOther, O_WRONLY);
  ASSERT_GT(free_file, 0);
  EXPECT_EQ(bench.driver().device(0)->process(kOther), nullptr);
  uapi::compatible_version version{};
  EXPECT_EQ(bench.ioctl(free_file, uapi::kCompatibleVersion, version, kOther), 0);
  EXPECT_EQ(version.min, 5u);
  EXPECT_EQ(version.max, 7u);
  uapi::device_basic_info info{};
  EXPECT_EQ(bench.ioctl(free_file, uapi::kDeviceBasicInfo, info, kOther), 0);
  EXPECT_EQ(info.architecture, 2u);
  uapi::device_info full{};
  EXPECT_EQ(bench.ioctl(free_file, uapi::kDeviceInfo, full, kOther), -EINVAL);
  const auto mapped = bench.mmap(free_file, 0xfffd0000000, 0x2000, false, kOther);
  ASSERT_FALSE(mapped);
  EXPECT_EQ(mapped.error().code, EACCES);
}

TEST_F(Ioctl, DriverInfo) {
  uapi::device_driver_info info{};
  ASSERT_EQ(bench.ioctl(file, uapi::kDriverInfoGet, info), 0);
  EXPECT_EQ(info.size, 24u);
  EXPECT_EQ(info.feature_flags1, 0x1ffu);
  EXPECT_EQ(bench.ioctl(file, uapi::ior(110, 16), info), -EINVAL);
  EXPECT_EQ(bench.ioctl(file, uapi::kDriverInfoSet, info), -524);
  EXPECT_EQ(bench.ioctl(file, uapi::kDriverInfoSet, info, kOther), -EACCES);
}

TEST_F(Ioctl, BarAccessAndItsBlockList) {
  uapi::device_info info{};
  ASSERT_EQ(bench.ioctl(file, uapi::kDeviceInfo, info), 0);
  const uint64_t base = info.bar_address[0];
  std::vector<uint64_t> addresses{base + 0x2701400 + 4 * 9, base + 0x30001034};
  std::vector<uint32_t> values{17, 3};
  uapi::bar_rw request{0, reinterpret_cast<uint64_t>(addresses.data()),
                       reinterpret_cast<uint64_t>(values.data()), 2};
  ASSERT_EQ(bench.ioctl(file, uapi::kBarWrite, request), 0);
  uapi::semaphore semaphore{0, 9, 0};
  ASSERT_EQ(bench.ioctl(file, uapi::kSemaphoreRead, semaphore), 0);
  EXPECT_EQ(semaphore.value, 17u);
  // Ring bases, completion base, doorbells (the last of engine 33, queue 15) and mailbox words.
  for (const uint64_t blocked :
       {0x30001028ull, 0x3000102cull, 0x30001038ull, 0x30001044ull, 0x30030048ull, 0x30d30038ull,
        0x30fa01f0ull, 0x30fa01fcull, 0x30fa0800ull}) {
    // Entry 1 is refused, entry 0 stays in effect.
    addresses = {base + 0x2701800 + 4 * 9, base + blocked};
    values = {1, 0};
    EXPECT_EQ(bench.ioctl(file, uapi::kBarWrite, request), -EINVAL) << std::hex << blocked;
  }
  ASSERT_EQ(bench.ioctl(file, uapi::kSemaphoreRead, semaphore), 0);
  EXPECT_EQ(semaphore.value, 26u);
  addresses = {base + 0x2701000 + 4 * 9, base + 0x30fa0024};
  ASSERT_EQ(bench.ioctl(file, uapi::kBarRead, request), 0);
  EXPECT_EQ(values[0], 26u);
  addresses[1] = base + (1ull << 30);
  EXPECT_EQ(bench.ioctl(file, uapi::kBarRead, request), -EINVAL);
  addresses[1] = base - 4;
  EXPECT_EQ(bench.ioctl(file, uapi::kBarRead, request), -EINVAL);
  request.bar = 4;
  EXPECT_EQ(bench.ioctl(file, uapi::kBarRead, request), -EINVAL);
  EXPECT_EQ(bench.ioctl(file, uapi::kBarWrite, request), -EINVAL);
  request.bar = 0;
  request.count = 101;
  EXPECT_EQ(bench.ioctl(file, uapi::kBarRead, request), -EINVAL);
  EXPECT_EQ(bench.ioctl(file, uapi::kBarWrite, request, kOther), -EACCES);
  // The kernel finds no memory for more addresses than 4 MiB hold; as many are looked at.
  request.count = (4u << 20) / sizeof(uint64_t);
  request.address = kBadPointer;
  EXPECT_EQ(bench.ioctl(file, uapi::kBarWrite, request), -EFAULT);
  ++request.count;
  EXPECT_EQ(bench.ioctl(file, uapi::kBarWrite, request), -ENOMEM);
}

TEST_F(Ioctl, SemaphoresAndEvents) {
  uapi::semaphore semaphore{1, 255, 40};
  ASSERT_EQ(bench.ioctl(file, uapi::kSemaphoreWrite, semaphore), 0);
  semaphore.value = 5;
  ASSERT_EQ(bench.ioctl(file, uapi::kSemaphoreIncrement, semaphore), 0);
  semaphore.value = 50;
  ASSERT_EQ(bench.ioctl(file, uapi::kSemaphoreDecrement, semaphore), 0);
  ASSERT_EQ(bench.ioctl(file, uapi::kSemaphoreRead, semaphore), 0);
  EXPECT_EQ(static_cast<int32_t>(semaphore.value), -5);
  semaphore.semaphore_index = 256;
  EXPECT_EQ(bench.ioctl(file, uapi::kSemaphoreRead, semaphore), -EINVAL);
  semaphore = {2, 0, 0};
  EXPECT_EQ(bench.ioctl(file, uapi::kSemaphoreRead, semaphore), -E2BIG);
  uapi::event event{1, 256, 1};
  bench.fake().log().clear();
  EXPECT_EQ(bench.ioctl(file, uapi::kEventSet, event), 0) << "one beyond the last is accepted";
  EXPECT_EQ(bench.fake().log().back().address, 0x6700400u);
  event.event_index = 257;
  EXPECT_EQ(bench.ioctl(file, uapi::kEventSet, event), -EINVAL);
  event = {2, 0, 0};
  EXPECT_EQ(bench.ioctl(file, uapi::kEventGet, event), -E2BIG);
}

TEST(IoctlV3, NcMapAndVersions) {
  BenchOptions options;
  options.device_id = kTrn2;
  DriverBench bench(options);
  bench.start();
  const int file = bench.open(kMe, O_WRONLY);
  struct {
    uint32_t count = 0;
    uapi::nc_map_entry entries[128] = {};
  } map;
  uapi::get_logical_to_physical_nc_map request{address_of(map), 128, 0};
  ASSERT_EQ(bench.ioctl(file, uapi::kGetLogicalToPhysicalNcMap, request), 0);
  EXPECT_EQ(map.count, 128u);
  EXPECT_EQ(map.entries[0].device_nc_idx, 4u);
  EXPECT_EQ(map.entries[8 * 5 + 3].device_id, 5u);
  EXPECT_EQ(map.entries[8 * 5 + 3].device_nc_idx, 5u);
  request.max_map_entries = 129;
  EXPECT_EQ(bench.ioctl(file, uapi::kGetLogicalToPhysicalNcMap, request), -EINVAL);
  uapi::compatible_version version{};
  ASSERT_EQ(bench.ioctl(file, uapi::kCompatibleVersion, version), 0);
  EXPECT_EQ(version.min, 10u);
  EXPECT_EQ(version.max, 11u);

  DriverBench v2;
  v2.start();
  const int other = v2.open(kMe, O_WRONLY);
  EXPECT_EQ(v2.ioctl(other, uapi::kGetLogicalToPhysicalNcMap, request), -524);
}

TEST_F(Ioctl, PodFirmwareAndDiagnostics) {
  uapi::pod_info info{};
  EXPECT_EQ(bench.ioctl(file, uapi::kPodInfo, info), -EINVAL) << "sz is checked";
  info.sz = 260;
  EXPECT_EQ(bench.ioctl(file, uapi::kPodInfo, info), 0);
  EXPECT_EQ(info.pod_sz, 0);
  uapi::pod_status_v2 status{};
  status.v1.sz = 276;
  EXPECT_EQ(bench.ioctl(file, uapi::kPodStatusV2, status), 0);
  EXPECT_EQ(status.v1.state, 4u);
  EXPECT_EQ(status.v1.node_id, -1);
  std::vector<uint64_t> addresses{0x0FFFF0FA0024, 0x0FFFF0FA0038};
  std::vector<uint32_t> values(2);
  uapi::read_hw_counters counters{reinterpret_cast<uint64_t>(addresses.data()),
                                  reinterpret_cast<uint64_t>(values.data()), 2};
  ASSERT_EQ(bench.ioctl(file, uapi::kReadHwCounters, counters), 0);
  EXPECT_EQ(values[1], 0xF0FA0038u);
  counters.count = 8191;
  EXPECT_EQ(bench.ioctl(file, uapi::kReadHwCounters, counters), -EINVAL);
  char blob[129] = "x";
  uapi::post_metric metric{address_of(blob), 129};
  EXPECT_EQ(bench.ioctl(file, uapi::kPostMetric, metric), -E2BIG);
  metric.data_size = 5;
  EXPECT_EQ(bench.ioctl(file, uapi::kPostMetric, metric), 0);
  uapi::power_profile power{8, 0, 1};
  EXPECT_EQ(bench.ioctl(file, uapi::kPowerProfile, power), 0);
  power.sz = 4;
  EXPECT_EQ(bench.ioctl(file, uapi::kPowerProfile, power), -ENXIO);
  uapi::throttling_notifications throttle{1};
  EXPECT_EQ(bench.ioctl(file, uapi::kThrottlingNotifications, throttle), -524) << "old firmware";
  char text[] = "hello";
  uapi::printk print{address_of(text), 5, 0};
  EXPECT_EQ(bench.ioctl(file, uapi::kPrintk, print), -EBADMSG);
  print.size = 6;
  EXPECT_EQ(bench.ioctl(file, uapi::kPrintk, print), 0);
  print.size = 513;
  EXPECT_EQ(bench.ioctl(file, uapi::kPrintk, print), -EFAULT);
  uapi::dmabuf_fd dmabuf{};
  EXPECT_EQ(bench.ioctl(file, uapi::kDmabufFd, dmabuf), -EPROTONOSUPPORT);
  EXPECT_EQ(bench.driver().counters().unsupported.count(
                "ioctl DMABUF_FD: EPROTONOSUPPORT, no dma-buf export"),
            1u);
}

TEST_F(Ioctl, DeadMailboxFailsAfterThirtyAttempts) {
  bench.fake().firmware_dead = true;
  uint64_t address = 0x0FFFF0FA0024;
  uint32_t value = 0;
  uapi::read_hw_counters counters{address_of(address), address_of(value), 1};
  const base::Ps start = bench.executor.now();
  EXPECT_EQ(bench.ioctl(file, uapi::kReadHwCounters, counters), -EPERM);
  EXPECT_EQ(bench.executor.now() - start, 30 * base::kPsPerS);
}

}  // namespace
}  // namespace driver_test
