// Packets of the UDMA engine that write registers: semaphores, doorbells, its own
// (spec/hw-registers.md 3.6).
#include "tests/hw_dma/bench.h"

namespace hw {
namespace {

TEST(Signals, SemaphoreAfterTheData) {
  DmaBench b;
  auto p = b.setup(0, 0);
  b.fill(b.hbm(0, kA), 1000, 5);
  base::store<uint32_t>(b.at(b.hbm(0, kC), 4), 16);
  b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 1000);
  b.copy(p, b.hbm(0, kC), b.map().nc_semaphores(0) + 0x1000, 4);
  b.doorbell(p, 2, 2);
  b.run();
  ASSERT_EQ(b.recorder.stores.size(), 1u);
  EXPECT_EQ(b.recorder.stores[0].offset, 0x1000u);
  EXPECT_EQ(b.recorder.stores[0].value, 16u);
  EXPECT_EQ(b.recorder.stores[0].time, 770'000u + 1004'000 / 17 + 2000 + 510'000);
  EXPECT_EQ(b.counters.register_writes, 1u);
}

// The engine is not through with a short buffer before its least time.
TEST(Signals, ShortBuffersTakeAsLongAsTheLeast) {
  BenchConfig config;
  config.timing.dma_buffer_least = 8500;
  DmaBench b(config);
  auto p = b.setup(0, 0);
  for (int i = 0; i < 2; ++i) b.copy(p, b.hbm(0, kC), b.map().nc_semaphores(0) + 0x1000, 4);
  b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 1000);
  b.copy(p, b.hbm(0, kC), b.map().nc_semaphores(0) + 0x1000, 4);
  b.doorbell(p, 4, 4);
  b.run();
  ASSERT_EQ(b.recorder.stores.size(), 3u);
  const base::Ps first = b.recorder.stores[0].time;
  EXPECT_EQ(first, 770'000u + 8500 + 510'000);
  EXPECT_EQ(b.recorder.stores[1].time, first + 8500);
  const base::Ps data = 1000 + b.timing.dma_engine.time_for(1000);
  EXPECT_NEAR(static_cast<double>(b.recorder.stores[2].time - first),
              static_cast<double>(2 * 8500 + data), 1);  // of a sum of fractions
}

TEST(Signals, TheValueIsReadWhenThePacketEnds) {
  DmaBench b;
  auto p = b.setup(0, 0);
  base::store<uint32_t>(b.at(b.hbm(0, kA), 8), 1);
  base::store<uint32_t>(b.at(b.hbm(0, kA) + 4, 4), 2);
  b.copy(p, b.hbm(0, kA), b.map().nc_semaphores(0), 4);
  b.copy(p, b.hbm(0, kA) + 4, b.hbm(0, kA), 4);
  b.copy(p, b.hbm(0, kA), b.map().nc_semaphores(0), 4);
  b.doorbell(p, 3, 3);
  b.run();
  ASSERT_EQ(b.recorder.stores.size(), 2u);
  EXPECT_EQ(b.recorder.stores[0].value, 1u);
  EXPECT_EQ(b.recorder.stores[1].value, 2u);
}

TEST(Signals, DmaRingsTheDoorbellOfAnotherQueue) {
  DmaBench b;
  auto p = b.setup(0, 0);
  auto target = b.setup(17, 9);
  b.fill(b.hbm(0, kA), 256, 8);
  b.copy(target, b.hbm(0, kA), b.hbm(1, kB), 256);
  base::store<uint32_t>(b.at(b.hbm(0, kC), 4), 1);
  for (const Half h : {kM2s, kS2m}) {
    b.copy(p, b.hbm(0, kC), b.map().udma(17).device + DmaBench::reg(h, 9, udma::kM2sQTailInc), 4);
  }
  b.doorbell(p, 2, 2);
  b.run();
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(1, kB), 256));
}

TEST(Signals, BroadcastReachesTheEnginesOfTheCore) {
  for (const Gen gen : {Gen::kV2, Gen::kV3}) {
    DmaBench::Config config;
    config.gen = gen;
    DmaBench b(config);
    std::vector<RingPair> pairs;
    for (uint32_t e = 16; e < 32; ++e) {
      pairs.push_back(b.setup(e, 8));
      b.copy(pairs.back(), b.hbm(0, kA), b.hbm(0, kB) + e, 1);
      if (e != 20) {
        EXPECT_TRUE(b.fabric.write32(b.map().sdma(e).device + 0x100, 0xFFFF >> (e - 16)));
      }
    }
    auto other = b.setup(0, 8);
    b.copy(other, b.hbm(0, kA), b.hbm(0, kC), 1);
    *b.at(b.hbm(0, kA), 1) = 0x5A;
    const uint64_t window = b.map().broadcast(1).device;
    if (gen == Gen::kV2) {
      EXPECT_EQ(window, 0x0FFF'F000'0000 + 0x100'0000 + 0x4'0000);
    }
    EXPECT_TRUE(b.fabric.write32(window + 0x9038, 1));  // queue 8, M2S and S2M tail increment
    EXPECT_TRUE(b.fabric.write32(window + 0x2'9038, 1));
    b.run();
    for (uint32_t e = 16; e < 32; ++e) {
      const bool left_out = gen == Gen::kV2 && e == 20;
      EXPECT_EQ(*b.at(b.hbm(0, kB) + e, 1), left_out ? 0 : 0x5A) << e;
    }
    EXPECT_EQ(*b.at(b.hbm(0, kC), 1), 0);
  }
}

// A chain: each link rings the S2M and M2S doorbells of its own queue for the next one.
TEST(Signals, AQueueFeedsItself) {
  DmaBench b;
  auto p = b.setup(0, 4);
  b.fill(b.hbm(0, kA), 64, 5);
  const uint64_t unit = b.map().udma(0).device;
  constexpr uint32_t kLinks = 5;
  for (uint32_t i = 0; i < kLinks; ++i) {
    b.copy(p, b.hbm(0, kA) + i, b.hbm(0, kB) + i, 1);
    const uint64_t next = b.hbm(0, kC) + (i + 1 < kLinks ? 0 : 4);
    b.copy(p, next, unit + DmaBench::reg(kS2m, 4, udma::kM2sQTailInc), 4);
    b.copy(p, next, unit + DmaBench::reg(kM2s, 4, udma::kM2sQTailInc), 4);
  }
  base::store<uint32_t>(b.at(b.hbm(0, kC), 8), 3);
  b.doorbell(p, 3, 3);
  b.run();
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(0, kB), kLinks));
  EXPECT_EQ(b.counters.packets, 15u);
  EXPECT_EQ(b.counters.bad_doorbells, 2u);  // of zero, at the end
  EXPECT_EQ(b.read(0, DmaBench::reg(kM2s, 4, udma::kM2sQCurrent)), 0x4000'000Fu);
  EXPECT_EQ(b.counters.dma_errors, 0u);
}

// The engine reads the registers of the queue that it is working on, in the middle of a run.
TEST(Signals, ReadsOfItsOwnRegisters) {
  DmaBench b;
  auto p = b.setup(0, 0);
  b.fill(b.hbm(0, kA), 4096, 5);
  const uint64_t queue = b.map().udma(0).device + DmaBench::reg(kM2s, 0, 0);
  const uint64_t semaphore = b.map().nc_semaphores(0);
  for (uint32_t i = 0; i < 40; ++i) {
    b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 4096);
    if (i % 3 == 0) b.copy(p, queue + udma::kM2sQStatus, b.hbm(0, kC) + 0x1000, 48);
    if (i % 3 == 1) b.copy(p, queue + udma::kM2sQCurrent, b.hbm(0, kC) + 4 * i, 4);
    if (i % 3 == 2) b.copy(p, queue + udma::kM2sQHead, semaphore, 4);
  }
  b.doorbell(p, 80, 80);
  b.run();
  EXPECT_EQ(b.counters.packets, 80u);
  EXPECT_EQ(b.counters.dma_errors, 0u);
  // Of packet 3, which is current as long as it moves, and is counted when it ends.
  EXPECT_EQ(base::load<uint32_t>(b.at(b.hbm(0, kC) + 4, 4)), 0x4000'0004u);
  EXPECT_EQ(b.recorder.stores.size(), 13u);
}

TEST(Signals, AQueueStopsAndResetsItself) {
  DmaBench b;
  auto p = b.setup(0, 0);
  b.fill(b.hbm(0, kA), 64, 5);
  const uint64_t unit = b.map().udma(0).device;
  base::store<uint32_t>(b.at(b.hbm(0, kC), 8), 0x0300'0000);
  base::store<uint32_t>(b.at(b.hbm(0, kC) + 4, 4), 0x100);
  b.copy(p, b.hbm(0, kC), unit + DmaBench::reg(kM2s, 0, udma::kM2sQCfg), 4);
  for (uint32_t i = 0; i < 200; ++i) b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 17000);
  b.doorbell(p, 201, 201);
  b.run();
  EXPECT_EQ(b.counters.packets, 2u);  // the one that was in flight finished
  b.write(0, DmaBench::reg(kM2s, 0, udma::kM2sQCfg), 0x0303'0000);
  b.run();
  EXPECT_EQ(b.counters.packets, 201u);
  b.copy(p, b.hbm(0, kC) + 4, unit + DmaBench::reg(kM2s, 0, udma::kM2sQSwCtrl), 4);
  b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 64);
  b.doorbell(p, 1, 2);
  b.run();
  EXPECT_EQ(b.counters.packets, 202u);
  EXPECT_EQ(b.read(0, DmaBench::reg(kM2s, 0, udma::kM2sQTail)), 0x4000'0000u);
  EXPECT_EQ(b.read(0, DmaBench::reg(kS2m, 0, udma::kM2sQTail)), 0x4000'00CBu);
  EXPECT_EQ(b.counters.dma_errors, 0u);
}

}  // namespace
}  // namespace hw
