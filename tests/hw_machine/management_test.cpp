// Misc RAM, mailboxes, counters and injected faults of a machine, through its PCIe function and its
// DMA engines (spec/hw-registers.md 2.7, 7).
#include <iterator>
#include <random>
#include <stdexcept>

#include "arch/contract/descriptor.h"
#include "arch/contract/isa.h"
#include "contract/regs/engine.h"
#include "contract/regs/nq.h"
#include "contract/regs/pe_v2.h"
#include "contract/regs/pe_v3.h"
#include "firmware/mgmt/crc32c.h"
#include "tests/hw_machine/machine_bench.h"

namespace {

using contract::Gen;
using firmware::mgmt::Health;
using hw_test::MachineBench;
using Kind = hw::AccessLog::Kind;
namespace misc = contract::misc;
namespace udma = contract::udma;

class Management : public ::testing::TestWithParam<Gen> {};
INSTANTIATE_TEST_SUITE_P(Generations, Management, ::testing::Values(Gen::kV2, Gen::kV3, Gen::kV4),
                         [](const auto& info) {
                           return "v" + std::to_string(static_cast<int>(info.param));
                         });

TEST_P(Management, Identity) {
  MachineBench b(GetParam(), 3, [](hw::MachineParams& p) {
    p.chips[0].sizes = 0x8010'0004;
    p.chips[0].server_rack = 0x8001'8001;
    p.chips[0].reservation = 0x0002'0000'0000'0001;
  });
  EXPECT_EQ(b.get(b.misc(misc::kFwApiVersion)), firmware::mgmt::advertised_api_version(GetParam()));
  EXPECT_EQ(b.get(b.misc(misc::kSizes)), 0x8010'0004u);
  EXPECT_EQ(b.get(b.misc(misc::kServerRack)), 0x8001'8001u);
  EXPECT_EQ(b.get(b.misc(misc::kReservationHi)), 0x0002'0000u);
  EXPECT_EQ(b.get(b.misc(misc::kReservationLo)), 1u);
  EXPECT_EQ(b.get(b.misc(misc::kFwBuild)), 1u);
  uint32_t last = 0;
  for (uint32_t c = 0; c < 3; ++c) {
    const uint32_t serial = b.machine.device(c).read32(0, b.misc(misc::kSerialLo));
    EXPECT_GT(serial, last);
    EXPECT_NE(serial, 0xDEAD'BEEF);
    EXPECT_EQ(b.machine.device(c).read32(0, b.misc(misc::kRoutingId)), c);
    last = serial;
  }
}

// spec/hw-registers.md 7.2 and 9.6.
TEST(Management, ReservedSerialNumbersAreRefused) {
  for (const uint64_t serial : {0x1234'0000'0000ull, 0x1234'DEAD'BEEFull, 15ull,
                                0xF158'12E4'F3DC'642Cull, 0x2C82'D5DB'4D1C'3969ull}) {
    hw::MachineParams params;
    params.chips.resize(1);
    params.chips[0].serial = serial;
    EXPECT_THROW({ hw::Machine machine(std::move(params)); }, std::exception) << serial;
  }
}

TEST_P(Management, FaultsAreInjected) {
  MachineBench b(GetParam(), 1, [](hw::MachineParams& p) {
    p.chips[0].health.sram_uncorrected = 2;
    p.chips[0].health.hbm[1] = {7, 5, 1};
  });
  const bool split = GetParam() != Gen::kV2;
  EXPECT_EQ(b.get(b.misc(misc::kSramEcc)), 2u);
  EXPECT_EQ(b.get(b.misc(misc::kHbmEcc) + 4), split ? 0x0007'1005u : 0x0007'0006u);
  Health worse;
  worse.repair = Health::kFailed;
  b.machine.chip(0).management().set_health(worse);
  EXPECT_EQ(b.get(b.misc(misc::kHbmEcc) + 4), 0u);
  EXPECT_EQ(b.get(b.misc(misc::kHbmRepair)), 2u);
}

TEST_P(Management, OldFirmwareOnRequest) {
  MachineBench b(GetParam(), 1, [](hw::MachineParams& p) {
    p.chips[0].api_version = 0;
    p.chips[0].health.hbm[0] = {0, 5, 1};
  });
  EXPECT_EQ(b.get(b.misc(misc::kFwApiVersion)), 0u);
  EXPECT_EQ(b.get(b.misc(misc::kHbmEcc)), 6u);
}

// All 4 KiB are RAM; words without a name are counted.
TEST_P(Management, PlainWordsKeepWhatIsStored) {
  MachineBench b(GetParam());
  for (uint32_t at = 0xC0; at < 0xF0; at += 4) b.put(b.misc(at), ~at);
  for (uint32_t at = 0x1A0; at < 0x1D0; at += 4) b.put(b.misc(at), ~at);
  EXPECT_EQ(b.machine.access_log().total(Kind::kUnknown), 0u);
  for (const uint32_t at : {0x8u, 0x1DCu, 0x7FCu, 0x804u, 0xFFCu}) {
    EXPECT_EQ(b.get(b.misc(at)), 0u);
    b.put(b.misc(at), ~at);
    EXPECT_EQ(b.get(b.misc(at)), ~at);
  }
  for (uint32_t at = 0xC0; at < 0xF0; at += 4) EXPECT_EQ(b.get(b.misc(at)), ~at);
  for (uint32_t at = 0x1A0; at < 0x1D0; at += 4) EXPECT_EQ(b.get(b.misc(at)), ~at);
  EXPECT_EQ(b.machine.access_log().total(Kind::kUnknown), 15u);
  EXPECT_EQ(b.machine.access_log().entries().count({"misc", Kind::kUnknown, "0x000007fc", true}),
            1u);
}

TEST_P(Management, AccessesOfOtherSizes) {
  MachineBench b(GetParam());
  pcie::Device& device = b.machine.device(0);
  b.put(b.misc(0xC0), 0x1111'1111);
  b.put(b.misc(0xC4), 0x2222'2222);
  uint8_t bytes[16] = {9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9};
  // Part of a word: read as zero, not written.
  for (const auto& [offset, size] :
       {std::pair<uint64_t, size_t>{0xC0, 1}, {0xC0, 2}, {0xC1, 1}, {0xC2, 2}, {0xC3, 1}}) {
    device.bar_write(0, b.misc(0) + offset, {bytes, size});
    uint8_t back[2] = {7, 7};
    device.bar_read(0, b.misc(0) + offset, {back, size});
    EXPECT_EQ(back[0], 0);
  }
  EXPECT_EQ(b.get(b.misc(0xC0)), 0x1111'1111u);
  // Several words.
  device.bar_read(0, b.misc(0xC0), {bytes, 16});
  EXPECT_EQ(base::load<uint32_t>(bytes), 0x1111'1111u);
  EXPECT_EQ(base::load<uint32_t>(bytes + 4), 0x2222'2222u);
  EXPECT_EQ(base::load<uint32_t>(bytes + 8), 0u);
  base::store<uint64_t>(bytes, 0x4444'4444'3333'3333);
  device.bar_write(0, b.misc(0xC0), {bytes, 8});
  EXPECT_EQ(b.get(b.misc(0xC0)), 0x3333'3333u);
  EXPECT_EQ(b.get(b.misc(0xC4)), 0x4444'4444u);
  // Across the end of the RAM, and its last word.
  base::store<uint32_t>(bytes, 0x5555'5555);
  device.bar_write(0, b.misc(0xFFC), {bytes, 8});
  EXPECT_EQ(b.get(b.misc(0xFFC)), 0x5555'5555u);
  EXPECT_GT(b.machine.access_log().total(Kind::kPartial), 0u);
}

// --- mailboxes

constexpr uint64_t kRequest = 0x1'0000;
constexpr uint64_t kResponse = 0x3'0000;

uint32_t crc(const uint8_t* data, size_t bytes) {
  firmware::mgmt::Crc32c c;
  c.add(data, bytes);
  return c.value();
}

uint32_t legacy(MachineBench& b, uint8_t sequence, uint8_t command,
                const std::vector<uint8_t>& payload, uint64_t answer = 0) {
  uint8_t* to = &b.host.bytes[kRequest];
  const size_t size = 8 + payload.size();
  std::memset(to, 0, 8);
  to[0] = sequence;
  to[1] = command;
  base::store(to + 2, static_cast<uint16_t>(size));
  if (!payload.empty()) std::memcpy(to + 8, payload.data(), payload.size());
  base::store(to + 4, crc(to, size));
  const uint64_t request = b.host_address(kRequest);
  if (answer == 0) answer = b.host_address(kResponse);
  b.put(b.misc(misc::kRequestLo), static_cast<uint32_t>(request));
  b.put(b.misc(misc::kRequestHi), static_cast<uint32_t>(request >> 32));
  b.put(b.misc(misc::kResponseLo), static_cast<uint32_t>(answer));
  b.put(b.misc(misc::kResponseHi), static_cast<uint32_t>(answer >> 32));
  b.host.bytes[kResponse] = 0;
  b.put(b.misc(misc::kTrigger), 1);
  b.run();
  EXPECT_EQ(b.get(b.misc(misc::kTrigger)), 0u);
  return base::load<uint32_t>(&b.host.bytes[kResponse]);
}

std::vector<uint8_t> addresses(const std::vector<uint64_t>& list) {
  std::vector<uint8_t> bytes(8 * list.size());
  std::memcpy(bytes.data(), list.data(), bytes.size());
  return bytes;
}

TEST_P(Management, LegacyMailbox) {
  MachineBench b(GetParam());
  b.host.bytes.resize(0x5'0000);
  const contract::AddressMap& map = b.map();
  const uint64_t ram = map.misc_ram().device;
  b.put(b.misc(0xC8), 0xABCD'0123);
  EXPECT_EQ(legacy(b, 2, 1,
                   addresses({ram + 0xC8, ram + misc::kRoutingId, ram + misc::kSerialLo,
                              map.udma(0).device + udma::kM2sQ + udma::kM2sQCfg, 0x7777'7777'7777,
                              map.hbm_base(0), ram + 0xC9})),
            2u | 32u << 16);
  const auto value = [&](uint32_t k) {
    return base::load<uint32_t>(&b.host.bytes[kResponse + 4 + 4 * k]);
  };
  EXPECT_EQ(value(0), 0xABCD'0123u);
  EXPECT_EQ(value(1), 0u);
  EXPECT_EQ(value(2), b.get(b.misc(misc::kSerialLo)));
  EXPECT_EQ(value(3), 0x0300'0000u);
  EXPECT_EQ(value(4), 0u);
  EXPECT_EQ(value(6), 0u);
  EXPECT_EQ(legacy(b, 3, 1, addresses(std::vector<uint64_t>(8190, ram + 0xC8))), 3u | 32764u << 16);
  EXPECT_EQ(value(8189), 0xABCD'0123u);
  EXPECT_EQ(legacy(b, 4, 2, {1, 2, 3, 4, 5}), 4u | 4u << 16);
  EXPECT_EQ(b.get(b.misc(misc::kData)), 0x0403'0201u);
  EXPECT_EQ(b.get(b.misc(misc::kData) + 4), 5u);
  EXPECT_EQ(legacy(b, 5, 77, {}), 5u | 2u << 8 | 4u << 16);
  EXPECT_EQ(
      b.machine.access_log().entries().count({"misc", Kind::kUnsupported, "mailbox command", true}),
      1u);
}

TEST_P(Management, LegacyMailboxAtTheEdgeOfHostMemory) {
  MachineBench b(GetParam());
  b.host.bytes.resize(kResponse + 8);
  const uint64_t ram = b.map().misc_ram().device;
  // One value fits behind the header, two do not.
  EXPECT_EQ(legacy(b, 6, 1, addresses({ram})), 6u | 8u << 16);
  EXPECT_EQ(legacy(b, 7, 1, addresses({ram, ram})), 7u | 1u << 8 | 4u << 16);
  // Nothing fits: no answer, and the machine goes on.
  EXPECT_EQ(legacy(b, 8, 2, {1}, b.host_address(kResponse + 5)) & 0xFF, 0u);
  EXPECT_EQ(legacy(b, 9, 2, {1}), 9u | 4u << 16);
}

// An answer into the device's own misc RAM, a semaphore, or nowhere in particular.
TEST_P(Management, LegacyMailboxAnswersAnywhere) {
  MachineBench b(GetParam());
  b.host.bytes.resize(0x5'0000);
  const uint64_t ram = b.map().misc_ram().device;
  for (const uint64_t to :
       {ram + misc::kTrigger - 8, ram + misc::kResetRequest - 4, b.map().topsp(0).device + 0x13F8,
        b.map().hbm_base(0) + 0x1000, b.map().nc_nq(0).device + 0xFC, uint64_t{4}, ~uint64_t{2}}) {
    legacy(b, 3, 1, addresses(std::vector<uint64_t>(6, ram + misc::kFwApiVersion)), to);
    b.put(b.misc(misc::kResetRequest), 0);
    EXPECT_FALSE(b.machine.error().has_value());
  }
  uint8_t header[4] = {};
  b.machine.device(0).bar_read(4, 0x1000, {header, sizeof header});
  EXPECT_EQ(base::load<uint32_t>(header), 3u | 28u << 16);
}

// Sends a message of the register-based protocol; returns the response header.
uint32_t message(MachineBench& b, uint8_t sequence, uint8_t command,
                 const std::vector<uint8_t>& payload) {
  std::vector<uint8_t> bytes(8 + 128);
  bytes[0] = sequence;
  bytes[1] = command;
  const auto size = static_cast<uint16_t>(8 + payload.size());
  base::store(&bytes[2], size);
  std::memcpy(&bytes[8], payload.data(), payload.size());
  for (uint32_t i = 0; i < payload.size(); i += 4) {
    b.put(b.misc(misc::kData + i), base::load<uint32_t>(&bytes[8 + i]));
  }
  b.put(b.misc(misc::kRequestHi), base::load<uint32_t>(bytes.data()));
  b.put(b.misc(misc::kRequestLo), crc(bytes.data(), size));
  b.put(b.misc(misc::kResponseHi), 0);
  b.put(b.misc(misc::kResponseLo), 0);
  b.put(b.misc(misc::kAck), 1);
  b.put(b.misc(misc::kTrigger), 1);
  EXPECT_EQ(b.get(b.misc(misc::kTrigger)), 0u);
  return b.get(b.misc(misc::kRequestHi));
}

class RegisterMailbox : public ::testing::TestWithParam<Gen> {};
INSTANTIATE_TEST_SUITE_P(Generations, RegisterMailbox, ::testing::Values(Gen::kV3, Gen::kV4),
                         [](const auto& info) {
                           return "v" + std::to_string(static_cast<int>(info.param));
                         });

TEST_P(RegisterMailbox, CommandsAreAnswered) {
  MachineBench b(GetParam());
  EXPECT_EQ(message(b, 2, 3, {0, 0, 0, 0, 3, 2, 1, 0}), 2u | 8u << 16);
  EXPECT_EQ(message(b, 3, 4, {1}), 3u | 16u << 16);
  EXPECT_EQ(b.get(b.misc(misc::kData)), 0u);
  EXPECT_EQ(b.get(b.misc(misc::kData) + 4), 0x0001'0203u);
  EXPECT_EQ(message(b, 4, 9, {1}), 4u | 2u << 8 | 8u << 16);
  EXPECT_EQ(b.get(b.misc(misc::kAck)), 0u);
}

TEST_P(RegisterMailbox, ThrottlingIsNotifiedOnRequest) {
  MachineBench b(GetParam());
  namespace nq = contract::nq;
  const uint32_t nc = 5;
  const uint64_t ring = b.host_address(0x4000);
  const uint64_t set = b.map().nc_nq(nc).bar0 + nq::kSet;
  b.put(set + nq::kSetBaseHi, static_cast<uint32_t>(ring >> 32));
  b.put(set + nq::kSetBaseLo, static_cast<uint32_t>(ring));
  b.put(set + nq::kSetSize, 1024);
  b.machine.chip(0).management().throttle(nc, 4000);
  b.run();
  EXPECT_EQ(b.get(set + nq::kSetHead), 0u);
  EXPECT_EQ(message(b, 2, 5, {1}), 2u | 8u << 16);
  b.machine.chip(0).management().throttle(nc, 4000);
  b.machine.chip(0).management().throttle(99, 4000);  // no such core
  b.run();
  EXPECT_EQ(b.get(set + nq::kSetHead), 32u);
  const auto entry = base::load<contract::NqEntry>(&b.host.bytes[0x4000]);
  EXPECT_EQ(entry.type(), contract::NqType::kThrottle);
  EXPECT_EQ(entry.payload, 4000u);
  EXPECT_TRUE(entry.phase());
}

// --- DMA

struct Peers final : hw::ChipPort {
  explicit Peers(hw::Machine& m) : machine(m) {}
  hw::Fabric* peer(uint32_t, uint32_t chip) override {
    return chip < machine.chips() ? &machine.chip(chip).fabric() : nullptr;
  }
  hw::Machine& machine;
};

// Copies on the first host-copy engine of chip 0.
struct Copier {
  explicit Copier(MachineBench& bench) : b(bench) {
    for (const uint64_t half : {uint64_t{0}, contract::kS2mOffset}) {
      const uint64_t ring = b.host_address(half == 0 ? 0x2000 : 0x3000);
      b.put(unit + half + udma::kM2sQRingBaseLo, static_cast<uint32_t>(ring));
      b.put(unit + half + udma::kM2sQRingBaseHi, static_cast<uint32_t>(ring >> 32));
      b.put(unit + half + udma::kM2sQRingLength, 64);
      b.put(unit + half + udma::kM2sQCfg, 0x303'0000);
    }
  }
  void copy(uint64_t from, uint64_t to, uint32_t bytes) {
    const auto tx = contract::desc::tx_copy(from, bytes, 1);
    const auto rx = contract::desc::rx(to, bytes, 1);
    std::memcpy(&b.host.bytes[0x2000 + slot * 16], &tx, sizeof tx);
    std::memcpy(&b.host.bytes[0x3000 + slot * 16], &rx, sizeof rx);
    ++slot;
    b.put(unit + contract::kS2mOffset + udma::kM2sQTailInc, 1);
    b.put(unit + udma::kM2sQTailInc, 1);
    b.run();
  }
  bool aborted() { return !b.machine.who_waits().empty(); }
  MachineBench& b;
  uint64_t unit = b.map().udma(b.map().h2t_engine(0)).bar0 + udma::kM2sQ;
  uint32_t slot = 0;
};

// spec/hw-registers.md 9.3: the words of a neighbour, 4, 8 and 16 bytes at once; and stores of a
// peer.
TEST_P(Management, PeersReadAndWriteIt) {
  MachineBench b(GetParam(), 2);
  Peers peers(b.machine);
  b.machine.set_port(&peers);
  pcie::Device& far = b.machine.device(1);
  const uint64_t ram = b.map().peer_address(1, b.map().misc_ram().device);
  for (uint32_t k = 0; k < 4; ++k) {
    far.write32(0, b.misc(misc::kElectionLeftHi + 4 * k), 0x1000 + k);
  }
  Copier copier(b);
  copier.copy(ram + misc::kElectionLeftHi, b.host_address(0x5000), 16);
  copier.copy(ram + misc::kSerialLo, b.host_address(0x5010), 8);
  copier.copy(ram + misc::kRoutingId, b.host_address(0x5018), 4);
  EXPECT_FALSE(copier.aborted());
  for (uint32_t k = 0; k < 4; ++k) {
    EXPECT_EQ(base::load<uint32_t>(&b.host.bytes[0x5000 + 4 * k]), 0x1000 + k);
  }
  EXPECT_EQ(base::load<uint32_t>(&b.host.bytes[0x5010]), far.read32(0, b.misc(misc::kSerialLo)));
  EXPECT_EQ(base::load<uint32_t>(&b.host.bytes[0x5014]), far.read32(0, b.misc(misc::kSerialHi)));
  EXPECT_EQ(base::load<uint32_t>(&b.host.bytes[0x5018]), 1u);
  base::store<uint32_t>(&b.host.bytes[0x5100], 1);
  copier.copy(b.host_address(0x5100), ram + misc::kResetRequest, 4);
  copier.copy(b.host_address(0x5100), ram + misc::kTrigger, 4);
  EXPECT_FALSE(copier.aborted());
  EXPECT_EQ(b.machine.chip(1).management().firmware().resets(), 1u);
  EXPECT_EQ(b.machine.chip(0).management().firmware().resets(), 0u);
  EXPECT_EQ(far.read32(0, b.misc(misc::kResetRequest)), 0u);
}

struct BadCopy {
  const char* name;
  bool write;
  uint32_t offset;
  uint32_t bytes;
};
class ManagementDma : public ::testing::TestWithParam<BadCopy> {};
INSTANTIATE_TEST_SUITE_P(Copies, ManagementDma,
                         ::testing::Values(BadCopy{"ReadOfABit", false, 0xC0, 2},
                                           BadCopy{"ReadAcross", false, 0xC2, 4},
                                           BadCopy{"ReadPastTheEnd", false, 0xFF8, 16},
                                           BadCopy{"WriteOfABit", true, 0xC0, 1},
                                           BadCopy{"WriteAcross", true, 0xC1, 4},
                                           BadCopy{"WriteOfTwo", true, 0xC0, 8}),
                         [](const auto& info) { return info.param.name; });

// docs/hardware-contract.md 6: bus errors, which abort the engine and change nothing.
TEST_P(ManagementDma, OtherSizesAreBusErrors) {
  MachineBench b(Gen::kV3);
  const BadCopy& c = GetParam();
  Copier copier(b);
  const uint64_t at = b.map().misc_ram().device + c.offset;
  b.host.bytes[0x5000] = 0x77;
  const uint64_t host = b.host_address(0x5000);
  copier.copy(c.write ? host : at, c.write ? at : host, c.bytes);
  EXPECT_TRUE(copier.aborted());
  EXPECT_EQ(b.host.bytes[0x5000], 0x77);
  EXPECT_EQ(b.get(b.misc(0xC0)), 0u);
  EXPECT_FALSE(b.machine.error().has_value());
}

// --- counters

uint64_t counter(MachineBench& b, uint32_t nc, uint32_t group, uint32_t offset) {
  const uint64_t stride =
      b.map().v2() ? contract::pe_v2::kGroupStride : contract::pe_v3::kGroupStride;
  const uint64_t at = b.map().pe_counters(nc).bar0 + group * stride + offset;
  const uint64_t high = b.get(at + 4);
  return high << 32 | b.get(at);
}

TEST_P(Management, PeCountersCountIdleCycles) {
  MachineBench b(GetParam());
  const uint32_t per_row = b.map().v2() ? 5 : 9;
  const base::Rate clock = b.machine.params().timing.clk_pe;
  const auto cycles = [&](base::Ps time) { return time * clock.bytes / clock.ps; };
  const uint32_t last = b.map().ncs() - 1;
  base::Ps reset_at = 0;
  b.run_task(
      [&] {
        EXPECT_EQ(counter(b, 0, 4, 0x10), 0u);
        b.machine.executor().delay(3 * base::kPsPerS + 777);
        b.put(b.misc(misc::kResetMap), b.map().v2() ? 0x0701 : 0x0001'0101);
        b.put(b.misc(misc::kResetRequest), 2);
        reset_at = b.machine.now();
        b.put(b.misc(misc::kTrigger), 1);
        b.machine.executor().delay(5 * base::kPsPerMs + 13);
      },
      10 * base::kPsPerS);
  const base::Ps now = b.machine.now();
  EXPECT_GT(cycles(now), 1ull << 32);
  for (uint32_t row = 0; row < 4; ++row) {
    EXPECT_EQ(counter(b, 0, per_row * row + 4, 0x10), cycles(now - reset_at));
    EXPECT_EQ(counter(b, last, per_row * row + 4, 0x10), cycles(now));
    for (uint32_t g = 0; g < per_row; ++g) {
      EXPECT_EQ(counter(b, 0, per_row * row + g, 0), 0u);
      EXPECT_EQ(counter(b, 0, per_row * row + g, 8), 0u);
      EXPECT_TRUE(g == 4 || counter(b, 0, per_row * row + g, 0x10) == 0);
    }
  }
  EXPECT_EQ(b.machine.access_log().total(Kind::kUnknown), 0u);
  b.put(b.map().pe_counters(0).bar0, 5);
  EXPECT_EQ(b.machine.access_log().total(Kind::kDenied), 1u);
}

// A program of `count` NOPs on the Sync engine of core `nc`.
void start_nops(MachineBench& b, uint32_t nc, uint32_t count) {
  namespace isa = contract::isa;
  isa::Instruction nop{};
  nop.opcode = isa::Opcode::kNop;
  std::vector<uint8_t> program(count * size_t{isa::kRecordBytes});
  for (uint32_t i = 0; i < count; ++i) {
    ASSERT_EQ(isa::encode(nop, &program[i * isa::kRecordBytes], isa::kRecordBytes), 1u);
  }
  constexpr uint64_t kAt = 0x200'0000;
  b.machine.device(0).bar_write(4, kAt, program);
  const uint64_t engine =
      b.map().nc(nc).bar0 + contract::tpb::kEngine + contract::kSp * contract::tpb::kEngineStride;
  b.put(engine + contract::engine::kProgramLo, kAt);
  b.put(engine + contract::engine::kProgramCount, count);
  b.put(engine + contract::engine::kControl, 1);
}

// 1000 NOPs of 10 cycles at 1.4 GHz take 7143 ns: seven samples of one microsecond and a bit.
TEST_P(Management, PowerIsTheUseOfTheEngines) {
  MachineBench b(GetParam(), 1,
                 [](hw::MachineParams& p) { p.timing.mgmt_power_sample = base::us(1); });
  start_nops(b, 1, 1000);
  const uint32_t engines = b.map().v2() ? 10 : 20;  // of a die
  b.run_task([&] {
    b.machine.executor().delay(base::ns(500));
    EXPECT_EQ(b.get(b.misc(misc::kPowerDie0)), 0u);
    b.machine.executor().delay(base::us(4));
    EXPECT_EQ(b.get(b.misc(misc::kPowerDie0)), 4u << 16 | 10'000 / engines);
    EXPECT_EQ(b.get(b.misc(misc::kPowerDie1)), b.map().v2() ? 0u : 4u << 16);
    b.machine.executor().delay(base::us(4));
    // Of sample 7 an eighth or so: 7143 - 7000 ns.
    const uint32_t use = b.get(b.misc(misc::kPowerDie0)) & 0xFFFF;
    EXPECT_GE(use, 1400 / engines);
    EXPECT_LE(use, 1450 / engines);
    b.machine.executor().delay(base::us(1));
    EXPECT_EQ(b.get(b.misc(misc::kPowerDie0)), 9u << 16);
  });
}

TEST_P(Management, OneDieForModels) {
  MachineBench b(GetParam(), 1, [](hw::MachineParams& p) {
    p.revision = 0xF0;
    p.timing.mgmt_power_sample = base::us(1);
  });
  start_nops(b, b.map().ncs() - 1, 1000);
  b.run_task([&] {
    b.machine.executor().delay(base::us(3));
    EXPECT_EQ(b.get(b.misc(misc::kPowerDie0)), 3u << 16 | (b.map().v2() ? 1000 : 250));
    EXPECT_EQ(b.get(b.misc(misc::kPowerDie1)), 0u);
  });
}

TEST_P(Management, HeartbeatCostsNothing) {
  MachineBench b(GetParam());
  EXPECT_EQ(b.run(), hw::RunOutcome::kQuiescent);
  EXPECT_EQ(b.machine.now(), 0u);
  b.run_task([&] { b.machine.executor().delay(5 * base::kPsPerS); }, 10 * base::kPsPerS);
  EXPECT_EQ(b.get(b.misc(misc::kHealthSeq)), 5u | 5u << 12);
  EXPECT_EQ(b.get(b.misc(misc::kHealth)), 0u);
}

// Accesses of any size anywhere in the block and around it, requests with any content: the machine
// goes on, comes to rest, and takes a proper request afterwards.
TEST_P(Management, RandomAccesses) {
  MachineBench b(GetParam(), 1, [](hw::MachineParams& p) {
    p.revision = 0xFF;
    p.timing.mgmt_reset = base::us(3);
  });
  b.host.bytes.resize(0x4'0000);
  pcie::Device& device = b.machine.device(0);
  const int bar = b.map().v2() ? 2 : 0;
  std::mt19937 random(17 * static_cast<unsigned>(GetParam()));
  const auto upto = [&](uint64_t n) { return random() % n; };
  const uint64_t ram = b.map().misc_ram().device;
  const uint64_t values[] = {0,
                             1,
                             2,
                             3,
                             b.host_address(kRequest),
                             b.host_address(kRequest) >> 32,
                             b.host_address(0x3'FFFE),
                             ram + misc::kTrigger,
                             ram >> 32,
                             0xFFFF'FFFF,
                             0x0001'0101,
                             0x0001'0701};
  constexpr uint32_t kWords[] = {misc::kTrigger,    misc::kResetRequest, misc::kResetMap,
                                 misc::kResetMapHi, misc::kRequestHi,    misc::kRequestLo,
                                 misc::kResponseHi, misc::kResponseLo,   misc::kAck,
                                 misc::kStatus,     misc::kPowerDie0,    misc::kData};
  for (int i = 0; i < 20'000; ++i) {
    uint8_t bytes[16];
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    const bool word = upto(3) != 0;
    if (word) base::store(bytes, static_cast<uint32_t>(values[upto(std::size(values))]));
    const size_t size = word ? 4 : 1 + upto(16);
    const uint64_t at = upto(20) == 0 ? b.map().qemu_reset().bar0
                        : upto(20) == 0
                            ? b.map().pe_counters(0).bar0 + upto(0x800)
                            : b.misc(0) + (word ? kWords[upto(std::size(kWords))] : upto(0x1010));
    if (upto(3) == 0) {
      device.bar_read(bar, at, {bytes, size});
    } else {
      device.bar_write(bar, at, {bytes, size});
    }
    if (upto(50) == 0) {  // what a request buffer may hold
      for (int k = 0; k < 64; ++k)
        b.host.bytes[kRequest + upto(64)] = static_cast<uint8_t>(upto(20));
    }
    EXPECT_TRUE(upto(40) != 0 || b.run() == hw::RunOutcome::kQuiescent);
  }
  EXPECT_EQ(b.run(), hw::RunOutcome::kQuiescent);
  EXPECT_FALSE(b.machine.error().has_value());
  device.write32(bar, b.misc(misc::kResetRequest), 1);
  device.write32(bar, b.misc(misc::kTrigger), 1);
  b.run();
  EXPECT_EQ(device.read32(bar, b.misc(misc::kResetRequest)), 0u);
  EXPECT_EQ(device.read32(bar, b.misc(misc::kStatus)) & 8, 0u);
}

}  // namespace
