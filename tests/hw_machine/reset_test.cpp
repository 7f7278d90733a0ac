// Resets through the PCIe function: what every block is like afterwards (spec/hw-registers.md 8.4),
// what is left alone, and the QEMU reset register (8.5).
#include <map>
#include <string>
#include <tuple>

#include "arch/contract/cc_program.h"
#include "arch/contract/descriptor.h"
#include "arch/contract/isa.h"
#include "contract/regs/engine.h"
#include "contract/regs/errtrig.h"
#include "contract/regs/nq.h"
#include "contract/regs/sdma.h"
#include "tests/hw_machine/machine_bench.h"

namespace {

using contract::Gen;
using hw_test::MachineBench;
namespace cc = contract::cc;
namespace misc = contract::misc;
namespace sem = contract::sem;
namespace udma = contract::udma;

enum class Owner { kNc, kTopsp, kDmaOfNc, kHostDma };

// One register block and the unit of the reset map that it belongs to.
struct Block {
  std::string name;
  uint64_t bar0;
  const contract::RegInfo* regs;
  size_t count;
  uint64_t limit;  // registers from here on outlive a reset
  Owner owner;
  uint32_t index;
};

template <size_t N>
Block block(std::string name, uint64_t bar0, const contract::RegInfo (&regs)[N], Owner owner,
            uint32_t index, uint64_t limit = ~0ull) {
  return {std::move(name), bar0, regs, N, limit, owner, index};
}

std::vector<Block> blocks_of(const contract::AddressMap& map) {
  std::vector<Block> all;
  for (uint32_t n = 0; n < map.ncs(); ++n) {
    const std::string nc = "nc" + std::to_string(n);
    all.push_back(
        block(nc + ".sem", map.nc(n).bar0 + contract::tpb::kSemaphores, sem::kRegs, Owner::kNc, n));
    all.push_back(block(nc + ".nq", map.nc_nq(n).bar0, contract::nq::kRegs, Owner::kNc, n));
    for (uint32_t e = 0; e < contract::kEnginesPerNc; ++e) {
      all.push_back(
          block(nc + ".engine" + std::to_string(e),
                map.nc(n).bar0 + contract::tpb::kEngine + e * contract::tpb::kEngineStride,
                contract::engine::kRegs, Owner::kNc, n));
    }
  }
  for (uint32_t t = 0; t < map.topsps(); ++t) {
    const std::string cc = "cc" + std::to_string(t);
    all.push_back(block(cc + ".sem", map.topsp(t).bar0, sem::kRegs, Owner::kTopsp, t));
    // The operation table and the program memory belong to software.
    all.push_back(block(cc, map.topsp(t).bar0, cc::kRegs, Owner::kTopsp, t, cc::kBarrier));
    all.push_back(block(cc + ".nq", map.topsp_nq(t).bar0, contract::nq::kRegs, Owner::kTopsp, t));
  }
  for (uint32_t e = 0; e < map.dma_engines(); ++e) {
    const bool host = e >= map.compute_engines();
    const Owner owner = host ? Owner::kHostDma : Owner::kDmaOfNc;
    const uint32_t index = host ? e - map.compute_engines() : map.nc_of_engine(e);
    const std::string dma = "dma" + std::to_string(e);
    all.push_back(block(dma, map.udma(e).bar0, udma::kRegs, owner, index));
    all.push_back(block(dma + ".sdma", map.sdma(e).bar0, contract::sdma::kRegs, owner, index));
    all.push_back(block(dma + ".nq", map.sdma(e).bar0 + 0x1000, contract::nq::kRegs, owner, index));
    if (!map.v2() && !host) {
      all.push_back(block(dma + ".errtrig", map.error_trigger(e).bar0, contract::errtrig::kRegs,
                          owner, index));
    }
  }
  return all;
}

template <typename Visit>
void each_register(const Block& b, Visit&& visit) {
  for (size_t r = 0; r < b.count; ++r) {
    const contract::RegInfo& info = b.regs[r];
    for (uint32_t k = 0; k < info.count; ++k) {
      const uint64_t offset = info.offset + k * uint64_t{info.stride};
      if (offset < b.limit) visit(info, b.bar0 + offset);
    }
  }
}

using Snapshot = std::map<uint64_t, uint32_t>;
Snapshot snapshot(MachineBench& b, const std::vector<Block>& blocks) {
  Snapshot all;
  for (const Block& each : blocks) {
    each_register(each, [&](const contract::RegInfo&, uint64_t at) { all[at] = b.get(at); });
  }
  return all;
}

// Writes something into every register, in order; queues, engines and CC-cores go wrong in their
// own ways. Doorbells are small, or a queue would consume millions of wrong descriptors; no cause
// is cleared by reading it.
void make_dirty(MachineBench& b, const std::vector<Block>& blocks) {
  uint32_t value = 0x0000'1234;
  for (const Block& each : blocks) {
    each_register(each, [&](const contract::RegInfo& info, uint64_t at) {
      if (info.access == contract::Access::kReadOnly) return;
      const bool doorbell = std::string(info.name).find("tail_inc") != std::string::npos;
      const bool control = std::string(info.name).find("irq_control") != std::string::npos;
      b.put(at, doorbell ? value & 0xFF : control ? value & ~1u : value);
      value = value * 1'103'515'245 + 12'345;
    });
  }
  b.run();
}

bool covered(const Block& b, const firmware::mgmt::ResetScope& scope) {
  const uint32_t mask = b.owner == Owner::kNc        ? scope.ncs
                        : b.owner == Owner::kTopsp   ? scope.topsps
                        : b.owner == Owner::kDmaOfNc ? scope.dma_ncs
                                                     : scope.host_dma;
  return (mask >> b.index & 1) != 0;
}

// Requests a reset as a driver does and waits for its acknowledge.
bool request(MachineBench& b, uint32_t type, uint32_t low = 0, uint32_t high = 0) {
  b.put(b.misc(misc::kResetMapHi), high);
  b.put(b.misc(misc::kResetMap), low);
  b.put(b.misc(misc::kResetRequest), type);
  b.put(b.misc(misc::kTrigger), 1);
  EXPECT_EQ(b.get(b.misc(misc::kResetRequest)), type);
  EXPECT_EQ(b.get(b.misc(misc::kStatus)), 8u);
  const base::Ps before = b.machine.now();
  EXPECT_EQ(b.run(), hw::RunOutcome::kQuiescent);
  EXPECT_GE(b.machine.now() - before, 1 * base::kPsPerMs);  // spec/hw-registers.md 8.2 step 4
  return b.get(b.misc(misc::kResetRequest)) == 0 && b.get(b.misc(misc::kStatus)) == 0;
}

struct Case {
  const char* name;
  Gen gen;
  uint32_t type;
  uint32_t low;
  uint32_t high;
};

class ResetState : public ::testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Scopes, ResetState,
                         ::testing::Values(Case{"DeviceV2", Gen::kV2, 1, 0, 0},
                                           Case{"DeviceV3", Gen::kV3, 1, 0, 0},
                                           Case{"DeviceV4", Gen::kV4, 1, 0, 0},
                                           Case{"Nc0V2", Gen::kV2, 2, 0x0701, 0},
                                           Case{"Nc1V2", Gen::kV2, 2, 0x3802, 0},
                                           Case{"Nc5V3", Gen::kV3, 2, 0x0001'0101u << 5, 0},
                                           Case{"Seng1V3", Gen::kV3, 2, 0x000C'0C0C, 2},
                                           Case{"Nc0V4", Gen::kV4, 2, 0x0001'0101, 0},
                                           Case{"DmaOnlyV4", Gen::kV4, 2, 0x0000'8000, 8},
                                           Case{"NothingV3", Gen::kV3, 2, 0, 0}),
                         [](const auto& info) { return info.param.name; });

TEST_P(ResetState, OfEveryRegister) {
  const Case& c = GetParam();
  MachineBench b(c.gen);
  const std::vector<Block> blocks = blocks_of(b.map());
  const Snapshot fresh = snapshot(b, blocks);
  make_dirty(b, blocks);
  // Causes may clear themselves when they are read, and then their summary.
  (void)snapshot(b, blocks);
  (void)snapshot(b, blocks);
  const Snapshot dirty = snapshot(b, blocks);
  ASSERT_TRUE(request(b, c.type, c.low, c.high));
  const Snapshot after = snapshot(b, blocks);
  const auto scope = c.type == 1 ? firmware::mgmt::device_scope(c.gen)
                                 : firmware::mgmt::decode_reset_map(c.gen, c.low, c.high);
  size_t changed = 0;
  for (const Block& each : blocks) {
    const bool reset = covered(each, scope);
    each_register(each, [&](const contract::RegInfo& info, uint64_t at) {
      changed += dirty.at(at) != fresh.at(at) ? 1 : 0;
      const uint32_t want = (reset ? fresh : dirty).at(at);
      ASSERT_EQ(after.at(at), want) << each.name << " " << info.name << " at " << std::hex << at;
    });
  }
  EXPECT_GT(changed, fresh.size() / 4);  // the test has done something
}

class FreshState : public ::testing::TestWithParam<Gen> {};
INSTANTIATE_TEST_SUITE_P(Generations, FreshState, ::testing::Values(Gen::kV2, Gen::kV3, Gen::kV4),
                         [](const auto& info) {
                           return "v" + std::to_string(static_cast<int>(info.param));
                         });

// What 8.4 names, in numbers.
TEST_P(FreshState, FreshValues) {
  MachineBench b(GetParam());
  const auto& map = b.map();
  make_dirty(b, blocks_of(map));
  ASSERT_TRUE(request(b, 1));
  for (const uint32_t e : {0u, map.compute_engines() - 1, map.dma_engines() - 1}) {
    const uint64_t unit = map.udma(e).bar0;
    for (const uint64_t half : {uint64_t{0}, contract::kS2mOffset}) {
      for (uint32_t q = 0; q < contract::kQueuesPerEngine; ++q) {
        const uint64_t at = unit + half + udma::kM2sQ + q * udma::kM2sQStride;
        EXPECT_EQ(b.get(at + udma::kM2sQCfg), 0x0300'0000u);
        EXPECT_EQ(b.get(at + udma::kM2sQHead), 0x4000'0000u);
        EXPECT_EQ(b.get(at + udma::kM2sQTail), 0x4000'0000u);
        EXPECT_EQ(b.get(at + udma::kM2sQCurrent), 0x4000'0000u);
        EXPECT_EQ(b.get(at + udma::kM2sQRingLength), 0u);
        EXPECT_EQ(b.get(at + udma::kM2sQRingBaseLo), 0u);
      }
    }
    for (uint32_t g = 0; g < udma::kSecondaryIrqCount; ++g) {
      const uint64_t group = unit + udma::kSecondaryIrq + g * udma::kSecondaryIrqStride;
      EXPECT_EQ(b.get(group + udma::kSecondaryIrqMask), ~0u);
      EXPECT_EQ(b.get(group + udma::kSecondaryIrqCause), 0u);
    }
    EXPECT_EQ(b.get(unit + udma::kM2sState), 0u);
  }
}

class Resets : public ::testing::TestWithParam<Gen> {};
INSTANTIATE_TEST_SUITE_P(Generations, Resets, ::testing::Values(Gen::kV2, Gen::kV3, Gen::kV4),
                         [](const auto& info) {
                           return "v" + std::to_string(static_cast<int>(info.param));
                         });

TEST_P(Resets, MemoriesAndIdentityAreKept) {
  MachineBench b(GetParam());
  const auto& map = b.map();
  hw::Fabric& fabric = b.machine.chip(0).fabric();
  std::vector<uint64_t> places;
  for (uint32_t h = 0; h < map.hbms(); ++h) places.push_back(map.hbm_base(h) + map.hbm_size() - 4);
  for (uint32_t n = 0; n < map.ncs(); ++n) {
    places.push_back(map.nc(n).device + 4);
    places.push_back(map.nc(n).device + contract::tpb::kPsum + 8);
  }
  for (size_t i = 0; i < places.size(); ++i) {
    ASSERT_TRUE(fabric.write32(places[i], 0x5EED'0000 + static_cast<uint32_t>(i)));
  }
  const uint64_t program = map.topsp(0).bar0 + contract::topsp::kProgram;
  b.put(program, 0x77);
  for (uint32_t at = misc::kElectionLeftHi; at < 0x1A0; at += 4) b.put(b.misc(at), at);
  const uint32_t serial = b.get(b.misc(misc::kSerialLo));
  ASSERT_TRUE(request(b, 1));
  for (size_t i = 0; i < places.size(); ++i) {
    uint32_t value = 0;
    ASSERT_TRUE(fabric.read32(places[i], value));
    EXPECT_EQ(value, 0x5EED'0000 + i) << std::hex << places[i];
  }
  EXPECT_EQ(b.get(program), 0x77u);
  for (uint32_t at = misc::kElectionLeftHi; at < 0x1A0; at += 4) {
    EXPECT_EQ(b.get(b.misc(at)), at);
  }
  EXPECT_EQ(b.get(b.misc(misc::kSerialLo)), serial);
  EXPECT_NE(serial, 0u);
  EXPECT_NE(serial, 0xDEAD'BEEF);
}

TEST_P(Resets, ConfigurationSpaceIsKept) {
  MachineBench b(GetParam());
  pcie::Device& device = b.machine.device(0);
  device.config_write(0x3C, 1, 0x5A);  // interrupt line
  std::vector<uint32_t> before;
  for (uint32_t at = 0; at < 256; at += 4) before.push_back(device.config_read(at, 4));
  ASSERT_TRUE(request(b, 1));
  for (uint32_t at = 0; at < 256; at += 4) EXPECT_EQ(device.config_read(at, 4), before[at / 4]);
}

// A repeated request is accepted, a wider one takes another period.
TEST_P(Resets, RequestsWhileBusy) {
  MachineBench b(GetParam());
  b.put(b.misc(misc::kResetRequest), 1);
  b.put(b.misc(misc::kTrigger), 1);
  base::Ps done = 0;
  b.run_task([&] {
    b.machine.executor().delay(base::us(500));
    b.put(b.misc(misc::kResetRequest), 1);
    b.put(b.misc(misc::kTrigger), 1);
    while (b.get(b.misc(misc::kResetRequest)) != 0) b.machine.executor().delay(base::us(1));
    done = b.machine.now();
  });
  EXPECT_EQ(done, base::us(2000));
  const uint32_t nc0 = b.map().v2() ? 0x0701 : 0x0001'0101;
  const uint32_t nc1 = b.map().v2() ? 0x3802 : 0x0002'0202;
  b.put(b.misc(misc::kResetMap), nc0);
  b.put(b.misc(misc::kResetRequest), 2);
  b.put(b.misc(misc::kTrigger), 1);
  b.put(b.misc(misc::kResetMap), nc1);
  b.put(b.misc(misc::kTrigger), 1);
  const base::Ps start = b.machine.now();
  b.run();
  EXPECT_EQ(b.machine.now() - start, base::us(4000));
  EXPECT_EQ(b.get(b.misc(misc::kResetRequest)), 0u);
}

TEST_P(Resets, UnreadableWhileTheDeviceResets) {
  MachineBench b(GetParam(), 1,
                 [](hw::MachineParams& p) { p.chips[0].unreadable_in_reset = true; });
  b.put(b.misc(misc::kResetRequest), 1);
  b.put(b.misc(misc::kTrigger), 1);
  EXPECT_EQ(b.get(b.misc(misc::kResetRequest)), 0xDEAD'BEEF);
  EXPECT_EQ(b.get(b.misc(misc::kRoutingId)), 0xDEAD'BEEF);
  b.run();
  EXPECT_EQ(b.get(b.misc(misc::kResetRequest)), 0u);
  EXPECT_EQ(b.get(b.misc(misc::kStatus)), 0u);
  // A reset of a core leaves it readable.
  b.put(b.misc(misc::kResetRequest), 2);
  b.put(b.misc(misc::kTrigger), 1);
  EXPECT_EQ(b.get(b.misc(misc::kResetRequest)), 2u);
}

TEST_P(Resets, UnknownRequestIsNamed) {
  MachineBench b(GetParam());
  b.put(b.misc(misc::kResetRequest), 3);
  b.put(b.misc(misc::kTrigger), 1);
  EXPECT_EQ(b.get(b.misc(misc::kResetRequest)), 0u);
  EXPECT_EQ(b.run(), hw::RunOutcome::kQuiescent);
  EXPECT_EQ(b.machine.now(), 0u);
  const auto& entries = b.machine.access_log().entries();
  EXPECT_EQ(entries.count({"misc", hw::AccessLog::Kind::kUnsupported, "reset request", true}), 1u);
}

// spec/hw-registers.md 8.5: other revisions do not have the register; emulators are like silicon.
void expect_no_qemu_register(Gen gen, uint8_t revision) {
  MachineBench b(gen, 1, [&](hw::MachineParams& p) { p.revision = revision; });
  const uint64_t at = b.map().qemu_reset().bar0;
  const uint64_t semaphores = b.map().nc(0).bar0 + contract::tpb::kSemaphores;
  b.put(semaphores + sem::kSet, 5);
  for (const uint32_t value : {1u, 0u, 0xFFFF'FFFFu}) {
    b.put(at, value);
    EXPECT_EQ(b.get(at), 0u);
  }
  EXPECT_EQ(b.run(), hw::RunOutcome::kQuiescent);
  EXPECT_EQ(b.machine.now(), 0u);
  EXPECT_EQ(b.get(semaphores + sem::kRead), 5u);
  EXPECT_TRUE(request(b, 1));
  EXPECT_EQ(b.get(semaphores + sem::kRead), 0u);
}
TEST_P(Resets, QemuRegisterOnSilicon) {
  expect_no_qemu_register(GetParam(), 0);
}
TEST_P(Resets, QemuRegisterOnAnEmulator) {
  expect_no_qemu_register(GetParam(), 0xF0);
}

TEST_P(Resets, QemuRegister) {
  MachineBench b(GetParam(), 1, [](hw::MachineParams& p) { p.revision = 0xFF; });
  pcie::Device& device = b.machine.device(0);
  const int bar = b.map().v2() ? 2 : 0;
  const uint64_t at = b.map().qemu_reset().bar0;
  const auto semaphore = [&](uint32_t nc, uint64_t alias) {
    return b.map().nc(nc).bar0 + contract::tpb::kSemaphores + alias;
  };
  const auto reset = [&](uint32_t value) {
    device.write32(bar, semaphore(0, sem::kSet), 5);
    device.write32(bar, semaphore(1, sem::kSet), 6);
    device.write32(bar, at, value);
    EXPECT_EQ(device.read32(bar, at), 1u);
  };
  const auto finish = [&](uint32_t nc0, uint32_t nc1) {
    b.run();
    EXPECT_EQ(device.read32(bar, at), 0u);
    EXPECT_EQ(device.read32(bar, semaphore(0, sem::kRead)), nc0);
    EXPECT_EQ(device.read32(bar, semaphore(1, sem::kRead)), nc1);
    EXPECT_EQ(device.read32(bar, b.misc(misc::kResetRequest)), 0u);
  };
  if (b.map().v2()) {
    reset(1);  // alone: the device
    finish(0, 0);
    reset(1);  // with the full request that follows: what that says
    device.write32(bar, b.misc(misc::kResetMap), 0x0701);
    device.write32(bar, b.misc(misc::kResetRequest), 2);
    device.write32(bar, b.misc(misc::kTrigger), 1);
    finish(0, 6);
    return;
  }
  reset(0);  // older drivers
  finish(0, 0);
  reset(0xFFFF'FFFF);
  finish(0, 0);
  reset(0x0001'0101);
  finish(0, 6);
}

// spec/hw-registers.md 10.6: two cores of v3 and v4 share an engine for host copies.
void set_up_queue(MachineBench& b, uint32_t engine, uint32_t q, uint64_t ring) {
  b.put(b.map().udma(engine).bar0 + udma::kM2sPktLenCfg, 0x10F'FFFF);  // 3.10 step 7
  for (const uint64_t half : {uint64_t{0}, contract::kS2mOffset}) {
    const uint64_t at = b.map().udma(engine).bar0 + half + udma::kM2sQ + q * udma::kM2sQStride;
    const uint64_t base = b.host_address(ring + (half != 0 ? 0x1000 : 0));
    b.put(at + udma::kM2sQRingBaseLo, static_cast<uint32_t>(base));
    b.put(at + udma::kM2sQRingBaseHi, static_cast<uint32_t>(base >> 32));
    b.put(at + udma::kM2sQRingLength, 64);
    b.put(at + udma::kM2sQCfg, 0x303'0000);
  }
}

void put_copy(MachineBench& b, uint64_t ring, uint32_t slot, uint64_t from, uint64_t to,
              uint32_t bytes, uint32_t ring_id = 1) {
  const auto tx = contract::desc::tx_copy(from, bytes, ring_id);
  const auto rx = contract::desc::rx(to, bytes, ring_id);
  std::memcpy(&b.host.bytes[ring + slot * sizeof tx], &tx, sizeof tx);
  std::memcpy(&b.host.bytes[ring + 0x1000 + slot * sizeof rx], &rx, sizeof rx);
}

void ring_doorbells(MachineBench& b, uint32_t engine, uint32_t q, uint32_t n) {
  const uint64_t at =
      b.map().udma(engine).bar0 + udma::kM2sQ + q * udma::kM2sQStride + udma::kM2sQTailInc;
  b.put(at + contract::kS2mOffset, n);
  b.put(at, n);
}

TEST(Reset, OtherCoreOfASengKeepsItsCopyQueue) {
  MachineBench b(Gen::kV3);
  b.host.bytes.resize(0x80000);
  constexpr uint32_t kEngine = 128;
  constexpr uint64_t kRing = 0x2000;
  set_up_queue(b, kEngine, 1, kRing);
  for (uint32_t i = 0; i < 0x40000; ++i) b.host.bytes[0x20000 + i] = static_cast<uint8_t>(i * 13);
  // Four copies of NC 1 are under way when NC 0 is reset.
  for (uint32_t k = 0; k < 4; ++k) {
    put_copy(b, kRing, k, b.host_address(0x20000 + k * 0x10000), 0x200'0000 + k * 0x10000, 0x10000);
  }
  ring_doorbells(b, kEngine, 1, 4);
  const uint64_t tail =
      b.map().udma(kEngine).bar0 + udma::kM2sQ + udma::kM2sQStride + udma::kM2sQTail;
  b.run_task([&] {
    b.machine.executor().delay(base::us(5));
    EXPECT_TRUE((b.get(tail - udma::kM2sQTail + udma::kM2sQStatus) & 0xFF'FFFF) != 0);  // busy
    b.put(b.misc(misc::kResetMap), 0x0001'0101);
    b.put(b.misc(misc::kResetRequest), 2);
    b.put(b.misc(misc::kTrigger), 1);
  });
  EXPECT_EQ(b.get(b.misc(misc::kResetRequest)), 0u);
  EXPECT_EQ(b.get(tail), 0x4000'0004u);
  std::vector<uint8_t> copied(0x40000);
  b.machine.device(0).bar_read(4, 0x200'0000, copied);
  EXPECT_EQ(std::memcmp(copied.data(), &b.host.bytes[0x20000], copied.size()), 0);
  // And goes on.
  put_copy(b, kRing, 4, b.host_address(0x30000), 0x300'0000, 64);
  ring_doorbells(b, kEngine, 1, 1);
  b.run();
  b.machine.device(0).bar_read(4, 0x300'0000, {copied.data(), 64});
  EXPECT_EQ(std::memcmp(copied.data(), &b.host.bytes[0x30000], 64), 0);
  // With the high word the engine itself is reset.
  b.put(b.misc(misc::kResetMapHi), 1);
  b.put(b.misc(misc::kResetMap), 0x0003'0303);
  b.put(b.misc(misc::kResetRequest), 2);
  b.put(b.misc(misc::kTrigger), 1);
  b.run();
  EXPECT_EQ(b.get(tail), 0x4000'0000u);
}

// Firmware sees the stores of DMA; the engine that stores is among what it resets.
TEST_P(Resets, RequestedByDma) {
  MachineBench b(GetParam());
  const uint32_t engine = b.map().h2t_engine(0);
  const uint64_t ram = b.map().misc_ram().device;
  set_up_queue(b, engine, 0, 0x2000);
  b.put(b.map().nc(0).bar0 + contract::tpb::kSemaphores + sem::kSet, 5);
  base::store<uint32_t>(&b.host.bytes[0x8000], 1);
  put_copy(b, 0x2000, 0, b.host_address(0x8000), ram + misc::kResetRequest, 4);
  put_copy(b, 0x2000, 1, b.host_address(0x8000), ram + misc::kTrigger, 4);
  put_copy(b, 0x2000, 2, b.host_address(0x8000), ram + misc::kTrigger, 4);
  ring_doorbells(b, engine, 0, 3);
  b.run();
  EXPECT_EQ(b.get(b.misc(misc::kResetRequest)), 0u);
  EXPECT_EQ(b.machine.chip(0).management().firmware().resets(), 1u);
  EXPECT_EQ(b.get(b.map().nc(0).bar0 + contract::tpb::kSemaphores + sem::kRead), 0u);
  EXPECT_EQ(b.get(b.map().udma(engine).bar0 + udma::kM2sQ + udma::kM2sQTail), 0x4000'0000u);
  EXPECT_EQ(b.machine.who_waits(), std::vector<std::string>{});
}

// Programs may ask for the reset of what runs them; nothing of them goes on afterwards.
TEST_P(Resets, RequestedByAnEngine) {
  namespace isa = contract::isa;
  namespace reg = contract::engine;
  MachineBench b(GetParam());
  const uint64_t ram = b.map().misc_ram().device;
  const uint64_t semaphores = b.map().topsp_semaphores(1);  // of another unit
  std::vector<uint8_t> program;
  const auto store = [&](uint64_t address, uint32_t value) {
    isa::Instruction i{};
    i.opcode = isa::Opcode::kWrite;
    i.operands.write = {address, 0, value, 0, 4, 0};
    program.resize(program.size() + isa::kRecordBytes);
    ASSERT_EQ(isa::encode(i, &program[program.size() - isa::kRecordBytes], isa::kRecordBytes), 1u);
  };
  store(semaphores + sem::kInc, 1);
  store(ram + misc::kResetMap, b.map().v2() ? 0x1 : 0x0000'0101);  // the core alone
  store(ram + misc::kResetRequest, 2);
  store(ram + misc::kTrigger, 1);
  store(semaphores + sem::kInc, 1);
  b.machine.device(0).bar_write(4, 0x200'0000, program);
  const uint64_t engine = b.map().nc(0).bar0 + contract::tpb::kEngine;
  b.put(engine + reg::kProgramLo, 0x200'0000);
  b.put(engine + reg::kProgramCount, 5);
  b.put(engine + reg::kControl, 1);
  b.run();
  EXPECT_EQ(b.get(b.misc(misc::kResetRequest)), 0u);
  EXPECT_EQ(b.get(b.map().topsp(1).bar0 + sem::kRead), 1u);
  EXPECT_EQ(b.get(engine + reg::kStatus), static_cast<uint32_t>(contract::EngineStatus::kIdle));
  EXPECT_EQ(b.get(engine + reg::kPc), 0u);
  EXPECT_EQ(b.get(engine + reg::kErrorCode), 0u);
  EXPECT_EQ(b.machine.who_waits(), std::vector<std::string>{});
}

TEST_P(Resets, RequestedByACcCore) {
  using contract::cc_program::Op;
  using contract::cc_program::Record;
  MachineBench b(GetParam());
  const uint64_t ram = b.map().misc_ram().device;
  const uint32_t other = b.map().topsps() - 1;
  const uint64_t count = b.map().topsp_semaphores(other) + sem::kInc;
  const auto store = [](uint64_t address, uint32_t value) {
    Record r;
    r.op = static_cast<uint8_t>(Op::kWrite);
    r.imm = value;
    r.address = address;
    return r;
  };
  const Record program[] = {
      store(count, 1), store(ram + misc::kResetMap, b.map().v2() ? 0x0700 : 0x0001'0000),
      store(ram + misc::kResetRequest, 2), store(ram + misc::kTrigger, 1), store(count, 1)};
  std::vector<uint8_t> bytes(sizeof program);
  std::memcpy(bytes.data(), program, sizeof program);
  const uint64_t core = b.map().topsp(0).bar0;
  b.machine.device(0).bar_write(0, core + contract::topsp::kProgram, bytes);
  b.put(core + cc::kControl, 1);
  b.put(core + cc::kTrigger, 0);
  b.run();
  EXPECT_EQ(b.get(b.misc(misc::kResetRequest)), 0u);
  EXPECT_EQ(b.get(b.map().topsp(other).bar0 + sem::kRead), 1u);
  EXPECT_EQ(b.get(core + cc::kStatus), static_cast<uint32_t>(contract::CcStatus::kReset));
  EXPECT_EQ(b.get(core + cc::kPc), 0u);
  EXPECT_EQ(b.get(core + cc::kErrorCode), 0u);
  EXPECT_EQ(b.machine.who_waits(), std::vector<std::string>{});
}

}  // namespace
