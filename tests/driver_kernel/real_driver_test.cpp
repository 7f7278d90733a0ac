// Cases in which a driver on a host did something else than a reader of the documents would expect.
#include <map>
#include <string>

#include "tests/driver_kernel/driver_bench.h"

namespace driver_test {
namespace {

constexpr int32_t kMe = DriverBench::kTgid;
constexpr int32_t kOther = 200;
constexpr uint64_t kBadPointer = 8;  // never accessible
constexpr char kBase[] = "/sys/class/neuron_device/neuron0/";

class RealDriver : public Ioctl {
 protected:
  std::string text(const std::string& path) {
    auto value = bench.driver().sysfs_read(kBase + path);
    return value ? *value : "error " + std::to_string(value.error().code);
  }
  uint64_t number(const std::string& path) { return std::stoull(text(path)); }
};

TEST_F(RealDriver, ReleasedDatastoreWithoutCountsKeepsTheLastOnes) {
  const auto release_with = [this](uint64_t successes, uint64_t loads) {
    uapi::neuron_ds_info info{};
    ASSERT_EQ(bench.ioctl(file, uapi::kAcquireNeuronDs, info), 0);
    uint8_t* slot = bench.arena().at(info.mmap_offset & ~(1ull << 44));
    base::store(slot + uapi::ds_nc_counter_offset(0, 1), successes);
    base::store(slot + uapi::ds_nc_counter_offset(0, 27), loads);
    base::store(slot + uapi::ds_nc_counter_offset(0, 29), loads);
    ASSERT_EQ(bench.ioctl(file, uapi::kReleaseNeuronDs, info), 0);
  };
  release_with(5, 3);
  release_with(0, 0);
  release_with(0, 1);
  EXPECT_EQ(text("neuron_core0/stats/status/success/present"), "5\n");
  EXPECT_EQ(text("neuron_core0/stats/status/success/total"), "5\n");
  EXPECT_EQ(text("neuron_core0/stats/other_info/model_load_count/present"), "1\n");
  EXPECT_EQ(text("neuron_core0/stats/other_info/model_load_count/total"), "4\n");
  EXPECT_EQ(text("neuron_core0/stats/other_info/flop_count/present"), "2\n");
  EXPECT_EQ(text("neuron_core0/stats/other_info/flop_count/total"), "8\n");
}

TEST_F(RealDriver, ACategoryOfTheOtherLocationCountsInTheTotalOnly) {
  const char* const host_dirs[] = {"dma_buffers",        "tensors",       "constants",
                                   "application_memory", "driver_memory", "notifications",
                                   "dma_rings",          "uncategorized"};
  const char* const device_dirs[] = {"model_code",     "tensors",       "constants",
                                     "runtime_memory", "driver_memory", "uncategorized"};
  const std::string core = "neuron_core0/stats/memory_usage/";
  const auto sums = [&] {
    uint64_t sum = 0;
    for (const char* dir : host_dirs) {
      sum += number(std::string("stats/memory_usage/host_mem/") + dir + "/total");
    }
    for (const char* dir : device_dirs) sum += number(core + "device_mem/" + dir + "/total");
    return sum;
  };
  const uint64_t categories = sums();
  const uint64_t device = number(core + "device_mem/total");
  const uint64_t host = number(core + "host_mem/total");
  for (const uint32_t type : {1u, 2u, 6u, 17u}) bench.alloc(file, 4096, false, 0, 0, type);
  EXPECT_EQ(number(core + "device_mem/total"), device + 4 * 4096);
  for (const uint32_t type : {7u, 9u, 16u, 18u}) bench.alloc(file, 4096, true, 0, 0, type);
  EXPECT_EQ(number(core + "host_mem/total"), host + 4 * 4096);
  EXPECT_EQ(sums(), categories);
  bench.alloc(file, 4096, true, 0, 0, 99);
  EXPECT_EQ(sums(), categories + 4096) << "an unknown one is uncategorized";
}

TEST_F(RealDriver, ExitFreesTheNewestChunkFirst) {
  const int other = bench.open(kOther);
  // The addresses do not rise with the handles.
  const uint64_t hole = bench.alloc(other, 4096, false, 0, 0, 9, 0, kOther);
  const uint64_t second = bench.alloc(other, 4096, false, 0, 0, 9, 0, kOther);
  uapi::mem_free request{hole};
  ASSERT_EQ(bench.ioctl(other, uapi::kMemFree, request, kOther), 0);
  EXPECT_EQ(bench.alloc(other, base::kMiB, false, 0, 0, 9, 0, kOther), hole);
  const uint64_t third = bench.alloc(other, 4096, false, 0, 0, 9, 0, kOther);
  bench.close(other, kOther);
  // Oldest first: 2, then the one that took 1, then 3.
  EXPECT_EQ(bench.alloc(file, 4096, true), second);
  EXPECT_EQ(bench.alloc(file, 4096, true), hole);
  EXPECT_EQ(bench.alloc(file, 4096, true), third);
}

TEST_F(RealDriver, ForcedNotificationQueueTakesTheHandleOfTheOldOne) {
  uapi::notifications_init_with_realloc_v2 nq{};
  nq.nq_type = 1;
  nq.engine_index = 2;
  nq.size = 4096;
  nq.on_host_memory = 1;
  ASSERT_EQ(bench.ioctl(file, uapi::kNotificationsInitWithReallocV2, nq), 0);
  const uint64_t handle = nq.mem_handle;
  const uint64_t place = nq.mmap_offset;
  nq.force_alloc_mem = 1;
  ASSERT_EQ(bench.ioctl(file, uapi::kNotificationsInitWithReallocV2, nq), 0);
  EXPECT_EQ(nq.mem_handle, handle);
  EXPECT_NE(nq.mmap_offset, place) << "the memory was taken before the old one was free";
  uapi::mem_get_extended_info info{};
  info.mem_handle = handle;
  ASSERT_EQ(bench.ioctl(file, uapi::kMemGetExtendedInfo, info), 0);
  EXPECT_EQ(info.pid, static_cast<uint64_t>(kMe)) << "who made the queue";
}

TEST_F(RealDriver, EveryQueueOfARunningEngineIsEnabled) {
  uapi::dma_queue_state tx{}, rx{};
  uapi::dma_queue_get_state request{3, 5, address_of(tx), address_of(rx)};
  ASSERT_EQ(bench.ioctl(file, uapi::kDmaQueueGetState, request), 0);
  EXPECT_EQ(tx.sw_status, 2u);
  EXPECT_EQ(rx.sw_status, 2u);
}

TEST_F(RealDriver, ChunksOfCoresThatTheDeviceLacksCopyOnItsLastRing) {
  const uint64_t from = bench.alloc(file, 4096, true, 0, 7);
  const uint64_t to = bench.alloc(file, 4096, false, 0, 2);
  uint64_t value = 0x1234;
  EXPECT_EQ(bench.buf_copy(file, to, &value, 8, 0, true), 0);
  uapi::mem_copy64 copy{};
  copy.src_mem_handle = to;
  copy.dst_mem_handle = from;
  copy.size = 8;
  const size_t before = bench.fake().log().size();
  ASSERT_EQ(bench.ioctl(file, uapi::kMemCopy64, copy), 0);
  value = 0;
  EXPECT_EQ(bench.buf_copy(file, from, &value, 8, 0, false), 0);
  EXPECT_EQ(value, 0x1234u);
  const auto on = [&](uint32_t engine) {
    const uint64_t unit = bench.fake().map().udma(engine).bar0;
    size_t accesses = 0;
    for (size_t i = before; i < bench.fake().log().size(); ++i) {
      const uint64_t offset = bench.fake().log()[i].address;
      accesses += offset >= unit && offset < unit + 0x20000 ? 1 : 0;
    }
    return accesses;
  };
  EXPECT_GT(on(33), 0u);
  EXPECT_EQ(on(32), 0u);
}

TEST_F(RealDriver, RefusedRangeMarkIsWrittenBack) {
  uapi::crwl_nc_map_ext request{};
  request.nc_count = 1;
  request.start_nc_index = 2;
  request.end_nc_index = 1;
  request.max_nc_available = 77;
  request.bitmap[0] = request.bitmap[7] = ~0ull;
  EXPECT_EQ(bench.ioctl(file, uapi::kCrwlNcRangeMarkExt0, request), -EINVAL);
  EXPECT_EQ(request.max_nc_available, 0u);
  EXPECT_EQ(request.bitmap[0] | request.bitmap[7], 0u);
  uapi::crwl_nc_map legacy{1, 2, 1, 77, ~0ull};
  EXPECT_EQ(bench.ioctl(file, uapi::kCrwlNcRangeMark, legacy), -EINVAL);
  EXPECT_EQ(legacy.max_nc_available, 0u);
  EXPECT_EQ(legacy.bitmap, 0u);
}

// Placed as without alignment, then (align - 1) & address decides: bits 13, 12 and 11 of 0x3800.
TEST_F(RealDriver, AlignmentThatIsNoPowerOfTwoIsLookedAtBitByBit) {
  const uint64_t align = 0x3801;
  EXPECT_NE(bench.alloc(file, 4096, false, 0, 0, 9, align), 0u) << "at the pool's start";
  EXPECT_EQ(bench.alloc(file, 4096, false, 0, 0, 9, align), 0u) << "at 0x1000";
  EXPECT_EQ(bench.last_alloc_error, -ENOMEM);
  for (int i = 0; i < 3; ++i) EXPECT_NE(bench.alloc(file, 4096, false), 0u);
  EXPECT_NE(bench.alloc(file, 4096, false, 0, 0, 9, align), 0u)
      << "at 0x4000, which is no multiple of it";
}

TEST_F(RealDriver, BadPointersByRequest) {
  EXPECT_EQ(bench.ioctl_at(file, uapi::kMemAlloc, kBadPointer), -EACCES);
  EXPECT_EQ(bench.ioctl_at(file, uapi::kDmaQueueInit, kBadPointer), -EACCES);
  EXPECT_EQ(bench.ioctl_at(file, uapi::kDmaQueueInitBatch, kBadPointer), -EACCES);
  EXPECT_EQ(bench.ioctl_at(file, uapi::kDmaQueueRelease, kBadPointer), -EFAULT);
  EXPECT_EQ(bench.ioctl_at(file, uapi::kMetricsCtrl, kBadPointer), -EFAULT);
  EXPECT_EQ(bench.ioctl_at(file, uapi::kGetLogicalToPhysicalNcMap, kBadPointer), -524)
      << "before it looks at the structure";
  EXPECT_EQ(bench.ioctl_at(file, uapi::kMemAllocV2, kBadPointer), -EFAULT);
}

TEST_F(RealDriver, NotifyDelayIgnoresWhatIsNoNumber) {
  const auto set = [this](const char* value) {
    EXPECT_TRUE(bench.driver().sysfs_write(std::string(kBase) + "info/notify_delay", value).ok());
    return text("info/notify_delay");
  };
  EXPECT_EQ(set("word\n"), "-1\n");
  EXPECT_EQ(set("0\n"), "0\n");
  EXPECT_EQ(set(""), "0\n");
  EXPECT_EQ(set("1"), "0\n");
  EXPECT_EQ(set("-1"), "-1\n");
}

TEST_F(RealDriver, ChangesAreAnnouncedOnRequest) {
  const std::string path = std::string(kBase) + "stats/memory_usage/host_mem/tensors/total";
  const uint32_t before = bench.driver().sysfs_events(path).changes;
  bench.alloc(file, 4096, true);
  EXPECT_EQ(bench.driver().sysfs_events(path).changes, before + 1);
  EXPECT_FALSE(bench.driver().sysfs_events(path).announced);
  EXPECT_TRUE(bench.driver().sysfs_write(std::string(kBase) + "info/notify_delay", "0").ok());
  EXPECT_TRUE(bench.driver().sysfs_events(path).announced);
  EXPECT_FALSE(bench.driver().sysfs_events(std::string(kBase) + "core_count").announced);
}

TEST(RealDriverFiles, ModesByRelease) {
  for (const char* release : {"2.26.5.0", "2.30.2.0", "3.0.0.0"}) {
    BenchOptions options;
    options.params.version = release;
    DriverBench bench(options);
    bench.start();
    std::map<std::string, uint32_t> modes;
    for (const int minor : {0, driver::CharDevice::kNoDevice}) {
      for (const auto& file : bench.driver().sysfs_files(minor)) modes[file.path] = file.mode;
    }
    const uint32_t lister = std::string(release) == "2.26.5.0" ? 0400 : 0444;
    EXPECT_EQ(modes[std::string(kBase) + "core_count"], lister);
    EXPECT_EQ(modes[std::string(kBase) + "connected_devices"], lister);
    EXPECT_EQ(modes[std::string(kBase) + "reset"], 0600u);
    EXPECT_EQ(modes[std::string(kBase) + "info/notify_delay"], 0644u);
    EXPECT_EQ(modes["/sys/module/neuron/parameters/wc_enable"], 0660u);
    EXPECT_EQ(modes["/sys/module/neuron/version"], 0444u);
  }
}

}  // namespace
}  // namespace driver_test
