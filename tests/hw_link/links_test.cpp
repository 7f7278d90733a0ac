// Inter-server windows and links, reached by DMA: spec/hw-registers.md 9.2, 9.3, 9.5.
#include "hw/link/links.h"

#include <algorithm>
#include <stdexcept>

#include "tests/hw_dma/bench.h"

namespace hw {
namespace {

constexpr uint64_t kA = 0x200'0000;  // past the firmware's part of HBM
constexpr uint32_t kNone = ChipPort::kNoChip;

// Misc RAM of a neighbour: words; the first one reads as the time of the access.
class Words : public BusTarget {
 public:
  explicit Words(EventQueue& events) : events_(events) {}
  bool access(uint64_t offset, uint8_t* data, size_t size, bool write, bool) override {
    if (offset + size > sizeof words || size % 4 != 0) return false;
    if (write) {
      std::memcpy(reinterpret_cast<uint8_t*>(words) + offset, data, size);
      return true;
    }
    words[0] = static_cast<uint32_t>(events_.now());
    times.push_back(events_.now());
    std::memcpy(data, reinterpret_cast<const uint8_t*>(words) + offset, size);
    return true;
  }
  uint32_t words[64] = {};
  std::vector<base::Ps> times;

 private:
  EventQueue& events_;
};

// Chip 0 with its engines; chips 1 and 2 are memory and misc RAM only. Windows of chip 0: 0 leads
// to chip 2, 1 and 2 to chip 1, 3 nowhere.
struct LinkBench : DmaBench {
  static Config config(Gen gen, bool coalesce) {
    Config c;
    c.gen = gen;
    c.options.coalesce = coalesce;
    return c;
  }
  explicit LinkBench(Gen gen = Gen::kV3, bool coalesce = true)
      : DmaBench(config(gen, coalesce)),
        left({"d1", {gen}, 1}, timing, log),
        right({"d2", {gen}, 2}, timing, log),
        words{Words(events), Words(events)},
        links(params(), {&fabric, &left, &right}) {
    EXPECT_TRUE(left.map(map().misc_ram().device, 0x100, words[0], 0, "misc"));
    EXPECT_TRUE(right.map(map().misc_ram().device, 0x100, words[1], 0, "misc"));
    left.set_host(&far_host);
    for (Fabric* chip : {&fabric, &left, &right}) chip->set_port(&links);
  }
  static Links::Params params() {
    Links::Params p;
    p.links = {{0, 1, {64, 1000}}, {0, 2, {10, 1000}}};
    p.windows = {{2, 1, 1, kNone}};
    p.wire = base::ns(500);
    return p;
  }
  uint64_t window(uint32_t k, uint64_t local) const {
    return AddressMap::neighbour_address(k, local);
  }
  uint64_t misc(uint32_t k, uint32_t offset) const {
    return window(k, map().misc_ram().device + offset);
  }

  FakeHost far_host{1 << 20};
  Fabric left, right;
  Words words[2];
  Links links;
};

TEST(Windows, AreWhereTheyArePublished) {
  EXPECT_EQ(AddressMap::neighbour_address(0, 0), 0x10'0000'0000'0000u);
  EXPECT_EQ(AddressMap::neighbour_address(3, 0x8000'0000'0000), 0x1C'8000'0000'0000u);
  EXPECT_EQ(AddressMap::neighbour_window(0x18'0080'06C8'4038), 2u);
  EXPECT_EQ(AddressMap::neighbour_local(0x18'0080'06C8'4038), 0x80'06C8'4038u);
  for (const Gen gen : {Gen::kV3, Gen::kV4}) {
    const AddressMap map{gen};
    EXPECT_TRUE(map.is_neighbour(0x10'0000'0000'0000));
    EXPECT_TRUE(map.is_neighbour(0x1F'FFFF'FFFF'FFFF));
    EXPECT_FALSE(map.is_neighbour(0x20'0000'0000'0000));
    EXPECT_FALSE(map.is_neighbour(0x0F'FFFF'FFFF'FFFF));
    EXPECT_FALSE(map.is_neighbour(map.peer_address(3, 1ull << 52)));
  }
  EXPECT_FALSE((AddressMap{Gen::kV2}.is_neighbour(0x10'0000'0000'0000)));
}

// Reads and writes of a neighbour's memory in both dies, and of its registers.
TEST(Windows, LeadToTheNeighbour) {
  LinkBench b;
  auto p = b.setup(36, 0);
  const uint64_t high = b.map().hbm_base(3) + kA;
  std::memset(b.right.direct(high, 4096), 0x5A, 4096);
  std::memset(b.left.direct(high, 4096), 0xA5, 4096);
  b.copy(p, b.window(0, high), b.hbm(0, kA), 4096);
  b.copy(p, b.window(1, high), b.hbm(0, 2 * kA), 4096);
  b.copy(p, b.hbm(0, kA), b.window(2, b.map().hbm_base(0) + kA), 4096);
  base::store<uint32_t>(b.at(b.hbm(1, kA), 4), 77);
  b.copy(p, b.hbm(1, kA), b.misc(2, 0x40), 4);
  b.doorbell(p, 4, 4);
  b.run();
  EXPECT_EQ(b.counters.dma_errors, 0u);
  EXPECT_EQ(*b.at(b.hbm(0, kA + 4095), 1), 0x5A);
  EXPECT_EQ(*b.at(b.hbm(0, 2 * kA), 1), 0xA5);
  EXPECT_EQ(*b.left.direct(b.map().hbm_base(0) + kA + 4095, 1), 0x5A);
  EXPECT_EQ(b.words[0].words[0x10], 77u);
}

TEST(Windows, RegisterReadsOfOneTwoAndFourWords) {
  for (const Gen gen : {Gen::kV3, Gen::kV4}) {
    LinkBench b(gen);
    for (uint32_t w = 0; w < 64; ++w) b.words[0].words[w] = 0x1000 + w;
    auto p = b.setup(gen == Gen::kV3 ? 68 : 72, 0);
    const uint32_t window = 2;
    uint64_t to = b.host_address(0x100);
    for (const uint32_t bytes : {4u, 8u, 16u, 64u}) {
      b.copy(p, b.misc(window, 0x60), to, bytes, true);
      to += 0x100;
    }
    b.doorbell(p, 4, 4);
    b.run();
    EXPECT_EQ(b.counters.dma_errors, 0u);
    to = b.host_address(0x100);
    for (const uint32_t bytes : {4u, 8u, 16u, 64u}) {
      for (uint32_t i = 0; i < bytes / 4; ++i) {
        EXPECT_EQ(base::load<uint32_t>(b.at(to + 4 * i, 4)), 0x1018 + i) << bytes;
      }
      EXPECT_EQ(base::load<uint32_t>(b.at(to + bytes, 4)), 0u);
      to += 0x100;
    }
  }
}

// A packet that reads registers is never executed late as part of a run, so it sees what a CPU
// wrote before and nothing that was written after.
TEST(Windows, RegistersAreReadAtTheSameTimesWithAndWithoutRuns) {
  std::vector<base::Ps> times[2];
  std::vector<uint32_t> values[2];
  for (const bool coalesce : {false, true}) {
    LinkBench b(Gen::kV3, coalesce);
    auto p = b.setup(4, 1, 4096);
    uint32_t reads = 0;
    const auto to = [&b](uint32_t n) { return b.host_address(0x1000 + n * 64ull); };
    for (uint32_t k = 0; k < 1500; ++k) {
      if (k % 13 == 7) {
        b.copy(p, b.misc(k % 2 == 0 ? 0 : 1, 0), to(reads++), 16);
      } else {
        b.copy(p, b.hbm(0, kA), b.hbm(0, 2 * kA), 4096);
      }
    }
    b.doorbell(p, 1500, 1500);
    b.run();
    EXPECT_EQ(b.counters.dma_errors, 0u);
    for (const Words& w : b.words) {
      times[coalesce].insert(times[coalesce].end(), w.times.begin(), w.times.end());
    }
    for (uint32_t n = 0; n < reads; ++n) {
      values[coalesce].push_back(base::load<uint32_t>(b.at(to(n), 4)));
    }
  }
  EXPECT_EQ(times[0].size(), 4 * 115u) << "a word at a time";
  EXPECT_EQ(times[0], times[1]);
  EXPECT_EQ(values[0], values[1]);
  EXPECT_TRUE(std::is_sorted(values[0].begin(), values[0].end()));
}

// Only a host's own devices reach its memory.
TEST(Windows, TheNeighboursHostIsOutOfReach) {
  LinkBench b;
  auto p = b.setup(4, 0);
  b.copy(p, b.window(1, b.map().host_window() | FakeHost::kBase), b.hbm(0, kA), 64);
  b.doorbell(p, 1, 1);
  b.run();
  EXPECT_EQ(b.counters.dma_errors, 1u);
  EXPECT_EQ(b.read(4, udma::kM2sState) & 3, 2u) << "aborted";
}

TEST(Windows, UnclaimedAddressesAreBusErrors) {
  LinkBench b;
  auto p = b.setup(4, 0);
  b.copy(p, b.window(1, 0x3'FFFF'FFFF'FF00), b.hbm(0, kA), 4);
  b.doorbell(p, 1, 1);
  b.run();
  EXPECT_EQ(b.counters.dma_errors, 1u);
  uint32_t value = 1;
  EXPECT_FALSE(b.fabric.read32(b.window(3, 0), value)) << "no cable; not a DMA engine";
}

// Nobody answers: the queue stands still, the engine's other queues go on, and a queue that is
// initialised anew works.
TEST(Windows, WithoutACableThereIsNoAnswer) {
  LinkBench b;
  auto p = b.setup(100, 0);
  b.copy(p, b.hbm(0, kA), b.hbm(0, 2 * kA), 64);
  b.copy(p, b.misc(3, 0x38), b.host_address(8), 8, true);
  b.copy(p, b.host_address(0), b.host_address(4), 4, true);
  base::store<uint32_t>(b.at(b.host_address(0), 4), 1);
  b.fill(b.hbm(0, kA), 64, 5);
  b.doorbell(p, 3, 3);
  b.run();
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(0, 2 * kA), 64)) << "what stands before it is done";
  EXPECT_EQ(base::load<uint32_t>(b.at(b.host_address(4), 4)), 0u);
  EXPECT_EQ(b.counters.dma_errors, 0u);
  EXPECT_EQ(b.read(100, udma::kM2sState), 0x1111u) << "work in flight, not aborted";
  std::vector<std::string> lines;
  b.dma.who_waits(lines);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("not connected"), std::string::npos) << lines[0];

  auto other = b.setup(100, 5);
  b.copy(other, b.hbm(0, kA), b.hbm(0, 3 * kA), 64);
  b.doorbell(other, 1, 1);
  b.run();
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(0, 3 * kA), 64));

  p = b.setup(100, 0);
  b.words[0].words[14] = 0x1234;
  b.copy(p, b.misc(1, 0x38), b.host_address(8), 8, true);
  b.copy(p, b.host_address(0), b.host_address(4), 4, true);
  b.doorbell(p, 2, 2);
  b.run();
  EXPECT_EQ(base::load<uint32_t>(b.at(b.host_address(4), 4)), 1u);
  EXPECT_EQ(base::load<uint32_t>(b.at(b.host_address(8), 4)), 0x1234u);
  lines.clear();
  b.dma.who_waits(lines);
  EXPECT_TRUE(lines.empty());
}

// A write to nowhere waits as well, and an engine reset drops it.
TEST(Windows, AWriteWithoutACableWaitsUntilAReset) {
  LinkBench b;
  auto p = b.setup(4, 0);
  b.copy(p, b.hbm(0, kA), b.window(3, kA), 64);
  b.doorbell(p, 1, 1);
  b.run();
  std::vector<std::string> lines;
  b.dma.who_waits(lines);
  EXPECT_EQ(lines.size(), 1u);
  b.dma.reset_engine(4);
  lines.clear();
  b.dma.who_waits(lines);
  EXPECT_TRUE(lines.empty());
}

// Both directions have the rate of the link; a round trip of the wire comes on top.
TEST(Timing, RatesPerDirectionAndWire) {
  LinkBench b;
  auto p = b.setup(4, 0);
  base::store<uint32_t>(b.at(b.hbm(0, kA), 4), 1);
  b.copy(p, b.window(0, kA), b.hbm(0, 2 * kA), 4000);
  b.copy(p, b.hbm(0, kA), b.map().nc_semaphores(0), 4, true);
  b.doorbell(p, 2, 2);
  b.run();
  ASSERT_EQ(b.recorder.stores.size(), 1u);
  // Fetch, 4000 bytes at 10 GB/s, the signal's own 1 ns and 4 bytes of 17 GB/s; the signal is not
  // visible before the data, whose acknowledgement takes first byte, write and the way to and fro.
  const base::Ps data = b.timing.dma_fetch + 400'000 + b.timing.dma_first_byte +
                        b.timing.dma_write_ack + 2 * base::ns(500);
  EXPECT_EQ(b.recorder.stores[0].time, data);
  const auto resources = b.links.resources();
  ASSERT_EQ(resources.size(), 4u);
  EXPECT_EQ(resources[3]->name(), "link.d2-d0");
  EXPECT_EQ(resources[3]->total_bytes(), 4000u);
  for (int k : {0, 1, 2}) EXPECT_EQ(resources[static_cast<size_t>(k)]->total_bytes(), 0u);
}

TEST(Timing, AWriteIsAcknowledgedAfterTheRoundTrip) {
  LinkBench b;
  auto p = b.setup(4, 0);
  b.copy(p, b.hbm(0, kA), b.window(1, kA), 64);
  b.copy(p, b.hbm(0, kA), b.map().nc_semaphores(0), 4);
  b.doorbell(p, 2, 2);
  b.run();
  EXPECT_EQ(b.links.resources()[0]->total_bytes(), 64u);
  ASSERT_EQ(b.recorder.stores.size(), 1u);
  EXPECT_GE(b.recorder.stores[0].time, b.timing.dma_fetch + 2 * base::ns(500));
}

// Windows of other chips of the platform take the same links; without one between two chips they
// arrive all the same.
TEST(Peers, TakeTheLinks) {
  for (const Gen gen : {Gen::kV2, Gen::kV3}) {
    LinkBench b(gen);
    auto p = b.setup(4, 0);
    b.fill(b.hbm(0, kA), 1000, 9);
    b.copy(p, b.hbm(0, kA), b.map().peer_address(2, kA), 1000);
    b.copy(p, b.map().peer_address(2, kA), b.hbm(0, 2 * kA), 1000);
    b.copy(p, b.map().peer_address(1, kA), b.map().peer_address(2, 2 * kA), 500);
    b.doorbell(p, 3, 3);
    b.run();
    EXPECT_EQ(b.counters.dma_errors, 0u);
    EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(0, 2 * kA), 1000));
    const auto resources = b.links.resources();
    EXPECT_EQ(resources[0]->total_bytes(), 0u);
    EXPECT_EQ(resources[1]->total_bytes(), 500u);
    EXPECT_EQ(resources[2]->total_bytes(), 1500u);
    EXPECT_EQ(resources[3]->total_bytes(), 1000u);
    EXPECT_EQ(b.fabric.read_latency(b.map().peer_address(0, kA)), b.timing.hbm_latency);
    EXPECT_EQ(b.links.peer(0, 3), nullptr);
  }
}

TEST(Construction, RefusesWhatCannotBe) {
  AccessLog log;
  Fabric a({"d0", {Gen::kV3}, 0}, TimingParams{}, log);
  Fabric b({"d1", {Gen::kV3}, 1}, TimingParams{}, log);
  const auto build = [&](const std::vector<LinkParams>& links, std::vector<Links::Windows> w) {
    Links::Params p;
    p.links = links;
    p.windows = std::move(w);
    const Links built(p, {&a, &b});
    EXPECT_EQ(built.neighbour(1, 0), kNone);
    EXPECT_EQ(built.neighbour(7, 0), kNone);
    EXPECT_EQ(built.neighbour(0, 4), kNone);
  };
  EXPECT_NO_THROW(build({{0, 1, {1, 1}}}, {{1, 1, kNone, kNone}}));
  EXPECT_THROW(build({{0, 2, {1, 1}}}, {}), std::invalid_argument);
  EXPECT_THROW(build({{1, 1, {1, 1}}}, {}), std::invalid_argument);
  EXPECT_THROW(build({}, {{0, kNone, kNone, kNone}}), std::invalid_argument);
  EXPECT_THROW(build({}, {{kNone, kNone, kNone, 2}}), std::invalid_argument);
}

}  // namespace
}  // namespace hw
