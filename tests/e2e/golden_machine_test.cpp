// The golden register traces against the devices of hw/: what driver/kernel really does to them,
// access by access, and the traces played to them without a driver. hw-registers.md 10.1 to 10.6.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "arch/contract/descriptor.h"
#include "tests/driver_kernel/driver_bench.h"
#include "tests/hw_machine/machine_bench.h"

namespace {

using contract::Gen;
using driver_test::expect_trace;
using driver_test::golden_trace;
using driver_test::LoggedAccess;
using hw_test::MachineBench;
namespace uapi = driver::uapi;

constexpr uint64_t kMisc = 0x30FA'0000;  // v2
constexpr base::Ps kSlice = 10 * base::kPsPerS;

// Passes everything on to a device and keeps what went through BAR 0, as expect_trace reads it.
class RecordingDevice final : public pcie::Device {
 public:
  explicit RecordingDevice(pcie::Device& device) : device_(device) {}

  const pcie::Identity& identity() const override { return device_.identity(); }
  uint32_t config_read(uint32_t offset, unsigned size) override {
    return device_.config_read(offset, size);
  }
  void config_write(uint32_t offset, unsigned size, uint32_t value) override {
    device_.config_write(offset, size, value);
  }
  void bar_read(int bar, uint64_t offset, base::ByteSpan to) override {
    device_.bar_read(bar, offset, to);
    if (bar == 0 && to.size() == 4) log.push_back({false, offset, base::load<uint32_t>(to.data())});
    if (bar != 0 || to.size() != 4) ++other;
  }
  void bar_write(int bar, uint64_t offset, base::ConstByteSpan from) override {
    device_.bar_write(bar, offset, from);
    if (bar == 0 && from.size() == 4) {
      log.push_back({true, offset, base::load<uint32_t>(from.data())});
    }
    if (bar != 0 || from.size() != 4) ++other;
  }
  void reset() override { device_.reset(); }
  base::Result<pcie::BarMapping> bar_map(int bar, uint64_t offset, uint64_t length) override {
    return device_.bar_map(bar, offset, length);
  }

  std::vector<LoggedAccess> log;
  uint64_t other = 0;  // accesses of other sizes or BARs

 private:
  pcie::Device& device_;
};

// driver/kernel on a device of hw/. The arena is the host's memory for both.
struct DriverOnMachine {
  explicit DriverOnMachine(Gen gen)
      : arena(std::move(*driver::HostArena::create(4 * base::kGiB))),
        bench(gen, 1, [this](hw::MachineParams& p) { p.chips[0].host = arena.get(); }),
        device(bench.machine.device(0)) {
    driver::DeviceSlot slot;
    slot.device = &device;
    slot.location.bus = 16;
    slot.location.slot = 0x1e;
    driver = std::make_unique<driver::KernelDriver>(std::vector<driver::DeviceSlot>{slot}, *arena,
                                                    bench.machine.executor(), driver::Params{});
    driver->start();
    task([this] { driver->wait_ready(); });
  }
  ~DriverOnMachine() {
    task([this] { driver->remove(); });
  }
  void task(std::function<void()> body) {
    EXPECT_EQ(bench.run_task(std::move(body), kSlice), hw::RunOutcome::kQuiescent);
  }
  driver::Caller caller() { return {kTgid, kTgid, &memory}; }
  int open() {
    int file = 0;
    task([&] {
      auto opened = driver->open(0, O_RDWR, caller());
      file = opened ? *opened : -1;
    });
    return file;
  }
  template <typename T>
  int ioctl(int file, uint32_t request, T& arg) {
    int result = -1;
    task([&] { result = driver->ioctl(file, request, driver_test::address_of(arg), caller()); });
    return result;
  }
  uint64_t alloc(int file, uint64_t size) {
    uint64_t handle = 0;
    uapi::mem_alloc_v2_mem_type64 request{};
    request.size = size;
    request.mem_handle = driver_test::address_of(handle);
    request.mem_type = 9;
    EXPECT_EQ(ioctl(file, uapi::kMemAllocV2Mt64, request), 0);
    return handle;
  }
  int copy(int file, uint64_t handle, std::vector<uint8_t>& data, bool to_device) {
    uapi::mem_buf_copy64 request{handle, reinterpret_cast<uint64_t>(data.data()), data.size(), 0,
                                 to_device ? 1u : 0u};
    return ioctl(file, uapi::kMemBufCopy64, request);
  }

  static constexpr int32_t kTgid = 100;
  driver_test::SelfMemory memory;
  std::unique_ptr<driver::HostArena> arena;
  MachineBench bench;
  RecordingDevice device;
  std::unique_ptr<driver::KernelDriver> driver;
};

TEST(DriverOnRealMachine, V2BringUpEqualsTheGoldenTrace) {
  DriverOnMachine m(Gen::kV2);
  expect_trace(m.device.log, 0, golden_trace("v2_bring_up.trace"));
  EXPECT_EQ(m.device.other, 0u);
  EXPECT_EQ(m.bench.machine.now(), base::ms(100));
}

TEST(DriverOnRealMachine, V2FirstCopyEqualsTheGoldenTrace) {
  DriverOnMachine m(Gen::kV2);
  const int file = m.open();
  ASSERT_GT(file, 0);
  const uint64_t handle = m.alloc(file, 0x10000);
  std::vector<uint8_t> data(0x10000);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 31 + i / 256);
  m.device.log.clear();
  ASSERT_EQ(m.copy(file, handle, data, true), 0);
  expect_trace(m.device.log, 0, golden_trace("v2_first_copy.trace"));
  std::vector<uint8_t> back(data.size(), 0xEE);
  ASSERT_EQ(m.copy(file, handle, back, false), 0);
  EXPECT_EQ(back, data);
}

// 10.6: one core is reset, with a queue of its own and one of its CC-core allocated.
TEST(DriverOnRealMachine, V2CoreResetEqualsTheGoldenTrace) {
  DriverOnMachine m(Gen::kV2);
  const int file = m.open();
  ASSERT_GT(file, 0);
  uapi::notifications_init_v2 nc{};
  nc.nq_dev_id = 1;
  nc.nq_type = uapi::kNqNotify;
  nc.engine_index = 2;
  nc.size = 4096;
  nc.on_host_memory = 1;
  ASSERT_EQ(m.ioctl(file, uapi::kNotificationsInitV2, nc), 0);
  uapi::notifications_init_v2 topsp{};
  topsp.nq_dev_id = 4;
  topsp.nq_dev_type = uapi::kNqDevTopsp;
  topsp.size = 8192;
  topsp.dram_channel = 1;
  ASSERT_EQ(m.ioctl(file, uapi::kNotificationsInitV2, topsp), 0);
  m.device.log.clear();
  uapi::device_reset reset{2, 0};
  ASSERT_EQ(m.ioctl(file, uapi::kNcReset, reset), 0);
  uapi::device_ready ready{reset.request_id, -7};
  ASSERT_EQ(m.ioctl(file, uapi::kNcResetReady, ready), 0);
  EXPECT_EQ(ready.result, 0);
  expect_trace(m.device.log, 0, golden_trace("v2_nc1_reset.trace"));
}

// 10.6: the queues of a process that ends go to the dummy ring, on which nothing moves.
TEST(DriverOnRealMachine, V2ProcessExitEqualsTheGoldenTrace) {
  DriverOnMachine m(Gen::kV2);
  const int file = m.open();
  ASSERT_GT(file, 0);
  const uint64_t ring = m.alloc(file, 4096);
  for (const auto& [engine, queue] : {std::pair{17u, 0u}, {3u, 5u}, {4u, 14u}}) {
    uapi::dma_queue_init init{engine, queue, 64, 64, ring, ring, 0, 0};
    ASSERT_EQ(m.ioctl(file, uapi::kDmaQueueInit, init), 0);
  }
  m.device.log.clear();
  const base::Ps start = m.bench.machine.now();
  m.task([&] {
    m.driver->flush(file, m.caller());
    m.driver->release(file);
  });
  expect_trace(m.device.log, 0, golden_trace("v2_process_exit.trace"));
  EXPECT_EQ(m.bench.machine.now() - start, base::ms(10));
  EXPECT_TRUE(m.bench.machine.who_waits().empty());
}

struct Totals {
  uint64_t writes = 0;
  uint64_t reads = 0;
};

// hw-registers.md 10.2: the totals of steps 6 to 14 and the first engine in full (10.3).
class LaterGenerations : public ::testing::TestWithParam<Gen> {};

TEST_P(LaterGenerations, BringUpAndFirstCopy) {
  const bool v3 = GetParam() == Gen::kV3;
  DriverOnMachine m(GetParam());
  Totals totals;
  for (size_t i = 5; i < m.device.log.size(); ++i) {
    ++(m.device.log[i].write ? totals.writes : totals.reads);
  }
  EXPECT_EQ(totals.writes, v3 ? 18'436u : 18'568u);
  EXPECT_EQ(totals.reads, v3 ? 900u : 1'032u);
  auto want = golden_trace(v3 ? "v3_engine.trace" : "v4_engine.trace",
                           {{"U", 0x8200'0000}, {"S", 0x8204'0000}, {"Q", 0x30000}});
  expect_trace(m.device.log, 5, want, false);
  const int file = m.open();
  ASSERT_GT(file, 0);
  const uint64_t handle = m.alloc(file, 0x10000);
  std::vector<uint8_t> data(0x10000, 0x5A);
  m.device.log.clear();
  ASSERT_EQ(m.copy(file, handle, data, true), 0);
  expect_trace(m.device.log, 0, golden_trace("v3_first_copy.trace"));
}

INSTANTIATE_TEST_SUITE_P(Generations, LaterGenerations, ::testing::Values(Gen::kV3, Gen::kV4),
                         [](const auto& info) {
                           return "v" + std::to_string(static_cast<int>(info.param));
                         });

// Plays a trace: writes are performed, reads must return what the trace says. A read of the misc
// RAM that does not is made again after the driver's 100 ms, as 10.2 step 4 polls.
class Player {
 public:
  explicit Player(MachineBench& bench) : bench_(bench) {}
  // What a `*` stands for in a write, by the register's offset in its queue: ring addresses.
  uint64_t m2s_ring = 0, s2m_ring = 0;
  int polls = 0;

  ::testing::AssertionResult play(const std::vector<golden::Access>& trace) {
    for (size_t i = 0; i < trace.size(); ++i) {
      const golden::Access& access = trace[i];
      if (access.write) {
        bench_.put(access.address, access.any ? ring_word(access.address) : access.value);
        continue;
      }
      uint32_t got = bench_.get(access.address);
      while (!access.any && got != access.value && access.address - kMisc < 0x1000 && polls < 5) {
        ++polls;
        bench_.machine.executor().delay(100 * base::kPsPerMs);
        got = bench_.get(access.address);
      }
      if (!access.any && got != access.value) {
        return ::testing::AssertionFailure()
               << "entry " << i << ": R " << std::hex << access.address << " gives " << got
               << ", not " << access.value;
      }
    }
    return ::testing::AssertionSuccess();
  }

 private:
  uint32_t ring_word(uint64_t address) const {
    const uint64_t ring = (address & contract::kS2mOffset) != 0 ? s2m_ring : m2s_ring;
    return static_cast<uint32_t>((address & 0xFFF) == 0x28 ? ring : ring >> 32);
  }
  MachineBench& bench_;
};

// 10.1 to 10.3 and 10.5 without a driver: the trace alone brings a device up and copies.
TEST(GoldenTracePlayer, V2BringUpAndFirstCopy) {
  constexpr uint64_t kTx = 0x1'0000, kRx = 0x4'0000, kMark = 0x7'0000, kData = 0x8'0000;
  MachineBench b;
  b.host.bytes.resize(0x10'0000);
  Player player(b);
  player.m2s_ring = b.host_address(kTx);
  player.s2m_ring = b.host_address(kRx);
  EXPECT_EQ(b.run_task([&] { EXPECT_TRUE(player.play(golden_trace("v2_bring_up.trace"))); },
                       base::kPsPerS),
            hw::RunOutcome::kQuiescent);
  EXPECT_EQ(player.polls, 1);

  const uint64_t hbm = b.map().hbm_base(0) + contract::kFirmwareReserved;
  for (uint32_t i = 0; i < 0x10000; ++i) b.host.bytes[kData + i] = static_cast<uint8_t>(i * 7 + 1);
  const auto words = [&](uint64_t at, uint32_t w0, uint32_t w1, uint64_t address) {
    base::store(&b.host.bytes[at], w0);
    base::store(&b.host.bytes[at + 4], w1);
    base::store(&b.host.bytes[at + 8], address);
  };
  base::store<uint32_t>(&b.host.bytes[kMark], 0xABCD'EF01);
  words(kTx, 0x0D00'0000, 0x0508'0003, b.host_address(kData));
  words(kTx + 16, 0x0D00'0004, 0x0108'0003, b.host_address(kMark));
  words(kRx, 0x0100'0000, 0, hbm);
  words(kRx + 16, 0x0100'0004, 0, b.host_address(kMark + 4));
  base::Ps start = 0;
  b.run_task([&] {
    start = b.machine.now();
    EXPECT_TRUE(player.play(golden_trace("v2_first_copy.trace")));
  });
  EXPECT_EQ(base::load<uint32_t>(&b.host.bytes[kMark + 4]), 0xABCD'EF01u);
  EXPECT_LT(b.machine.now() - start, base::ms(40));  // 10.5 event 9
  std::vector<uint8_t> read(0x10000);
  b.machine.device(0).bar_read(4, hbm - b.map().hbm_base(0), read);
  EXPECT_EQ(std::memcmp(read.data(), &b.host.bytes[kData], read.size()), 0);
  EXPECT_FALSE(b.machine.error().has_value());
}

// A trace with one wrong read value must fail, or the player checks nothing.
TEST(GoldenTracePlayer, NoticesAWrongValue) {
  MachineBench b;
  Player player(b);
  auto trace = golden_trace("v2_engine.trace", {{"U", 0x3000'0000}, {"S", 0x3040'0000}, {"Q", 0}});
  b.run_task([&] { EXPECT_TRUE(player.play(trace)); });
  for (golden::Access& access : trace) {
    if (!access.write) access.value ^= 1;
  }
  b.run_task([&] { EXPECT_FALSE(player.play(trace)); });
}

// The masks of 10.3, entries 133 to 146, are read, changed and written back.
TEST(GoldenTracePlayer, V3EngineAndMasks) {
  MachineBench b(Gen::kV3);
  Player player(b);
  b.run_task([&] {
    EXPECT_TRUE(player.play(
        golden_trace("v3_engine.trace", {{"U", 0x8200'0000}, {"S", 0x8204'0000}, {"Q", 0x30000}})));
    EXPECT_TRUE(player.play(
        golden_trace("v3_engine_masks.trace", {{"U", 0x8200'0000}, {"F", 0x8C00'0000}})));
  });
}

}  // namespace
