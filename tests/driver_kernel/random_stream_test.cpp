// Hostile clients: a seeded random stream of requests with half-plausible arguments from several
// processes, over opens, closes and maps. Nothing may crash, hang or touch memory it should not
// (the sanitizers look on), and afterwards a fresh client must be served as if nothing had
// happened.
#include <random>
#include <set>

#include "tests/driver_kernel/driver_bench.h"

namespace driver_test {
namespace {

// Client memory of 256 KiB at a fixed address; everything else faults.
class BoundedMemory : public driver::UserMemory {
 public:
  static constexpr uint64_t kBase = 0x10'0000;
  BoundedMemory() : bytes_(256 * 1024) {}
  bool read(uint64_t address, base::ByteSpan to) override {
    if (!inside(address, to.size())) return false;
    if (!to.empty()) std::memcpy(to.data(), bytes_.data() + (address - kBase), to.size());
    return true;
  }
  bool write(uint64_t address, base::ConstByteSpan from) override {
    if (!inside(address, from.size())) return false;
    if (!from.empty()) std::memcpy(bytes_.data() + (address - kBase), from.data(), from.size());
    return true;
  }
  std::vector<uint8_t>& bytes() { return bytes_; }

 private:
  bool inside(uint64_t address, uint64_t size) const {
    return address >= kBase && address - kBase <= bytes_.size() &&
           size <= bytes_.size() - (address - kBase);
  }
  std::vector<uint8_t> bytes_;
};

constexpr uint32_t kRequests[] = {uapi::kDeviceReset,
                                  uapi::kDeviceReady,
                                  uapi::kDeviceInfo,
                                  uapi::kDeviceGetAllAppsInfo,
                                  uapi::kBarRead,
                                  uapi::kBarWrite,
                                  uapi::kPostMetric,
                                  uapi::kMemAlloc,
                                  uapi::kMemFree,
                                  uapi::kMemCopy,
                                  uapi::kMemCopy64,
                                  uapi::kMemBufCopy,
                                  uapi::kMemBufCopy64,
                                  uapi::kMemGetPa,
                                  uapi::kMemGetInfo,
                                  uapi::kProgramEngine,
                                  uapi::kMemset,
                                  uapi::kMemset64,
                                  uapi::kMemGetExtendedInfo,
                                  uapi::kDmaEngSetState,
                                  uapi::kDmaEngGetState,
                                  uapi::kDmaQueueInit,
                                  uapi::kDmaQueueInitBatch,
                                  uapi::kDmaQueueCopyStart,
                                  uapi::kDmaAckCompleted,
                                  uapi::kDmaQueueGetState,
                                  uapi::kDmaCopyDescriptors,
                                  uapi::kDmaCopyDescriptors64,
                                  uapi::kDmaDescriptorCopyout,
                                  uapi::kSemaphoreIncrement,
                                  uapi::kSemaphoreRead,
                                  uapi::kEventSet,
                                  uapi::kEventGet,
                                  uapi::kNotificationsInitV1,
                                  uapi::kNotificationsInitV2,
                                  uapi::kNotificationsInitWithReallocV2,
                                  uapi::kReadHwCounters,
                                  uapi::kAcquireNeuronDs,
                                  uapi::kReleaseNeuronDs,
                                  uapi::kCrwlReaderEnter,
                                  uapi::kCrwlReaderExit,
                                  uapi::kCrwlWriterEnter,
                                  uapi::kCrwlWriterDowngrade,
                                  uapi::kCrwlNcRangeMark,
                                  uapi::kCrwlNcRangeMarkExt0,
                                  uapi::kCrwlNcRangeUnmarkExt0,
                                  uapi::kCinitSetState,
                                  uapi::kMemAllocV2,
                                  uapi::kMemAllocV2Mt,
                                  uapi::kMemAllocV2Mt64,
                                  uapi::kNcReset,
                                  uapi::kNcResetReady,
                                  uapi::kProgramEngineNc64,
                                  uapi::kDeviceBdfExt,
                                  uapi::kMemCopyAsync,
                                  uapi::kMemCopyAsync64,
                                  uapi::kMemCopyAsyncWait,
                                  uapi::kMemMcGetInfo,
                                  uapi::kMemMcGetInfoV2,
                                  uapi::kResourceMmapInfo,
                                  uapi::kPrintk,
                                  uapi::kDumpMemChunks,
                                  uapi::kNcPidStateDump,
                                  uapi::kHbmScrubStart,
                                  uapi::kGetLogicalToPhysicalNcMap,
                                  uapi::kPodInfo,
                                  uapi::kPodStatusV2,
                                  uapi::kPodCtrlV2,
                                  uapi::kMemBufZerocopy64,
                                  uapi::kMemBufZerocopy64Batches,
                                  uapi::kH2tDmaAllocQueues,
                                  uapi::kH2tDmaFreeQueues,
                                  uapi::kPowerProfile,
                                  uapi::kThrottlingNotifications,
                                  uapi::kGetVaPlacement,
                                  uapi::ior(70, 8)};

class Stream {
 public:
  Stream(uint16_t device_id, uint32_t seed) : random_(seed) {
    BenchOptions options;
    options.device_id = device_id;
    options.params.zerocopy_trn1_override = true;
    bench_ = std::make_unique<DriverBench>(options);
    bench_->start();
  }

  // Three clients at a time, so that their calls interleave wherever one waits.
  void run(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      int done = 0;
      for (int i = 0; i < 3; ++i) {
        bench_->executor.spawn("client", [&] {
          one_call();
          ++done;
        });
      }
      bench_->executor.run();
      ASSERT_EQ(done, 3) << "a call hangs in round " << round;
    }
  }

  void expect_service() {
    // The stream must have reached what it means to test.
    EXPECT_GT(succeeded_.size(), std::size(kRequests) / 2) << "of " << std::size(kRequests);
    EXPECT_GT(bench_->fake().copies, 300u);
    for (const auto& [file, tgid] : files_) bench_->close(file, tgid);
    for (int32_t tgid = 1; tgid <= 4; ++tgid) {
      for (int i = 0; i < 4; ++i) bench_->driver().range_marks().release_process(tgid);
    }
    const int file = bench_->open(DriverBench::kTgid);
    ASSERT_GT(file, 0);
    uapi::device_reset reset{0xffffffff, 0};
    ASSERT_EQ(bench_->ioctl(file, uapi::kNcReset, reset), 0);
    uapi::device_ready ready{reset.request_id, -1};
    ASSERT_EQ(bench_->ioctl(file, uapi::kNcResetReady, ready), 0);
    ASSERT_EQ(ready.result, 0);
    const uint64_t handle = bench_->alloc(file, 65536, false);
    ASSERT_NE(handle, 0u) << bench_->last_alloc_error;
    std::vector<uint8_t> data(65536, 0x6B);
    std::vector<uint8_t> back(65536);
    ASSERT_EQ(bench_->buf_copy(file, handle, data.data(), data.size(), 0, true), 0);
    ASSERT_EQ(bench_->buf_copy(file, handle, back.data(), back.size(), 0, false), 0);
    EXPECT_EQ(back, data);
  }

 private:
  uint32_t pick(uint32_t bound) { return static_cast<uint32_t>(random_() % bound); }

  uint32_t small_value() {
    constexpr uint32_t kValues[] = {0, 1, 2, 3, 5, 8, 16, 32, 64, 100, 255, 256, 4096, 65536};
    if (pick(40) == 0) return ~0u;
    return pick(3) == 0 ? pick(12) : kValues[pick(std::size(kValues))];
  }

  // Words of an argument: small numbers, or pairs that make a pointer into the client's memory.
  uint64_t make_argument(uint64_t at) {
    std::vector<uint8_t>& bytes = memory_.bytes();
    for (uint64_t word = 0; word < 32; ++word) {
      base::store(bytes.data() + at + word * 4, small_value());
      if (word % 2 == 0 && pick(3) == 0) {
        base::store(bytes.data() + at + word * 4, BoundedMemory::kBase + pick(200'000));
        ++word;
      } else if (word % 2 == 1 && pick(4) != 0) {
        base::store(bytes.data() + at + word * 4, 0u);  // high halves of 64-bit numbers
      }
    }
    return BoundedMemory::kBase + at;
  }

  template <typename T>
  void put(uint64_t arg, const T& value) {
    base::store(memory_.bytes().data() + (arg - BoundedMemory::kBase), value);
  }
  uint64_t handle() { return 1 + pick(12); }
  uint64_t pointer() { return BoundedMemory::kBase + pick(100'000); }

  // Overwrites an argument with one that is likely to pass its checks.
  void shape(uint32_t request, uint64_t arg) {
    const uint32_t one = pick(2);
    const uint64_t bytes = pick(100'000);
    switch (request) {
      case uapi::kMemAllocV2Mt64:
        put(arg, uapi::mem_alloc_v2_mem_type64{bytes * 4, one == 0 ? 0 : 8192ull * (one + 1), 0,
                                               one, 0, pick(9), pick(21), pointer(), 0});
        if (pick(3) == 0) put(arg + 16, 1u), put(arg + 8, uint64_t{0});
        return;
      case uapi::kMemFree:
        if (pick(4) == 0) put(arg, uapi::mem_free{handle()});
        return;
      case uapi::kMemCopy64:
        put(arg, uapi::mem_copy64{handle(), handle(), bytes, pick(9000), pick(9000)});
        return;
      case uapi::kMemBufCopy64:
        put(arg, uapi::mem_buf_copy64{handle(), pointer(), bytes, pick(9000), one});
        return;
      case uapi::kMemset64:
        put(arg, uapi::memset64{handle(), pick(9000), pick(256), bytes * 3});
        return;
      case uapi::kMemCopyAsync64:
        put(arg, uapi::mem_copy_async64{handle(), handle(), bytes, 0, 0, 0,
                                        static_cast<int32_t>(pick(4)) - 1, 0});
        return;
      case uapi::kMemCopyAsyncWait:
        put(arg, uapi::mem_copy_async_wait{handle(), handle(), static_cast<int32_t>(1 + one)});
        return;
      case uapi::kProgramEngineNc64:
        put(arg, uapi::program_engine_nc64{one, bench_->fake().map().nc(one).device + pick(1 << 20),
                                           pointer(), bytes, pick(64)});
        return;
      case uapi::kDmaQueueInit:
        put(arg, uapi::dma_queue_init{pick(34), pick(16), 32 + 16 * pick(8), 64, handle(), handle(),
                                      0, 0});
        return;
      case uapi::kDmaCopyDescriptors64:
        put(arg,
            uapi::dma_copy_descriptors64{handle(), pointer(), 1 + pick(100), 16 * pick(64), one});
        return;
      case uapi::kDmaQueueCopyStart:
        put(arg, uapi::dma_queue_copy_start{pick(34), pick(16), pick(4), 1 + pick(4)});
        return;
      case uapi::kDmaDescriptorCopyout:
        put(arg,
            uapi::dma_descriptor_copyout{pick(34), pick(16), one, pick(8), 1 + pick(8), pointer()});
        return;
      case uapi::kNotificationsInitWithReallocV2:
        put(arg, uapi::notifications_init_with_realloc_v2{pick(3), pick(2), pick(6), pick(16),
                                                          4096u << pick(4), one, pick(2), 0,
                                                          pick(2), 0, 0});
        return;
      case uapi::kMemMcGetInfoV2:
        put(arg,
            uapi::mem_get_mc_mmap_info_v2{
                (one != 0 ? bench_->fake().map().host_window() | driver::HostArena::kPhysBase : 0) +
                    4096ull * pick(4096),
                0, 0, 0});
        return;
      case uapi::kMemBufZerocopy64:
        put(arg, uapi::mem_buf_copy64zc{handle(), pointer(), bytes, pick(9000), one, pick(9000),
                                        static_cast<int32_t>(pick(4)) - 1, 0});
        return;
      case uapi::kH2tDmaAllocQueues:
        put(arg, uapi::h2t_dma_alloc_queues{20, static_cast<uint16_t>(one),
                                            static_cast<uint16_t>(pick(4)),
                                            static_cast<uint16_t>(pick(4)), 0, 0, 0});
        return;
      case uapi::kH2tDmaFreeQueues:
        put(arg, uapi::h2t_dma_free_queues{8, static_cast<uint8_t>(one), 0, pick(1 << 16)});
        return;
      case uapi::kNcReset:
        put(arg, uapi::device_reset{pick(20) == 0 ? ~0u : pick(4), 0});
        return;
      case uapi::kNcResetReady:
        put(arg, uapi::device_ready{1 + pick(4), 0});
        return;
      default:
        return;
    }
  }

  void one_call() {
    const int32_t tgid = static_cast<int32_t>(1 + pick(4));
    const driver::Caller caller{tgid, tgid, &memory_};
    const uint32_t action = pick(64);
    if (files_.size() < 2 || action == 0) {
      constexpr int kFlags[] = {O_RDWR, O_RDWR, O_RDONLY, O_WRONLY};
      auto file = bench_->driver().open(0, kFlags[pick(4)], caller);
      if (file) files_.emplace_back(*file, tgid);
      return;
    }
    const size_t index = pick(static_cast<uint32_t>(files_.size()));
    const int file = files_[index].first;
    if (action == 1 && files_.size() > 6) {
      const int32_t opener = files_[index].second;
      files_.erase(files_.begin() + static_cast<long>(index));
      bench_->driver().flush(file, {opener, opener, &memory_});
      bench_->driver().release(file);
      return;
    }
    if (action == 2) {
      (void)bench_->driver().mmap(file, uint64_t{small_value()} << pick(32), small_value(), true,
                                  pick(2) == 0, caller);
      return;
    }
    constexpr uint32_t kBusy[] = {
        uapi::kMemAllocV2Mt64, uapi::kMemAllocV2Mt64, uapi::kMemBufCopy64,    uapi::kMemCopy64,
        uapi::kMemset64,       uapi::kMemCopyAsync64, uapi::kMemBufZerocopy64};
    const uint32_t request =
        pick(3) == 0 ? kBusy[pick(std::size(kBusy))] : kRequests[pick(std::size(kRequests))];
    const uint64_t arg = make_argument(uint64_t{pick(200)} * 256);
    if (pick(4) != 0) shape(request, arg);
    const int result = bench_->driver().ioctl(file, request, pick(50) == 0 ? 16 : arg, caller);
    if (result >= 0) succeeded_.insert(request);
  }

  std::set<uint32_t> succeeded_;  // requests that got through at least once
  std::mt19937 random_;
  BoundedMemory memory_;
  std::unique_ptr<DriverBench> bench_;
  std::vector<std::pair<int, int32_t>> files_;
};

TEST(RandomStream, V2) {
  for (const uint32_t seed : {1u, 2u, 3u}) {
    Stream stream(kTrn1, seed);
    stream.run(2500);
    stream.expect_service();
  }
}

TEST(RandomStream, V3) {
  Stream stream(kTrn2, 4);
  stream.run(1500);
  stream.expect_service();
}

}  // namespace
}  // namespace driver_test
