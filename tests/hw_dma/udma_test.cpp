// The UDMA engine as software sees it: registers, rings, packets, order, errors (hw-registers.md
// 3).
#include <cmath>
#include <functional>
#include <numeric>

#include "tests/hw_dma/bench.h"

namespace hw {
namespace {

constexpr uint64_t kA = 0x100'0000;  // offsets in HBM past the firmware's part
constexpr uint64_t kB = 0x200'0000;
constexpr uint64_t kC = 0x300'0000;

uint32_t cause(DmaBench& b, uint32_t engine, Half h) {
  return b.read(engine, udma::kSecondaryIrq + h * udma::kSecondaryIrqStride);
}
void mask_abort(DmaBench& b, uint32_t engine, Half h, uint32_t bits) {
  b.write(engine,
          udma::kSecondaryIrq + h * udma::kSecondaryIrqStride + udma::kSecondaryIrqAbortMask, bits);
}

TEST(Registers, ResetValues) {
  DmaBench b;
  for (const contract::RegInfo& r : udma::kRegs) {
    if (r.access == contract::Access::kWriteOnly) continue;
    for (uint32_t k = 0; k < r.count; ++k) {
      EXPECT_EQ(b.read(3, r.offset + k * r.stride), r.reset) << r.name << " " << k;
    }
  }
}

TEST(Registers, AccessRights) {
  DmaBench b;
  for (const contract::RegInfo& r : udma::kRegs) {
    const std::string name = r.name;
    // Registers with behaviour of their own have their own tests.
    if (name.find("_q_") != std::string::npos || name.find("irq") != std::string::npos ||
        name.find("change_state") != std::string::npos) {
      continue;
    }
    const uint32_t before = b.read(0, r.offset);
    b.write(0, r.offset, 0xA5A5'5A5A);
    const uint32_t expected = r.access == contract::Access::kReadWrite  ? 0xA5A5'5A5A
                              : r.access == contract::Access::kReadOnly ? before
                                                                        : 0;
    EXPECT_EQ(b.read(0, r.offset), expected) << name;
  }
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

TEST(Registers, InterruptGroups) {
  DmaBench b;
  const uint32_t group = udma::kSecondaryIrq + udma::kSecondaryIrqStride;
  b.write(0, group + udma::kSecondaryIrqCauseSet, 0x30);
  b.write(0, group + udma::kSecondaryIrqCauseSet, 0x01);
  EXPECT_EQ(b.read(0, group), 0x31u);
  EXPECT_EQ(b.read(0, group + udma::kSecondaryIrqStatus), 0x31u);
  b.write(0, group, ~0x20u);
  EXPECT_EQ(b.read(0, group), 0x11u);
  b.write(0, group + udma::kSecondaryIrqMaskClear, 0x0000'10F8);
  EXPECT_EQ(b.read(0, group + udma::kSecondaryIrqMask), 0x10F8u);
}

TEST(Registers, DebugAccessHasNoSideEffect) {
  DmaBench b;
  b.setup(0, 0);
  const uint64_t at = b.map().udma(0).device + DmaBench::reg(kM2s, 0, udma::kM2sQTailInc);
  EXPECT_TRUE(b.fabric.write32(at, 5, true));
  EXPECT_EQ(b.read(0, DmaBench::reg(kM2s, 0, udma::kM2sQTail)), 0x4000'0000u);
  EXPECT_TRUE(b.events.empty());
}

TEST(Copy, SixtyFourKibWithTheExactTime) {
  DmaBench b;
  auto p = b.setup(0, 3);
  b.fill(b.hbm(0, kA), 65536, 1);
  b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 65536);
  EXPECT_EQ(base::load<uint16_t>(b.at(p.tx.base, 16)), 0);  // length 0 means 64 KiB
  b.doorbell(p, 1, 1);
  EXPECT_EQ(b.read(0, DmaBench::reg(kM2s, 3, udma::kM2sQStatus)), 0x3000'0001u);
  EXPECT_EQ(b.read(0, DmaBench::reg(kM2s, 3, udma::kM2sQTail)), 0x4000'0001u);
  // 770 ns fetch, 65536 B at 17 B/ns, 1 ns for the buffer.
  EXPECT_EQ(b.run(), 770'000u + 65536ull * 1000 / 17 + 1000);
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(0, kB), 65536));
  EXPECT_EQ(b.read(0, DmaBench::reg(kM2s, 3, udma::kM2sQStatus)), 0x3000'0000u);
  EXPECT_EQ(b.read(0, DmaBench::reg(kS2m, 3, udma::kM2sQHead)), 0x4000'0001u);
  EXPECT_EQ(b.read(0, DmaBench::reg(kS2m, 3, udma::kM2sQCurrent)), 0x4000'0001u);
  EXPECT_EQ(b.counters.descriptors, 2u);
  EXPECT_EQ(b.counters.bytes, 65536u);
}

TEST(Copy, OneChangedDestinationMovesExactlyThoseBytes) {
  DmaBench b;
  auto p = b.setup(0, 0);
  b.fill(b.hbm(0, kA), 3 * 1000, 7);
  for (uint32_t i = 0; i < 3; ++i) {
    b.copy(p, b.hbm(0, kA) + i * 1000, b.hbm(0, kB) + i * 1000, 1000);
  }
  auto* second = b.at(p.rx.base + 16, 16);
  base::store<uint64_t>(second + 8, b.hbm(0, kC));
  b.doorbell(p, 3, 3);
  b.run();
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(0, kB), 1000));
  EXPECT_TRUE(b.same(b.hbm(0, kA) + 1000, b.hbm(0, kC), 1000));
  EXPECT_TRUE(b.same(b.hbm(0, kA) + 2000, b.hbm(0, kB) + 2000, 1000));
  const uint8_t* gap = b.at(b.hbm(0, kB) + 1000, 1000);
  EXPECT_EQ(std::accumulate(gap, gap + 1000, 0), 0);
}

TEST(Copy, PacketsOfSeveralBuffersOnEitherSide) {
  DmaBench b;
  auto p = b.setup(0, 0);
  b.fill(b.hbm(0, kA), 100, 3);
  b.push(p.tx, desc::tx_copy(b.hbm(0, kA), 33, 0, desc::kFirst));
  b.push(p.tx, desc::tx_copy(b.hbm(0, kA) + 33, 1, 0, 0));
  b.push(p.tx, desc::tx_copy(b.hbm(0, kA) + 34, 66, 0, desc::kLast));
  b.push(p.rx, desc::rx(b.hbm(1, kB), 7, 0));
  b.push(p.rx, desc::rx(b.hbm(1, kB) + 7, 500, 0));  // finished by the end of the packet
  b.copy(p, b.hbm(0, kA), b.hbm(1, kC), 5);
  b.doorbell(p, 4, 3);
  b.run();
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(1, kB), 100));
  EXPECT_EQ(*b.at(b.hbm(1, kB) + 100, 1), 0);
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(1, kC), 5));
  EXPECT_EQ(b.counters.packets, 2u);
  EXPECT_EQ(b.counters.descriptors, 7u);
}

TEST(Copy, WaitsForTheWholePacketAndForReceiveDescriptors) {
  DmaBench b;
  auto p = b.setup(0, 0);
  b.fill(b.hbm(0, kA), 64, 3);
  b.push(p.tx, desc::tx_copy(b.hbm(0, kA), 32, 0, desc::kFirst));
  b.push(p.tx, desc::tx_copy(b.hbm(0, kA) + 32, 32, 0, desc::kLast));
  b.push(p.rx, desc::rx(b.hbm(0, kB), 40, 0));
  b.push(p.rx, desc::rx(b.hbm(0, kB) + 40, 24, 0));
  b.doorbell(p, 1, 2);
  b.run();
  EXPECT_EQ(b.counters.packets, 0u);
  b.doorbell(p, 1, 0);
  b.run();
  EXPECT_EQ(b.counters.packets, 1u);
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(0, kB), 64));
  b.copy(p, b.hbm(0, kA), b.hbm(0, kC), 64);
  b.doorbell(p, 1, 0);
  b.run();
  EXPECT_EQ(b.counters.packets, 1u);
  b.doorbell(p, 0, 1);
  b.run();
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(0, kC), 64));
}

TEST(Copy, BetweenHostHbmSbufAndRegisters) {
  DmaBench b;
  auto p = b.setup(2, 1, b.host_address(0x1000), b.host_address(0x3000), 64);
  b.fill(b.host_address(0x8000), 4096, 9);
  const uint64_t sbuf = b.map().nc(1).device + 5 * contract::tpb::kPartitionStride + 1024;
  const uint64_t psum = b.map().nc(0).device + contract::tpb::kPsum + 16;
  b.copy(p, b.host_address(0x8000), sbuf, 4096);
  b.copy(p, sbuf, psum, 4096);
  b.copy(p, psum, b.host_address(0xA000), 4096);
  b.copy(p, b.map().nc_semaphores(0) + 0x400, b.hbm(0, kA), 12);
  b.doorbell(p, 4, 4);
  b.run();
  EXPECT_TRUE(b.same(b.host_address(0x8000), b.host_address(0xA000), 4096));
  EXPECT_EQ(base::load<uint32_t>(b.at(b.hbm(0, kA) + 8, 4)), 0xC0DE0408u);
  // Memory that is reached through an accessor only.
  b.host.accessor_only = true;
  auto r = b.setup(2, 2);
  b.copy(r, sbuf, b.host_address(0xC000), 4096);
  b.copy(r, b.host_address(0xC000), b.hbm(0, kB), 4096);
  b.doorbell(r, 2, 2);
  b.run();
  EXPECT_TRUE(b.same(sbuf, b.hbm(0, kB), 4096));
}

TEST(Rings, WrapWithRingIdsOverFourLaps) {
  DmaBench b;
  auto p = b.setup(0, 0, b.hbm(1, 0x2'0000'0000), b.hbm(1, 0x2'0010'0000), 48);
  b.fill(b.hbm(0, kA), 4096, 5);
  uint32_t sent = 0;
  while (sent < 48 * 4 + 17) {
    for (uint32_t i = 0; i < 11; ++i, ++sent) {
      b.copy(p, b.hbm(0, kA) + sent, b.hbm(0, kB) + sent, 1);
    }
    b.doorbell(p, 11, 11);
    b.run();
  }
  EXPECT_EQ(b.counters.dma_errors, 0u);
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(0, kB), sent));
  const uint32_t lap = sent / 48;
  EXPECT_EQ(b.read(0, DmaBench::reg(kM2s, 0, udma::kM2sQCurrent)), sent % 48 | ((1 + lap) & 3)
                                                                                   << 30);
  EXPECT_EQ(b.read(0, DmaBench::reg(kS2m, 0, udma::kM2sQTail)), sent % 48 | ((1 + lap) & 3) << 30);
}

TEST(Rings, RingIdMismatchAbortsUnlessMasked) {
  for (const bool masked : {false, true}) {
    for (const Half h : {kM2s, kS2m}) {
      DmaBench b;
      auto p = b.setup(0, 0);
      b.fill(b.hbm(0, kA), 64, 5);
      b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 64);
      auto* word = b.at((h == kM2s ? p.tx.base : p.rx.base), 4);
      base::store(word, base::load<uint32_t>(word) ^ 3u << desc::kRingIdShift);
      const uint32_t bit = h == kM2s ? 1u << 17 : 1u << 11;
      if (masked) mask_abort(b, 0, h, bit);
      b.doorbell(p, 1, 1);
      b.run();
      EXPECT_EQ(cause(b, 0, h), bit);
      EXPECT_EQ(b.read(0, udma::kM2sState), masked ? 0u : 0x2222u);
      EXPECT_EQ(b.counters.packets, masked ? 1u : 0u);
      EXPECT_EQ(b.same(b.hbm(0, kA), b.hbm(0, kB), 64), masked);
    }
  }
}

TEST(Rings, DoorbellThatOverflowsIsCountedAndIgnored) {
  DmaBench b;
  auto p = b.setup(0, 0, 32);
  b.doorbell(p, 0, 32);
  b.doorbell(p, 0, 1);
  EXPECT_EQ(b.counters.bad_doorbells, 1u);
  EXPECT_EQ(b.read(0, DmaBench::reg(kS2m, 0, udma::kM2sQStatus)), 0xB000'0020u);
  b.write(1, DmaBench::reg(kM2s, 0, udma::kM2sQTailInc), 1);  // a queue without ring
  EXPECT_EQ(b.counters.bad_doorbells, 2u);
}

TEST(Order, MarkerFollowsDataBehindTheBarrier) {
  DmaBench b;
  auto p = b.setup(32, 0, b.host_address(0), b.host_address(0x10000), 64);
  b.fill(b.hbm(0, kA), 65536, 5);
  const uint64_t marker = b.host_address(0x2'0000);
  base::store<uint32_t>(b.at(marker, 8), 0xABCDEF01);
  b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 65536);
  b.copy(p, b.hbm(0, kA), b.hbm(0, kC), 65536, true);
  b.copy(p, marker, marker + 4, 4);
  b.doorbell(p, 3, 3);
  while (base::load<uint32_t>(b.at(marker + 4, 4)) == 0) {
    ASSERT_FALSE(b.events.empty());
    b.events.run_until(b.events.next_time());
  }
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(0, kB), 65536));
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(0, kC), 65536));
  // Two data packets, the marker, then first-byte and acknowledge latency.
  EXPECT_EQ(b.events.now(),
            770'000u + (2 * 65536ull + 4) * 1000 / 17 + 3 * 1000 + 230'000 + 280'000);
}

TEST(Order, DmbWaitsOnlyWhenItIsEnabled) {
  for (const uint32_t limit_mask : {3u, 7u}) {
    DmaBench b;
    auto p = b.setup(0, 0);
    b.write(0, DmaBench::reg(kM2s, 0, udma::kM2sQRateLimitMask), limit_mask);
    b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 17);
    b.push(p.tx, desc::tx_copy(b.hbm(0, kA), 17, 0, desc::kFirst | desc::kLast | desc::kDmb));
    b.push(p.rx, desc::rx(b.hbm(0, kC), 17, 0));
    b.doorbell(p, 2, 2);
    const base::Ps first = 770'000 + 2000;
    EXPECT_EQ(b.run(), limit_mask == 3 ? first + 510'000 + 2000 : first + 2000);
  }
}

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
    std::vector<QueuePair> pairs;
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

TEST(Compute, AddsInPlaceAndCasts) {
  DmaBench b;
  auto p = b.setup(0, 0);
  constexpr uint32_t n = 1001;
  std::vector<float> x(n), y(n);
  for (uint32_t i = 0; i < n; ++i) {
    x[i] = static_cast<float>(i) * 0.5F;
    y[i] = 1000.0F - static_cast<float>(i);
  }
  std::memcpy(b.at(b.hbm(0, kA), 4 * n), x.data(), 4 * n);
  std::memcpy(b.at(b.hbm(1, kB), 4 * n), y.data(), 4 * n);
  contract::DmaCompute add;
  add.src = add.dst = contract::DType::kFp32;
  add.sources = 2;
  b.push(p.tx, add.pack(0));
  b.push(p.tx, {4 * n, desc::kOpCompute, b.hbm(0, kA)});
  b.push(p.tx, {4 * n | desc::kLast, desc::kOpCompute, b.hbm(1, kB)});
  b.push(p.rx, desc::rx(b.hbm(1, kB), 4 * n, 0));
  contract::DmaCompute cast;
  cast.src = contract::DType::kFp32;
  cast.dst = contract::DType::kInt16;
  b.push(p.tx, cast.pack(0));
  b.push(p.tx, {4 * n | desc::kLast, desc::kOpCompute, b.hbm(1, kB)});
  b.push(p.rx, desc::rx(b.hbm(0, kC), 500, 0));  // the result in two pieces
  b.push(p.rx, desc::rx(b.hbm(0, kC) + 500, 65000, 0));
  b.doorbell(p, 5, 3);
  b.run();
  EXPECT_EQ(b.counters.dma_errors, 0u);
  EXPECT_EQ(b.counters.compute_packets, 2u);
  for (uint32_t i = 0; i < n; ++i) {
    ASSERT_EQ(base::load<float>(b.at(b.hbm(1, kB) + 4 * i, 4)), x[i] + y[i]);
    const auto rounded = static_cast<int16_t>(std::nearbyint(x[i] + y[i]));
    ASSERT_EQ(base::load<int16_t>(b.at(b.hbm(0, kC) + 2 * i, 2)), rounded);
  }
}

TEST(Compute, FmaTakesTheConstantOfTheSlotBefore) {
  DmaBench b;
  auto p = b.setup(0, 0);
  for (uint32_t k = 0; k < 3; ++k) {
    base::store<float>(b.at(b.hbm(0, kA) + 64 * k, 4), static_cast<float>(k + 1));
  }
  contract::DmaCompute fma;
  fma.op = contract::ReduceOp::kFma;
  fma.src = fma.dst = contract::DType::kFp32;
  fma.sources = 3;
  fma.has_constant = true;
  const float half = 0.5F;
  const float ten = 10.0F;
  std::memcpy(&fma.constant_bits, &half, 4);
  b.push(p.tx, fma.pack(0));
  b.push(p.tx, {4, desc::kOpCompute, b.hbm(0, kA)});
  std::memcpy(&fma.constant_bits, &ten, 4);
  Descriptor slot = fma.pack(0);
  slot.w0 &= ~desc::kFirst;
  b.push(p.tx, slot);
  b.push(p.tx, {4, desc::kOpCompute, b.hbm(0, kA) + 64});
  b.push(p.tx, {4 | desc::kLast, desc::kOpCompute, b.hbm(0, kA) + 128});
  b.push(p.rx, desc::rx(b.hbm(0, kB), 4, 0));
  b.doorbell(p, 5, 1);
  b.run();
  EXPECT_EQ(base::load<float>(b.at(b.hbm(0, kB), 4)), 0.5F * 1 + 10 * 2 + 10 * 3);
}

TEST(Compute, PartialOverlapReadsAllSourcesFirst) {
  DmaBench b;
  auto p = b.setup(0, 0);
  for (uint32_t i = 0; i < 600; ++i) base::store<uint32_t>(b.at(b.hbm(0, kA) + 4 * i, 4), i);
  contract::DmaCompute add;
  add.src = add.dst = contract::DType::kUint32;
  add.sources = 2;
  b.push(p.tx, add.pack(0));
  b.push(p.tx, {2000, desc::kOpCompute, b.hbm(0, kA)});
  b.push(p.tx, {2000 | desc::kLast, desc::kOpCompute, b.hbm(0, kA)});
  b.push(p.rx, desc::rx(b.hbm(0, kA) + 4, 2000, 0));
  b.doorbell(p, 3, 1);
  b.run();
  for (uint32_t i = 0; i < 500; ++i) {
    ASSERT_EQ(base::load<uint32_t>(b.at(b.hbm(0, kA) + 4 + 4 * i, 4)), 2 * i);
  }
}

TEST(Compute, CostsHalfTheThroughputForTwoSources) {
  DmaBench b;
  auto p = b.setup(0, 0);
  contract::DmaCompute add;
  add.src = add.dst = contract::DType::kBf16;
  add.sources = 2;
  b.push(p.tx, add.pack(0));
  b.push(p.tx, {34000, desc::kOpCompute, b.hbm(0, kA)});
  b.push(p.tx, {34000 | desc::kLast, desc::kOpCompute, b.hbm(0, kB)});
  b.push(p.rx, desc::rx(b.hbm(0, kC), 34000, 0));
  b.doorbell(p, 3, 1);
  EXPECT_EQ(b.run(), 770'000u + 4'000'000 + 2000);
}

struct Fault {
  const char* name;
  Half half;
  uint32_t bit;
  void (*build)(DmaBench&, QueuePair&);
};

class Faults : public ::testing::TestWithParam<Fault> {};

TEST_P(Faults, SetTheirCauseAndAbort) {
  DmaBench b;
  auto p = b.setup(0, 0);
  GetParam().build(b, p);
  b.doorbell(p, p.tx.index, p.rx.index);
  b.run();
  EXPECT_EQ(cause(b, 0, GetParam().half), 1u << GetParam().bit);
  EXPECT_EQ(cause(b, 0, GetParam().half == kM2s ? kS2m : kM2s), 0u);
  EXPECT_EQ(b.read(0, udma::kM2sState), 0x2222u);
  EXPECT_EQ(b.counters.dma_errors, 1u);
  EXPECT_EQ(b.counters.packets, 0u);
  EXPECT_EQ(b.counters.register_writes, 0u);
}

TEST_P(Faults, MaskedDropThePacketAndGoOn) {
  DmaBench b;
  auto p = b.setup(0, 0);
  b.fill(b.hbm(0, kA), 64, 5);
  mask_abort(b, 0, GetParam().half, ~0u);
  GetParam().build(b, p);
  b.doorbell(p, p.tx.index, p.rx.index);
  b.run();
  EXPECT_NE(cause(b, 0, GetParam().half) & 1u << GetParam().bit, 0u);
  EXPECT_NE(b.read(0, udma::kM2sState), 0x2222u);
  // Another queue of the engine works on.
  auto r = b.setup(0, 1);
  b.copy(r, b.hbm(0, kA), b.hbm(0, kB), 64);
  b.doorbell(r, 1, 1);
  b.run();
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(0, kB), 64));
}

INSTANTIATE_TEST_SUITE_P(
    All, Faults,
    ::testing::Values(
        Fault{"data_read", kM2s, 9,
              [](DmaBench& b, QueuePair& p) { b.copy(p, 0x7'0000'0000, b.hbm(0, kB), 64); }},
        Fault{"data_read_past_the_end", kM2s, 9,
              [](DmaBench& b, QueuePair& p) {
                b.copy(p, b.hbm(0, b.map().hbm_size() - 63), b.hbm(0, kB), 64);
              }},
        Fault{"data_write", kS2m, 0,
              [](DmaBench& b, QueuePair& p) { b.copy(p, b.hbm(0, kA), 0x7'0000'0000, 64); }},
        Fault{"sbuf_tail", kS2m, 0,
              [](DmaBench& b, QueuePair& p) {
                b.copy(p, b.hbm(0, kA), b.map().nc(0).device + 192 * 1024 - 63, 64);
              }},
        Fault{"host_hole", kS2m, 0,
              [](DmaBench& b, QueuePair& p) {
                b.copy(p, b.hbm(0, kA), b.map().host_window(), 64);
                // Host memory is found missing only when the packet moves: count it as not
                // executed.
                b.counters.packets = ~0ull;
              }},
        Fault{"wide_register_write", kS2m, 0,
              [](DmaBench& b, QueuePair& p) {
                b.copy(p, b.hbm(0, kA), b.map().nc_semaphores(0), 8);
              }},
        Fault{"misaligned_register_write", kS2m, 0,
              [](DmaBench& b, QueuePair& p) {
                b.copy(p, b.hbm(0, kA), b.map().nc_semaphores(0) + 2, 4);
              }},
        Fault{"first_missing", kM2s, 15,
              [](DmaBench& b, QueuePair& p) {
                b.push(p.tx, desc::tx_copy(b.hbm(0, kA), 64, 0, desc::kLast));
                b.push(p.rx, desc::rx(b.hbm(0, kB), 64, 0));
              }},
        Fault{"last_missing", kM2s, 16,
              [](DmaBench& b, QueuePair& p) {
                b.push(p.tx, desc::tx_copy(b.hbm(0, kA), 64, 0, desc::kFirst));
                b.push(p.tx, desc::tx_copy(b.hbm(0, kA), 64, 0, desc::kFirst));
              }},
        Fault{"too_long", kM2s, 13,
              [](DmaBench& b, QueuePair& p) {
                for (uint32_t i = 0; i < 17; ++i) {
                  b.push(p.tx, desc::tx_copy(b.hbm(0, kA), 65535, 0,
                                             i == 0    ? desc::kFirst
                                             : i == 16 ? desc::kLast
                                                       : 0));
                }
              }},
        Fault{"too_many", kM2s, 14,
              [](DmaBench& b, QueuePair& p) {
                b.write(0, udma::kM2sDescPrefCfg2, 0x1'0041);
                for (uint32_t i = 0; i < 66; ++i) {
                  b.push(p.tx, desc::tx_copy(b.hbm(0, kA), 1, 0, i == 0 ? desc::kFirst : 0));
                }
              }},
        Fault{"unknown_operation", kM2s, 2,
              [](DmaBench& b, QueuePair& p) {
                b.push(p.tx, {64 | desc::kFirst | desc::kLast, 5u << 23, b.hbm(0, kA)});
                b.push(p.rx, desc::rx(b.hbm(0, kB), 64, 0));
              }},
        Fault{"sources_differ", kS2m, 24,
              [](DmaBench& b, QueuePair& p) {
                contract::DmaCompute add;
                add.src = add.dst = contract::DType::kFp32;
                add.sources = 2;
                b.push(p.tx, add.pack(0));
                b.push(p.tx, {64, desc::kOpCompute, b.hbm(0, kA)});
                b.push(p.tx, {60 | desc::kLast, desc::kOpCompute, b.hbm(0, kA)});
              }},
        Fault{"bad_dtype", kS2m, 24,
              [](DmaBench& b, QueuePair& p) {
                contract::DmaCompute add;
                add.src = contract::DType::kFp32;
                b.push(p.tx, add.pack(0));
                b.push(p.tx, {64 | desc::kLast, desc::kOpCompute, b.hbm(0, kA)});
              }}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Aborts, RingInNoMemory) {
  DmaBench b;
  auto p = b.setup(0, 0, 0x7'0000'0000, b.hbm(0, kA), 64);
  b.doorbell(p, 1, 1);
  b.run();
  EXPECT_EQ(cause(b, 0, kM2s), 1u << 12);
  EXPECT_EQ(b.read(0, udma::kS2mState), 0x2222u);
  DmaBench c;
  p = c.setup(0, 0, c.hbm(0, kA), 0x7'0000'0000, 64);
  c.push(p.tx, desc::tx_copy(c.hbm(0, kA), 4, 0));
  c.doorbell(p, 1, 1);
  c.run();
  EXPECT_EQ(cause(c, 0, kS2m), 1u << 10);
}

TEST(Aborts, OtherEnginesGoOnAndAnAbortedEngineCanBeRevived) {
  DmaBench b;
  auto p = b.setup(0, 0);
  auto r = b.setup(1, 0);
  b.fill(b.hbm(0, kA), 64, 5);
  b.copy(p, 0x7'0000'0000, b.hbm(0, kB), 64);
  b.copy(r, b.hbm(0, kA), b.hbm(0, kC), 64);
  b.doorbell(p, 1, 1);
  b.doorbell(r, 1, 1);
  b.run();
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(0, kC), 64));
  p = b.setup(0, 0);
  b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 64);
  b.doorbell(p, 1, 1);
  b.run();
  EXPECT_FALSE(b.same(b.hbm(0, kA), b.hbm(0, kB), 64));
  b.write(0, udma::kM2sChangeState, 1);
  b.write(0, udma::kS2mChangeState, 1);
  b.run();
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(0, kB), 64));
  EXPECT_EQ(b.read(0, udma::kM2sState), 0u);
}

TEST(Stops, QueueResetWithWorkInFlight) {
  DmaBench b;
  auto p = b.setup(0, 0);
  b.fill(b.hbm(0, kA), 65536, 5);
  for (uint32_t i = 0; i < 10; ++i) b.copy(p, b.hbm(0, kA), b.hbm(0, kB) + i * 65536, 65536);
  b.doorbell(p, 10, 10);
  const base::Ps each = 65536ull * 1000 / 17 + 1000;
  b.events.run_until(770'000);
  // In the third packet.
  struct Stop : EventSink {
    void on_event(const EventKey&, uint32_t, uint64_t) override { action(); }
    std::function<void()> action;
  } stop;
  stop.action = [&] {
    EXPECT_EQ(b.read(0, DmaBench::reg(kM2s, 0, udma::kM2sQCurrent)), 0x4000'0002u);
    EXPECT_EQ(b.read(0, udma::kM2sState), 0x1111u);
    std::memset(b.at(p.tx.base, 160), 0xFF, 160);  // the old ring must not be touched any more
    p = b.setup(0, 0, b.hbm(0, kC), b.hbm(0, kC) + 0x1000, 64);
    b.copy(p, b.hbm(0, kA), b.hbm(1, kC), 65536);
    b.doorbell(p, 1, 1);
  };
  b.events.schedule({770'000 + 2 * each + 5000, 0xFFFF, Phase::kEffect}, stop, 0);
  const base::Ps end = b.run();
  EXPECT_EQ(b.counters.dma_errors, 0u);
  EXPECT_EQ(b.counters.packets, 4u);
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(0, kB) + 2 * 65536, 65536));  // the one in flight finished
  EXPECT_EQ(*b.at(b.hbm(0, kB) + 3 * 65536 + 100, 1), 0);
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(1, kC), 65536));
  EXPECT_EQ(b.read(0, DmaBench::reg(kM2s, 0, udma::kM2sQCurrent)), 0x4000'0001u);
  EXPECT_EQ(end, 770'000 + 4 * 65536ull * 1000 / 17 + 4 * 1000);  // one busy period
}

TEST(Stops, DisabledQueueKeepsItsDescriptors) {
  DmaBench b;
  auto p = b.setup(0, 0);
  b.fill(b.hbm(0, kA), 64, 5);
  b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 64);
  b.write(0, DmaBench::reg(kM2s, 0, udma::kM2sQCfg), 0x0300'0000);
  b.doorbell(p, 1, 1);
  b.run();
  EXPECT_EQ(b.counters.packets, 0u);
  b.write(0, DmaBench::reg(kM2s, 0, udma::kM2sQCfg), 0x0303'0000);
  b.run();
  EXPECT_EQ(b.counters.packets, 1u);
}

TEST(Stops, EngineReset) {
  DmaBench b;
  auto p = b.setup(0, 0);
  for (uint32_t i = 0; i < 4; ++i) b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 65536);
  b.doorbell(p, 4, 4);
  b.events.run_until(1'000'000);
  b.dma.reset();
  EXPECT_FALSE(b.dma.busy());
  b.run();
  EXPECT_EQ(b.counters.packets, 0u);
  EXPECT_EQ(b.read(0, DmaBench::reg(kM2s, 0, udma::kM2sQRingLength)), 0u);
  p = b.setup(0, 0);
  b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 64);
  b.doorbell(p, 1, 1);
  b.run();
  EXPECT_EQ(b.counters.packets, 1u);
}

}  // namespace
}  // namespace hw
