// driver/kernel on the devices of hw/, on each generation and revision: what it really does to them
// is what the golden scripts say, access by access. spec/hw-registers.md 10.1 to 10.7, 1.2, 8.5.
// The same scripts without a driver are the tests play_*; here are those of the player itself.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "driver/uapi/requests.h"
#include "tests/driver_kernel/driver_bench.h"
#include "tests/e2e/recording_device.h"
#include "tests/golden/player.h"
#include "tests/hw_machine/machine_bench.h"

namespace {

using contract::Gen;
using driver_test::expect_trace;
using driver_test::golden_trace;
using e2e::RecordingDevice;
using hw_test::MachineBench;
namespace uapi = driver::uapi;

constexpr base::Ps kSlice = 100 * base::kPsPerS;
constexpr uint8_t kSilicon = 0x00;
constexpr uint8_t kEmulator = 0xF0;
constexpr uint8_t kQemu = 0xFF;

struct Chip {
  Gen gen;
  uint8_t revision;
  bool timing_only = false;
};

// driver/kernel on a device of hw/. The arena is the host's memory for both.
struct DriverOnMachine {
  explicit DriverOnMachine(Chip chip)
      : arena(std::move(*driver::HostArena::create(4 * base::kGiB))),
        bench(chip.gen, 1,
              [&](hw::MachineParams& p) {
                p.chips[0].host = arena.get();
                p.revision = chip.revision;
                p.timing_only = chip.timing_only;
              }),
        device(bench.machine.device(0)) {
    load();
  }
  ~DriverOnMachine() { unload(); }
  void load() {
    driver::DevicePlace slot;
    slot.device = &device;
    slot.location.bus = 16;
    slot.location.slot = 0x1e;
    driver = std::make_unique<driver::KernelDriver>(std::vector<driver::DevicePlace>{slot}, *arena,
                                                    bench.machine.executor(), driver::Params{});
    driver->start();
    task([this] { driver->wait_ready(); });
  }
  void unload() {
    if (driver != nullptr) task([this] { driver->remove(); });
    driver.reset();
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
  uint64_t alloc(int file, uint64_t size, uint32_t nc = 0) {
    uint64_t handle = 0;
    uapi::mem_alloc_v2_mem_type64 request{};
    request.size = size;
    request.mem_handle = driver_test::address_of(handle);
    request.mem_type = 9;
    request.nc_id = nc;
    request.dram_channel = bench.map().hbm_of_nc(nc);
    EXPECT_EQ(ioctl(file, uapi::kMemAllocV2Mt64, request), 0);
    return handle;
  }
  int copy(int file, uint64_t handle, std::vector<uint8_t>& data, bool to_device) {
    uapi::mem_buf_copy64 request{handle, reinterpret_cast<uint64_t>(data.data()), data.size(), 0,
                                 to_device ? 1u : 0u};
    return ioctl(file, uapi::kMemBufCopy64, request);
  }
  // Writes and reads back on the ring of `nc`.
  void expect_copies(int file, uint32_t nc) {
    std::vector<uint8_t> data(0x10000);
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 31 + i / 256 + nc);
    const uint64_t handle = alloc(file, data.size(), nc);
    ASSERT_EQ(copy(file, handle, data, true), 0);
    std::vector<uint8_t> back(data.size(), 0xEE);
    ASSERT_EQ(copy(file, handle, back, false), 0);
    EXPECT_EQ(back, data);
  }

  static constexpr int32_t kTgid = 100;
  driver_test::SelfMemory memory;
  std::unique_ptr<driver::HostArena> arena;
  MachineBench bench;
  RecordingDevice device;
  std::unique_ptr<driver::KernelDriver> driver;
};

std::string name_of(Chip chip) {
  return "v" + std::to_string(static_cast<int>(chip.gen)) +
         (chip.revision == kQemu       ? "Qemu"
          : chip.revision == kEmulator ? "Emulator"
                                       : "");
}

// Every generation as silicon, emulator and QEMU.
class Revisions : public ::testing::TestWithParam<Chip> {
 protected:
  // The script of this generation.
  std::vector<golden::Step> script(const std::string& what) const {
    return golden_trace("v" + std::to_string(static_cast<int>(GetParam().gen)) + "_" + what +
                        ".trace");
  }
  std::vector<golden::Step> bring_up() const {
    return script(GetParam().revision == kQemu       ? "qemu"
                  : GetParam().revision == kEmulator ? "emulator"
                                                     : "bring_up");
  }
  // A driver does not reset an emulated v4 device, so that it finds what the one before has left.
  std::vector<golden::Step> reload() const {
    return GetParam().revision == kEmulator && GetParam().gen == Gen::kV4 ? script("emulator_again")
                                                                          : bring_up();
  }
};

TEST_P(Revisions, BringUpCopyAndReload) {
  DriverOnMachine m(GetParam());
  expect_trace(m.device.log, 0, bring_up());
  EXPECT_EQ(m.device.other, 0u);
  if (GetParam().revision == kSilicon) {
    EXPECT_EQ(m.bench.machine.now(), base::ms(100));
  }
  m.device.log.clear();
  int file = m.open();
  ASSERT_GT(file, 0);
  expect_trace(m.device.log, 0, script("open"));
  const uint64_t handle = m.alloc(file, 0x10000);
  std::vector<uint8_t> data(0x10000, 0x5A);
  m.device.log.clear();
  ASSERT_EQ(m.copy(file, handle, data, true), 0);
  expect_trace(m.device.log, 0, script("first_copy"));
  m.expect_copies(file, 0);
  EXPECT_EQ(m.bench.machine.access_log().total(hw::AccessLog::Kind::kUnknown), 0u);

  m.unload();
  m.device.log.clear();
  m.load();
  expect_trace(m.device.log, 0, reload());
  file = m.open();
  ASSERT_GT(file, 0);
  m.expect_copies(file, 0);
}

INSTANTIATE_TEST_SUITE_P(All, Revisions,
                         ::testing::Values(Chip{Gen::kV2, kSilicon}, Chip{Gen::kV3, kSilicon},
                                           Chip{Gen::kV4, kSilicon}, Chip{Gen::kV2, kEmulator},
                                           Chip{Gen::kV3, kEmulator}, Chip{Gen::kV4, kEmulator},
                                           Chip{Gen::kV2, kQemu}, Chip{Gen::kV3, kQemu},
                                           Chip{Gen::kV4, kQemu}),
                         [](const auto& info) { return name_of(info.param); });

class CoreResets : public Revisions {};

// 10.6: one core is reset, with a queue of its own and one of its CC-core allocated. The other
// core's ring goes on, on v3 and v4 on the same engine.
TEST_P(CoreResets, OneCore) {
  DriverOnMachine m(GetParam());
  const int file = m.open();
  ASSERT_GT(file, 0);
  m.expect_copies(file, 0);
  golden::create_queues_of_nc1(m, file, m.bench.map());
  m.device.log.clear();
  golden::reset_cores(m, file, 1u << 1);
  expect_trace(m.device.log, 0,
               script(GetParam().revision == kQemu ? "qemu_nc1_reset" : "nc1_reset"));
  m.expect_copies(file, 0);
  m.expect_copies(file, 1);
}

INSTANTIATE_TEST_SUITE_P(All, CoreResets,
                         ::testing::Values(Chip{Gen::kV2, kSilicon}, Chip{Gen::kV3, kSilicon},
                                           Chip{Gen::kV4, kSilicon}, Chip{Gen::kV2, kQemu},
                                           Chip{Gen::kV3, kQemu}, Chip{Gen::kV4, kQemu}),
                         [](const auto& info) { return name_of(info.param); });

class Generations : public Revisions {};

// 10.6: the queues of a process that ends go to the dummy ring, on which nothing moves.
TEST_P(Generations, ProcessExit) {
  DriverOnMachine m(GetParam());
  const int file = m.open();
  ASSERT_GT(file, 0);
  golden::create_queues_to_return(m, file, m.alloc(file, 4096));
  m.device.log.clear();
  const base::Ps start = m.bench.machine.now();
  m.task([&] {
    m.driver->flush(file, m.caller());
    m.driver->release(file);
  });
  expect_trace(m.device.log, 0, script("process_exit"));
  EXPECT_EQ(m.bench.machine.now() - start, base::ms(10));
  EXPECT_TRUE(m.bench.machine.who_waits().empty());
}

// 10.7: the writes go to a device that does not decode any more.
TEST_P(Generations, Remove) {
  DriverOnMachine m(GetParam());
  const int file = m.open();
  ASSERT_GT(file, 0);
  uapi::notifications_init_v1 nq{0, 1, 0, 4096, 0};
  ASSERT_EQ(m.ioctl(file, uapi::kNotificationsInitV1, nq), 0);
  m.device.log.clear();
  m.unload();
  expect_trace(m.device.log, 0, script("remove"));
  EXPECT_EQ(m.device.config_read(4, 2) & 6u, 0u);
  EXPECT_FALSE(m.bench.machine.error().has_value());
}

// 10.9: metrics that a client posts.
TEST_P(Generations, Metric) {
  DriverOnMachine m(GetParam());
  const int file = m.open();
  ASSERT_GT(file, 0);
  std::vector<uint8_t> blob(128);
  for (size_t i = 0; i < blob.size(); ++i) blob[i] = static_cast<uint8_t>(0x11 * (i / 4 + 1));
  m.device.log.clear();
  uapi::post_metric request{reinterpret_cast<uint64_t>(blob.data()), 128};
  ASSERT_EQ(m.ioctl(file, uapi::kPostMetric, request), 0);
  expect_trace(m.device.log, 0, script("metric"));
}

INSTANTIATE_TEST_SUITE_P(All, Generations,
                         ::testing::Values(Chip{Gen::kV2, kSilicon}, Chip{Gen::kV3, kSilicon},
                                           Chip{Gen::kV4, kSilicon}),
                         [](const auto& info) { return name_of(info.param); });

class SharedEngines : public Revisions {};

// Both cores that share a host-copy engine: it is initialised once, through the even one.
TEST_P(SharedEngines, BothCoresReset) {
  DriverOnMachine m(GetParam());
  const int file = m.open();
  ASSERT_GT(file, 0);
  m.expect_copies(file, 3);
  m.device.log.clear();
  golden::reset_cores(m, file, 3u << 2);
  expect_trace(m.device.log, 0, script("nc23_reset"));
  m.expect_copies(file, 2);
  m.expect_copies(file, 3);
}

class RegisterMailbox : public Revisions {};

// 7.6: the gate of release 2.26 is version 7, which v4 firmware does not reach.
TEST_P(RegisterMailbox, PowerProfile) {
  DriverOnMachine m(GetParam());
  const int file = m.open();
  ASSERT_GT(file, 0);
  uapi::power_profile request{};
  request.sz = sizeof request;
  request.profile = 5;
  m.device.log.clear();
  ASSERT_EQ(m.ioctl(file, uapi::kPowerProfile, request), 0);
  expect_trace(m.device.log, 0, script("power_profile"));
}

INSTANTIATE_TEST_SUITE_P(All, RegisterMailbox, ::testing::Values(Chip{Gen::kV3, kSilicon}),
                         [](const auto& info) { return name_of(info.param); });

INSTANTIATE_TEST_SUITE_P(All, SharedEngines,
                         ::testing::Values(Chip{Gen::kV3, kSilicon}, Chip{Gen::kV4, kSilicon}),
                         [](const auto& info) { return name_of(info.param); });

// spec/driver-ioctl.md 3.15: a whole stack, by 16 engines, in the time that
// spec/hw-registers.md 3.12 gives it.
class Scrub : public Revisions {};

TEST_P(Scrub, EndsInTime) {
  DriverOnMachine m(GetParam());
  const int file = m.open();
  ASSERT_GT(file, 0);
  const base::Ps start = m.bench.machine.now();
  uapi::hbm_scrub_start request{0, 1, 0, 0x1234'5678};
  ASSERT_EQ(m.ioctl(file, uapi::kHbmScrubStart, request), 0);
  uapi::hbm_scrub_wait wait{0, 1};
  ASSERT_EQ(m.ioctl(file, uapi::kHbmScrubWait, wait), 0);
  // Not faster than 16 engines at their nominal 27.2 GB/s, 38.4 GB/s on v4
  // (spec/hw-registers.md 3.14).
  const uint64_t bytes = m.bench.map().hbm_size() - contract::kFirmwareReserved;
  EXPECT_GT(m.bench.machine.now() - start, bytes * 1000 / 16 / 39);
  m.expect_copies(file, 0);
}

INSTANTIATE_TEST_SUITE_P(All, Scrub,
                         ::testing::Values(Chip{Gen::kV2, kSilicon, true},
                                           Chip{Gen::kV4, kSilicon, true}),
                         [](const auto& info) { return name_of(info.param); });

golden::Played play(MachineBench& bench, const golden::Script& script) {
  golden::Player player({{&bench.machine.device(0)}, &bench.host, &bench.machine.executor()});
  golden::Played played;
  bench.run_task([&] { played = player.play(script); }, kSlice);
  return played;
}

// Of engine 0; the queues are configured with `enables`.
golden::Script engine_script(std::optional<uint64_t> enables) {
  return golden::ScriptReader(GOLDEN_DIR)
      .read("v2_engine.trace", golden::ScriptReader::For::kPlayer,
            {{"U", 0x3000'0000}, {"S", 0x3040'0000}, {"Q", enables}});
}

// A script with one wrong read value must fail, or the player checks nothing.
TEST(TracePlayer, NoticesAWrongValue) {
  MachineBench b;
  golden::Script script = engine_script(0);
  EXPECT_EQ(play(b, script).failure, "");
  for (golden::Step& step : script.steps) {
    if (step.op == golden::Op::kRead) step.value.value ^= 1;
  }
  const golden::Played played = play(b, script);
  EXPECT_EQ(played.failure, "v2_engine.trace:108: R 3003B460: expected 1, got 0");
  EXPECT_EQ(played.reads, 1u);
}

TEST(TracePlayer, WritesOnlyKnownValues) {
  MachineBench b;
  const golden::Played played = play(b, engine_script(std::nullopt));
  EXPECT_EQ(played.failure, "v2_engine.trace:2: a write needs a value");
  EXPECT_EQ(played.writes, 0u);
}

TEST(TracePlayer, ReadsAndFailsByFileAndLine) {
  golden::ScriptReader reader(GOLDEN_DIR);
  EXPECT_THROW(reader.read("none.trace", golden::ScriptReader::For::kPlayer), std::runtime_error);
  try {
    reader.read("queue.trace", golden::ScriptReader::For::kPlayer, {{"T", 0x30601000}});
    FAIL() << "X has no value";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "queue.trace:5: 'TX' is no number");
  }
}

}  // namespace
