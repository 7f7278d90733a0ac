// Errors, aborts and stops of the UDMA engine (hw-registers.md 3.6, 3.7, 3.9).
#include <functional>

#include "tests/hw_dma/bench.h"

namespace hw {
namespace {

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
  EXPECT_EQ(b.cause(0, GetParam().half), 1u << GetParam().bit);
  EXPECT_EQ(b.cause(0, GetParam().half == kM2s ? kS2m : kM2s), 0u);
  EXPECT_EQ(b.read(0, udma::kM2sState), 0x2222u);
  EXPECT_EQ(b.counters.dma_errors, 1u);
  EXPECT_EQ(b.counters.packets, 0u);
  EXPECT_EQ(b.counters.register_writes, 0u);
}

TEST_P(Faults, MaskedDropThePacketAndGoOn) {
  DmaBench b;
  auto p = b.setup(0, 0);
  b.fill(b.hbm(0, kA), 64, 5);
  b.mask_abort(0, GetParam().half, ~0u);
  GetParam().build(b, p);
  b.doorbell(p, p.tx.index, p.rx.index);
  b.run();
  EXPECT_NE(b.cause(0, GetParam().half) & 1u << GetParam().bit, 0u);
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
  EXPECT_EQ(b.cause(0, kM2s), 1u << 12);
  EXPECT_EQ(b.read(0, udma::kS2mState), 0x2222u);
  DmaBench c;
  p = c.setup(0, 0, c.hbm(0, kA), 0x7'0000'0000, 64);
  c.push(p.tx, desc::tx_copy(c.hbm(0, kA), 4, 0));
  c.doorbell(p, 1, 1);
  c.run();
  EXPECT_EQ(c.cause(0, kS2m), 1u << 10);
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
