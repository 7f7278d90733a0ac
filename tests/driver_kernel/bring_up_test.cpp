// Register traces of probe, reset, copy and exit: spec/hw-registers.md section 10.
#include "tests/driver_kernel/driver_bench.h"

namespace driver_test {
namespace {

struct Totals {
  uint64_t writes = 0;
  uint64_t reads = 0;
};

Totals totals(const std::vector<LoggedAccess>& log, size_t from) {
  Totals sum;
  for (size_t i = from; i < log.size(); ++i) ++(log[i].write ? sum.writes : sum.reads);
  return sum;
}

TEST(BringUp, V2ProbeAndResetEqualTheGoldenTrace) {
  DriverBench bench;
  bench.start();
  expect_trace(bench.fake().log(), 0, golden_trace("v2_bring_up.trace"));
  EXPECT_EQ(bench.fake().pci_command & 6u, 6u);
  EXPECT_EQ(bench.executor.now(), base::ms(100));
  // spec/hw-registers.md 10.2: totals of steps 6 to 9.
  const Totals sum = totals(bench.fake().log(), 5);
  EXPECT_EQ(sum.writes, 12'912u);
  EXPECT_EQ(sum.reads, 34u);
}

TEST(BringUp, V3AndV4Totals) {
  for (const uint16_t id : {kTrn2, kTrn3}) {
    BenchOptions options;
    options.device_id = id;
    DriverBench bench(options);
    bench.start();
    const Totals sum = totals(bench.fake().log(), 5);
    EXPECT_EQ(sum.writes, id == kTrn2 ? 18'436u : 18'568u);
    EXPECT_EQ(sum.reads, id == kTrn2 ? 900u : 1'032u);
  }
}

TEST(BringUp, V3Engine0EqualsTheGoldenTrace) {
  BenchOptions options;
  options.device_id = kTrn2;
  DriverBench bench(options);
  bench.start();
  auto want =
      golden_trace("v3_engine.trace", {{"U", 0x82000000}, {"S", 0x82040000}, {"Q", 0x30000}});
  const auto masks = golden_trace("v3_engine_masks.trace", {{"U", 0x82000000}, {"F", 0x8C000000}});
  want.insert(want.end(), masks.begin(), masks.end());
  ASSERT_EQ(want.size(), 146u);
  expect_trace(bench.fake().log(), 5, want, false);
}

TEST(BringUp, V4Engine0EqualsTheGoldenTrace) {
  BenchOptions options;
  options.device_id = kTrn3;
  DriverBench bench(options);
  bench.start();
  expect_trace(
      bench.fake().log(), 5,
      golden_trace("v4_engine.trace", {{"U", 0x82000000}, {"S", 0x82040000}, {"Q", 0x30000}}),
      false);
}

TEST(BringUp, V3QueueInitEqualsTheGoldenTraces) {
  auto arena = std::move(*driver::HostArena::create(base::kGiB));
  FakeDevice fake(kTrn2, 0, *arena, 0);
  driver::DmaEngines engines(driver::kDhalV3, driver::Registers(fake, 0));
  ASSERT_EQ(engines.init_queue(128, 0, {0x400012340000, 8192}, {0x400012380000, 8192}), 0);
  expect_trace(fake.log(), 0, golden_trace("v3_queue_128_0.trace"));
  fake.log().clear();
  ASSERT_EQ(engines.init_queue(0, 3, {0x400040000000, 64}, {0x400040000400, 64}), 0);
  expect_trace(fake.log(), 0, golden_trace("v3_queue_0_3.trace"));
}

TEST(BringUp, FirstCopyMoves64KiBWithTwoDoorbells) {
  for (const uint16_t id : {kTrn1, kTrn2}) {
    BenchOptions options;
    options.device_id = id;
    DriverBench bench(options);
    bench.start();
    const int file = bench.open(DriverBench::kTgid);
    ASSERT_GT(file, 0);
    const uint64_t handle = bench.alloc(file, 65536, false);
    ASSERT_NE(handle, 0u);
    const uint64_t pa = bench.pa(file, handle);
    EXPECT_GE(pa, 16 * base::kMiB);
    std::vector<uint8_t> data(65536);
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 31 + i / 256);
    bench.fake().log().clear();
    ASSERT_EQ(bench.buf_copy(file, handle, data.data(), data.size(), 0, true), 0);
    expect_trace(bench.fake().log(), 0,
                 golden_trace(id == kTrn1 ? "v2_first_copy.trace" : "v3_first_copy.trace"));
    EXPECT_EQ(std::memcmp(bench.fake().hbm(pa), data.data(), data.size()), 0);
    std::vector<uint8_t> back(65536, 0xEE);
    ASSERT_EQ(bench.buf_copy(file, handle, back.data(), back.size(), 0, false), 0);
    EXPECT_EQ(back, data);
    EXPECT_EQ(bench.fake().ring_id_errors, 0u);
    bench.close(file, DriverBench::kTgid);
  }
}

// spec/hw-registers.md 10.5: the descriptors of the first copy.
TEST(BringUp, FirstCopyDescriptors) {
  DriverBench bench;
  bench.start();
  const int file = bench.open(DriverBench::kTgid);
  const uint64_t handle = bench.alloc(file, 65536, false);
  std::vector<uint8_t> data(65536, 7);
  ASSERT_EQ(bench.buf_copy(file, handle, data.data(), data.size(), 0, true), 0);
  const uint64_t unit = bench.fake().map().udma(32).bar0;
  const auto ring = [&](uint64_t queue) {
    return (uint64_t{bench.fake().word(unit + queue + 0x2C)} << 32 |
            bench.fake().word(unit + queue + 0x28)) -
           bench.fake().map().host_window();
  };
  const auto word = [&](uint64_t base, int slot, int w) {
    return base::load<uint32_t>(bench.arena().at(base) + slot * 16 + w * 4);
  };
  const uint64_t tx = ring(0x1000);
  const uint64_t rx = ring(0x21000);
  EXPECT_EQ(word(tx, 0, 0), 0x0D000000u);
  EXPECT_EQ(word(tx, 0, 1), 0x05080003u);
  EXPECT_EQ(word(tx, 0, 3), 0x00001000u);
  EXPECT_EQ(word(tx, 1, 0), 0x0D000004u);
  EXPECT_EQ(word(tx, 1, 1), 0x01080003u);
  EXPECT_EQ(word(rx, 0, 0), 0x01000000u);
  EXPECT_EQ(word(rx, 0, 1), 0u);
  EXPECT_EQ(word(rx, 0, 2), static_cast<uint32_t>(bench.pa(file, handle)));
  EXPECT_EQ(word(rx, 1, 0), 0x01000004u);
  EXPECT_EQ(word(rx, 1, 2), word(tx, 1, 2) + 4);
}

TEST(BringUp, RingIdsFollowTheWraps) {
  DriverBench bench;
  bench.start();
  const int file = bench.open(DriverBench::kTgid);
  const uint64_t handle = bench.alloc(file, 4096, false);
  uint8_t byte = 0;
  // Five laps of 8192 slots: 1, 2, 3, 0, 1. Each copy takes two slots; one odd batch shifts the
  // wrap into the middle of a pair of data and marker.
  const uint64_t large = bench.alloc(file, 128 * base::kKiB, false);
  std::vector<uint8_t> data(128 * base::kKiB, 3);
  ASSERT_EQ(bench.task([&] {
    driver::NeuronDevice& device = *bench.driver().device(0);
    ASSERT_EQ(device.memset(0, device.memory().by_handle(large)->pa, 1, data.size()), 0);
    for (int i = 0; i < 5 * 4096; ++i) {
      const uint64_t pa = device.memory().by_handle(handle)->pa;
      ASSERT_EQ(device.copy(0, pa, pa + 64, 32), 0);
    }
  }),
            true);
  ASSERT_EQ(bench.buf_copy(file, handle, &byte, 1, 17, true), 0);
  EXPECT_EQ(bench.fake().ring_id_errors, 0u);
  EXPECT_EQ(bench.fake().dma_faults, 0u);
  EXPECT_GT(bench.fake().copies, 5u * 8192);
}

TEST(BringUp, NcResetEqualsTheGoldenTrace) {
  DriverBench bench;
  bench.start();
  const int file = bench.open(DriverBench::kTgid);
  golden::create_queues_of_nc1(bench, file, bench.fake().map());
  bench.fake().log().clear();
  const base::Ps start = bench.executor.now();
  const uapi::device_reset reset = golden::reset_cores(bench, file, 1u << 1);
  EXPECT_EQ(reset.request_id, static_cast<uint32_t>(DriverBench::kTgid));
  expect_trace(bench.fake().log(), 0, golden_trace("v2_nc1_reset.trace"));
  EXPECT_EQ(bench.executor.now() - start, base::ms(101));
  uapi::device_ready ready{reset.request_id, -7};
  ASSERT_EQ(bench.ioctl(file, uapi::kNcResetReady, ready), 0);
  EXPECT_EQ(ready.result, 1) << "a request is collected once";
  // The other core's ring was left alone; both still copy.
  uint32_t value = 0x1234;
  for (const uint32_t n : {0u, 1u}) {
    const uint64_t handle = bench.alloc(file, 4096, false, n, n);
    EXPECT_EQ(bench.buf_copy(file, handle, &value, 4, 0, true), 0);
  }
}

TEST(BringUp, ProcessExitReturnsQueuesToTheDummyRing) {
  DriverBench bench;
  bench.start();
  const int file = bench.open(DriverBench::kTgid);
  const uint64_t ring = bench.alloc(file, 4096, false, 0, 0, uapi::kMemDmaRingsDevice);
  golden::create_queues_to_return(bench, file, ring);
  bench.fake().log().clear();
  const base::Ps start = bench.executor.now();
  bench.close(file, DriverBench::kTgid);
  // Queue 14 of engine 4 belongs to an instruction fetcher and stays.
  expect_trace(bench.fake().log(), 0, golden_trace("v2_process_exit.trace"));
  EXPECT_EQ(bench.executor.now() - start, base::ms(10));
}

TEST(BringUp, RemoveDisablesQueuesBehindAClosedDevice) {
  DriverBench bench;
  bench.start();
  const int file = bench.open(DriverBench::kTgid);
  uapi::notifications_init_v1 nq{0, 1, 0, 4096, 0};
  ASSERT_EQ(bench.ioctl(file, uapi::kNotificationsInitV1, nq), 0);
  bench.fake().log().clear();
  EXPECT_TRUE(bench.task([&] { bench.driver().remove(); }));
  ASSERT_EQ(bench.fake().log().size(), 3u);
  EXPECT_EQ(bench.fake().log()[0].address, 0x30535104u);
  EXPECT_EQ(bench.fake().pci_command & 6u, 0u);
  EXPECT_EQ(bench.open(DriverBench::kTgid), -EINVAL);
}

TEST(BringUp, DeadFirmwareEndsInvalidAfterReissues) {
  DriverBench bench;
  bench.fake().firmware_dead = true;
  bench.start();
  EXPECT_EQ(bench.driver().device(0)->state, driver::DeviceState::kInvalid);
  EXPECT_EQ(bench.open(DriverBench::kTgid), -EINVAL);
  uint64_t requests = 0;
  for (const LoggedAccess& access : bench.fake().log()) {
    requests += access.write && access.address == 0x30FA0800 ? 1 : 0;
  }
  EXPECT_EQ(requests, 4u) << "every 30 s until 120 s";
  EXPECT_EQ(bench.executor.now(), 120 * base::kPsPerS);
}

TEST(BringUp, QemuRevisionUsesTheResetRegister) {
  BenchOptions options;
  options.device_id = kTrn2;
  options.revision = 0xFF;
  DriverBench bench(options);
  bench.start();
  const auto& log = bench.fake().log();
  ASSERT_GT(log.size(), 3u);
  EXPECT_EQ(log[1].address, 0x06300010u);
  EXPECT_TRUE(log[1].write);
  EXPECT_EQ(log[1].value, 0u);
  EXPECT_EQ(log[2].address, 0x06300010u);
  EXPECT_EQ(bench.fake().resets, 0u);
  EXPECT_EQ(bench.driver().device(0)->state, driver::DeviceState::kReady);
}

TEST(BringUp, Trn1DevicesAreRenumberedAndDuplicatesRefused) {
  BenchOptions options;
  options.devices = 16;
  DriverBench bench(options);
  bench.start();
  EXPECT_EQ(bench.driver().minors().size(), 16u);
  const int file = bench.open(DriverBench::kTgid, O_RDWR, 4);  // routing id 1
  uapi::device_bdf bdf{};
  ASSERT_EQ(bench.ioctl(file, uapi::kDeviceBdf, bdf), 0);
  EXPECT_EQ(bdf.bus_number, 17u);
  uapi::device_info info{};
  ASSERT_EQ(bench.ioctl(file, uapi::kDeviceInfo, info), 0);
  ASSERT_EQ(info.connected_device_count, 4u);
  EXPECT_EQ(info.connected_devices[0], 0u);
  EXPECT_EQ(info.connected_devices[1], 7u);

  BenchOptions two;
  two.devices = 2;
  DriverBench clash(two);
  clash.fake(1).word(0x30FA0024) = 0;
  clash.start();
  EXPECT_EQ(clash.driver().minors().size(), 1u);
  EXPECT_EQ(clash.driver().probe_errors().size(), 1u);
}

}  // namespace
}  // namespace driver_test
