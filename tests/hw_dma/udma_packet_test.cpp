// Packets, rings and order of the UDMA engine (spec/hw-registers.md 3.5, 3.6).
#include <numeric>

#include "tests/hw_dma/bench.h"

namespace hw {
namespace {

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
      if (masked) b.mask_abort(0, h, bit);
      b.doorbell(p, 1, 1);
      b.run();
      EXPECT_EQ(b.cause(0, h), bit);
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

TEST(Lengths, ZeroIs64KibOnlyWhereTheConfigurationSaysSo) {
  for (const uint32_t config : {0x000F'FFFFu, 0x010F'FFFFu, 0u}) {
    const bool is_64k = config != 0x000F'FFFF;
    DmaBench b;
    auto p = b.setup(0, 0);
    b.write(0, udma::kM2sPktLenCfg, config);
    b.fill(b.hbm(0, kA), 65536, 5);
    b.push(p.tx, desc::tx_copy(b.hbm(0, kA), 0, 0));
    b.push(p.rx, desc::rx(b.hbm(0, kB), 0, 0));  // a receive buffer of 64 KiB either way
    b.copy(p, b.hbm(0, kA), b.hbm(0, kC), 3);
    b.doorbell(p, 2, 2);
    b.run();
    EXPECT_EQ(b.counters.bytes, is_64k ? 65539u : 3u);
    EXPECT_EQ(b.same(b.hbm(0, kA), b.hbm(0, kB), 65536), is_64k);
    EXPECT_EQ(b.same(b.hbm(0, kA), b.hbm(0, kC), 3), true);
    EXPECT_EQ(b.counters.packets, 2u);
    EXPECT_EQ(b.read(0, DmaBench::reg(kS2m, 0, udma::kM2sQCurrent)), 0x4000'0002u);
  }
}

TEST(Lengths, EmptyBuffersInsideAPacketAndUnmappedEmptyOnes) {
  DmaBench b;
  auto p = b.setup(0, 0);
  b.write(0, udma::kM2sPktLenCfg, 0x000F'FFFF);
  b.fill(b.hbm(0, kA), 64, 5);
  b.push(p.tx, desc::tx_copy(0x7'0000'0000, 0, 0, desc::kFirst));  // nothing is read there
  b.push(p.tx, desc::tx_copy(b.hbm(0, kA), 20, 0, 0));
  b.push(p.tx, desc::tx_copy(b.hbm(0, kA), 0, 0, 0));
  b.push(p.tx, desc::tx_copy(b.hbm(0, kA) + 20, 13, 0, desc::kLast));
  b.push(p.rx, desc::rx(b.hbm(0, kB), 64, 0));
  b.doorbell(p, 4, 1);
  b.run();
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(0, kB), 33));
  EXPECT_EQ(b.counters.dma_errors, 0u);
}

TEST(Lengths, ALimitOfTheConfiguration) {
  for (const uint32_t limit : {100u, 101u, 0u}) {
    DmaBench b;
    auto p = b.setup(0, 0);
    b.write(0, udma::kM2sPktLenCfg, 0x0100'0000 | limit);
    b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 101);
    b.doorbell(p, 1, 1);
    b.run();
    EXPECT_EQ(b.cause(0, kM2s), limit == 100 ? 1u << 13 : 0u) << limit;
  }
}

TEST(Lengths, DescriptorsPerPacket) {
  struct Row {
    uint32_t config, limit;
  };
  for (const Row row : {Row{0, 128}, Row{0x1'0041, 65}, Row{3, 3}, Row{0xFFFF, 128}}) {
    for (const uint32_t more : {0u, 1u}) {
      DmaBench b;
      auto p = b.setup(0, 0);
      b.write(0, udma::kM2sDescPrefCfg2, row.config);
      const uint32_t n = row.limit + more;
      b.fill(b.hbm(0, kA), n, 5);
      for (uint32_t i = 0; i < n; ++i) {
        b.push(p.tx, desc::tx_copy(b.hbm(0, kA) + i, 1, 0,
                                   (i == 0 ? desc::kFirst : 0) | (i + 1 == n ? desc::kLast : 0)));
      }
      b.push(p.rx, desc::rx(b.hbm(0, kB), n, 0));
      b.doorbell(p, n, 1);
      b.run();
      EXPECT_EQ(b.cause(0, kM2s), more != 0 ? 1u << 14 : 0u) << row.config;
      EXPECT_EQ(b.same(b.hbm(0, kA), b.hbm(0, kB), n), more == 0);
    }
  }
}

// Data waits for receive descriptors where there are too few (spec/hw-registers.md 3.6 rule 7): a
// packet that takes more of them than the ring holds, and one whose doorbells come bit by bit.
TEST(Lengths, PacketsDeliverWhatTheReceiveDescriptorsTake) {
  DmaBench b;
  auto p = b.setup(0, 0, b.hbm(1, 0x2'0000'0000), b.hbm(1, 0x2'0010'0000), 4);
  b.fill(b.hbm(0, kA), 1000, 5);
  b.push(p.tx, desc::tx_copy(b.hbm(0, kA), 333, 0, desc::kFirst));
  b.push(p.tx, desc::tx_copy(b.hbm(0, kA) + 333, 667, 0, desc::kLast));
  b.copy(p, b.hbm(0, kA), b.hbm(1, kA), 7);
  p.rx = b.setup(0, 0, p.tx.base, b.hbm(1, 0x2'0010'0000), 4).rx;  // its RX descriptor comes last
  b.doorbell(p, 3, 0);
  uint32_t at = 0;
  for (const uint32_t n : {1u, 4u, 4u, 1u}) {
    for (uint32_t i = 0; i < n; ++i, at += 100) {
      b.push(p.rx, desc::rx(b.hbm(0, kB) + at, 100, 0));
    }
    b.doorbell(p, 0, n);
    b.run();
    EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(0, kB), at)) << at;
    EXPECT_EQ(*b.at(b.hbm(0, kB) + at, 1), 0);
    EXPECT_EQ(b.counters.packets, at == 1000 ? 1u : 0u);
    EXPECT_EQ(b.counters.bytes, at);
    EXPECT_EQ(b.read(0, DmaBench::reg(kM2s, 0, udma::kM2sQCurrent)),
              at == 1000 ? 0x4000'0002u : 0x4000'0000u);
    EXPECT_EQ(b.read(0, DmaBench::reg(kS2m, 0, udma::kM2sQStatus)), 0x3000'0000u);
  }
  b.push(p.rx, desc::rx(b.hbm(1, kA), 7, 0));
  b.doorbell(p, 0, 1);
  b.run();
  EXPECT_EQ(b.counters.packets, 2u);
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(1, kA), 7));
  EXPECT_EQ(b.counters.dma_errors, 0u);
}

TEST(Lengths, APacketCutShortByAQueueResetStartsAnew) {
  DmaBench b;
  auto p = b.setup(0, 0);
  b.fill(b.hbm(0, kA), 200, 5);
  b.push(p.tx, desc::tx_copy(b.hbm(0, kA), 200, 0));
  b.push(p.rx, desc::rx(b.hbm(0, kB), 80, 0));
  b.doorbell(p, 1, 1);
  b.run();
  EXPECT_EQ(b.counters.bytes, 80u);
  EXPECT_EQ(b.read(0, udma::kM2sState), 0x1111u);  // in the middle of a packet
  p = b.setup(0, 0);
  EXPECT_EQ(b.read(0, udma::kM2sState), 0u);
  b.copy(p, b.hbm(0, kA), b.hbm(0, kC), 200);
  b.doorbell(p, 1, 1);
  b.run();
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(0, kC), 200));
  EXPECT_EQ(b.counters.packets, 1u);
}

// More receive descriptors than 16 bits count.
TEST(Lengths, ReceiveDescriptorsOfOneByte) {
  DmaBench b;
  constexpr uint32_t kLength = 70'001;
  auto p = b.setup(0, 0, b.hbm(1, 0x2'0000'0000), b.hbm(1, 0x2'0100'0000), kLength);
  b.fill(b.hbm(0, kA), kLength, 5);
  b.push(p.tx, desc::tx_copy(b.hbm(0, kA), 65535, 0, desc::kFirst));
  b.push(p.tx, desc::tx_copy(b.hbm(0, kA) + 65535, kLength - 65535, 0, desc::kLast));
  for (uint32_t i = 0; i < kLength; ++i) b.push(p.rx, desc::rx(b.hbm(0, kB) + i, 1, 0));
  b.doorbell(p, 2, kLength);
  b.run();
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(0, kB), kLength));
  EXPECT_EQ(b.counters.descriptors, kLength + 2u);
  EXPECT_EQ(b.read(0, DmaBench::reg(kS2m, 0, udma::kM2sQCurrent)), 0x8000'0000u);
}

TEST(Rings, AnyLengthInAnyMemory) {
  DmaBench b;
  b.fill(b.hbm(0, kA), 64, 5);
  const uint64_t sbuf = b.map().nc(1).device + 0x100;
  struct Row {
    uint64_t tx, rx;
    uint32_t length;
  };
  uint32_t q = 0;
  for (const Row row : {Row{sbuf & ~63ull, (sbuf & ~63ull) + 0x1000, 33},
                        Row{b.host_address(0), b.host_address(0x1000), 1},
                        Row{b.hbm(1, 0), b.host_address(0x2000), 7},
                        Row{b.hbm(0, 0x1'0000'0000), b.hbm(1, 0x1'0000'0000), 0xFF'FFFF}}) {
    auto p = b.setup(3, q++, row.tx, row.rx, row.length);
    for (uint32_t i = 0; i < 70; ++i) {
      std::memset(b.at(b.hbm(0, kB), 64), 0, 64);
      b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 64);
      b.doorbell(p, 1, 1);
      b.run();
      ASSERT_TRUE(b.same(b.hbm(0, kA), b.hbm(0, kB), 64)) << row.length << " " << i;
    }
    EXPECT_EQ(b.read(3, DmaBench::reg(kM2s, p.q, udma::kM2sQRingLength)), row.length);
    EXPECT_EQ(b.read(3, DmaBench::reg(kM2s, p.q, udma::kM2sQTail)),
              70 % row.length | ((1 + 70 / row.length) & 3) << 30);
  }
  EXPECT_EQ(b.counters.dma_errors, 0u);
}

TEST(Rings, NothingIsReadPastTheTail) {
  DmaBench b;
  auto p = b.setup(0, 0);
  b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 64);
  std::memset(b.at(p.tx.base + 16, 160), 0xFF, 160);
  std::memset(b.at(p.rx.base + 16, 160), 0xFF, 160);
  b.doorbell(p, 1, 10);
  b.run();
  EXPECT_EQ(b.counters.packets, 1u);
  EXPECT_EQ(b.counters.dma_errors, 0u);
  EXPECT_EQ(b.read(0, DmaBench::reg(kM2s, 0, udma::kM2sQHead)), 0x4000'0001u);
  EXPECT_EQ(b.read(0, DmaBench::reg(kS2m, 0, udma::kM2sQHead)), 0x4000'000Au);
}

TEST(Rings, ThePrefetchBufferHolds128) {
  DmaBench b;
  auto p = b.setup(0, 0);
  b.doorbell(p, 0, 500);
  b.run();
  EXPECT_EQ(b.read(0, DmaBench::reg(kS2m, 0, udma::kM2sQHead)), 0x4000'0080u);
  EXPECT_EQ(b.read(0, DmaBench::reg(kS2m, 0, udma::kM2sQTail)), 0x4000'01F4u);
  EXPECT_EQ(b.read(0, DmaBench::reg(kS2m, 0, udma::kM2sQCurrent)), 0x4000'0000u);
}

TEST(Rings, BaseAndLengthOfAnEmptyQueueAreRewrittenWithoutReset) {
  DmaBench b;
  auto p = b.setup(0, 0, 32);
  b.fill(b.hbm(0, kA), 64, 5);
  for (uint32_t i = 0; i < 5; ++i) b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 8);
  b.doorbell(p, 5, 5);
  b.run();
  for (const Half h : {kM2s, kS2m}) {
    Ring& ring = h == kM2s ? p.tx : p.rx;
    ring.base = b.hbm(0, kC) + h * 0x1000;
    ring.length = 8;
    b.write(0, DmaBench::reg(h, 0, udma::kM2sQRingBaseLo), static_cast<uint32_t>(ring.base));
    b.write(0, DmaBench::reg(h, 0, udma::kM2sQRingBaseHi), static_cast<uint32_t>(ring.base >> 32));
    b.write(0, DmaBench::reg(h, 0, udma::kM2sQRingLength), 8);
  }
  for (uint32_t i = 0; i < 6; ++i) b.copy(p, b.hbm(0, kA) + i, b.hbm(1, kB) + i, 1);
  b.doorbell(p, 6, 6);  // slots 5, 6, 7, 0, 1, 2 of the new ring
  b.run();
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(1, kB), 6));
  EXPECT_EQ(b.counters.dma_errors, 0u);
  EXPECT_EQ(b.read(0, DmaBench::reg(kM2s, 0, udma::kM2sQCurrent)), 0x8000'0003u);
}

TEST(Order, StrongOrderedWritesAreBarriersFromV3On) {
  for (const Gen gen : {Gen::kV2, Gen::kV3, Gen::kV4}) {
    DmaBench::Config config;
    config.gen = gen;
    DmaBench b(config);
    auto p = b.setup(0, 0);
    b.push(p.tx, desc::tx_copy(b.hbm(0, kA), 17, 0));
    Descriptor strong = desc::rx(b.hbm(0, kB), 17, 0);
    strong.w0 |= desc::kStrongOrder;
    b.push(p.rx, strong);
    b.copy(p, b.hbm(0, kA), b.hbm(0, kC), 17);
    b.doorbell(p, 2, 2);
    const base::Ps first = 770'000 + 2000;
    EXPECT_EQ(b.run(), gen == Gen::kV2 ? first + 2000 : first + 510'000);
  }
}

// spec/hw-registers.md 3.10 step 28: drivers of v3 and v4 mask the cause on the compute-side
// engines.
TEST(Rings, MaskedMismatchesAreHarmlessAfterTheDriversInitialisation) {
  for (const Gen gen : {Gen::kV3, Gen::kV4}) {
    DmaBench::Config config;
    config.gen = gen;
    DmaBench b(config);
    constexpr uint32_t kSecond = udma::kSecondaryIrqStride;
    b.write(0, udma::kSecondaryIrq + udma::kSecondaryIrqMaskClear, 0xF000'0000);
    b.write(0, udma::kSecondaryIrq + kSecond + udma::kSecondaryIrqMaskClear, 0x0000'10F8);
    const uint32_t m2s = b.read(0, udma::kSecondaryIrq + udma::kSecondaryIrqMask);
    const uint32_t s2m = b.read(0, udma::kSecondaryIrq + kSecond + udma::kSecondaryIrqMask);
    EXPECT_EQ(m2s, 0xF000'0000u);
    EXPECT_EQ(s2m, 0x10F8u);
    b.write(0, udma::kSecondaryIrq + udma::kSecondaryIrqMask, m2s | 0x2'0000);
    b.write(0, udma::kSecondaryIrq + udma::kSecondaryIrqAbortMask, m2s | 0x2'0000);
    b.write(0, udma::kSecondaryIrq + kSecond + udma::kSecondaryIrqMask, s2m | 0x800);
    b.write(0, udma::kSecondaryIrq + kSecond + udma::kSecondaryIrqAbortMask, s2m | 0x800);
    auto p = b.setup(0, 0, 8);
    b.fill(b.hbm(0, kA), 8, 5);
    for (uint32_t i = 0; i < 8; ++i) b.copy(p, b.hbm(0, kA) + i, b.hbm(0, kB) + i, 1);
    for (uint32_t lap = 0; lap < 5; ++lap) {  // the same descriptors, lap after lap
      std::memset(b.at(b.hbm(0, kB), 8), 0, 8);
      b.doorbell(p, 8, 8);
      b.run();
      EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(0, kB), 8));
    }
    EXPECT_EQ(b.counters.dma_errors, 0u);
    EXPECT_EQ(b.read(0, udma::kM2sState), 0u);
    EXPECT_EQ(b.cause(0, kM2s), 1u << 17);  // noted, not more
    EXPECT_EQ(b.read(0, udma::kPrimaryIrq + 3 * udma::kPrimaryIrqStride), 0u);
  }
}

}  // namespace
}  // namespace hw
