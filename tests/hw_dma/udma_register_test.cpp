// Registers of the UDMA engine: access rights, queue registers, states, interrupt groups
// (spec/hw-registers.md 3.2 to 3.4, 3.7, 3.9).

#include "contract/regs/errtrig.h"
#include "contract/regs/nq.h"
#include "contract/regs/sdma.h"
#include "tests/hw_dma/bench.h"
#include "tests/hw_dma/register_walk.h"

namespace hw {
namespace {

class Generations : public ::testing::TestWithParam<Gen> {
 protected:
  static DmaBench::Config config() {
    DmaBench::Config c;
    c.gen = GetParam();
    return c;
  }
  // A window of the bench as the walk wants it.
  static hw_test::RegisterWalk walk(DmaBench& b, uint64_t device) {
    hw_test::RegisterWalk w;
    w.gen = static_cast<uint8_t>(GetParam());
    w.read = [&b, device](uint64_t at) {
      uint32_t value = 0xEE;
      EXPECT_TRUE(b.fabric.read32(device + at, value));
      return value;
    };
    w.write = [&b, device](uint64_t at, uint32_t value) {
      EXPECT_TRUE(b.fabric.write32(device + at, value));
    };
    return w;
  }
};
INSTANTIATE_TEST_SUITE_P(All, Generations, ::testing::Values(Gen::kV2, Gen::kV3, Gen::kV4),
                         [](const auto& info) {
                           return "v" + std::to_string(static_cast<int>(info.param));
                         });

TEST_P(Generations, EveryUdmaRegister) {
  DmaBench b(config());
  const uint32_t last = b.map().dma_engines() - 1;
  for (const uint32_t e : {0u, last}) {
    hw_test::RegisterWalk w = walk(b, b.map().udma(e).device);
    w.walk(udma::kRegs);
    EXPECT_GT(w.checked, 1500u);
  }
  b.run();
  EXPECT_EQ(b.counters.packets, 0u);
}

TEST_P(Generations, EveryWrapperAndErrorTriggerRegister) {
  DmaBench b(config());
  const uint32_t last = b.map().dma_engines() - 1;
  for (const uint32_t e : {1u, last}) {
    walk(b, b.map().sdma(e).device).walk(contract::sdma::kRegs);
    walk(b, b.map().sdma(e).device + contract::kSdmaTraceNq).walk(contract::nq::kRegs);
  }
  if (GetParam() != Gen::kV2) {
    walk(b, b.map().error_trigger(1).device).walk(contract::errtrig::kRegs);
  }
}

TEST_P(Generations, RegistersOfOtherGenerationsAreUnknown) {
  DmaBench b(config());
  const bool v2 = GetParam() == Gen::kV2;
  const auto unknown = [&] { return b.log.total(AccessLog::Kind::kUnknown); };
  hw_test::RegisterWalk sdma = walk(b, b.map().sdma(3).device);
  sdma.write(contract::sdma::kBroadcastGroup, 0xFFFF);
  EXPECT_EQ(sdma.read(contract::sdma::kBroadcastGroup), v2 ? 0xFFFFu : 0u);
  EXPECT_EQ(unknown(), v2 ? 0u : 2u);
  sdma.write(contract::sdma::kOverheadBeats, 0x26);
  EXPECT_EQ(sdma.read(contract::sdma::kOverheadBeats), v2 ? 0u : 0x26u);
  EXPECT_EQ(unknown(), 2u);
  b.write(3, udma::kV2Irq + udma::kV2IrqMaskClear, 0);
  EXPECT_EQ(b.read(3, udma::kV2Irq + udma::kV2IrqMask), 0u);
  EXPECT_EQ(unknown(), v2 ? 2u : 4u);
  b.write(3, udma::kS2mAxiOutstandingWr2, 0x100);
  EXPECT_EQ(b.read(3, udma::kS2mAxiOutstandingWr2), GetParam() == Gen::kV4 ? 0x100u : 0u);
}

// spec/hw-registers.md 0.2 rule 12, over the whole unit and wrapper: what is not in the tables
// reads 0 and ignores writes.
TEST_P(Generations, WhatIsNotInTheTablesReadsZero) {
  DmaBench b(config());
  const auto sweep = [&](uint64_t device, uint64_t size, const std::vector<bool>& known) {
    uint32_t unknown = 0;
    for (uint64_t at = 0; at < size; at += 4) {
      if (known[at / 4]) continue;
      uint32_t value = 1;
      EXPECT_TRUE(b.fabric.write32(device + at, 0xFFFF'FFFF));
      EXPECT_TRUE(b.fabric.read32(device + at, value));
      if (value != 0) ADD_FAILURE() << std::hex << at << " reads " << value;
      ++unknown;
    }
    return unknown;
  };
  const auto mark = [&](std::vector<bool>& known, const auto& regs, uint64_t base) {
    for (const contract::RegInfo& r : regs) {
      for (uint32_t k = 0; k < r.count && r.in(static_cast<uint8_t>(GetParam())); ++k) {
        known[(base + r.offset + k * r.stride) / 4] = true;
      }
    }
  };
  std::vector<bool> unit(contract::kUdmaUnit / 4);
  mark(unit, udma::kRegs, 0);
  const uint64_t n = sweep(b.map().udma(7).device, contract::kUdmaUnit, unit);
  std::vector<bool> wrapper(contract::kSdmaUnit / 4);
  mark(wrapper, contract::sdma::kRegs, 0);
  mark(wrapper, contract::nq::kRegs, contract::kSdmaTraceNq);
  const uint64_t m = sweep(b.map().sdma(7).device, contract::kSdmaUnit, wrapper);
  EXPECT_EQ(b.log.total(AccessLog::Kind::kUnknown), 2 * (n + m));
  EXPECT_LE(b.log.entries().size(), AccessLog::kDistinct + 2);  // however many there are
  EXPECT_EQ(b.log.entries().count({"d0.dma7", AccessLog::Kind::kUnknown, "0x00000", true}), 1u);
  b.run();
  EXPECT_EQ(b.counters.dma_errors, 0u);
}

TEST(Registers, QueueRegistersHoldWhatTheyShould) {
  DmaBench b;
  const auto at = [](uint32_t offset) { return DmaBench::reg(kS2m, 15, offset); };
  b.write(5, at(udma::kM2sQRingBaseLo), 0x1234'567F);
  EXPECT_EQ(b.read(5, at(udma::kM2sQRingBaseLo)), 0x1234'5640u);
  b.write(5, at(udma::kM2sQRingBaseHi), 0x77);
  EXPECT_EQ(b.read(5, at(udma::kM2sQRingBaseHi)), 0x77u);
  b.write(5, at(udma::kM2sQRingLength), 0xFF00'0040);
  EXPECT_EQ(b.read(5, at(udma::kM2sQRingLength)), 0x40u);
  b.write(5, at(udma::kM2sQHead), 7);
  EXPECT_EQ(b.read(5, at(udma::kM2sQHead)), 0x4000'0000u);
  EXPECT_EQ(b.read(5, at(udma::kM2sQTailInc)), 0u);
  EXPECT_EQ(b.read(5, at(udma::kM2sQStatus)), 0u);
  b.write(5, at(udma::kM2sQCfg), 0x0303'0000);
  EXPECT_EQ(b.read(5, at(udma::kM2sQStatus)), 0x3000'0000u);
  EXPECT_EQ(b.log.total(AccessLog::Kind::kDenied), 1u);
}

TEST(Registers, OddAccessesReadZeroAndAreCounted) {
  DmaBench b;
  const uint64_t at = b.map().udma(0).device + udma::kM2sDataRdCfg;
  uint8_t bytes[8] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
  EXPECT_TRUE(b.fabric.write(at, {bytes, 2}));
  EXPECT_TRUE(b.fabric.write(at - 2, {bytes, 4}));
  EXPECT_TRUE(b.fabric.write(at - 4, {bytes, 8}));
  EXPECT_EQ(b.read(0, udma::kM2sDataRdCfg), 0x100'0000u);
  EXPECT_TRUE(b.fabric.read(at, {bytes, 8}));
  EXPECT_EQ(base::load<uint64_t>(bytes), 0u);
  EXPECT_EQ(b.log.total(AccessLog::Kind::kPartial), 4u);
  EXPECT_EQ(b.read(0, 0x800), 0u);
  b.write(0, 0x800, 1);
  EXPECT_EQ(b.log.total(AccessLog::Kind::kUnknown), 2u);
}

constexpr uint32_t irq(uint32_t group, uint32_t reg) {
  return udma::kSecondaryIrq + group * udma::kSecondaryIrqStride + reg;
}
constexpr uint32_t kGroupD = udma::kPrimaryIrq + 3 * udma::kPrimaryIrqStride;

TEST(Interrupts, CauseSetAndClear) {
  DmaBench b;
  for (uint32_t g = 0; g < 3; ++g) {
    b.write(0, irq(g, udma::kSecondaryIrqCauseSet), 0x30);
    b.write(0, irq(g, udma::kSecondaryIrqCauseSet), 0x01);
    EXPECT_EQ(b.read(0, irq(g, 0)), 0x31u);
    EXPECT_EQ(b.read(0, irq(g, udma::kSecondaryIrqStatus)), 0x31u);
    b.write(0, irq(g, 0), ~0x20u);
    EXPECT_EQ(b.read(0, irq(g, 0)), 0x11u);
  }
  EXPECT_EQ(b.read(0, udma::kM2sState), 0u);  // set by software: nothing stops
}

TEST(Interrupts, MaskClearClearsWhereItIsWrittenZero) {
  DmaBench b;
  b.write(0, irq(1, udma::kSecondaryIrqMaskClear), 0x0000'10F8);
  EXPECT_EQ(b.read(0, irq(1, udma::kSecondaryIrqMask)), 0x10F8u);
  b.write(0, irq(1, udma::kSecondaryIrqMaskClear), 0xFFFF'FFFF);
  EXPECT_EQ(b.read(0, irq(1, udma::kSecondaryIrqMask)), 0x10F8u);
  b.write(0, irq(1, udma::kSecondaryIrqMask), 0xF000'0000);
  EXPECT_EQ(b.read(0, irq(1, udma::kSecondaryIrqMask)), 0xF000'0000u);
}

TEST(Interrupts, GroupDSummarisesWhatIsNotMasked) {
  DmaBench b;
  b.write(0, kGroupD + udma::kPrimaryIrqControl, 0x28);  // on the positive edge
  b.write(0, irq(1, udma::kSecondaryIrqCauseSet), 0x800);
  EXPECT_EQ(b.read(0, kGroupD), 0u);  // everything is masked after reset
  b.write(0, irq(1, udma::kSecondaryIrqMaskClear), ~0x800u);
  EXPECT_EQ(b.read(0, kGroupD + udma::kPrimaryIrqStatus), 1u << 9);
  EXPECT_EQ(b.read(0, kGroupD), 1u << 9);
  b.write(0, kGroupD, 0);
  EXPECT_EQ(b.read(0, kGroupD), 0u);  // the input is still high, but there is no new edge
  b.write(0, irq(2, udma::kSecondaryIrqMask), 0);
  b.write(0, irq(2, udma::kSecondaryIrqCauseSet), 1);
  EXPECT_EQ(b.read(0, kGroupD), 1u << 10);
  EXPECT_EQ(b.read(0, kGroupD + udma::kPrimaryIrqStatus), 3u << 9);
  b.write(0, irq(2, 0), 0);
  EXPECT_EQ(b.read(0, kGroupD + udma::kPrimaryIrqStatus), 1u << 9);
  EXPECT_EQ(b.read(0, kGroupD), 1u << 10);               // stays until it is cleared
  b.write(0, kGroupD + udma::kPrimaryIrqControl, 0x20);  // by level: comes back while it is high
  b.write(0, kGroupD, 0);
  EXPECT_EQ(b.read(0, kGroupD), 1u << 9);
}

TEST(Interrupts, ClearOnReadWhenControlSaysSo) {
  DmaBench b;
  b.write(0, irq(0, udma::kSecondaryIrqCauseSet), 0x20000);
  EXPECT_EQ(b.read(0, irq(0, 0)), 0x20000u);
  b.write(0, irq(0, udma::kSecondaryIrqControl), 1);
  uint32_t debug = 0;
  EXPECT_TRUE(b.fabric.read32(b.map().udma(0).device + irq(0, 0), debug, true));
  EXPECT_EQ(debug, 0x20000u);
  EXPECT_EQ(b.read(0, irq(0, 0)), 0x20000u);
  EXPECT_EQ(b.read(0, irq(0, 0)), 0u);
}

TEST(Registers, DebugAccessHasNoSideEffect) {
  DmaBench b;
  b.setup(0, 0);
  const uint64_t at = b.map().udma(0).device + DmaBench::reg(kM2s, 0, udma::kM2sQTailInc);
  EXPECT_TRUE(b.fabric.write32(at, 5, true));
  EXPECT_EQ(b.read(0, DmaBench::reg(kM2s, 0, udma::kM2sQTail)), 0x4000'0000u);
  EXPECT_TRUE(b.events.empty());
}

constexpr uint32_t kIdle = 0;
constexpr uint32_t kWorking = 0x1111;
constexpr uint32_t kAborted = 0x2222;

TEST(States, FollowTheWorkInFlight) {
  DmaBench b;
  auto p = b.setup(0, 0);
  EXPECT_EQ(b.read(0, udma::kM2sState), kIdle);
  b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 17000);  // one microsecond
  b.doorbell(p, 1, 1);
  EXPECT_EQ(b.read(0, udma::kM2sState), kWorking);  // prefetch
  b.at_time(1'000'000, [&] {
    EXPECT_EQ(b.read(0, udma::kM2sState), kWorking);
    EXPECT_EQ(b.read(0, udma::kS2mState), kWorking);
  });
  b.run();
  EXPECT_EQ(b.read(0, udma::kM2sState), kIdle);
  EXPECT_EQ(b.read(0, udma::kS2mState), kIdle);
}

TEST(States, EachHalfHasItsOwnAndBothMustBeNormal) {
  DmaBench b;
  auto p = b.setup(0, 0);
  b.fill(b.hbm(0, kA), 64, 5);
  b.write(0, udma::kS2mChangeState, 4);
  EXPECT_EQ(b.read(0, udma::kS2mState), kAborted);
  EXPECT_EQ(b.read(0, udma::kM2sState), kIdle);
  b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 64);
  b.doorbell(p, 1, 1);
  b.run();
  EXPECT_EQ(b.counters.packets, 0u);
  EXPECT_EQ(b.read(0, DmaBench::reg(kM2s, 0, udma::kM2sQHead)), 0x4000'0001u);
  EXPECT_EQ(b.read(0, DmaBench::reg(kS2m, 0, udma::kM2sQHead)), 0x4000'0000u);  // not fetched
  EXPECT_EQ(b.read(0, DmaBench::reg(kS2m, 0, udma::kM2sQTail)), 0x4000'0001u);
  b.write(0, udma::kM2sChangeState, 1);
  b.run();
  EXPECT_EQ(b.counters.packets, 0u);
  b.write(0, udma::kS2mChangeState, 1);
  b.run();
  EXPECT_EQ(b.counters.packets, 1u);
  EXPECT_EQ(b.read(0, udma::kS2mState), kIdle);
}

TEST(States, DisableFinishesThePacketAndNormalGoesOn) {
  DmaBench b;
  auto p = b.setup(0, 0);
  for (uint32_t i = 0; i < 4; ++i) b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 17000);
  b.doorbell(p, 4, 4);
  b.at_time(2'000'000, [&] {
    b.write(0, udma::kM2sChangeState, 2);
    b.write(0, udma::kS2mChangeState, 2);
    EXPECT_EQ(b.read(0, udma::kM2sState), kWorking);
  });
  b.run();
  EXPECT_EQ(b.counters.packets, 2u);
  EXPECT_EQ(b.read(0, udma::kM2sState), kIdle);
  b.write(0, udma::kM2sChangeState, 1);
  b.write(0, udma::kS2mChangeState, 1);
  b.run();
  EXPECT_EQ(b.counters.packets, 4u);
}

TEST(States, AbortByCommandLosesThePacketUntilNormal) {
  DmaBench b;
  auto p = b.setup(0, 0);
  b.fill(b.hbm(0, kA), 17000, 4);
  b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 17000);
  b.doorbell(p, 1, 1);
  b.at_time(1'000'000, [&] {
    b.write(0, udma::kM2sChangeState, 4);
    b.write(0, udma::kS2mChangeState, 4);
    b.write(0, udma::kM2sChangeState, 2);  // an aborted half stays so
    EXPECT_EQ(b.read(0, udma::kM2sState), kAborted);
  });
  b.run();
  EXPECT_EQ(b.counters.packets, 0u);
  EXPECT_EQ(*b.at(b.hbm(0, kB) + 7, 1), 0);
  b.write(0, udma::kM2sChangeState, 1);
  b.write(0, udma::kS2mChangeState, 1);
  b.run();
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(0, kB), 17000));
}

TEST(Streams, DisableAndFlushStopPacketsAndPrefetchStopsSeparately) {
  struct Row {
    uint32_t offset, value;
    bool fetches;
  };
  for (const Row row :
       {Row{udma::kM2sStreamCfg, 1, true}, Row{udma::kS2mStreamCfg, 1, true},
        Row{udma::kS2mStreamCfg, 0x10, true}, Row{udma::kS2mStreamCfg, 0x100, false}}) {
    DmaBench b;
    auto p = b.setup(0, 0);
    b.write(0, row.offset, row.value);
    b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 64);
    b.doorbell(p, 1, 1);
    b.run();
    EXPECT_EQ(b.counters.packets, 0u) << row.value;
    EXPECT_EQ(b.read(0, DmaBench::reg(kS2m, 0, udma::kM2sQHead)),
              row.fetches ? 0x4000'0001u : 0x4000'0000u);
    EXPECT_EQ(b.read(0, row.offset), row.value);
    b.write(0, row.offset, 0);
    b.run();
    EXPECT_EQ(b.counters.packets, 1u) << row.value;
  }
}

TEST(SoftwareControl, BitsActOnceAndReadZero) {
  DmaBench b;
  auto p = b.setup(0, 0, 32);
  for (uint32_t i = 0; i < 35; ++i) {
    b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 4);
    b.doorbell(p, 1, 1);
    b.run();
  }
  const auto m2s = [](uint32_t reg) { return DmaBench::reg(kM2s, 0, reg); };
  EXPECT_EQ(b.read(0, m2s(udma::kM2sQTail)), 0x8000'0003u);
  b.write(0, m2s(udma::kM2sQSwCtrl), 1 << 1);
  EXPECT_EQ(b.read(0, m2s(udma::kM2sQTail)), 0x4000'0000u);
  EXPECT_EQ(b.read(0, m2s(udma::kM2sQCurrent)), 0x8000'0003u);
  b.write(0, m2s(udma::kM2sQSwCtrl), 1 << 3);
  EXPECT_EQ(b.read(0, m2s(udma::kM2sQCurrent)), 0x4000'0000u);
  EXPECT_EQ(b.read(0, m2s(udma::kM2sQHead)), 0x4000'0000u);
  EXPECT_EQ(b.read(0, m2s(udma::kM2sQSwCtrl)), 0u);
  EXPECT_EQ(b.read(0, DmaBench::reg(kS2m, 0, udma::kM2sQTail)), 0x8000'0003u);
  b.write(0, DmaBench::reg(kS2m, 0, udma::kS2mQSwCtrl), 0x100);
  EXPECT_EQ(b.read(0, DmaBench::reg(kS2m, 0, udma::kM2sQTail)), 0x4000'0000u);
  // Base and length survive a queue reset, and the queue works.
  p.tx.index = p.rx.index = 0;
  p.tx.ring_id = p.rx.ring_id = 1;
  b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 4);
  b.doorbell(p, 1, 1);
  b.run();
  EXPECT_EQ(b.counters.packets, 36u);
}

TEST(SoftwareControl, ResetOfADmbWaitLetsThePacketGo) {
  DmaBench b;
  auto p = b.setup(0, 0);
  b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 17);
  b.push(p.tx, desc::tx_copy(b.hbm(0, kA), 17, 0, desc::kFirst | desc::kLast | desc::kDmb));
  b.push(p.rx, desc::rx(b.hbm(0, kC), 17, 0));
  b.doorbell(p, 2, 2);
  const uint32_t status = DmaBench::reg(kM2s, 0, udma::kM2sQStatus);
  b.at_time(900'000, [&] {
    EXPECT_EQ(b.read(0, status), 0x7000'0001u);
    b.write(0, DmaBench::reg(kM2s, 0, udma::kM2sQSwCtrl), 1);
    EXPECT_EQ(b.read(0, status), 0x3000'0001u);
  });
  b.at_time(910'000, [&] { EXPECT_EQ(b.counters.packets, 2u); });
  b.run();
}

TEST(Trace, AnEntryPerPacketWhileTheQueueOfTheEngineIsOn) {
  for (const Gen gen : {Gen::kV2, Gen::kV3}) {
    DmaBench::Config config;
    config.gen = gen;
    DmaBench b(config);
    auto p = b.setup(2, 5);
    b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 17);
    b.doorbell(p, 1, 1);
    b.run();  // nobody asked for this one
    const uint64_t block = b.map().sdma(2).device + 0x1000;
    const uint64_t ring = b.host_address(0x4000);
    EXPECT_TRUE(b.fabric.write32(block + 0x104, static_cast<uint32_t>(ring >> 32)));
    EXPECT_TRUE(b.fabric.write32(block + 0x100, static_cast<uint32_t>(ring)));
    EXPECT_TRUE(b.fabric.write32(block + 0x108, 256));
    const base::Ps begin = b.events.now();
    b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 34);
    b.push(p.tx, desc::tx_copy(b.hbm(0, kA), 10, 0, desc::kFirst));
    b.push(p.tx, desc::tx_copy(b.hbm(0, kA), 7, 0, desc::kLast));
    b.push(p.rx, desc::rx(b.hbm(0, kC), 17, 0));
    b.doorbell(p, 3, 2);
    b.run();
    uint32_t head = 0;
    EXPECT_TRUE(b.fabric.read32(block + 0x10C, head));
    EXPECT_EQ(head, 64u);
    contract::NqEntry e[2];
    std::memcpy(e, b.at(ring, sizeof e), sizeof e);
    EXPECT_EQ(e[0].type(), contract::NqType::kTraceDma);
    EXPECT_EQ(e[0].source(), 5u);
    EXPECT_EQ(e[0].payload, 34u);
    EXPECT_EQ(e[0].debug_id, begin + 770'000);
    EXPECT_EQ(e[0].timestamp, begin + 770'000 + 3000);
    EXPECT_EQ(e[0].pc, 0x4000'0001u);
    EXPECT_EQ(e[0].info, 0x0001'0001u);
    EXPECT_EQ(e[1].payload, 17u);
    EXPECT_EQ(e[1].info, 0x0001'0002u);
    EXPECT_EQ(b.counters.notifications, 2u);
    b.dma.reset_engine(2);
    EXPECT_TRUE(b.fabric.read32(block + 0x108, head));
    EXPECT_EQ(head, 0u);
  }
}

}  // namespace
}  // namespace hw
