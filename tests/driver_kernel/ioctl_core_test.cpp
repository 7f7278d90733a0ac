// Queues, notifications, locks, resets and the datastore: spec/driver-ioctl.md 3.5, 3.7 - 3.12.
#include "tests/driver_kernel/driver_bench.h"

namespace driver_test {
namespace {

constexpr int32_t kMe = DriverBench::kTgid;
constexpr int32_t kOther = 200;

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

}  // namespace
}  // namespace driver_test
