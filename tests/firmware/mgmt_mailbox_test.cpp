// Both mailbox protocols (spec/hw-registers.md 7.5, 7.6).
#include <random>

#include "tests/firmware/mgmt_bench.h"

namespace {

using namespace firmware_test;  // NOLINT(google-build-using-namespace)
using Bytes = std::vector<uint8_t>;

class MgmtMailbox : public EveryGen {};
INSTANTIATE_TEST_SUITE_P(Generations, MgmtMailbox, ::testing::Values(Gen::kV2, Gen::kV3, Gen::kV4),
                         [](const auto& info) { return gen_name(info.param); });

constexpr uint32_t header(uint32_t sequence, uint32_t error, uint32_t size) {
  return sequence | error << 8 | size << 16;
}

Bytes addresses(const std::vector<uint64_t>& list) {
  Bytes bytes(8 * list.size());
  for (size_t i = 0; i < list.size(); ++i) base::store(&bytes[8 * i], list[i]);
  return bytes;
}

TEST(Crc32cTest, PublishedValues) {
  EXPECT_EQ(crc("123456789", 9), 0xE306'9283u);
  const uint8_t example[16] = {2, 1, 16, 0, 0, 0, 0, 0, 0x24, 0x40, 0xC8, 0x06, 0x80, 0, 0, 0};
  EXPECT_EQ(crc(example, sizeof example), 0x7045'4FC8u);  // spec/hw-registers.md 7.5
}

TEST_P(MgmtMailbox, LegacyRead) {
  MgmtBench b(GetParam());
  b.hal.registers[0x80'06C8'4024] = 77;
  const Bytes list = addresses({0x80'06C8'4024, 0x1234, 0x80'06C8'4024});  // the second: unclaimed
  EXPECT_EQ(b.legacy({2, 1, list}), header(2, 0, 16));
  EXPECT_EQ(b.response_word(1), 77u);
  EXPECT_EQ(b.response_word(2), 0u);
  EXPECT_EQ(b.response_word(3), 77u);
  EXPECT_EQ(b.read(misc::kTrigger), 0u);
  EXPECT_EQ(b.hal.single_byte_writes, 1);  // the sequence number, last
  EXPECT_EQ(b.legacy({3, 1, {}}), header(3, 0, 4));
}

TEST_P(MgmtMailbox, LegacyReadOfAsMuchAsFits) {
  MgmtBench b(GetParam());
  std::vector<uint64_t> list(8190);
  for (size_t i = 0; i < list.size(); ++i) {
    list[i] = 0x1000 + 4 * i;
    b.hal.registers[list[i]] = static_cast<uint32_t>(i * 3 + 1);
  }
  EXPECT_EQ(b.legacy({2, 1, addresses(list)}), header(2, 0, 4 + 4 * 8190));
  EXPECT_EQ(b.response_word(1), 1u);
  EXPECT_EQ(b.response_word(8190), 8189u * 3 + 1);
}

// Request and response may share a buffer: an address is read before its value is written.
TEST_P(MgmtMailbox, LegacyReadInPlace) {
  MgmtBench b(GetParam());
  for (uint64_t i = 0; i < 40; ++i) b.hal.registers[0x9000 + i] = static_cast<uint32_t>(i + 500);
  std::vector<uint64_t> list;
  for (uint64_t i = 0; i < 40; ++i) list.push_back(0x9000 + i);
  b.prepare({5, 1, addresses(list)});
  b.set_address(misc::kResponseLo, misc::kResponseHi, b.hal.base + MgmtBench::kRequestAt);
  b.write(misc::kTrigger, 1);
  const uint8_t* at = &b.hal.memory[MgmtBench::kRequestAt];
  EXPECT_EQ(base::load<uint32_t>(at), header(5, 0, 164));
  for (uint32_t i = 0; i < 40; ++i) EXPECT_EQ(base::load<uint32_t>(at + 4 + 4 * i), i + 500);
}

TEST_P(MgmtMailbox, LegacyMetric) {
  MgmtBench b(GetParam());
  EXPECT_EQ(b.legacy({9, 2, {1, 2, 3, 4, 5, 6, 7}}), header(9, 0, 4));
  EXPECT_EQ(b.read(misc::kData), 0x0403'0201u);
  EXPECT_EQ(b.read(misc::kData + 4), 0x0007'0605u);
  EXPECT_EQ(b.legacy({10, 2, Bytes(128, 0x5A)}), header(10, 0, 4));
  EXPECT_EQ(b.read(misc::kData + 124), 0x5A5A'5A5Au);
  EXPECT_EQ(b.legacy({11, 2, Bytes(129)}), header(11, 1, 4));
  EXPECT_EQ(b.read(misc::kElectionLeftHi), 0u);
}

TEST_P(MgmtMailbox, LegacyRejectsBadRequests) {
  MgmtBench b(GetParam());
  EXPECT_EQ(b.legacy({3, 2, {1}, 0x10}), header(3, 1, 4));  // CRC
  EXPECT_EQ(b.legacy({4, 9, {}}), header(4, 2, 4));         // unknown command
  EXPECT_EQ(b.legacy({5, 1, {1, 2, 3}}), header(5, 1, 4));  // not whole addresses
  EXPECT_EQ(b.legacy({6, 2, {}, 0, 7}), header(6, 1, 4));   // size below the header
  EXPECT_EQ(b.legacy({6, 2, {}, 0, 0}), header(6, 1, 4));
  EXPECT_EQ(b.legacy({7, 2, Bytes(16), 0, 23}), header(7, 1, 4));  // CRC over another size
  EXPECT_EQ(b.legacy({8, 3, Bytes(8)}), header(8, 2, 4));          // commands of the other protocol
  b.prepare({9, 9, {}});
  EXPECT_STREQ(b.write(misc::kTrigger, 1).unsupported, "mailbox command");
}

TEST_P(MgmtMailbox, LegacyBuffersThatAreNotThere) {
  MgmtBench b(GetParam());
  // The request runs out of memory after its header: it cannot be checked.
  b.hal.memory.resize(MgmtBench::kResponseAt + 4);
  EXPECT_EQ(b.legacy({7, 2, {}, 0, 0xFFFF}), header(7, 1, 4));
  // Values do not fit: failed, and the header says so.
  EXPECT_EQ(b.legacy({8, 1, addresses({1, 2})}), header(8, 1, 4));
  // Not even the header fits: no sequence number.
  b.hal.memory.resize(MgmtBench::kResponseAt + 3);
  b.hal.memory[MgmtBench::kResponseAt] = 0;
  b.prepare({9, 2, {1}});
  b.write(misc::kTrigger, 1);
  EXPECT_EQ(b.hal.memory[MgmtBench::kResponseAt], 0);
  EXPECT_EQ(b.read(misc::kTrigger), 0u);
  // A request nowhere, or at address 0: no answer.
  b.hal.memory.resize(MgmtBench::kResponseAt + 4);
  for (const uint64_t address : {0ull, 0x77'0000'0000ull, ~0ull}) {
    b.prepare({10, 2, {1}});
    b.set_address(misc::kRequestLo, misc::kRequestHi, address);
    b.write(misc::kTrigger, 1);
    EXPECT_EQ(b.hal.memory[MgmtBench::kResponseAt], 0);
    EXPECT_EQ(b.read(misc::kTrigger), 0u);
  }
}

// spec/hw-registers.md 7.6, rules (a) to (c), and what comes during a reset.
TEST_P(MgmtMailbox, TriggersAreToldApart) {
  MgmtBench b(GetParam());
  b.write(misc::kResetRequest, 1);
  b.prepare({2, 2, {1}});
  b.hal.memory[MgmtBench::kResponseAt] = 0;
  EXPECT_TRUE(b.write(misc::kTrigger, 1).reset);  // (a)
  EXPECT_EQ(b.hal.memory[MgmtBench::kResponseAt], 0);
  // A message waits for the end of the reset.
  b.prepare({3, 2, {1}});
  EXPECT_FALSE(b.write(misc::kTrigger, 1).reset);
  EXPECT_EQ(b.hal.memory[MgmtBench::kResponseAt], 0);
  EXPECT_EQ(b.read(misc::kTrigger), 1u);
  EXPECT_FALSE(b.reset_done().reset);
  EXPECT_EQ(b.response_word(0), header(3, 0, 4));
  EXPECT_EQ(b.read(misc::kTrigger), 0u);
  EXPECT_EQ(b.read(misc::kResetRequest), 0u);
  // Values other than 1 are just stored.
  b.prepare({4, 2, {1}});
  for (const uint32_t value : {0u, 2u, 3u, 0xFFFF'FFFFu}) {
    b.write(misc::kTrigger, value);
    EXPECT_EQ(b.read(misc::kTrigger), value);
  }
  EXPECT_EQ(b.response_word(0), header(3, 0, 4));
}

class NewMailbox : public EveryGen {};
INSTANTIATE_TEST_SUITE_P(Generations, NewMailbox, ::testing::Values(Gen::kV3, Gen::kV4),
                         [](const auto& info) { return gen_name(info.param); });

MgmtBench::Answer answer(uint8_t sequence, uint8_t error, const Bytes& payload = {}) {
  return {header(sequence, error, static_cast<uint32_t>(8 + payload.size())), payload};
}

TEST_P(NewMailbox, PowerProfileIsKept) {
  MgmtBench b(GetParam());
  EXPECT_EQ(b.words(2, 4, {1}), answer(2, 0, {0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(b.words(3, 3, {9, 9, 9, 9, 5, 6, 7, 0}), answer(3, 0));
  EXPECT_EQ(b.words(4, 4, {1}), answer(4, 0, {0, 0, 0, 0, 5, 6, 7, 0}));
  EXPECT_EQ(b.words(5, 3, {0, 0, 0, 0, 16, 1, 1, 0}), answer(5, 1));  // no such profile
  EXPECT_EQ(b.words(6, 3, {0, 0, 0, 0, 1, 1, 1}), answer(6, 1));      // too short
  // A reset does not touch the firmware's own state; power on does.
  b.write(misc::kResetRequest, 1);
  b.write(misc::kTrigger, 1);
  b.reset_done();
  EXPECT_EQ(b.words(7, 4, {1}), answer(7, 0, {0, 0, 0, 0, 5, 6, 7, 0}));
  b.controller.power_on();
  EXPECT_EQ(b.words(8, 4, {1}), answer(8, 0, Bytes(8)));
}

TEST_P(NewMailbox, ProfileLists) {
  MgmtBench b(GetParam());
  Bytes all(33);
  all[0] = 16;
  all[1] = all[2] = 0xFF;
  EXPECT_EQ(b.words(2, 4, {2, 0, 0}), answer(2, 0, all));
  EXPECT_EQ(b.words(3, 4, {2, 5, 0}), answer(3, 0, Bytes(33)));  // HBM 7200: none
  EXPECT_EQ(b.words(4, 4, {2, 0}), answer(4, 1));
}

TEST_P(NewMailbox, FabricWindows) {
  Config config = config_of(GetParam());
  MgmtBench none(config);
  EXPECT_EQ(none.words(2, 4, {0x10, 1}), answer(2, 0, Bytes(8)));
  EXPECT_EQ(none.words(3, 4, {0x10, 2}), answer(3, 0, Bytes(8)));
  EXPECT_EQ(none.words(4, 4, {0x10, 3}), answer(4, 1));
  EXPECT_EQ(none.words(5, 4, {0x10, 0}), answer(5, 1));
  EXPECT_EQ(none.words(6, 4, {0x10}), answer(6, 1));
  config.window_count[0] = 1;
  config.windows[0][0] = {2, 0x1122'3344};
  config.window_count[1] = 16;
  for (uint8_t i = 0; i < 16; ++i) config.windows[1][i] = {1, i};
  MgmtBench some(config);
  EXPECT_EQ(some.words(2, 4, {0x10, 1}),
            answer(2, 0, {2, 0, 0, 0, 0x44, 0x33, 0x22, 0x11, 0, 0, 0, 0, 0, 0, 0, 0}));
  const MgmtBench::Answer full = some.words(3, 4, {0x10, 2});
  EXPECT_EQ(full.first, header(3, 0, 136));
  ASSERT_EQ(full.second.size(), 128u);
  EXPECT_EQ(full.second[15 * 8], 1);
  EXPECT_EQ(full.second[15 * 8 + 4], 15);
}

TEST_P(NewMailbox, FeaturesAndThrottling) {
  MgmtBench b(GetParam());
  b.controller.throttle(1, 5000, b.hal);
  EXPECT_TRUE(b.hal.notifications.empty());
  EXPECT_EQ(b.words(2, 5, {1}), answer(2, 0));
  EXPECT_EQ(b.controller.settings().features(), 1);
  b.controller.throttle(1, 5000, b.hal);
  ASSERT_EQ(b.hal.notifications.size(), 1u);
  EXPECT_EQ(b.hal.notifications[0].type, contract::NqType::kThrottle);
  EXPECT_EQ(b.hal.notifications[0].payload, 5000u);
  EXPECT_EQ(b.hal.notifications[0].info, 1u);
  EXPECT_EQ(b.words(3, 5, {0}), answer(3, 0));
  b.controller.throttle(1, 10'000, b.hal);
  EXPECT_EQ(b.hal.notifications.size(), 1u);
  EXPECT_EQ(b.words(4, 5, {}), answer(4, 1));
}

TEST_P(NewMailbox, RejectsBadRequests) {
  MgmtBench b(GetParam());
  for (const uint8_t command : Bytes{0, 1, 2, 6, 255}) {
    EXPECT_EQ(b.words(9, command, {1, 2, 3}), answer(9, 2)) << int{command};
  }
  EXPECT_EQ(b.words(10, 4, {3}), answer(10, 1));  // unknown type of data
  EXPECT_EQ(b.words(11, 4, {}), answer(11, 1));
  b.prepare_words(12, 5, {1}, 0x8000'0000);  // CRC
  b.write(misc::kTrigger, 1);
  EXPECT_EQ(b.read(misc::kRequestHi), header(12, 1, 8));
  EXPECT_EQ(b.controller.settings().features(), 0);
  for (const uint32_t size : {0u, 7u, 137u, 0xFFFFu}) {
    b.prepare_words(13, 5, {1});
    b.write(misc::kRequestHi, 13u | 5u << 8 | size << 16);
    b.write(misc::kTrigger, 1);
    EXPECT_EQ(b.read(misc::kRequestHi), header(13, 1, 8)) << size;
    EXPECT_EQ(b.read(misc::kTrigger), 0u);
  }
  EXPECT_EQ(b.words(14, 5, Bytes(128, 1)),
            answer(14, 0));  // as much as fits; the excess is ignored
}

TEST_P(NewMailbox, WaitsForTheEndOfAReset) {
  MgmtBench b(GetParam());
  b.write(misc::kResetRequest, 1);
  b.write(misc::kTrigger, 1);
  b.prepare_words(5, 5, {1});
  b.write(misc::kTrigger, 1);
  EXPECT_EQ(b.read(misc::kTrigger), 1u);
  EXPECT_EQ(b.controller.settings().features(), 0);
  EXPECT_FALSE(b.reset_done().reset);
  EXPECT_EQ(b.read(misc::kTrigger), 0u);
  EXPECT_EQ(b.read(misc::kRequestHi), header(5, 0, 8));
  EXPECT_EQ(b.controller.settings().features(), 1);
}

// v2 never has it, nor has firmware that says it is too old: the acknowledge word is plain RAM.
TEST(Mgmt, AcknowledgeWordOfOthers) {
  Config old = config_of(Gen::kV3);
  old.api_version = 6;
  for (const Config& config : {config_of(Gen::kV2), old}) {
    MgmtBench b(config);
    b.write(misc::kAck, 1);
    EXPECT_EQ(b.legacy({2, 2, {1}}), header(2, 0, 4));
    EXPECT_EQ(b.read(misc::kAck), 1u);
  }
}

// Stores that the firmware's own answer makes must not call it again.
struct LoopHal final : firmware::Hal {
  explicit LoopHal(MgmtBench& bench) : b(bench) {}
  bool read32(uint64_t, uint32_t* value) override {
    *value = 1;
    return true;
  }
  bool write32(uint64_t, uint32_t) override { return false; }
  bool read(uint64_t address, void* to, size_t bytes) override {
    return b.hal.read(address, to, bytes);
  }
  bool write(uint64_t address, const void* from, size_t bytes) override {
    if (bytes != 4 || address % 4 != 0) return false;
    const auto at = static_cast<uint32_t>(address & 0xFFF);
    std::memcpy(&b.ram[at / 4], from, 4);
    EXPECT_LT(++depth, 10);
    b.controller.stored(at, *this);
    --depth;
    return true;
  }
  uint64_t now() override { return 0; }
  void notify(contract::NqType, uint32_t, uint32_t, uint32_t) override {}
  MgmtBench& b;
  int depth = 0;
};

TEST_P(MgmtMailbox, AnswersIntoTheMiscRamEnd) {
  MgmtBench b(GetParam());
  LoopHal hal(b);
  b.prepare({2, 1, Bytes(64)});
  // The values of the answer, all 1, land on the trigger word and around it.
  b.set_address(misc::kResponseLo, misc::kResponseHi, misc::kTrigger - 12);
  b.ram[misc::kTrigger / 4] = 1;
  b.controller.stored(misc::kTrigger, hal);
  EXPECT_EQ(b.read(misc::kTrigger), 0u);
  EXPECT_EQ(b.controller.mailbox_requests(), 1u);
}

// Random words, messages and resets: every trigger ends, and the words stay what 7 says.
TEST_P(MgmtMailbox, RandomTraffic) {
  std::mt19937 random(static_cast<unsigned>(GetParam()) * 7919);
  const auto upto = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  MgmtBench b(GetParam());
  for (int i = 0; i < 20'000; ++i) {
    const auto sequence = static_cast<uint8_t>(1 + upto(255));
    Bytes payload(upto(4) == 0 ? upto(300) : upto(12));
    for (uint8_t& byte : payload) byte = static_cast<uint8_t>(upto(3) == 0 ? random() : upto(20));
    switch (upto(8)) {
      case 0:
        b.write(upto(0x400) * 4, upto(4) == 0 ? static_cast<uint32_t>(random()) : upto(4));
        break;
      case 1:
        b.write(misc::kResetRequest, upto(4));
        b.write(misc::kTrigger, 1);
        break;
      case 2:
        while (b.controller.resetting()) b.reset_done();
        EXPECT_EQ(b.read(misc::kStatus) & 8, 0u);
        break;
      case 3:
      case 4: {
        MgmtBench::Legacy m{sequence, static_cast<uint8_t>(upto(5)), payload};
        if (upto(3) == 0) m.corrupt = static_cast<uint32_t>(random());
        if (upto(3) == 0) m.size = static_cast<int>(upto(0x1'0000));
        if (upto(3) == 0) m.response = upto(0x3'0000);
        b.hal.memory[MgmtBench::kResponseAt] = 0;
        b.prepare(m);
        if (upto(4) == 0) b.write(misc::kRequestHi, static_cast<uint32_t>(random()));
        const bool idle = !b.controller.resetting() && b.read(misc::kResetRequest) == 0;
        b.write(misc::kTrigger, 1);
        EXPECT_TRUE(!idle || b.read(misc::kTrigger) == 0);
        break;
      }
      default:
        if (payload.size() > 128) payload.resize(128);
        b.prepare_words(sequence, static_cast<uint8_t>(upto(8)), payload,
                        upto(4) == 0 ? static_cast<uint32_t>(random()) : 0);
        const bool idle = !b.controller.resetting() && b.read(misc::kResetRequest) == 0;
        b.write(misc::kTrigger, 1);
        if (!idle) break;
        EXPECT_EQ(b.read(misc::kTrigger), 0u);
        if (GetParam() == Gen::kV2) break;
        EXPECT_EQ(b.read(misc::kAck), 0u);
        EXPECT_EQ(b.read(misc::kRequestHi) & 0xFF, sequence);
        EXPECT_LE(b.read(misc::kRequestHi) >> 8 & 0xFF, 2u);
    }
  }
}

}  // namespace
