// Errors, aborts and stops of the UDMA engine (spec/hw-registers.md 3.6, 3.7, 3.9).
#include <functional>
#include <string>
#include <vector>

#include "tests/hw_dma/bench.h"

namespace hw {
namespace {

struct Fault {
  const char* name;
  Half half;
  uint32_t bit;
  void (*build)(DmaBench&, RingPair&);
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

INSTANTIATE_TEST_SUITE_P(All, Faults,
                         ::testing::Values(Fault{"data_read", kM2s, 8,
                                                 [](DmaBench& b, RingPair& p) {
                                                   b.copy(p, 0x7'0000'0000, b.hbm(0, kB), 64);
                                                 }},
                                           Fault{"data_read_past_the_end", kM2s, 8,
                                                 [](DmaBench& b, RingPair& p) {
                                                   b.copy(p, b.hbm(0, b.map().hbm_size() - 63),
                                                          b.hbm(0, kB), 64);
                                                 }},
                                           Fault{"data_write", kS2m, 1,
                                                 [](DmaBench& b, RingPair& p) {
                                                   b.copy(p, b.hbm(0, kA), 0x7'0000'0000, 64);
                                                 }},
                                           Fault{"sbuf_tail", kS2m, 1,
                                                 [](DmaBench& b, RingPair& p) {
                                                   b.copy(p, b.hbm(0, kA),
                                                          b.map().nc(0).device + 192 * 1024 - 63,
                                                          64);
                                                 }},
                                           Fault{"host_hole", kS2m, 1,
                                                 [](DmaBench& b, RingPair& p) {
                                                   b.copy(p, b.hbm(0, kA), b.map().host_window(),
                                                          64);
                                                   // Host memory is found missing only when the
                                                   // packet moves: count it as not executed.
                                                   b.counters.packets = ~0ull;
                                                 }},
                                           Fault{"wide_register_write", kS2m, 1,
                                                 [](DmaBench& b, RingPair& p) {
                                                   b.copy(p, b.hbm(0, kA), b.map().nc_semaphores(0),
                                                          8);
                                                 }},
                                           Fault{"misaligned_register_write", kS2m, 1,
                                                 [](DmaBench& b, RingPair& p) {
                                                   b.copy(p, b.hbm(0, kA),
                                                          b.map().nc_semaphores(0) + 2, 4);
                                                 }},
                                           Fault{"first_missing", kM2s, 15,
                                                 [](DmaBench& b, RingPair& p) {
                                                   b.push(p.tx, desc::tx_copy(b.hbm(0, kA), 64, 0,
                                                                              desc::kLast));
                                                   b.push(p.rx, desc::rx(b.hbm(0, kB), 64, 0));
                                                 }},
                                           Fault{"last_missing", kM2s, 16,
                                                 [](DmaBench& b, RingPair& p) {
                                                   b.push(p.tx, desc::tx_copy(b.hbm(0, kA), 64, 0,
                                                                              desc::kFirst));
                                                   b.push(p.tx, desc::tx_copy(b.hbm(0, kA), 64, 0,
                                                                              desc::kFirst));
                                                 }},
                                           Fault{"too_long", kM2s, 13,
                                                 [](DmaBench& b, RingPair& p) {
                                                   for (uint32_t i = 0; i < 17; ++i) {
                                                     b.push(p.tx,
                                                            desc::tx_copy(b.hbm(0, kA), 65535, 0,
                                                                          i == 0    ? desc::kFirst
                                                                          : i == 16 ? desc::kLast
                                                                                    : 0));
                                                   }
                                                 }},
                                           Fault{"too_many", kM2s, 14,
                                                 [](DmaBench& b, RingPair& p) {
                                                   b.write(0, udma::kM2sDescPrefCfg2, 0x1'0041);
                                                   for (uint32_t i = 0; i < 66; ++i) {
                                                     b.push(p.tx, desc::tx_copy(
                                                                      b.hbm(0, kA), 1, 0,
                                                                      i == 0 ? desc::kFirst : 0));
                                                   }
                                                 }},
                                           Fault{"unknown_operation", kM2s, 2,
                                                 [](DmaBench& b, RingPair& p) {
                                                   b.push(p.tx, {64 | desc::kFirst | desc::kLast,
                                                                 5u << 23, b.hbm(0, kA)});
                                                   b.push(p.rx, desc::rx(b.hbm(0, kB), 64, 0));
                                                 }},
                                           Fault{"byte_swap", kM2s, 2,
                                                 [](DmaBench& b, RingPair& p) {
                                                   b.push(p.tx,
                                                          {64 | desc::kFirst | desc::kLast,
                                                           desc::kOpCopy | 1u << 10, b.hbm(0, kA)});
                                                   b.push(p.rx, desc::rx(b.hbm(0, kB), 64, 0));
                                                 }},
                                           Fault{"copy_of_another_type", kM2s, 2,
                                                 [](DmaBench& b, RingPair& p) {
                                                   b.push(p.tx,
                                                          {64 | desc::kFirst | desc::kLast,
                                                           desc::kOpCopy | 1u << 20, b.hbm(0, kA)});
                                                   b.push(p.rx, desc::rx(b.hbm(0, kB), 64, 0));
                                                 }},
                                           Fault{"without_source_data", kM2s, 2,
                                                 [](DmaBench& b, RingPair& p) {
                                                   b.push(p.tx, {64 | desc::kFirst | desc::kLast,
                                                                 0x0100'0003, b.hbm(0, kA)});
                                                   b.push(p.rx, desc::rx(b.hbm(0, kB), 64, 0));
                                                 }},
                                           Fault{"sources_differ", kS2m, 24,
                                                 [](DmaBench& b, RingPair& p) {
                                                   contract::DmaCompute add;
                                                   add.src = add.dst = contract::DType::kFp32;
                                                   add.sources = 2;
                                                   b.push(p.tx, add.pack(0));
                                                   b.push(p.tx,
                                                          {64, desc::kOpCompute, b.hbm(0, kA)});
                                                   b.push(p.tx, {60 | desc::kLast, desc::kOpCompute,
                                                                 b.hbm(0, kA)});
                                                 }},
                                           Fault{"receive_descriptor_of_two_copies", kS2m, 24,
                                                 [](DmaBench& b, RingPair& p) {
                                                   contract::DmaCompute twice;
                                                   twice.src = twice.dst = contract::DType::kFp32;
                                                   twice.copies = 2;
                                                   b.push(p.tx, twice.pack(0));
                                                   b.push(p.tx, {64 | desc::kLast, desc::kOpCompute,
                                                                 b.hbm(0, kA)});
                                                   b.push(p.rx, desc::rx(b.hbm(0, kB), 60, 0));
                                                   b.push(p.rx, desc::rx(b.hbm(0, kB), 68, 0));
                                                 }},
                                           Fault{"last_copy_longer_than_the_result", kS2m, 24,
                                                 [](DmaBench& b, RingPair& p) {
                                                   contract::DmaCompute twice;
                                                   twice.src = twice.dst = contract::DType::kFp32;
                                                   twice.copies = 2;
                                                   b.push(p.tx, twice.pack(0));
                                                   b.push(p.tx, {64 | desc::kLast, desc::kOpCompute,
                                                                 b.hbm(0, kA)});
                                                   b.push(p.rx, desc::rx(b.hbm(0, kB), 64, 0));
                                                   b.push(p.rx, desc::rx(b.hbm(0, kB), 68, 0));
                                                 }},
                                           Fault{"bad_dtype", kS2m, 24,
                                                 [](DmaBench& b, RingPair& p) {
                                                   contract::DmaCompute add;
                                                   add.src = contract::DType::kFp32;
                                                   b.push(p.tx, add.pack(0));
                                                   b.push(p.tx, {64 | desc::kLast, desc::kOpCompute,
                                                                 b.hbm(0, kA)});
                                                 }}),
                         [](const auto& info) { return std::string(info.param.name); });

// Host memory is found missing only when the packet moves.
TEST(LateFaults, AHostHoleThatIsRead) {
  DmaBench b;
  auto p = b.setup(0, 0);
  b.copy(p, b.map().host_window(), b.hbm(0, kB), 64);
  b.doorbell(p, 1, 1);
  b.run();
  EXPECT_EQ(b.cause(0, kM2s), 1u << 8);
  EXPECT_EQ(b.cause(0, kS2m), 0u);
  EXPECT_EQ(b.read(0, udma::kM2sState), 0x2222u);
  EXPECT_EQ(b.counters.dma_errors, 1u);
}

TEST(Aborts, RingInNoMemory) {
  DmaBench b;
  auto p = b.setup(0, 0, 0x7'0000'0000, b.hbm(0, kA), 64);
  b.doorbell(p, 1, 1);
  b.run();
  EXPECT_EQ(b.cause(0, kM2s), 1u << 11);
  EXPECT_EQ(b.read(0, udma::kS2mState), 0x2222u);
  DmaBench c;
  p = c.setup(0, 0, c.hbm(0, kA), 0x7'0000'0000, 64);
  c.push(p.tx, desc::tx_copy(c.hbm(0, kA), 4, 0));
  c.doorbell(p, 1, 1);
  c.run();
  EXPECT_EQ(c.cause(0, kS2m), 1u << 9);
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

TEST(Stops, QuiesceFinishesThePacketInFlightAndEnablingGoesOn) {
  DmaBench b;
  auto p = b.setup(0, 0);
  b.fill(b.hbm(0, kA), 17000, 5);
  for (uint32_t i = 0; i < 6; ++i) b.copy(p, b.hbm(0, kA), b.hbm(0, kB) + i * 17000, 17000);
  b.doorbell(p, 6, 6);
  const auto cfg = [](Half h) { return DmaBench::reg(h, 0, udma::kM2sQCfg); };
  b.at_time(770'000 + 1'500'000, [&] {  // in the second packet, 4 us before anybody looks
    b.write(0, cfg(kM2s), 0x0300'0000);
    b.write(0, cfg(kS2m), 0x0300'0000);
  });
  b.run();
  EXPECT_EQ(b.counters.packets, 2u);
  EXPECT_EQ(b.read(0, udma::kM2sState), 0u);
  EXPECT_EQ(b.read(0, DmaBench::reg(kM2s, 0, udma::kM2sQStatus)), 4u);
  b.doorbell(p, 0, 0);
  b.copy(p, b.hbm(0, kA), b.hbm(0, kB) + 6 * 17000, 17000);
  b.doorbell(p, 1, 1);  // a doorbell in between is remembered
  b.run();
  EXPECT_EQ(b.counters.packets, 2u);
  b.write(0, cfg(kM2s), 0x0303'0000);
  b.run();
  EXPECT_EQ(b.counters.packets, 2u);
  b.write(0, cfg(kS2m), 0x0303'0000);
  b.run();
  EXPECT_EQ(b.counters.packets, 7u);
  for (uint32_t i = 0; i < 7; ++i) {
    EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(0, kB) + i * 17000, 17000)) << i;
  }
}

TEST(Stops, PrefetchAndSchedulingAreSwitchedSeparately) {
  DmaBench b;
  auto p = b.setup(0, 0);
  const uint32_t cfg = DmaBench::reg(kM2s, 0, udma::kM2sQCfg);
  const uint32_t head = DmaBench::reg(kM2s, 0, udma::kM2sQHead);
  for (uint32_t i = 0; i < 3; ++i) b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 64);
  b.write(0, cfg, 0x0301'0000);  // prefetch only
  b.doorbell(p, 2, 3);
  b.run();
  EXPECT_EQ(b.counters.packets, 0u);
  EXPECT_EQ(b.read(0, head), 0x4000'0002u);
  b.write(0, cfg, 0x0302'0000);  // what has been prefetched is executed
  b.doorbell(p, 1, 0);
  b.run();
  EXPECT_EQ(b.counters.packets, 2u);
  EXPECT_EQ(b.read(0, head), 0x4000'0002u);
  b.write(0, cfg, 0x0303'0000);
  b.run();
  EXPECT_EQ(b.counters.packets, 3u);
}

TEST(Stops, ARingTakenAwayUnderItsDescriptors) {
  DmaBench b;
  auto p = b.setup(0, 0);
  b.fill(b.hbm(0, kA), 17000, 5);
  for (uint32_t i = 0; i < 3; ++i) b.copy(p, b.hbm(0, kA), b.hbm(0, kB) + i * 17000, 17000);
  b.doorbell(p, 3, 3);
  b.at_time(1'000'000, [&] { b.write(0, DmaBench::reg(kS2m, 0, udma::kM2sQRingLength), 0); });
  b.run();
  EXPECT_EQ(b.counters.packets, 1u);  // the one in flight
  b.doorbell(p, 0, 1);
  EXPECT_EQ(b.counters.bad_doorbells, 1u);
  b.read(0, DmaBench::reg(kS2m, 0, udma::kM2sQHead));
  b.write(0, DmaBench::reg(kS2m, 0, udma::kM2sQSwCtrl), 0x100);
  b.write(0, DmaBench::reg(kM2s, 0, udma::kM2sQRingLength), 1);  // shorter than what is pending
  b.write(0, DmaBench::reg(kS2m, 0, udma::kM2sQRingLength), 1024);
  b.doorbell(p, 0, 3);
  b.run();
  SUCCEED() << "whatever it executed, it did so safely";
}

TEST(Stops, DoorbellsOutOfRangeAreIgnored) {
  DmaBench b;
  b.setup(0, 0, 32);
  const uint32_t doorbell = DmaBench::reg(kM2s, 0, udma::kM2sQTailInc);
  const uint32_t tail = DmaBench::reg(kM2s, 0, udma::kM2sQTail);
  b.write(0, doorbell, 0);
  b.write(0, doorbell, 33);
  b.write(0, doorbell, 0xFFFFFF);
  EXPECT_EQ(b.read(0, tail), 0x4000'0000u);
  EXPECT_EQ(b.counters.bad_doorbells, 3u);
  b.write(0, doorbell, 0xFF00'0020);  // the upper bits hold nothing
  EXPECT_EQ(b.read(0, tail), 0x8000'0000u);
  b.write(0, doorbell, 1);
  EXPECT_EQ(b.read(0, tail), 0x8000'0000u);
  // A queue whose base is 0 but whose length is not reads from device address 0.
  auto r = b.setup(1, 1, 0, b.hbm(0, 0x1000), 32);
  b.copy(r, b.hbm(0, kA), b.hbm(0, kB), 4);
  b.doorbell(r, 1, 1);
  b.run();
  EXPECT_EQ(b.counters.packets, 1u);
}

class Recovery : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(By, Recovery, ::testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "reset" : "command");
});

TEST_P(Recovery, DoorbellsOfAnAbortedEngine) {
  DmaBench b;
  auto bad = b.setup(5, 0);
  auto p = b.setup(5, 1);
  auto r = b.setup(6, 1);
  b.fill(b.hbm(0, kA), 64, 5);
  b.copy(bad, 0x7'0000'0000, b.hbm(0, kB), 64);
  b.doorbell(bad, 1, 1);
  b.run();
  EXPECT_EQ(b.read(5, udma::kM2sState), 0x2222u);
  b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 64);
  b.copy(r, b.hbm(0, kA), b.hbm(0, kC), 64);
  b.doorbell(p, 1, 1);
  b.doorbell(r, 1, 1);
  b.run();
  EXPECT_EQ(b.counters.packets, 1u);  // of the other engine
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(0, kC), 64));
  EXPECT_EQ(b.read(5, DmaBench::reg(kM2s, 1, udma::kM2sQTail)), 0x4000'0001u);
  EXPECT_EQ(b.read(5, DmaBench::reg(kM2s, 1, udma::kM2sQHead)), 0x4000'0000u);
  std::vector<std::string> lines;
  b.dma.who_waits(lines);
  EXPECT_NE(lines.at(0).find("aborted"), std::string::npos);
  if (GetParam()) {
    b.dma.reset_engine(5);
    p = b.setup(5, 1);
    b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 64);
    b.doorbell(p, 1, 1);
  } else {
    // The packet that failed is still at the head of its queue.
    b.write(5, DmaBench::reg(kM2s, 0, udma::kM2sQSwCtrl), 0x100);
    b.write(5, udma::kM2sChangeState, 1);
    b.write(5, udma::kS2mChangeState, 1);
  }
  b.run();
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(0, kB), 64));
  EXPECT_EQ(b.read(5, udma::kM2sState), 0u);
  EXPECT_EQ(b.cause(5, kM2s), GetParam() ? 0u : 1u << 8);  // a command clears no cause
}

TEST(Aborts, ManyMaskedErrorsEndSoon) {
  DmaBench b;
  auto p = b.setup(0, 0, b.hbm(1, 0x2'0000'0000), b.hbm(1, 0x3'0000'0000), 0x8'0000);
  b.mask_abort(0, kM2s, ~0u);
  b.mask_abort(0, kS2m, ~0u);
  b.doorbell(p, 0x8'0000, 0x8'0000);  // a ring of zeros
  b.run();
  EXPECT_EQ(b.counters.packets, 0u);
  EXPECT_EQ(b.cause(0, kM2s), 1u << 15 | 1u << 17);
  EXPECT_EQ(b.read(0, DmaBench::reg(kM2s, 0, udma::kM2sQStatus)), 0x3000'0000u);
}

}  // namespace
}  // namespace hw
