// Error behaviour and semantics of the ioctls: driver-ioctl.md 2, 3 and the list that ends
// section 8.
#include <set>

#include "driver/kernel/reset_manager.h"
#include "tests/driver_kernel/driver_bench.h"

namespace driver_test {
namespace {

constexpr int32_t kMe = DriverBench::kTgid;
constexpr int32_t kOther = 200;
constexpr uint64_t kBadPointer = 8;  // never accessible

class Ioctl : public ::testing::Test {
 protected:
  void SetUp() override {
    bench.start();
    file = bench.open(kMe);
    ASSERT_GT(file, 0);
  }
  DriverBench bench;
  int file = 0;
};

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
        uapi::kDmaQueueInitBatch, uapi::kNotificationsInitV2, uapi::kCrwlWriterEnter,
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

TEST_F(Ioctl, AllocationChecksInOrder) {
  EXPECT_EQ(bench.alloc(file, 4096, false, 2), 0u);
  EXPECT_EQ(bench.last_alloc_error, -EINVAL) << "no such HBM";
  EXPECT_EQ(bench.alloc(file, 4096, true, 2), 0u);
  EXPECT_EQ(bench.last_alloc_error, -EINVAL) << "also for host memory";
  EXPECT_EQ(bench.alloc(file, 4096, false, 0, 8), 0u);
  EXPECT_EQ(bench.last_alloc_error, -EINVAL);
  EXPECT_NE(bench.alloc(file, 4096, false, 0, 7), 0u) << "the bound is 8, not the core count";
  EXPECT_EQ(bench.alloc(file, 4096, true, 0, 0, 2, 64), 0u);
  EXPECT_EQ(bench.last_alloc_error, -EINVAL) << "host memory has no alignment";
  EXPECT_EQ(bench.alloc(file, 0, false), 0u);
  EXPECT_EQ(bench.last_alloc_error, -ENOMEM);
  EXPECT_EQ(bench.alloc(file, 17 * base::kGiB, false), 0u);
  EXPECT_EQ(bench.last_alloc_error, -ENOMEM);
  EXPECT_EQ(bench.alloc(file, ~0ull, false), 0u);
  EXPECT_EQ(bench.last_alloc_error, -EINVAL);
  EXPECT_EQ(bench.alloc(file, 4096, false, 0, 0, 9, 1ull << 31), 0u);
  EXPECT_EQ(bench.last_alloc_error, -EINVAL);
}

TEST_F(Ioctl, PlacementIsFirstFitFromTheSmallPool) {
  const uint64_t small_pool = 15 * base::kGiB;
  const uint64_t a = bench.alloc(file, 1, false);
  const uint64_t b = bench.alloc(file, 4097, false);
  EXPECT_EQ(a, 1u);
  EXPECT_EQ(bench.pa(file, a), small_pool);
  EXPECT_EQ(bench.pa(file, b), small_pool + 4096);
  const uint64_t large = bench.alloc(file, 512 * base::kKiB + 1, false, 1);
  EXPECT_EQ(bench.pa(file, large), 0x1000000000 + 16 * base::kMiB) << "behind the carve-out";
  const uint64_t aligned = bench.alloc(file, base::kMiB, false, 1, 0, 9, base::kMiB);
  EXPECT_EQ(bench.pa(file, aligned), 0x1000000000 + 17 * base::kMiB);
  const uint64_t scratch = bench.alloc(file, 8192, false, 0, 0, 19);
  EXPECT_EQ(bench.pa(file, scratch), small_pool - 8192);
  const uint64_t below = bench.alloc(file, 4096, false, 0, 0, 19);
  EXPECT_EQ(bench.pa(file, below), small_pool - 12288);
  // Access through the lower chunk may run to the end of the main pool.
  uint64_t value = 1;
  EXPECT_EQ(bench.buf_copy(file, below, &value, 8, 12280, true), 0);
  EXPECT_EQ(bench.buf_copy(file, below, &value, 8, 12281, true), -EINVAL);
}

TEST_F(Ioctl, HandlesAreReusedMostRecentFirst) {
  const uint64_t a = bench.alloc(file, 4096, false);
  const uint64_t b = bench.alloc(file, 4096, true);
  const uint64_t c = bench.alloc(file, 4096, false);
  EXPECT_EQ(c, 3u);
  uapi::mem_free request{a};
  EXPECT_EQ(bench.ioctl(file, uapi::kMemFree, request), 0);
  request.mem_handle = b;
  EXPECT_EQ(bench.ioctl(file, uapi::kMemFree, request), 0);
  EXPECT_EQ(bench.ioctl(file, uapi::kMemFree, request), -EINVAL);
  EXPECT_EQ(bench.alloc(file, 4096, true), b);
  EXPECT_EQ(bench.alloc(file, 4096, true), a);
  EXPECT_EQ(bench.alloc(file, 4096, true), 4u);
}

TEST_F(Ioctl, InformationAboutChunks) {
  const uint64_t handle = bench.alloc(file, 5000, true);
  const uint64_t pa = bench.pa(file, handle);
  EXPECT_EQ(pa >> 44, 1u) << "host window";
  uapi::mem_get_extended_info info{};
  info.mem_handle = handle;
  ASSERT_EQ(bench.ioctl(file, uapi::kMemGetExtendedInfo, info), 0);
  EXPECT_EQ(info.mem_handle, handle);
  EXPECT_EQ(info.size, 8192u);
  EXPECT_EQ(info.pid, 100u);
  EXPECT_EQ(info.host_memory, 1u);
  EXPECT_EQ(info.pa, pa);
  info.mem_handle = 99;
  EXPECT_EQ(bench.ioctl(file, uapi::kMemGetExtendedInfo, info), 22) << "positive";
  uapi::mem_get_mc_mmap_info_v2 mc{pa + 5000, 0, 0, 0};
  ASSERT_EQ(bench.ioctl(file, uapi::kMemMcGetInfoV2, mc), 0);
  EXPECT_EQ(mc.mmap_offset, pa);
  EXPECT_EQ(mc.mem_handle, handle);
  mc.pa = pa + 8192 + 0x40000000;
  EXPECT_EQ(bench.ioctl(file, uapi::kMemMcGetInfoV2, mc), -ENOMEM);
  // The firmware carve-out has no handle until one is asked for.
  uapi::mem_get_mc_mmap_info_v2 carve{4096, 0, 0, 0};
  ASSERT_EQ(bench.ioctl(file, uapi::kMemMcGetInfoV2, carve), 0);
  EXPECT_EQ(carve.size, 16 * base::kMiB);
  EXPECT_EQ(carve.mem_handle, 2u);
  uapi::mem_free release{carve.mem_handle};
  EXPECT_EQ(bench.ioctl(file, uapi::kMemFree, release), -EINVAL) << "not a client's to free";
  std::vector<uapi::mem_chunk_info> chunks(8);
  uapi::dump_mem_chunks dump{0, 0, 0, reinterpret_cast<uint64_t>(chunks.data())};
  EXPECT_EQ(bench.ioctl(file, uapi::kDumpMemChunks, dump), -EAGAIN);
  EXPECT_EQ(dump.num_entries_out, 1u);
  dump.num_entries_in = 8;
  ASSERT_EQ(bench.ioctl(file, uapi::kDumpMemChunks, dump), 0);
  EXPECT_EQ(chunks[0].mem_type, uapi::kMemNcdevDevice);
  uapi::mem_get_pa get{77, kBadPointer};
  EXPECT_EQ(bench.ioctl(file, uapi::kMemGetPa, get), -EINVAL);
  get.mem_handle = handle;
  EXPECT_EQ(bench.ioctl(file, uapi::kMemGetPa, get), -EFAULT);
}

TEST_F(Ioctl, CopiesAndFills) {
  const uint64_t a = bench.alloc(file, 200000, false);
  const uint64_t b = bench.alloc(file, 200000, false, 1, 1);
  const uint64_t h = bench.alloc(file, 200000, true);
  std::vector<uint8_t> data(199999);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 7 + i / 251);
  ASSERT_EQ(bench.buf_copy(file, a, data.data(), data.size(), 1, true), 0);
  uapi::mem_copy64 copy{a, b, data.size(), 1, 0};
  ASSERT_EQ(bench.ioctl(file, uapi::kMemCopy64, copy), 0);
  copy = {b, h, data.size(), 0, 1};
  ASSERT_EQ(bench.ioctl(file, uapi::kMemCopy64, copy), 0);
  std::vector<uint8_t> back(data.size());
  ASSERT_EQ(bench.buf_copy(file, h, back.data(), back.size(), 1, false), 0);
  EXPECT_EQ(back, data);
  copy.size = 200705;  // one byte beyond the rounded chunk
  EXPECT_EQ(bench.ioctl(file, uapi::kMemCopy64, copy), -EINVAL);
  copy = {b, 55, 1, 0, 0};
  EXPECT_EQ(bench.ioctl(file, uapi::kMemCopy64, copy), -EINVAL);
  copy = {b, h, 0, 0, 0};
  const uint64_t copies = bench.fake().copies;
  EXPECT_EQ(bench.ioctl(file, uapi::kMemCopy64, copy), 0) << "size 0 is a no-op";
  EXPECT_EQ(bench.fake().copies, copies);
  uapi::memset64 fill{b, 3, 0x1A5, 150001};
  ASSERT_EQ(bench.ioctl(file, uapi::kMemset64, fill), 0);
  ASSERT_EQ(bench.buf_copy(file, b, back.data(), back.size(), 0, false), 0);
  for (size_t i = 0; i < back.size(); ++i) {
    const uint8_t want = i < 3 || i >= 150004 ? data[i] : 0xA5;
    ASSERT_EQ(back[i], want) << i;
  }
  EXPECT_EQ(bench.fake().ring_id_errors, 0u);
}

TEST_F(Ioctl, LongCopyIsCutIntoBatches) {
  const uint64_t bytes = 2033 * 64 * base::kKiB;  // one descriptor more than a batch
  const uint64_t a = bench.alloc(file, bytes, false);
  const uint64_t b = bench.alloc(file, bytes, false, 1, 1);
  uapi::mem_copy64 copy{a, b, bytes, 0, 0};
  bench.fake().log().clear();
  ASSERT_EQ(bench.ioctl(file, uapi::kMemCopy64, copy), 0);
  ASSERT_EQ(bench.fake().log().size(), 4u);
  EXPECT_EQ(bench.fake().log()[0].value, 2033u);
  EXPECT_EQ(bench.fake().log()[0].address, 0x30D21038u) << "the destination's core";
  EXPECT_EQ(bench.fake().log()[2].value, 2u);
}

TEST_F(Ioctl, StalledEngineTimesOutAndTheQueueStartsAfresh) {
  const uint64_t handle = bench.alloc(file, 4096, false);
  uint32_t value = 7;
  bench.fake().engines_stalled = true;
  const base::Ps start = bench.executor.now();
  EXPECT_EQ(bench.buf_copy(file, handle, &value, 4, 0, true), -EPERM);
  // (400 - 1) x 100 us of polling after a first delay of 1 us (driver-ioctl.md 6.3).
  EXPECT_EQ(bench.executor.now() - start, base::us(1 + 39'900));
  EXPECT_EQ(bench.driver().counters().copy_timeouts, 1u);
  bench.fake().engines_stalled = false;
  EXPECT_EQ(bench.buf_copy(file, handle, &value, 4, 0, true), 0);
  EXPECT_EQ(bench.fake().ring_id_errors, 0u);
}

TEST_F(Ioctl, CopyOverAResetIsRetriedOnV2) {
  const uint64_t handle = bench.alloc(file, 4096, false);
  uint32_t value = 0x55AA;
  bench.fake().engines_stalled = true;
  int copied = DriverBench::kNotReturned;
  int reset_result = -1;
  uapi::mem_buf_copy64 request{handle, address_of(value), 4, 0, 1};
  bench.executor.spawn("copy", [&] {
    copied =
        bench.driver().ioctl(file, uapi::kMemBufCopy64, address_of(request), bench.caller(kMe));
  });
  bench.executor.spawn("reset", [&] {
    bench.executor.delay(base::us(50));
    bench.fake().engines_stalled = false;
    uapi::device_reset reset{1, 0};
    reset_result = bench.driver().ioctl(file, uapi::kNcReset, address_of(reset), bench.caller(kMe));
  });
  bench.executor.run();
  EXPECT_EQ(reset_result, 0);
  EXPECT_EQ(copied, 0);
  EXPECT_EQ(bench.driver().counters().copy_retries, 1u);
  EXPECT_EQ(base::load<uint32_t>(bench.fake().hbm(bench.pa(file, handle))), 0x55AAu);
}

TEST_F(Ioctl, AsynchronousCopies) {
  const uint64_t a = bench.alloc(file, 65536, true);
  const uint64_t b = bench.alloc(file, 65536, false);
  uapi::mem_copy_async64 copy{a, b, 65536, 0, 0, 0, uapi::kAsyncNone, 0};
  ASSERT_EQ(bench.ioctl(file, uapi::kMemCopyAsync64, copy), 0);
  EXPECT_EQ(copy.wait_handle, 1);
  copy.pwait_handle = 1;
  ASSERT_EQ(bench.ioctl(file, uapi::kMemCopyAsync64, copy), 0);
  EXPECT_EQ(copy.wait_handle, 2);
  uapi::mem_copy_async_wait wait{a, b, 1};
  EXPECT_EQ(bench.ioctl(file, uapi::kMemCopyAsyncWait, wait), -EINVAL) << "collected by the chain";
  wait.pwait_handle = 2;
  EXPECT_EQ(bench.ioctl(file, uapi::kMemCopyAsyncWait, wait), 0);
  EXPECT_EQ(bench.ioctl(file, uapi::kMemCopyAsyncWait, wait), -EINVAL);
  wait.pwait_handle = 3;
  EXPECT_EQ(bench.ioctl(file, uapi::kMemCopyAsyncWait, wait), -EINVAL);
  copy.pwait_handle = 4;
  EXPECT_EQ(bench.ioctl(file, uapi::kMemCopyAsync64, copy), -EINVAL);
  // A context that nobody collected does not block the next user of the ring.
  for (int i = 0; i < 5000; ++i) {
    copy.pwait_handle = uapi::kAsyncNone;
    ASSERT_EQ(bench.ioctl(file, uapi::kMemCopyAsync64, copy), 0) << i;
  }
  EXPECT_EQ(bench.fake().ring_id_errors, 0u);
  copy.pwait_handle = uapi::kAsyncSync;
  EXPECT_EQ(bench.ioctl(file, uapi::kMemCopyAsync64, copy), 0);
  EXPECT_EQ(copy.wait_handle, 0);
}

TEST_F(Ioctl, ProgramEngineStaysInItsWindows) {
  std::vector<uint8_t> image(300, 9);
  uapi::program_engine_nc64 program{0, 0xfffc2600000, reinterpret_cast<uint64_t>(image.data()), 100,
                                    200};
  ASSERT_EQ(bench.ioctl(file, uapi::kProgramEngineNc64, program), 0);
  ASSERT_EQ(bench.fake().copy_list.front(), (std::pair<uint64_t, uint32_t>{0xfffc26000c8, 100}));
  program.dst = 0xfffc0000000 + 0x8000000 - 299;
  EXPECT_EQ(bench.ioctl(file, uapi::kProgramEngineNc64, program), -ENOMEM);
  program.dst = 0x1000000;
  EXPECT_EQ(bench.ioctl(file, uapi::kProgramEngineNc64, program), -ENOMEM) << "v2: no HBM window";
  program.dst = 0xfffd0000000 - 200;
  program.nc_id = 8;
  EXPECT_EQ(bench.ioctl(file, uapi::kProgramEngineNc64, program), -ENOMEM);
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

TEST_F(Ioctl, QueueInitChecks) {
  const uint64_t ring = bench.alloc(file, 65536, false, 0, 0, uapi::kMemDmaRingsDevice);
  const auto init = [&](uint32_t engine, uint32_t queue, uint32_t tx, uint32_t rx,
                        uint64_t rxc = 0) {
    uapi::dma_queue_init request{engine, queue, tx, rx, ring, ring, rxc, 0};
    return bench.ioctl(file, uapi::kDmaQueueInit, request);
  };
  EXPECT_EQ(init(0, 0, 64, 64), 0);
  EXPECT_EQ(init(132, 0, 64, 64), -EINVAL);
  EXPECT_EQ(init(34, 0, 64, 64), -EINVAL);
  EXPECT_EQ(init(0, 16, 64, 64), -EINVAL);
  EXPECT_EQ(init(32, 0, 64, 64), -EALREADY);
  EXPECT_EQ(init(33, 1, 64, 64), 0) << "other queues of a host engine are free";
  EXPECT_EQ(init(0, 0, 40, 64), -EPERM);
  EXPECT_EQ(init(0, 0, 16, 64), -EINVAL);
  EXPECT_EQ(init(0, 0, 64, 1u << 24), -EINVAL);
  EXPECT_EQ(init(0, 0, 64, 64, ring), -EPERM) << "no completion rings";
  EXPECT_EQ(init(0, 0, 64, 65536, ring), -EINVAL);
  auto batch = std::make_unique<uapi::dma_queue_init_batch>();
  batch->count = 256;
  EXPECT_EQ(bench.ioctl(file, uapi::kDmaQueueInitBatch, *batch), -E2BIG);
  batch->count = 3;
  batch->entries[0] = {5, 1, 32, 32, 0, 0, 0, 0};
  batch->entries[1] = {5, 2, 31, 32, 0, 0, 0, 0};
  batch->entries[2] = {5, 3, 32, 32, 0, 0, 0, 0};
  EXPECT_EQ(bench.ioctl(file, uapi::kDmaQueueInitBatch, *batch), -EPERM);
  driver::DmaEngines& engines = bench.driver().device(0)->engines();
  EXPECT_EQ(engines.queue(5, 1).tx_length, 32u);
  EXPECT_EQ(engines.queue(5, 3).tx_length, 0u) << "stops at the first failure";
  EXPECT_EQ(engines.queue(5, 2).owner, kMe) << "recorded all the same";

  uapi::dma_queue_copy_start start{0, 0, 64, 65};
  EXPECT_EQ(bench.ioctl(file, uapi::kDmaQueueCopyStart, start), -EPERM);
  start = {0, 0, 1, 0};
  EXPECT_EQ(bench.ioctl(file, uapi::kDmaQueueCopyStart, start), -EPERM);
  start = {0, 7, 1, 1};
  EXPECT_EQ(bench.ioctl(file, uapi::kDmaQueueCopyStart, start), -EPERM) << "never initialised";
  start = {200, 0, 1, 1};
  EXPECT_EQ(bench.ioctl(file, uapi::kDmaQueueCopyStart, start), -EINVAL);
  bench.fake().engines_stalled = true;
  bench.fake().log().clear();
  start = {5, 1, 0, 3};
  EXPECT_EQ(bench.ioctl(file, uapi::kDmaQueueCopyStart, start), 0);
  ASSERT_EQ(bench.fake().log().size(), 1u) << "prefetch of RX only";
  EXPECT_EQ(bench.fake().log()[0].address, 0x30140000u + 0x22038);
}

TEST_F(Ioctl, ClientRingMovesData) {
  const uint64_t ring = bench.alloc(file, 4096, false, 0, 0, uapi::kMemDmaRingsDevice);
  const uint64_t host_ring = bench.alloc(file, 4096, true, 0, 0, uapi::kMemDmaRingsHost);
  const uint64_t data = bench.alloc(file, 8192, false);
  uint64_t value = 0x0123456789abcdef;
  ASSERT_EQ(bench.buf_copy(file, data, &value, 8, 0, true), 0);
  const uint64_t pa = bench.pa(file, data);
  contract::Descriptor tx = contract::desc::tx_copy(pa, 8, 1);
  contract::Descriptor rx = contract::desc::rx(pa + 4096, 8, 1);
  uapi::dma_copy_descriptors64 put{host_ring, address_of(tx), 1, 0, uapi::kQueueTx};
  ASSERT_EQ(bench.ioctl(file, uapi::kDmaCopyDescriptors64, put), 0);
  put = {ring, address_of(rx), 1, 0, uapi::kQueueRx};
  ASSERT_EQ(bench.ioctl(file, uapi::kDmaCopyDescriptors64, put), 0);
  uapi::dma_queue_init init{8, 3, 32, 32, host_ring, ring, 0, 0};
  ASSERT_EQ(bench.ioctl(file, uapi::kDmaQueueInit, init), 0);
  uapi::dma_queue_copy_start start{8, 3, 1, 1};
  ASSERT_EQ(bench.ioctl(file, uapi::kDmaQueueCopyStart, start), 0);
  EXPECT_EQ(base::load<uint64_t>(bench.fake().hbm(pa + 4096)), value);
  contract::Descriptor out[2] = {};
  uapi::dma_descriptor_copyout copyout{8, 3, 1, 0, 1, reinterpret_cast<uint64_t>(out)};
  ASSERT_EQ(bench.ioctl(file, uapi::kDmaDescriptorCopyout, copyout), 0);
  EXPECT_EQ(out[0].address, pa + 4096);
  copyout.count = 33;
  EXPECT_EQ(bench.ioctl(file, uapi::kDmaDescriptorCopyout, copyout), -EFBIG);
  copyout.count = 0;
  EXPECT_EQ(bench.ioctl(file, uapi::kDmaDescriptorCopyout, copyout), -EINVAL);
  uapi::dma_queue_state states[2] = {};
  uapi::dma_queue_get_state get{8, 3, address_of(states[0]), address_of(states[1])};
  ASSERT_EQ(bench.ioctl(file, uapi::kDmaQueueGetState, get), 0);
  EXPECT_EQ(states[0].base_addr, bench.pa(file, host_ring));
  EXPECT_EQ(states[1].length, 32u);
  EXPECT_EQ(states[1].sw_status, uapi::kQueueEnabled);
  uapi::dma_eng_state state{};
  uapi::dma_eng_get_state engine{8, address_of(state)};
  ASSERT_EQ(bench.ioctl(file, uapi::kDmaEngGetState, engine), 0);
  EXPECT_EQ(state.tx_state, uapi::kDmaIdle);
  EXPECT_EQ(state.num_queues, 16u);
  uapi::dma_eng_set_state set{8, uapi::kDmaNormal};
  bench.fake().log().clear();
  ASSERT_EQ(bench.ioctl(file, uapi::kDmaEngSetState, set), 0);
  ASSERT_EQ(bench.fake().log().size(), 2u);
  EXPECT_EQ(bench.fake().log()[1].address, 0x30220204u);
  EXPECT_EQ(bench.fake().log()[1].value, 1u);
}

TEST_F(Ioctl, DescriptorsMayNameOnlyTrackedHostMemory) {
  const uint64_t ring = bench.alloc(file, 128 * base::kKiB, true);
  const uint64_t host = bench.alloc(file, 4096, true);
  const uint64_t pa = bench.pa(file, host);
  std::vector<contract::Descriptor> many(4098, contract::desc::tx_copy(0x1000000, 4, 1));
  many[4097] = contract::desc::tx_copy(pa, 4, 1);
  uapi::dma_copy_descriptors64 put{ring, reinterpret_cast<uint64_t>(many.data()), 4098, 0,
                                   uapi::kQueueTx};
  EXPECT_EQ(bench.ioctl(file, uapi::kDmaCopyDescriptors64, put), 0);
  many[4097].address = pa + (1ull << 40);
  many[0].w0 = 0x77;
  EXPECT_EQ(bench.ioctl(file, uapi::kDmaCopyDescriptors64, put), -EINVAL);
  uint32_t first = 0;
  ASSERT_EQ(bench.buf_copy(file, ring, &first, 4, 0, false), 0);
  EXPECT_EQ(first, 0x77u) << "the block before the refused one is stored";
  put.queue_type = 2;
  EXPECT_EQ(bench.ioctl(file, uapi::kDmaCopyDescriptors64, put), -EPERM);
  put.queue_type = 0;
  put.offset = 128 * base::kKiB - 16;
  EXPECT_EQ(bench.ioctl(file, uapi::kDmaCopyDescriptors64, put), -EINVAL);
}

TEST_F(Ioctl, NotificationQueuesAreReusedIgnoringTheSize) {
  uapi::notifications_init_with_realloc_v2 nq{};
  nq.nq_type = uapi::kNqNotify;
  nq.engine_index = 3;
  nq.size = 8192;
  nq.on_host_memory = 1;
  bench.fake().log().clear();
  ASSERT_EQ(bench.ioctl(file, uapi::kNotificationsInitWithReallocV2, nq), 0);
  // Set 3 of the NC block, base high, base low, size.
  ASSERT_EQ(bench.fake().log().size(), 3u);
  EXPECT_EQ(bench.fake().log()[0].address, 0x3053517Cu);
  EXPECT_EQ(bench.fake().log()[1].address, 0x30535178u);
  EXPECT_EQ(bench.fake().log()[2].address, 0x30535180u);
  EXPECT_EQ(bench.fake().log()[2].value, 8192u);
  const uint64_t offset = nq.mmap_offset;
  nq.size = 65536;
  nq.on_host_memory = 0;
  ASSERT_EQ(bench.ioctl(file, uapi::kNotificationsInitWithReallocV2, nq), 0);
  EXPECT_EQ(nq.mmap_offset, offset);
  EXPECT_EQ(bench.fake().log().size(), 3u) << "registers untouched";
  nq.force_alloc_mem = 1;
  ASSERT_EQ(bench.ioctl(file, uapi::kNotificationsInitWithReallocV2, nq), 0);
  EXPECT_EQ(nq.mmap_offset, ~0ull);
  EXPECT_EQ(bench.pa(file, nq.mem_handle) % 65536, 0u) << "device rings are aligned to their size";
  nq.size = 24;
  EXPECT_EQ(bench.ioctl(file, uapi::kNotificationsInitWithReallocV2, nq), -EINVAL);
  nq.size = 4096;
  nq.nq_dev_type = 2;
  EXPECT_EQ(bench.ioctl(file, uapi::kNotificationsInitWithReallocV2, nq), -ENOSYS);
  nq.nq_dev_type = uapi::kNqDevTopsp;
  nq.nq_dev_id = 6;
  EXPECT_EQ(bench.ioctl(file, uapi::kNotificationsInitWithReallocV2, nq), -EINVAL);
  nq.nq_dev_type = uapi::kNqDevNc;
  nq.nq_dev_id = 2;
  EXPECT_EQ(bench.ioctl(file, uapi::kNotificationsInitWithReallocV2, nq), -EINVAL);
  nq.nq_dev_id = 1;
  nq.nq_type = 6;
  EXPECT_EQ(bench.ioctl(file, uapi::kNotificationsInitWithReallocV2, nq), -EINVAL);
  nq.nq_type = uapi::kNqTraceDma;
  nq.engine_index = 15;
  bench.fake().log().clear();
  ASSERT_EQ(bench.ioctl(file, uapi::kNotificationsInitWithReallocV2, nq), 0);
  EXPECT_EQ(bench.fake().log()[1].address, 0x30B69000u + 0x1100);
}

TEST_F(Ioctl, CrwlLocks) {
  uapi::crwl lock{};
  lock.uuid[0] = 1;
  EXPECT_EQ(bench.ioctl(file, uapi::kCrwlReaderEnter, lock), -ENOENT);
  EXPECT_EQ(bench.ioctl(file, uapi::kCrwlWriterDowngrade, lock), -EINVAL);
  EXPECT_EQ(bench.ioctl(file, uapi::kCrwlWriterEnter, lock), 0);
  EXPECT_EQ(bench.ioctl(file, uapi::kCrwlWriterDowngrade, lock), 0);
  EXPECT_EQ(bench.ioctl(file, uapi::kCrwlReaderEnter, lock), 0);
  const base::Ps start = bench.executor.now();
  EXPECT_EQ(bench.ioctl(file, uapi::kCrwlWriterEnter, lock), -EBUSY) << "two readers";
  EXPECT_EQ(bench.executor.now() - start, base::ms(3000));
  EXPECT_EQ(bench.ioctl(file, uapi::kCrwlReaderExit, lock), 0);
  EXPECT_EQ(bench.ioctl(file, uapi::kCrwlReaderExit, lock), 0);
  EXPECT_EQ(bench.ioctl(file, uapi::kCrwlReaderExit, lock), -EINVAL);
  EXPECT_EQ(bench.ioctl(file, uapi::kCrwlReaderExit, lock, kOther), -ENOENT);
  EXPECT_EQ(bench.ioctl(file, uapi::kCrwlWriterEnter, lock), -EALREADY);
  EXPECT_EQ(bench.ioctl(file, uapi::kCrwlReaderEnter, lock), -EBUSY) << "the lock is held";
  // A waiting writer goes on as soon as the lock is free.
  int result = DriverBench::kNotReturned;
  uapi::crwl other{};
  other.uuid[0] = 2;
  bench.executor.spawn("writer", [&] {
    result =
        bench.driver().ioctl(file, uapi::kCrwlWriterEnter, address_of(other), bench.caller(kOther));
  });
  bench.executor.spawn("owner", [&] {
    for (const uint32_t request : {uapi::kCrwlWriterDowngrade, uapi::kCrwlReaderExit}) {
      (void)bench.driver().ioctl(file, request, address_of(lock), bench.caller(kMe));
    }
  });
  bench.executor.run();
  EXPECT_EQ(result, 0);
  lock.nc_id = 8;
  EXPECT_EQ(bench.ioctl(file, uapi::kCrwlWriterEnter, lock), -EINVAL);
}

TEST_F(Ioctl, RangeMarks) {
  const int marker = bench.open(kMe, O_WRONLY);
  const auto mark = [&](uint32_t count, uint32_t first, uint32_t last, int32_t tgid) {
    uapi::crwl_nc_map_ext map{};
    map.nc_count = count;
    map.start_nc_index = first;
    map.end_nc_index = last;
    const int result = bench.ioctl(marker, uapi::kCrwlNcRangeMarkExt0, map, tgid);
    return std::tuple{result, map.bitmap[0], map.max_nc_available};
  };
  EXPECT_EQ(mark(1, 0, 7, kMe), (std::tuple{0, 1ull, 0u}));
  EXPECT_EQ(mark(1, 3, 7, kOther), (std::tuple{0, 8ull, 0u}));
  // Free: 1, 2, 4, 5, 6, 7. The slot right behind the blocker 3 is never a start.
  EXPECT_EQ(mark(4, 0, 7, kMe), (std::tuple{-EBUSY, 0ull, 3u}));
  EXPECT_EQ(mark(3, 0, 7, kMe), (std::tuple{0, 0xE0ull, 2u}));
  EXPECT_EQ(std::get<0>(mark(1, 5, 4, kMe)), -EINVAL);
  EXPECT_EQ(std::get<0>(mark(1, 0, 512, kMe)), -EINVAL);
  uapi::crwl_nc_map_ext unmark{};
  unmark.bitmap[0] = 0xFF;
  EXPECT_EQ(bench.ioctl(marker, uapi::kCrwlNcRangeUnmarkExt0, unmark, kOther), 0);
  EXPECT_EQ(bench.driver().range_marks().owner(3), 0);
  EXPECT_EQ(bench.driver().range_marks().owner(0), kMe) << "of another process";
  // Marks survive a normal close, not that of a free-access file.
  bench.close(file, kMe);
  EXPECT_EQ(bench.driver().range_marks().owner(0), kMe);
  bench.close(marker, kMe);
  EXPECT_EQ(bench.driver().range_marks().owner(0), 0);
}

TEST_F(Ioctl, CoreInitStates) {
  uapi::cinit_set set{0, 1, 0};
  ASSERT_EQ(bench.ioctl(file, uapi::kCinitSetState, set), 0);
  EXPECT_EQ(set.new_state, 1u) << "the caller initialises";
  const base::Ps start = bench.executor.now();
  ASSERT_EQ(bench.ioctl(file, uapi::kCinitSetState, set, kOther), 0);
  EXPECT_EQ(set.new_state, 1u);
  EXPECT_EQ(bench.executor.now() - start, base::ms(5000));
  set.state = 2;
  ASSERT_EQ(bench.ioctl(file, uapi::kCinitSetState, set), 0);
  EXPECT_EQ(set.new_state, 2u);
  set.state = 1;
  ASSERT_EQ(bench.ioctl(file, uapi::kCinitSetState, set, kOther), 0);
  EXPECT_EQ(set.new_state, 2u);
  uapi::device_reset reset{1, 0};
  ASSERT_EQ(bench.ioctl(file, uapi::kNcReset, reset), 0);
  ASSERT_EQ(bench.ioctl(file, uapi::kCinitSetState, set), 0);
  EXPECT_EQ(set.new_state, 1u);
  set.nc_id = 2;
  EXPECT_EQ(bench.ioctl(file, uapi::kCinitSetState, set), -E2BIG);
}

TEST_F(Ioctl, ResetRequestsOfOneProcess) {
  uapi::device_reset reset{1, 0};
  ASSERT_EQ(bench.ioctl(file, uapi::kNcReset, reset), 0);
  EXPECT_EQ(bench.ioctl(file, uapi::kNcReset, reset), 1) << "not collected yet";
  const uint64_t handle = bench.alloc(file, 4096, false);
  uint32_t value = 1;
  EXPECT_EQ(bench.buf_copy(file, handle, &value, 4, 0, true), 0) << "the rings are intact";
  uapi::device_ready ready{999, 0};
  ASSERT_EQ(bench.ioctl(file, uapi::kNcResetReady, ready), 0);
  EXPECT_EQ(ready.result, 1);
  bench.fake().firmware_dead = true;
  ready.request_id = reset.request_id;
  ASSERT_EQ(bench.ioctl(file, uapi::kNcResetReady, ready), 0);
  EXPECT_EQ(ready.result, 0);
  ASSERT_EQ(bench.ioctl(file, uapi::kNcReset, reset), 0);
  ASSERT_EQ(bench.ioctl(file, uapi::kNcResetReady, ready), 0);
  EXPECT_EQ(ready.result, 1);
  EXPECT_EQ(bench.buf_copy(file, handle, &value, 4, 0, true), -EPERM) << "no rings";
  uint8_t byte = 7;
  EXPECT_EQ(bench.ioctl(file, uapi::kDeviceResetStatus, byte), 0);
  EXPECT_EQ(byte, 1);
  EXPECT_EQ(bench.ioctl(file, uapi::kDeviceReady, byte), 0);
  EXPECT_EQ(byte, 1) << "no request counts as success";
}

TEST_F(Ioctl, Datastore) {
  uapi::neuron_ds_info info{};
  ASSERT_EQ(bench.ioctl(file, uapi::kAcquireNeuronDs, info), 0);
  EXPECT_EQ(info.size, 262144u);
  const uint64_t offset = info.mmap_offset;
  ASSERT_EQ(bench.ioctl(file, uapi::kAcquireNeuronDs, info), 0);
  EXPECT_EQ(info.mmap_offset, offset);
  info.pid = kMe;
  ASSERT_EQ(bench.ioctl(file, uapi::kAcquireNeuronDs, info, kOther), 0);
  EXPECT_EQ(info.mmap_offset, offset);
  info.pid = 77;
  EXPECT_EQ(bench.ioctl(file, uapi::kAcquireNeuronDs, info), -ENOENT);
  const auto mapped = bench.mmap(file, offset, 262144, true, kOther);
  ASSERT_TRUE(mapped) << "anyone maps it, writable";
  EXPECT_TRUE(mapped->writable);
  base::store<uint64_t>(bench.arena().at(offset - (1ull << 44)) + 256 + 31 * 8 + 28 * 8,
                        9);  // NC 1
  info.pid = kMe;
  EXPECT_EQ(bench.ioctl(file, uapi::kReleaseNeuronDs, info, kOther), 0) << "not the owner: ignored";
  info.pid = 0;
  EXPECT_EQ(bench.ioctl(file, uapi::kReleaseNeuronDs, info), 0);
  EXPECT_EQ(*bench.driver().sysfs_read("/sys/class/neuron_device/neuron0/neuron_core1/stats/"
                                       "other_info/inference_count/total"),
            "9\n");
  ASSERT_EQ(bench.ioctl(file, uapi::kAcquireNeuronDs, info), 0);
  EXPECT_NE(info.mmap_offset, offset) << "never used slots first";
  for (int32_t tgid = 1; tgid <= 15; ++tgid) {
    EXPECT_EQ(bench.ioctl(file, uapi::kAcquireNeuronDs, info, tgid), 0);
  }
  EXPECT_EQ(bench.ioctl(file, uapi::kAcquireNeuronDs, info, 16), -ENOMEM);
}

TEST_F(Ioctl, MapRules) {
  const uint64_t handle = bench.alloc(file, 8192, false);
  const uint64_t pa = bench.pa(file, handle);
  const auto mapped = bench.mmap(file, pa + 4096, 8192, true);
  ASSERT_TRUE(mapped);
  EXPECT_EQ(mapped->fd_offset, pa) << "starts at the chunk";
  EXPECT_TRUE(mapped->writable);
  const auto foreign = bench.mmap(file, pa, 8192, true, kOther);
  ASSERT_TRUE(foreign);
  EXPECT_FALSE(foreign->writable) << "read-only for others";
  EXPECT_EQ(bench.mmap(file, pa, 4096, true).error().code, EPERM) << "wrong length";
  EXPECT_EQ(bench.mmap(file, 0x5000000, 4096, true).error().code, EPERM);
  const int read_only = bench.open(kMe, O_RDONLY);
  EXPECT_EQ(bench.mmap(read_only, pa, 8192, true).error().code, EACCES);
  EXPECT_TRUE(bench.mmap(read_only, pa, 8192, false));
  uapi::resource_mmap_info info{uapi::kBlockTopsp, 5, uapi::kResourceSemaphore, 0, 0};
  ASSERT_EQ(bench.ioctl(file, uapi::kResourceMmapInfo, info), 0);
  EXPECT_EQ(info.offset, 0xfffd1400000u);
  EXPECT_EQ(info.size, 0x2000u);
  const auto window = bench.mmap(file, info.offset, info.size, true);
  ASSERT_TRUE(window);
  EXPECT_TRUE(window->store_is_mmio);
  EXPECT_FALSE(window->writable);
  EXPECT_EQ(window->mmio_bar_offset, 0x11400000u);
  const auto all = bench.mmap(file, info.offset, 0x400000, true);
  ASSERT_TRUE(all);
  EXPECT_FALSE(all->store_is_mmio) << "the whole block is read-only";
  info = {uapi::kBlockHbm, 0, uapi::kResourceDeviceMemory, 0, 0};
  EXPECT_EQ(bench.ioctl(file, uapi::kResourceMmapInfo, info), -EINVAL) << "v2 lists no HBM";
  bench.fake().log().clear();
  EXPECT_EQ(bench.driver().mmio_write(file, 0x11401804, 3, bench.caller(kMe)), 0);
  EXPECT_EQ(bench.fake().log().back().address, 0x11401804u);
  EXPECT_EQ(bench.driver().mmio_write(file, 0x30601038, 3, bench.caller(kMe)), -EACCES);
  EXPECT_EQ(bench.driver().mmio_write(file, 0x11401802, 3, bench.caller(kMe)), -EINVAL);
}

TEST_F(Ioctl, VaPlacementFollowsMappings) {
  const uint64_t handle = bench.alloc(file, 8192, false, 1);
  const uint64_t pa = bench.pa(file, handle);
  uapi::get_va_placement place{0x7000001000, 0, 0};
  EXPECT_EQ(bench.ioctl(file, uapi::kGetVaPlacement, place), -ENXIO);
  EXPECT_EQ(place.device_index, -1);
  bench.driver().mmap_done(file, 0x7000000000, pa, 8192, bench.caller(kMe));
  ASSERT_EQ(bench.ioctl(file, uapi::kGetVaPlacement, place), 0);
  EXPECT_EQ(place.device_index, 0);
  EXPECT_EQ(place.hbm_index, 1);
  bench.driver().munmap(file, pa, 8192, bench.caller(kMe));
  EXPECT_EQ(bench.ioctl(file, uapi::kGetVaPlacement, place), -ENXIO);
}

TEST_F(Ioctl, CloseFreesWhatAProcessHeld) {
  const int other = bench.open(kOther);
  const uint64_t handle = bench.alloc(other, base::kMiB, true, 0, 0, 0, 0, kOther);
  const uint64_t pa = bench.pa(file, handle);
  ASSERT_NE(pa, 0u);
  EXPECT_TRUE(bench.arena().covers(pa - (1ull << 44), base::kMiB));
  uapi::crwl lock{};
  EXPECT_EQ(bench.ioctl(other, uapi::kCrwlWriterEnter, lock, kOther), 0);
  uapi::neuron_ds_info ds{};
  EXPECT_EQ(bench.ioctl(other, uapi::kAcquireNeuronDs, ds, kOther), 0);
  const int second = bench.open(kOther);
  bench.close(second, kOther);
  EXPECT_NE(bench.pa(file, handle), 0u) << "still attached by the first open";
  bench.close(other, kOther);
  EXPECT_EQ(bench.pa(file, handle), 0u);
  EXPECT_FALSE(bench.arena().covers(pa - (1ull << 44), 1));
  EXPECT_EQ(bench.driver().device(0)->crwl().state(0).owner, 0);
  ds.pid = kOther;
  EXPECT_EQ(bench.ioctl(file, uapi::kAcquireNeuronDs, ds), -ENOENT);
  EXPECT_EQ(bench.driver().device(0)->process(kOther), nullptr);
}

TEST_F(Ioctl, ZerocopyIsRefusedOnV2UnlessOverridden) {
  const uint64_t handle = bench.alloc(file, 65536, false);
  std::vector<uint8_t> data(65536, 3);
  uapi::mem_buf_copy64zc copy{handle, reinterpret_cast<uint64_t>(data.data()), 65536, 0, 1, 0, -1,
                              0};
  EXPECT_EQ(bench.ioctl(file, uapi::kMemBufZerocopy64, copy), -EINVAL);
  copy.h2t_qid = 16;
  EXPECT_EQ(bench.ioctl(file, uapi::kMemBufZerocopy64, copy), -ENOENT);
  // Small writes go straight to device memory, even here.
  copy = {handle, reinterpret_cast<uint64_t>(data.data()), 4096, 8, 1, 8192, -1, 0};
  const uint64_t copies = bench.fake().copies;
  EXPECT_EQ(bench.ioctl(file, uapi::kMemBufZerocopy64, copy), 0);
  EXPECT_EQ(bench.fake().copies, copies);
  EXPECT_EQ(bench.fake().hbm(bench.pa(file, handle))[8], 3);
  uapi::mem_buf_copy64zc_batches batches{};
  EXPECT_EQ(bench.ioctl(file, uapi::kMemBufZerocopy64Batches, batches), -EINVAL);
}

TEST(IoctlV3, ZerocopyAndExtraQueues) {
  BenchOptions options;
  options.device_id = kTrn2;
  DriverBench bench(options);
  bench.start();
  const int file = bench.open(kMe);
  const uint64_t handle = bench.alloc(file, base::kMiB, false, 0, 1);
  std::vector<uint8_t> data(700001);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i ^ i >> 8);
  uapi::h2t_dma_alloc_queues queues{};
  queues.nc_id = 1;
  queues.copy_queue_cnt = 1;
  queues.service_queue_cnt = 2;
  ASSERT_EQ(bench.ioctl(file, uapi::kH2tDmaAllocQueues, queues), 0);
  EXPECT_EQ(queues.copy_default_queue, 1u);
  EXPECT_EQ(queues.copy_queue_bmap, 4u);
  EXPECT_EQ(queues.service_queue_bmap, 0x18u);
  uapi::mem_buf_copy64zc copy{
      handle, reinterpret_cast<uint64_t>(data.data()), data.size(), 5, 1, 0, 2, 0};
  ASSERT_EQ(bench.ioctl(file, uapi::kMemBufZerocopy64, copy), 0);
  copy.h2t_qid = 5;
  EXPECT_EQ(bench.ioctl(file, uapi::kMemBufZerocopy64, copy), -ENOENT);
  std::vector<uint8_t> back(data.size());
  uapi::tensor_batch_op op{5, back.size(), reinterpret_cast<uint64_t>(back.data())};
  uapi::memcpy_batch batch{handle, 0, address_of(op), 1, 0, 0, 0};
  uapi::mem_buf_copy64zc_batches batches{0, address_of(batch), 1, 0, -1, 0};
  ASSERT_EQ(bench.ioctl(file, uapi::kMemBufZerocopy64Batches, batches), 0);
  EXPECT_EQ(back, data);
  queues.copy_queue_cnt = 12;
  EXPECT_EQ(bench.ioctl(file, uapi::kH2tDmaAllocQueues, queues), -EPERM) << "11 are left";
  queues.service_queue_cnt = 4;
  EXPECT_EQ(bench.ioctl(file, uapi::kH2tDmaAllocQueues, queues), -E2BIG);
  uapi::h2t_dma_free_queues free_queues{8, 0, 0, 4};
  EXPECT_EQ(bench.ioctl(file, uapi::kH2tDmaFreeQueues, free_queues), -ENXIO) << "tagged with NC 1";
  free_queues.nc_id = 1;
  free_queues.queue_bmap = 0x1E;
  EXPECT_EQ(bench.ioctl(file, uapi::kH2tDmaFreeQueues, free_queues), 0);
  EXPECT_EQ(bench.fake().ring_id_errors, 0u);
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
  EXPECT_EQ(bench.driver().counters().unsupported.at("dma-buf export"), 1u);
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

TEST(Sysfs, FilesOfARuntimeAndALister) {
  BenchOptions options;
  options.devices = 16;
  DriverBench bench(options);
  bench.start();
  const std::string base = "/sys/class/neuron_device/neuron0/";
  const auto text = [&](const std::string& path) {
    auto value = bench.driver().sysfs_read(path);
    return value ? *value : "error " + std::to_string(value.error().code);
  };
  EXPECT_EQ(text(base + "core_count"), "2");
  EXPECT_EQ(text(base + "connected_devices"), "12, 3, 4, 1\n");
  EXPECT_EQ(text("/sys/devices/virtual/neuron_device/neuron0/core_count"), "2");
  EXPECT_EQ(text(base + "reset"), "1\n");
  EXPECT_EQ(text(base + "info/architecture/arch_type"), "NDv2\n");
  EXPECT_EQ(text(base + "neuron_core1/info/architecture/arch_type"), "NCv2\n");
  EXPECT_EQ(text(base + "info/serial_number"), "0000abcd12345678\n");
  EXPECT_EQ(text("/sys/module/neuron/version"), "2.26.5.0\n");
  EXPECT_EQ(text("/sys/class/neuron_device/node_id_4"), "-1\n");
  EXPECT_EQ(text(base + "no_such_file"), "error 2");
  // An idle device right after load (driver-ioctl.md 7.3).
  EXPECT_EQ(text(base + "stats/memory_usage/host_mem/driver_memory/total"), "4796416\n");
  EXPECT_EQ(text(base + "neuron_core0/stats/memory_usage/device_mem/total"), "0\n");
  EXPECT_EQ(text(base + "neuron_core0/stats/other_info/reset_req_count/total"), "1\n");
  const int file = bench.open(kMe);
  const uint64_t handle = bench.alloc(file, 5000, false, 0, 1, uapi::kMemTensorsDevice);
  const std::string tensors = base + "neuron_core1/stats/memory_usage/device_mem/tensors/";
  EXPECT_EQ(text(tensors + "total"), "8192\n");
  uapi::mem_free request{handle};
  ASSERT_EQ(bench.ioctl(file, uapi::kMemFree, request), 0);
  EXPECT_EQ(text(tensors + "total"), "0\n");
  EXPECT_EQ(text(tensors + "present"), "8192\n");
  EXPECT_EQ(text(tensors + "peak"), "8192\n");
  EXPECT_TRUE(bench.driver().sysfs_write(tensors + "peak", "1").ok());
  EXPECT_EQ(text(tensors + "peak"), "0\n");
  EXPECT_FALSE(bench.driver().sysfs_write(base + "core_count", "1").ok());
  std::set<std::string> paths;
  for (const driver::SysfsFile& entry : bench.driver().sysfs_files()) paths.insert(entry.path);
  EXPECT_TRUE(paths.count(base + "neuron_core0/stats/status/success/total") == 1);
  // A reset by writing is ignored while a file is open.
  const uint64_t resets = bench.fake().resets;
  bench.task([&] { (void)bench.driver().sysfs_write(base + "reset", "1"); });
  EXPECT_EQ(bench.fake().resets, resets);
  bench.close(file, kMe);
  bench.task([&] { (void)bench.driver().sysfs_write(base + "reset", "1"); });
  EXPECT_EQ(bench.fake().resets, resets + 1);
  EXPECT_EQ(text(base + "reset"), "1\n");
}

TEST(Sysfs, DriverMemoryOfV3) {
  BenchOptions options;
  options.device_id = kTrn2;
  DriverBench bench(options);
  bench.start();
  EXPECT_EQ(*bench.driver().sysfs_read("/sys/class/neuron_device/neuron0/stats/memory_usage/"
                                       "host_mem/driver_memory/total"),
            "6393856\n");
}

}  // namespace
}  // namespace driver_test
