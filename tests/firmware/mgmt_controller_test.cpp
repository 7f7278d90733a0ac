// Words of the misc RAM and resets (spec/hw-registers.md 7.1, 7.2, 8).
#include "tests/firmware/mgmt_bench.h"

namespace {

using namespace firmware_test;  // NOLINT(google-build-using-namespace)
using firmware::mgmt::decode_reset_map;
using firmware::mgmt::Health;

class MgmtWords : public EveryGen {};
INSTANTIATE_TEST_SUITE_P(Generations, MgmtWords, ::testing::Values(Gen::kV2, Gen::kV3, Gen::kV4),
                         [](const auto& info) { return gen_name(info.param); });

TEST_P(MgmtWords, PowerOnContent) {
  Config config = config_of(GetParam());
  config.sizes = 0x8040'0010;
  config.server_rack = 0x8001'8001;
  config.build = 77;
  config.reservation = 0x1111'2222'3333'4444;
  MgmtBench b(config);
  const std::map<uint32_t, uint32_t> want = {{misc::kFwApiVersion, GetParam() == Gen::kV2   ? 3u
                                                                   : GetParam() == Gen::kV3 ? 7u
                                                                                            : 6u},
                                             {misc::kRoutingId, 12},
                                             {misc::kSizes, 0x8040'0010},
                                             {misc::kSerialLo, 0x9ABC'DEF0},
                                             {misc::kSerialHi, 0x1234'5678},
                                             {misc::kServerRack, 0x8001'8001},
                                             {misc::kFwBuild, 77},
                                             {misc::kReservationHi, 0x1111'2222},
                                             {misc::kReservationLo, 0x3333'4444}};
  for (uint32_t at = 0; at < contract::kMiscRamBytes; at += 4) {
    const auto named = want.find(at);
    EXPECT_EQ(b.read(at), named == want.end() ? 0u : named->second) << std::hex << at;
  }
}

TEST_P(MgmtWords, EccWordsByApiVersion) {
  Config config = config_of(GetParam());
  Health& h = config.health;
  h.sram_corrected = 5;
  h.sram_uncorrected = 70'000;  // more than fits
  h.hbm[0] = {3, 2, 1};
  h.hbm[1] = {0x1'0001, 0x1001, 17};
  h.hbm[3] = {0, 0xFFFF, 1};
  h.repair = Health::kPending;
  h.unhealthy = 1u << 3;
  for (const uint32_t api : {0u, 5u, 6u, 9u}) {
    config.api_version = api;
    MgmtBench b(config);
    EXPECT_EQ(b.read(misc::kSramEcc), 0x0005'FFFFu);
    const bool split = api >= 6;
    EXPECT_EQ(b.read(misc::kHbmEcc), split ? 0x0003'1002u : 0x0003'0003u) << api;
    EXPECT_EQ(b.read(misc::kHbmEcc + 4), split ? 0xFFFF'FFFFu : 0xFFFF'1012u) << api;
    EXPECT_EQ(b.read(misc::kHbmEcc + 8), 0u);
    const uint32_t fourth = GetParam() == Gen::kV2 ? 0 : split ? 0x1FFF : 0xFFFF;
    EXPECT_EQ(b.read(misc::kHbmEcc + 12), fourth) << api;
    EXPECT_EQ(b.read(misc::kHbmRepair), 1u);
    EXPECT_EQ(b.read(misc::kHealth), 8u);
    b.controller.set_health({});
    EXPECT_EQ(b.read(misc::kHbmEcc), 0u);
    EXPECT_EQ(b.read(misc::kHbmRepair), 0u);
  }
}

TEST_P(MgmtWords, PowerWordsCountSamples) {
  Config config = config_of(GetParam());
  config.power_sample_ps = 1000;
  MgmtBench b(config);
  b.use[0] = 1234;
  b.use[1] = 10'000;
  EXPECT_EQ(b.read(misc::kPowerDie0), 0u);  // no sample is complete
  b.hal.time = 999;
  EXPECT_EQ(b.read(misc::kPowerDie0), 0u);
  EXPECT_TRUE(b.samples.empty());
  b.hal.time = 1000;
  EXPECT_EQ(b.read(misc::kPowerDie0), 0x0001'04D2u);
  EXPECT_EQ(b.samples.front(), 0u);
  EXPECT_EQ(b.read(misc::kPowerDie1), GetParam() == Gen::kV2 ? 0u : 0x0001'2710u);
  b.hal.time = 65'537ull * 1000 + 5;  // the counter wraps
  EXPECT_EQ(b.read(misc::kPowerDie0), 0x0001'04D2u);
  EXPECT_EQ(b.samples.back(), 65'536u);
}

TEST_P(MgmtWords, HeartbeatCountsTime) {
  Config config = config_of(GetParam());
  config.heartbeat_ps = 10;
  MgmtBench b(config);
  EXPECT_EQ(b.read(misc::kHealthSeq), 0u);
  b.hal.time = 25;
  EXPECT_EQ(b.read(misc::kHealthSeq), 2u | 2u << 12);
  b.hal.time = 10ull * 0x1234;
  EXPECT_EQ(b.read(misc::kHealthSeq), 0x234u | 0x34u << 12);
}

TEST_P(MgmtWords, DeviceResetHandshake) {
  MgmtBench b(GetParam());
  const contract::AddressMap map{GetParam()};
  EXPECT_FALSE(b.write(misc::kResetRequest, 1).reset);
  EXPECT_EQ(b.read(misc::kStatus), 0u);
  const Action action = b.write(misc::kTrigger, 1);
  ASSERT_TRUE(action.reset);
  EXPECT_TRUE(action.scope.device);
  EXPECT_EQ(action.scope.ncs, (1u << map.ncs()) - 1);
  EXPECT_EQ(action.scope.dma_ncs, (1u << map.ncs()) - 1);
  EXPECT_EQ(action.scope.topsps, (1u << map.topsps()) - 1);
  EXPECT_EQ(action.scope.host_dma, (1u << map.host_engines()) - 1);
  EXPECT_EQ(b.read(misc::kResetRequest), 1u);
  EXPECT_EQ(b.read(misc::kStatus), 8u);
  // A repeated request while busy is part of the same reset, with and without its word.
  EXPECT_FALSE(b.write(misc::kTrigger, 1).reset);
  b.write(misc::kResetRequest, 1);
  EXPECT_FALSE(b.write(misc::kTrigger, 1).reset);
  EXPECT_FALSE(b.reset_done().reset);
  EXPECT_EQ(b.read(misc::kResetRequest), 0u);
  EXPECT_EQ(b.read(misc::kStatus), 0u);
  EXPECT_EQ(b.controller.resets(), 1u);
}

TEST_P(MgmtWords, ResetKeepsTheWords) {
  MgmtBench b(GetParam());
  for (uint32_t at = 0xC0; at < 0x1D0; at += 4) {
    if (at != misc::kAck) b.write(at, at * 0x01010101u);
  }
  const std::vector<uint32_t> before = b.ram;
  b.write(misc::kResetRequest, 1);
  b.write(misc::kTrigger, 1);
  b.reset_done();
  EXPECT_EQ(b.ram, before);
}

TEST_P(MgmtWords, RequestStoredDuringAResetIsNotLost) {
  MgmtBench b(GetParam());
  b.write(misc::kResetRequest, 1);
  b.write(misc::kTrigger, 1);
  b.write(misc::kResetRequest, 2);  // its trigger comes too late
  b.reset_done();
  EXPECT_EQ(b.read(misc::kResetRequest), 2u);
  EXPECT_EQ(b.read(misc::kStatus), 0u);
  EXPECT_TRUE(b.write(misc::kTrigger, 1).reset);
  b.reset_done();
  EXPECT_EQ(b.read(misc::kResetRequest), 0u);
}

TEST_P(MgmtWords, UnknownRequestsAreRefused) {
  for (const uint32_t type : {3u, 4u, 0x8000'0001u, 0xFFFF'FFFFu}) {
    MgmtBench b(GetParam());
    b.write(misc::kResetRequest, type);
    const Action action = b.write(misc::kTrigger, 1);
    EXPECT_FALSE(action.reset);
    EXPECT_STREQ(action.unsupported, "reset request");
    EXPECT_EQ(b.read(misc::kResetRequest), 0u);
    EXPECT_EQ(b.read(misc::kStatus), 0u);
    // During a reset it does not look like the end of that.
    b.write(misc::kResetRequest, 1);
    b.write(misc::kTrigger, 1);
    b.write(misc::kResetRequest, type);
    EXPECT_FALSE(b.write(misc::kTrigger, 1).reset);
    EXPECT_NE(b.read(misc::kResetRequest), 0u);
    b.reset_done();
    EXPECT_EQ(b.read(misc::kResetRequest), 0u);
  }
}

TEST_P(MgmtWords, EmptyMapIsAcknowledged) {
  MgmtBench b(GetParam());
  b.write(misc::kResetRequest, 2);
  const Action action = b.write(misc::kTrigger, 1);
  ASSERT_TRUE(action.reset);
  EXPECT_TRUE(firmware::mgmt::ResetScope{}.contains(action.scope));
  EXPECT_EQ(b.read(misc::kResetRequest), 2u);
  b.reset_done();
  EXPECT_EQ(b.read(misc::kResetRequest), 0u);
}

TEST_P(MgmtWords, PowerOnForgetsAReset) {
  MgmtBench b(GetParam());
  b.write(misc::kElectionStatus, 3);
  b.write(misc::kResetRequest, 1);
  b.write(misc::kTrigger, 1);
  b.controller.power_on();
  EXPECT_FALSE(b.controller.resetting());
  EXPECT_EQ(b.read(misc::kResetRequest), 0u);
  EXPECT_EQ(b.read(misc::kStatus), 0u);
  EXPECT_EQ(b.read(misc::kElectionStatus), 0u);
  EXPECT_EQ(b.read(misc::kRoutingId), 12u);
}

TEST(Mgmt, CoreResetMapV2) {
  MgmtBench b(Gen::kV2);
  b.write(misc::kResetMap, 0x3802);
  b.write(misc::kResetRequest, 2);
  const Action action = b.write(misc::kTrigger, 1);
  ASSERT_TRUE(action.reset);
  EXPECT_FALSE(action.scope.device);
  EXPECT_EQ(action.scope.ncs, 2u);
  EXPECT_EQ(action.scope.dma_ncs, 2u);
  EXPECT_EQ(action.scope.topsps, 0x38u);
  EXPECT_EQ(action.scope.host_dma, 0u);
  // A request for the other core meanwhile is served by a second reset before the acknowledge.
  b.write(misc::kResetMap, 0x0701);
  EXPECT_FALSE(b.write(misc::kTrigger, 1).reset);
  const Action second = b.reset_done();
  ASSERT_TRUE(second.reset);
  EXPECT_EQ(second.scope.ncs, 1u);
  EXPECT_EQ(b.read(misc::kResetRequest), 2u);
  EXPECT_EQ(b.read(misc::kStatus), 8u);
  EXPECT_FALSE(b.reset_done().reset);
  EXPECT_EQ(b.read(misc::kResetRequest), 0u);
  EXPECT_EQ(b.controller.resets(), 2u);
}

TEST(Mgmt, ResetMaps) {
  for (uint32_t n = 0; n < 8; ++n) {
    const auto scope = decode_reset_map(Gen::kV3, 0x0001'0101u << n, 0);
    EXPECT_EQ(scope.ncs, 1u << n);
    EXPECT_EQ(scope.dma_ncs, 1u << n);
    EXPECT_EQ(scope.topsps, 3u << (2 * n));
    EXPECT_EQ(scope.host_dma, 0u);
  }
  EXPECT_EQ(decode_reset_map(Gen::kV4, 0, 0xFFFF'FFF5).host_dma, 5u);
  EXPECT_EQ(decode_reset_map(Gen::kV4, 0x0000'FF00, 0).dma_ncs, 0xFFu);
  EXPECT_EQ(decode_reset_map(Gen::kV4, 0xFF00'0000, 0).ncs, 0u);  // CC_TOP names nothing
  EXPECT_EQ(decode_reset_map(Gen::kV2, 0xFFFF'FFFF, 0xFFFF'FFFF).topsps, 0x3Fu);
  EXPECT_EQ(decode_reset_map(Gen::kV2, 0xFFFF'FFFF, 0xFFFF'FFFF).host_dma, 0u);
}

// A driver without the high word, after one with it.
TEST(Mgmt, HighMapWordIsUsedOnce) {
  MgmtBench b(Gen::kV3);
  b.write(misc::kResetMapHi, 1);
  b.write(misc::kResetMap, 0x0003'0303);
  b.write(misc::kResetRequest, 2);
  EXPECT_EQ(b.write(misc::kTrigger, 1).scope.host_dma, 1u);
  b.reset_done();
  b.write(misc::kResetMap, 0x0001'0101);
  b.write(misc::kResetRequest, 2);
  EXPECT_EQ(b.write(misc::kTrigger, 1).scope.host_dma, 0u);
}

TEST_P(MgmtWords, QemuRegisterNeedsQemuRevision) {
  MgmtBench b(GetParam());
  for (const uint32_t value : {0u, 1u, 0x0001'0101u, 0xFFFF'FFFFu}) {
    EXPECT_FALSE(b.controller.qemu_write(value).reset);
    EXPECT_EQ(b.controller.qemu_read(), 0u);
    EXPECT_FALSE(b.controller.resetting());
  }
}

Config qemu_config(Gen gen) {
  Config config = config_of(gen);
  config.qemu = true;
  return config;
}

TEST(Mgmt, QemuRegisterOfV3AndV4) {
  for (const Gen gen : {Gen::kV3, Gen::kV4}) {
    MgmtBench b(qemu_config(gen));
    for (const uint32_t value : {0u, 0xFFFF'FFFFu}) {
      const Action action = b.controller.qemu_write(value);
      ASSERT_TRUE(action.reset);
      EXPECT_TRUE(action.scope.device);
      EXPECT_EQ(b.controller.qemu_read(), 1u);
      b.reset_done();
      EXPECT_EQ(b.controller.qemu_read(), 0u);
    }
    const Action action = b.controller.qemu_write(0x0003'0303);
    ASSERT_TRUE(action.reset);
    EXPECT_FALSE(action.scope.device);
    EXPECT_EQ(action.scope.ncs, 3u);
    EXPECT_EQ(action.scope.host_dma, 0u);
    EXPECT_EQ(b.read(misc::kResetRequest), 0u);
    b.reset_done();
    EXPECT_EQ(b.controller.qemu_read(), 0u);
  }
}

// v2: the register, then the mailbox request that says what to reset.
TEST(Mgmt, QemuRegisterOfV2TakesTheScopeOfTheMailbox) {
  MgmtBench b(qemu_config(Gen::kV2));
  Action action = b.controller.qemu_write(1);
  ASSERT_TRUE(action.reset);
  EXPECT_EQ(action.scope.ncs, 0u);
  EXPECT_EQ(b.controller.qemu_read(), 1u);
  b.write(misc::kResetMap, 0x0701);
  b.write(misc::kResetRequest, 2);
  action = b.write(misc::kTrigger, 1);
  ASSERT_TRUE(action.reset);
  EXPECT_EQ(action.scope.ncs, 1u);
  EXPECT_EQ(b.controller.qemu_read(), 1u);
  EXPECT_FALSE(b.reset_done().reset);
  EXPECT_EQ(b.controller.qemu_read(), 0u);
  EXPECT_EQ(b.read(misc::kResetRequest), 0u);
  EXPECT_EQ(b.controller.resets(), 1u);
}

TEST(Mgmt, QemuRegisterOfV2AloneMeansTheDevice) {
  MgmtBench b(qemu_config(Gen::kV2));
  b.controller.qemu_write(1);
  const Action action = b.reset_done();
  ASSERT_TRUE(action.reset);
  EXPECT_TRUE(action.scope.device);
  EXPECT_EQ(b.controller.qemu_read(), 1u);
  EXPECT_FALSE(b.reset_done().reset);
  EXPECT_EQ(b.controller.qemu_read(), 0u);
  EXPECT_EQ(b.controller.resets(), 1u);
}

}  // namespace
