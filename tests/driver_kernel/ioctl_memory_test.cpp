// Memory, copies, mappings and zero-copy: spec/driver-ioctl.md 3.3, 3.4, 3.18, 4.
#include "tests/driver_kernel/driver_bench.h"

namespace driver_test {
namespace {

constexpr int32_t kMe = DriverBench::kTgid;
constexpr int32_t kOther = 200;
constexpr uint64_t kBadPointer = 8;  // never accessible

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
  // (400 - 1) x 100 us of polling after a first delay of 1 us (spec/driver-ioctl.md 6.3).
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

}  // namespace
}  // namespace driver_test
