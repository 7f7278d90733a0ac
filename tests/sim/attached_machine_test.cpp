#include "sim/attached_machine.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>

#include "driver/qemu/front_end.h"
#include "driver/qemu/guest_memory.h"
#include "driver/qemu/remote_pci.h"
#include "tests/driver_qemu/guest.h"

namespace {

using driver::qemu::GuestMemory;
using driver::qemu::RemotePci;
using driver_test::Guest;
using sim::AttachedMachine;

constexpr uint64_t kRam = 128 << 20;
constexpr uint64_t kHbm = contract::kFirmwareReserved;  // device address of HBM 0

AttachedMachine::Params params_of(const std::string& platform, pcie::BarLayout bars,
                                  pcie::HostMemory* memory) {
  auto loaded = config::load_platform(platform);
  EXPECT_TRUE(loaded.ok());
  auto timing = config::Timing::load(loaded->timing);
  EXPECT_TRUE(timing.ok());
  const size_t chips = loaded->chips.size();
  AttachedMachine::Params params{std::move(*loaded), std::move(*timing)};
  params.bars = bars;
  params.host_memory.assign(chips, memory);
  return params;
}

// A host that the machine asks on every turn of its loop, on the machine's thread.
class Onlooker final : public driver::qemu::FrontEnd {
 public:
  Onlooker() = default;
  // With something to say on every turn: `look` is called then.
  explicit Onlooker(std::function<void()> look) : look_(std::move(look)) { wake(); }
  int poll_fd() const override {
    ++turns;
    return event_.get();
  }
  base::Result<bool> serve() override {
    if (look_) look_();
    return !left_;
  }
  void leave() {
    left_ = true;
    wake();
  }
  mutable std::atomic<int> turns{0};

 private:
  void wake() {
    const uint64_t one = 1;
    EXPECT_EQ(::write(event_.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  }

  std::function<void()> look_;
  std::atomic<bool> left_{false};
  base::UniqueFd event_{::eventfd(0, EFD_CLOEXEC)};
};

// One device and its guest.
struct Bench {
  using Change = std::function<void(AttachedMachine::Params&)>;
  explicit Bench(const std::string& platform = "trn1.2xlarge",
                 pcie::BarLayout bars = pcie::BarLayout::k32Bit, const Change& change = {})
      : gen(platform.substr(0, 4) == "trn1" ? contract::Gen::kV2 : contract::Gen::kV3) {
    AttachedMachine::Params params = params_of(platform, bars, &memory);
    if (change) change(params);
    auto built = AttachedMachine::create(std::move(params));
    EXPECT_TRUE(built.ok()) << built.error().message();
    machine = std::move(*built);
  }
  // Runs `course` as the guest, on a thread, until it has ended.
  base::Status run(const std::function<void(Guest&)>& course, Onlooker* onlooker = nullptr) {
    auto [ours, theirs] = driver_test::socket_pair();
    RemotePci front(machine->device(0), memory, std::move(ours));
    std::thread thread([&, socket = theirs.release()] {
      Guest guest(base::UniqueFd(socket), kRam, gen);
      course(guest);
      if (onlooker != nullptr) onlooker->leave();
    });
    std::vector<driver::qemu::FrontEnd*> hosts{&front};
    if (onlooker != nullptr) hosts.push_back(onlooker);
    base::Status status = machine->serve(hosts);
    thread.join();
    return status;
  }
  contract::Gen gen;
  GuestMemory memory;
  std::unique_ptr<AttachedMachine> machine;
};

void fill(Guest& guest, uint64_t phys, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; ++i) *guest.ram(phys + i) = static_cast<uint8_t>(i * 7 + i / 251);
}

// There and back; equal to what was sent.
bool round_trip(Guest& guest, uint64_t bytes) {
  fill(guest, Guest::kData, bytes);
  const uint64_t back = Guest::kData + (32 << 20);
  std::memset(guest.ram(back), 0, bytes);
  return guest.copy(kHbm, guest.host(Guest::kData), bytes) &&
         guest.copy(guest.host(back), kHbm, bytes) &&
         std::memcmp(guest.ram(back), guest.ram(Guest::kData), bytes) == 0;
}

// Gives the machine so much time, if it has something to do: a slice follows every request, and
// none is shorter than a microsecond.
void let_it_run(Guest& guest, uint32_t us = 200) {
  for (uint32_t i = 0; i < us; ++i) (void)guest.peer.config_read(0);
}

TEST(AttachedMachine, ProbeResetAndCopy) {
  Bench bench;
  const base::Status status = bench.run([](Guest& guest) {
    EXPECT_EQ(guest.peer.config_read(0), 0x7164'1D0Fu);
    EXPECT_EQ(guest.peer.config_read(0x3D, 1), 0u);  // no interrupt pin
    guest.boot();
    EXPECT_EQ(guest.get(guest.misc(contract::misc::kRoutingId)), 0u);
    EXPECT_TRUE(guest.reset_device());
    guest.set_up_queue();
    EXPECT_TRUE(round_trip(guest, 1));
    EXPECT_TRUE(round_trip(guest, 1'000'003));
    // HBM through BAR 4 is what was copied.
    EXPECT_EQ(guest.peer.read(guest.bar4() + kHbm, 8),
              base::load<uint64_t>(guest.ram(Guest::kData)));
    guest.put(0x3FFF'0000, 1);  // nothing there
  });
  EXPECT_TRUE(status.ok());
  const std::string report = bench.machine->take_report().to_json();
  EXPECT_NE(report.find("\"policy\": \"free\""), std::string::npos);
  EXPECT_NE(report.find("\"repeatable\": false"), std::string::npos);
  EXPECT_NE(report.find("bar0+0x03fff0000"), std::string::npos);
}

TEST(AttachedMachine, RingsWrapAround) {
  Bench bench;
  ASSERT_TRUE(bench
                  .run([](Guest& guest) {
                    guest.boot();
                    EXPECT_TRUE(guest.reset_device());
                    guest.set_up_queue();
                    for (int i = 0; i < 70; ++i) {  // 129 descriptors each
                      ASSERT_TRUE(guest.copy(kHbm, guest.host(Guest::kData), 8 << 20)) << i;
                    }
                    EXPECT_TRUE(round_trip(guest, 70'000));
                  })
                  .ok());
}

TEST(AttachedMachine, SixtyFourBitBarsOfV3) {
  Bench bench("trn2.3xlarge", pcie::BarLayout::kFull);
  ASSERT_TRUE(bench
                  .run([](Guest& guest) {
                    EXPECT_EQ(guest.peer.config_read(0), 0x7364'1D0Fu);
                    guest.boot();
                    EXPECT_TRUE(guest.reset_device());
                    guest.set_up_queue();
                    EXPECT_TRUE(round_trip(guest, 200'000));
                  })
                  .ok());
}

// A reboot of the guest while data move.
TEST(AttachedMachine, PciReset) {
  Bench bench;
  ASSERT_TRUE(bench
                  .run([](Guest& guest) {
                    guest.boot();
                    EXPECT_TRUE(guest.reset_device());
                    guest.set_up_queue();
                    EXPECT_TRUE(round_trip(guest, 4096));
                    guest.put(guest.misc(contract::misc::kElectionStatus), 0x1234);
                    guest.start_copy(kHbm + (1 << 20), guest.host(Guest::kData), 32 << 20, false);
                    guest.peer.reset();
                    EXPECT_EQ(guest.peer.config_read(0x04, 2), 0u);
                    EXPECT_EQ(guest.peer.config_read(0x10), 0u);
                    guest.boot();
                    guest.finish_copy();
                    let_it_run(guest);
                    EXPECT_FALSE(guest.copy_done());
                    EXPECT_EQ(guest.get(guest.misc(contract::misc::kElectionStatus)), 0u);
                    EXPECT_NE(guest.get(guest.misc(contract::misc::kSerialLo)), 0u);
                    EXPECT_EQ(guest.peer.read(guest.bar4() + kHbm, 8),
                              base::load<uint64_t>(guest.ram(Guest::kData)));
                    EXPECT_TRUE(guest.reset_device());
                    guest.set_up_queue();
                    EXPECT_TRUE(round_trip(guest, 100'000));
                  })
                  .ok());
}

TEST(AttachedMachine, PciResetDuringADeviceReset) {
  Bench bench;
  ASSERT_TRUE(bench
                  .run([](Guest& guest) {
                    guest.boot();
                    guest.put(guest.misc(contract::misc::kResetRequest), 1);
                    guest.put(guest.misc(contract::misc::kTrigger), 1);
                    guest.peer.reset();
                    guest.boot();
                    EXPECT_EQ(guest.get(guest.misc(contract::misc::kStatus)) & 8, 0u);
                    EXPECT_EQ(guest.get(guest.misc(contract::misc::kResetRequest)), 0u);
                    EXPECT_TRUE(guest.reset_device());
                  })
                  .ok());
}

TEST(AttachedMachine, NoBusMasterNoHostMemory) {
  Bench bench;
  ASSERT_TRUE(bench
                  .run([](Guest& guest) {
                    guest.boot();
                    EXPECT_TRUE(guest.reset_device());
                    guest.set_up_queue();
                    guest.peer.config_write(0x04, 2, 2);  // memory decode only
                    guest.start_copy(kHbm, guest.host(Guest::kData), 4096);
                    let_it_run(guest);
                    EXPECT_FALSE(guest.copy_done());
                    guest.peer.config_write(0x04, 6, 2);
                    EXPECT_TRUE(guest.reset_device());
                    guest.set_up_queue();
                    EXPECT_TRUE(round_trip(guest, 4096));
                  })
                  .ok());
  const std::string report = bench.machine->take_report().to_json();
  const size_t at = report.find("\"dma_errors\"");
  ASSERT_NE(at, std::string::npos);
  EXPECT_NE(report.substr(at, 60).find("\"value\": 1"), std::string::npos) << report.substr(at, 60);
}

// Memory goes away under a running transfer, as when firmware lays it out anew.
TEST(AttachedMachine, MemoryGoesAway) {
  Bench bench;
  ASSERT_TRUE(bench
                  .run([](Guest& guest) {
                    guest.boot();
                    EXPECT_TRUE(guest.reset_device());
                    guest.set_up_queue();
                    guest.start_copy(kHbm, guest.host(Guest::kData), 8 << 20, false);
                    guest.peer.set_memory({}, {});
                    guest.finish_copy();
                    let_it_run(guest, 2000);  // the copy takes some 0.5 ms
                    EXPECT_FALSE(guest.copy_done());
                    guest.boot();
                    EXPECT_TRUE(guest.reset_device());
                    guest.set_up_queue();
                    EXPECT_TRUE(round_trip(guest, 4096));
                  })
                  .ok());
}

// Between the first byte of a long copy and the last the machine looks at its hosts many times: 64
// MiB take some 4 ms, a slice is 50 us at most.
TEST(AttachedMachine, HostsAreServedWhileDataMove) {
  constexpr uint64_t kFirst = 0x0123'4567'89AB'CDEF;
  Bench bench;
  std::atomic<Guest*> watched{nullptr};
  int turns = 0;
  Onlooker onlooker([&] {
    Guest* guest = watched.load();
    if (guest != nullptr && !guest->copy_done() &&
        base::load<uint64_t>(guest->ram(Guest::kData)) == kFirst) {
      ++turns;
    }
  });
  const auto course = [&](Guest& guest) {
    guest.boot();
    EXPECT_TRUE(guest.reset_device());
    guest.set_up_queue();
    guest.peer.write(guest.bar4() + kHbm, kFirst, 8);
    watched = &guest;
    guest.start_copy(guest.host(Guest::kData), kHbm, 64 << 20);
    EXPECT_EQ(guest.get(guest.misc(contract::misc::kRoutingId)), 0u);
    EXPECT_TRUE(guest.wait_for([&] { return guest.copy_done(); }));
    watched = nullptr;
    (void)guest.peer.config_read(0);  // the onlooker has seen that
  };
  ASSERT_TRUE(bench.run(course, &onlooker).ok());
  EXPECT_GT(turns, 10);
}

TEST(AttachedMachine, AtRestItsLoopSleeps) {
  constexpr int kRequests = 100;
  Bench bench;
  const auto course = [](Guest& guest) {
    guest.boot();
    EXPECT_TRUE(guest.reset_device());
    guest.set_up_queue();
    EXPECT_TRUE(round_trip(guest, 4096));
    let_it_run(guest);
  };
  ASSERT_TRUE(bench.run(course).ok());
  Onlooker onlooker;
  int turns = 0;
  const auto ask = [&](Guest& guest) {
    const int before = onlooker.turns;
    for (int i = 0; i < kRequests; ++i) (void)guest.peer.config_read(0);
    // Long enough for a loop that does not sleep to go round many times.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    turns = onlooker.turns - before;
  };
  ASSERT_TRUE(bench.run(ask, &onlooker).ok());
  EXPECT_GE(turns, 1);
  EXPECT_LE(turns, 2 * kRequests);
}

TEST(AttachedMachine, StopsAndGoesOn) {
  Bench bench;
  auto [ours, theirs] = driver_test::socket_pair();
  RemotePci front(bench.machine->device(0), bench.memory, std::move(ours));
  for (int i = 0; i < 2; ++i) {
    std::thread thread([&] { bench.machine->stop(); });
    EXPECT_TRUE(bench.machine->serve({&front}).ok());
    thread.join();
  }
  EXPECT_GE(front.poll_fd(), 0);
}

TEST(AttachedMachine, ABrokenProtocolEndsIt) {
  Bench bench;
  const base::Status status = bench.run([](Guest& guest) {
    EXPECT_TRUE(driver_test::send_with(guest.peer.fd(), std::vector<uint8_t>(16, 0xFF), {}));
  });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().fault, base::Fault::kUsage);
}

TEST(AttachedMachine, BuildsPlatformsOfManyDevices) {
  auto built = AttachedMachine::create(params_of("trn2.48xlarge", pcie::BarLayout::kFull, nullptr));
  ASSERT_TRUE(built.ok()) << built.error().message();
  ASSERT_EQ((*built)->chips(), 16u);
  // spec/hw-registers.md 1.5
  constexpr uint32_t kIndexOfRoutingId[] = {0, 3, 4, 7, 12, 15, 8, 11, 1, 2, 5, 6, 13, 14, 9, 10};
  const uint64_t routing = contract::AddressMap{contract::Gen::kV3}.misc_ram().bar0 + 0x24;
  for (uint32_t c = 0; c < 16; ++c) {
    pcie::Device& device = (*built)->device(c);
    EXPECT_EQ(device.identity().device, 0x7364);
    device.config_write(0x04, 2, 2);
    const uint32_t id = device.read32(0, routing);
    ASSERT_LT(id, 16u);
    EXPECT_EQ(kIndexOfRoutingId[id], c);
  }
}

// Devices on a switched fabric: their ids are looked up unless the guest's host has a name for
// which drivers take them as they are.
TEST(AttachedMachine, NumbersGoByTheNameOfTheHost) {
  const uint64_t routing = contract::AddressMap{contract::Gen::kV4}.misc_ram().bar0 + 0x24;
  constexpr uint32_t kRoutingIdOfIndex[] = {0, 8, 9, 1};
  for (const char* product : {"", "Standard PC (Q35 + ICH9, 2009)", "trn3.48xlarge"}) {
    auto params = params_of("trn3-gen1-server", pcie::BarLayout::kFull, nullptr);
    params.product = product;
    const bool known = params.product == "trn3.48xlarge";
    // One process has one machine.
    EXPECT_EXIT(
        {
          auto built = AttachedMachine::create(std::move(params));
          if (!built.ok()) std::_Exit(2);
          for (uint32_t c = 0; c < 4; ++c) {
            pcie::Device& device = (*built)->device(c);
            device.config_write(0x04, 2, 2);
            if (device.read32(0, routing) != (known ? c : kRoutingIdOfIndex[c])) std::_Exit(1);
          }
          std::_Exit(0);
        },
        ::testing::ExitedWithCode(0), "");
  }
}

TEST(AttachedMachine, RevisionAndBars) {
  Bench bench("trn2.3xlarge", pcie::BarLayout::kFull,
              [](AttachedMachine::Params& params) { params.revision = 0xFF; });
  const pcie::Identity& identity = bench.machine->device(0).identity();
  EXPECT_EQ(identity.revision, 0xFF);
  // A quarter is what a driver takes for a stack: all of it must be there.
  EXPECT_EQ(identity.bar_size[4], 64ull << 30);
  // In a row, so it can be mapped as one.
  const auto areas = bench.machine->device(0).bar_areas(4);
  ASSERT_EQ(areas.size(), 1u);
  EXPECT_EQ(areas[0].length, 64ull << 30);
  // Drivers look for the registers here or there.
  EXPECT_EQ(identity.bar_size[0], 4ull << 30);
  EXPECT_EQ(identity.bar_size[2], 4ull << 30);
  pcie::Device& device = bench.machine->device(0);
  device.config_write(0x04, 2, 2);
  const uint64_t words = contract::AddressMap{contract::Gen::kV3}.misc_ram().bar0 + 0x180;
  device.write32(0, words, 5);
  EXPECT_EQ(device.read32(2, words), 5u);
  device.write32(2, words, 6);
  EXPECT_EQ(device.read32(0, words), 6u);
  device.write32(4, (48ull << 30) + 8, 0x1234'5678);
  EXPECT_EQ(device.read32(4, (48ull << 30) + 8), 0x1234'5678u);
  device.write32(4, (16ull << 30) - 4, 7);
  EXPECT_EQ(device.read32(4, (16ull << 30) - 4), 7u);
}

TEST(AttachedMachine, NoSmallBarsForLargeRegisters) {
  const auto built =
      AttachedMachine::create(params_of("trn2.3xlarge", pcie::BarLayout::k32Bit, nullptr));
  ASSERT_FALSE(built.ok());
  EXPECT_EQ(built.error().fault, base::Fault::kUnsupported);
}

TEST(AttachedMachine, OverridesMustBeRead) {
  AttachedMachine::Params params = params_of("trn1.2xlarge", pcie::BarLayout::k32Bit, nullptr);
  ASSERT_TRUE(params.timing.set("time.slice_us=7").ok());
  const auto built = AttachedMachine::create(std::move(params));
  ASSERT_FALSE(built.ok());
  EXPECT_EQ(built.error().fault, base::Fault::kConfig);
}

TEST(AttachedMachine, ASliceHasALength) {
  AttachedMachine::Params params = params_of("trn1.2xlarge", pcie::BarLayout::k32Bit, nullptr);
  ASSERT_TRUE(params.timing.set("time.attached_slice_us=0").ok());
  EXPECT_FALSE(AttachedMachine::create(std::move(params)).ok());
}

}  // namespace
