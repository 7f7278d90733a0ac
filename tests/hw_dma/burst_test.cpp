// Bursts: what an engine reserves of a busy path at once (dma.burst_packets).
#include "tests/hw_dma/bench.h"

namespace hw {
namespace {

constexpr uint32_t kBytes = 65536;

// Only the stack of HBM takes time: 10 bytes per ns, read and write.
BenchConfig slow_memory(uint64_t burst_packets) {
  BenchConfig config;
  config.timing.dma_burst_packets = burst_packets;
  config.timing.dma_engine = config.timing.dma_chip = config.timing.core_fabric = {100'000, 1000};
  config.timing.hbm_stack = {10, 1000};
  config.timing.dma_buffer = 0;
  return config;
}
const base::Ps kPacket = 2 * base::Rate{10, 1000}.time_for(kBytes);

// An engine copies packets within stack 0, from offset `from`; rung at once.
void start_copies(DmaBench& b, uint32_t engine, uint32_t packets, uint64_t from) {
  auto p = b.setup(engine, 0);
  for (uint32_t i = 0; i < packets; ++i) b.copy(p, b.hbm(0, from), b.hbm(0, kC), kBytes);
  b.doorbell(p, packets, packets);
}

struct Copies {
  uint32_t engine, packets;
  base::Ps after;  // the first doorbell
};

// Copies of several engines within stack 0.
std::map<std::string, std::vector<Spans::Span>> copy(uint64_t burst_packets,
                                                     std::initializer_list<Copies> all) {
  BenchConfig config = slow_memory(burst_packets);
  Spans spans;
  config.options.tracer = &spans;
  config.options.timing_only = true;
  DmaBench b(config);
  for (const Copies& each : all) {
    auto p = b.setup(each.engine, 0);
    for (uint32_t i = 0; i < each.packets; ++i) b.copy(p, b.hbm(0, kA), b.hbm(0, kB), kBytes);
    b.at_time(base::us(1) + each.after,
              [&b, p, each] { b.doorbell(p, each.packets, each.packets); });
  }
  b.run();
  return std::move(spans.by_name);
}

// Engine 1 finds the path busy; engine 2 comes before its second packet could have started.
TEST(Bursts, AreServedAsOne) {
  const auto spans = copy(2, {{0, 1, 0}, {1, 2, 0}, {2, 1, base::us(2)}});
  const auto& first = spans.at("d0.dma0.q0");
  const auto& burst = spans.at("d0.dma1.q0");
  const base::Ps start = first[0].begin;
  EXPECT_EQ(first[0].end, start + kPacket);
  ASSERT_EQ(burst.size(), 2u);
  EXPECT_EQ(burst[0].begin, start);
  EXPECT_EQ(burst[0].end, start + 3 * kPacket / 2);  // the packets share the time of both
  EXPECT_EQ(burst[1].begin, burst[0].end);
  EXPECT_EQ(burst[1].end, start + 3 * kPacket);
  EXPECT_EQ(spans.at("d0.dma2.q0")[0].end, start + 4 * kPacket);
}

TEST(Bursts, HoldNoMoreThanTheParameterSays) {
  for (const uint64_t most : {0, 1}) {
    const auto spans = copy(most, {{0, 1, 0}, {1, 2, 0}, {2, 1, base::us(2)}});
    const base::Ps start = spans.at("d0.dma0.q0")[0].begin;
    EXPECT_EQ(spans.at("d0.dma1.q0")[0].end, start + 2 * kPacket) << most;
    EXPECT_EQ(spans.at("d0.dma2.q0")[0].end, start + 3 * kPacket) << most;
    EXPECT_EQ(spans.at("d0.dma1.q0")[1].end, start + 4 * kPacket) << most;
  }
}

// Another queue of the engine takes its turn after each packet.
TEST(Bursts, AreNotMadeWhileAnotherQueueWaits) {
  BenchConfig config = slow_memory(8);
  Spans spans;
  config.options.tracer = &spans;
  config.options.timing_only = true;
  DmaBench b(config);
  auto busy = b.setup(0, 0);
  for (uint32_t i = 0; i < 20; ++i) b.copy(busy, b.hbm(0, kA), b.hbm(0, kB), kBytes);
  b.doorbell(busy, 20, 20);
  for (uint32_t q = 0; q < 2; ++q) {
    auto p = b.setup(1, q);
    for (uint32_t i = 0; i < 4; ++i) b.copy(p, b.hbm(0, kA), b.hbm(0, kC), kBytes);
    b.doorbell(p, 4, 4);
  }
  b.run();
  const auto& one = spans.by_name["d0.dma1.q0"];
  const auto& two = spans.by_name["d0.dma1.q1"];
  ASSERT_EQ(one.size(), 4u);
  ASSERT_EQ(two.size(), 4u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(two[i].begin, one[i].end);
    EXPECT_EQ(one[i + 1].begin, two[i].end);
  }
}

// The signal does not queue again behind those who came meanwhile, and overtakes nothing. Its words
// are told from payload.
TEST(Bursts, EndWithTheSignalOfTheirData) {
  DmaBench b(slow_memory(2));
  start_copies(b, 0, 6, kB);
  b.fill(b.hbm(0, kA), 2 * kBytes, 3);
  auto p = b.setup(1, 0);
  b.copy(p, b.hbm(0, kA), b.hbm(0, kB), kBytes);
  b.copy(p, b.hbm(0, kA) + kBytes, b.hbm(0, kB) + kBytes, kBytes, true);
  b.copy(p, b.hbm(0, kA), b.map().nc_semaphores(0) + 64, 4);
  b.copy(p, b.hbm(0, kA), b.hbm(0, kC), kBytes);
  b.doorbell(p, 4, 4);
  const uint8_t* data = b.at(b.hbm(0, kB), 2 * kBytes);
  const uint8_t* source = b.at(b.hbm(0, kA), 2 * kBytes);
  bool complete = false;
  base::Ps at = 0;
  for (base::Ps t = base::us(1); t < base::us(200); t += base::ns(50)) {
    b.at_time(t, [&, t] {
      if (at != 0 || b.recorder.stores.empty()) return;
      at = t;
      complete = std::memcmp(data, source, 2 * kBytes) == 0;
    });
  }
  b.run();
  EXPECT_TRUE(complete);
  const base::Ps start = b.timing.dma_fetch;
  EXPECT_GE(at, start + 3 * kPacket);
  EXPECT_LT(at, start + 3 * kPacket + base::us(1));
  EXPECT_EQ(b.fabric.hbm_resource(0).signals(), 1u);
  EXPECT_EQ(b.fabric.hbm_resource(0).total_bytes(), 9ull * 2 * kBytes + 4);
}

// A packet that cannot execute joins no burst and occupies nothing.
TEST(Bursts, EndBeforeAnError) {
  DmaBench b(slow_memory(8));
  start_copies(b, 0, 1, kB);
  b.fill(b.hbm(0, kA), 3 * kBytes, 5);
  auto p = b.setup(1, 0);
  b.copy(p, b.hbm(0, kA), b.hbm(0, kB), kBytes);
  b.copy(p, b.hbm(0, kA) + kBytes, b.hbm(0, kB) + kBytes, kBytes);
  b.copy(p, 0x7'0000'0000, b.hbm(0, kC), kBytes);  // nothing stands there
  b.doorbell(p, 3, 3);
  b.run();
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(0, kB), 2 * kBytes));
  EXPECT_EQ(b.cause(1, kM2s), m2s_cause::kDataRead);
  EXPECT_EQ(b.fabric.hbm_resource(0).total_bytes(), 3ull * 2 * kBytes);
}

// Software that looks in the middle sees the packets that have ended.
TEST(Bursts, ShowTheirPacketsOneByOne) {
  DmaBench b(slow_memory(4));
  start_copies(b, 0, 1, kB);
  start_copies(b, 1, 4, kA);
  const base::Ps end = b.timing.dma_fetch + 5 * kPacket;
  std::vector<uint32_t> seen;
  for (uint32_t quarter = 1; quarter <= 4; ++quarter) {
    const base::Ps at = b.timing.dma_fetch + 5 * kPacket * quarter / 4;
    for (const base::Ps t : {at - 10, at + 10}) {
      b.at_time(t, [&] {
        const uint32_t word = b.read(1, DmaBench::reg(kM2s, 0, udma::kM2sQCurrent));
        seen.push_back(udma::kM2sQCurrentIndex.get(word));
      });
    }
  }
  EXPECT_GE(b.run(), end);
  EXPECT_EQ(seen, (std::vector<uint32_t>{0, 1, 1, 2, 2, 3, 3, 4}));
}

TEST(Bursts, AreTracedPacketByPacket) {
  DmaBench b(slow_memory(2));
  const uint64_t block = b.map().sdma(1).device + contract::kSdmaTraceNq;
  const uint64_t ring = b.host_address(0x4000);
  EXPECT_TRUE(b.fabric.write32(block + 0x104, static_cast<uint32_t>(ring >> 32)));
  EXPECT_TRUE(b.fabric.write32(block + 0x100, static_cast<uint32_t>(ring)));
  EXPECT_TRUE(b.fabric.write32(block + 0x108, 256));
  start_copies(b, 0, 1, kB);
  start_copies(b, 1, 2, kA);
  const base::Ps first = b.timing.dma_fetch + 3 * kPacket / 2;
  std::vector<uint32_t> heads;
  for (const base::Ps t : {first - 10, first + b.timing.nq_entry + 10}) {
    b.at_time(t, [&] { EXPECT_TRUE(b.fabric.read32(block + 0x10C, heads.emplace_back())); });
  }
  b.run();
  EXPECT_EQ(heads, (std::vector<uint32_t>{0, sizeof(contract::NqEntry)}));
  contract::NqEntry e[2];
  std::memcpy(e, b.at(ring, sizeof e), sizeof e);
  EXPECT_EQ(e[0].timestamp, first);
  EXPECT_EQ(e[1].debug_id, first);
  EXPECT_EQ(e[1].timestamp, b.timing.dma_fetch + 3 * kPacket);
}

}  // namespace
}  // namespace hw
