// Time: shares, bottlenecks, and the equality of coalesced and packet-by-packet execution.
#include <algorithm>
#include <functional>
#include <map>
#include <random>

#include "tests/hw_dma/bench.h"

namespace hw {
namespace {

constexpr uint64_t kA = 0x100'0000;
constexpr uint64_t kB = 0x4000'0000;

TEST(Bandwidth, CuttingATransferDoesNotChangeItsEnd) {
  BandwidthResource whole("w", {17, 1000});
  BandwidthResource cut("c", {17, 1000});
  const base::Ps end = whole.reserve({5, 0, Phase::kStart}, 100'003);
  base::Ps at = 5;
  for (uint64_t left = 100'003; left != 0;) {
    const uint64_t n = std::min<uint64_t>(left, 7);
    at = cut.reserve({at, 0, Phase::kStart}, n);
    left -= n;
  }
  EXPECT_EQ(at, end);
  EXPECT_EQ(cut.busy_ps(), whole.busy_ps());
  EXPECT_EQ(cut.total_bytes(), 100'003u);
}

TEST(Bandwidth, BusyPeriodsAreSpans) {
  Spans spans;
  BandwidthResource link("link.0to1", {10, 1000});  // 100 ps per byte
  link.set_tracer(&spans);
  const auto& seen = spans.by_name["link.0to1"];
  link.reserve({5, 0, Phase::kStart}, 3);
  link.reserve({200, 0, Phase::kStart}, 4);
  link.reserve({705, 0, Phase::kStart}, 1);  // where the former ends: no gap
  EXPECT_TRUE(seen.empty());
  link.reserve({1000, 0, Phase::kStart}, 2);
  EXPECT_EQ(seen, (std::vector<Spans::Span>{{5, 805, 8}}));
  link.trace_last();
  link.trace_last();  // nothing new
  link.reserve({1200, 0, Phase::kStart}, 5);
  link.trace_last();
  EXPECT_EQ(seen, (std::vector<Spans::Span>{{5, 805, 8}, {1000, 1200, 2}, {1200, 1700, 5}}));
}

TEST(Events, OrderIsTimeThenComponentThenPhaseThenSequence) {
  struct Log : EventSink {
    void on_event(const EventKey&, uint32_t tag, uint64_t) override { tags.push_back(tag); }
    std::vector<uint32_t> tags;
  } log;
  EventQueue q;
  q.schedule({10, 2, Phase::kEffect}, log, 4);
  q.schedule({10, 1, Phase::kStart}, log, 3);
  q.schedule({10, 1, Phase::kReady}, log, 1);
  q.schedule({10, 1, Phase::kReady}, log, 2);
  const auto id = q.schedule({4, 9, Phase::kStart}, log, 99);
  q.schedule({5, 9, Phase::kStart}, log, 0);
  q.cancel(id);
  EXPECT_EQ(q.next_time(), 5u);
  EXPECT_EQ(q.run_all(), 10u);
  EXPECT_EQ(log.tags, (std::vector<uint32_t>{0, 1, 2, 3, 4}));
  q.cancel(id);
}

// Against a sorted list: many at one time, many in one bucket, and beyond the last bucket.
TEST(Events, OrderHoldsWithMany) {
  struct Sink : EventSink {
    void on_event(const EventKey& key, uint32_t tag, uint64_t) override {
      seen.emplace_back(key.time, key.component, key.phase, tag);
      if (act) act(key);
    }
    std::vector<std::tuple<base::Ps, uint32_t, Phase, uint32_t>> seen;
    std::function<void(const EventKey&)> act;
  } sink;
  EventQueue queue;
  std::mt19937 rng(1);
  std::vector<std::tuple<base::Ps, uint32_t, Phase, uint32_t>> expected;
  uint32_t made = 0;
  const auto add = [&](base::Ps from) {
    constexpr base::Ps kWithin[] = {50, base::ns(100), base::us(40), base::us(900)};
    const EventKey key{from + rng() % kWithin[rng() % 4], static_cast<uint32_t>(rng() % 3) << 30,
                       static_cast<Phase>(rng() % 3)};
    const auto id = queue.schedule(key, sink, made);
    if (rng() % 4 == 0) {
      queue.cancel(id);
    } else {
      expected.emplace_back(key.time, key.component, key.phase, made);
    }
    ++made;
  };
  for (uint32_t i = 0; i < 500; ++i) add(0);
  sink.act = [&](const EventKey& key) {
    for (uint32_t i = static_cast<uint32_t>(rng() % 3); i != 0 && made < 2000; --i) {
      add(key.time + 1);
    }
  };
  queue.run_all();
  EXPECT_TRUE(queue.empty());
  EXPECT_GT(made, 1500u);
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(sink.seen, expected);
}

// spec/collectives.md 3.6: two backlogged rings with packets of P1 and P2 bytes share P1 : P2.
TEST(Shares, FollowThePacketSizes) {
  const uint32_t sizes[][2] = {{4096, 65536}, {65536, 65536}, {65536, 4096}, {1000, 3000}};
  for (const auto& s : sizes) {
    BenchConfig config;
    config.timing.dma_buffer = 0;
    Spans spans;
    config.options.tracer = &spans;
    DmaBench b(config);
    for (uint32_t q = 0; q < 2; ++q) {
      auto p = b.setup(0, q);
      for (uint32_t i = 0; i < 500; ++i) b.copy(p, b.hbm(0, kA), b.hbm(0, kB), s[q]);
      b.doorbell(p, 500, 500);
    }
    b.run();
    const auto& one = spans.by_name["d0.dma0.q0"];
    const auto& two = spans.by_name["d0.dma0.q1"];
    const base::Ps until = std::min(one.back().end, two.back().end);
    uint64_t bytes[2] = {};
    for (const auto& x : one) bytes[0] += x.end <= until ? x.bytes : 0;
    for (const auto& x : two) bytes[1] += x.end <= until ? x.bytes : 0;
    const double share = static_cast<double>(bytes[0]) / static_cast<double>(bytes[0] + bytes[1]);
    EXPECT_NEAR(share, static_cast<double>(s[0]) / (s[0] + s[1]), 0.003) << s[0] << " " << s[1];
  }
}

// Queues 0 to 3 in classes 1, 3, 0 and 2; the order in which their last packets end.
std::vector<uint32_t> order_of_classes(contract::Gen gen, bool force_round_robin) {
  static constexpr uint32_t classes[] = {1, 3, 0, 2};
  BenchConfig config;
  config.gen = gen;
  Spans spans;
  config.options.tracer = &spans;
  DmaBench b(config);
  if (force_round_robin) b.write(0, udma::kM2sDescPrefCfg2, 0x1'0000);
  std::vector<std::pair<base::Ps, uint32_t>> ends;
  for (uint32_t q = 0; q < 4; ++q) {
    auto p = b.setup(0, q);
    b.write(0, DmaBench::reg(kM2s, q, udma::kM2sQCfg), 0x0303'0000 | classes[q] << 28);
    for (uint32_t i = 0; i < 20; ++i) b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 4096);
    b.doorbell(p, 20, 20);
  }
  b.run();
  for (uint32_t q = 0; q < 4; ++q) {
    ends.emplace_back(spans.by_name["d0.dma0.q" + std::to_string(q)].back().end, classes[q]);
  }
  std::sort(ends.begin(), ends.end());
  std::vector<uint32_t> order;
  for (const auto& end : ends) order.push_back(end.second);
  return order;
}

TEST(Shares, StrictPriorityOfFourClassesOnV4) {
  using Order = std::vector<uint32_t>;
  EXPECT_EQ(order_of_classes(contract::Gen::kV4, false), (Order{0, 1, 2, 3}));
  EXPECT_EQ(order_of_classes(contract::Gen::kV4, true), (Order{1, 3, 0, 2}));
  EXPECT_EQ(order_of_classes(contract::Gen::kV3, false), (Order{1, 3, 0, 2}));
}

// What comes later in a more urgent class waits for the packet in flight only, whether the engine
// was alone before or not.
TEST(Shares, AMoreUrgentClassComesInBetween) {
  for (const bool coalesce : {false, true}) {
    BenchConfig config;
    config.gen = contract::Gen::kV4;
    config.options.coalesce = coalesce;
    Spans spans;
    config.options.tracer = &spans;
    DmaBench b(config);
    auto low = b.setup(0, 0);
    auto high = b.setup(0, 5);
    b.write(0, DmaBench::reg(kM2s, 0, udma::kM2sQCfg), 0x3303'0000);
    for (uint32_t i = 0; i < 100; ++i) b.copy(low, b.hbm(0, kA), b.hbm(0, kB), 65536);
    for (uint32_t i = 0; i < 3; ++i) b.copy(high, b.hbm(0, kA), b.hbm(0, kB), 4096);
    b.doorbell(low, 100, 100);
    b.at_time(100'000'000, [&] { b.doorbell(high, 3, 3); });
    b.run();
    const auto& urgent = spans.by_name["d0.dma0.q5"];
    const base::Ps ready = 100'000'000 + 770'000;
    ASSERT_EQ(urgent.size(), 3u);
    EXPECT_GE(urgent[0].begin, ready);
    EXPECT_LE(urgent[0].begin, ready + 4'000'000);
    EXPECT_EQ(urgent[1].begin, urgent[0].end);
    EXPECT_EQ(urgent[2].begin, urgent[1].end);
  }
}

// 16 engines of core 0 copy 2 MiB each from one stack to another (or the same).
base::Ps sixteen(const TimingParams& timing, uint32_t from, uint32_t to, uint32_t engines = 16) {
  BenchConfig config;
  config.timing = timing;
  config.options.timing_only = true;
  DmaBench b(config);
  for (uint32_t e = 0; e < engines; ++e) {
    auto p = b.setup(e, 0);
    for (uint32_t i = 0; i < 32; ++i) {
      b.copy(p, b.hbm(from, kA) + e * 65536, b.hbm(to, kB) + e * 65536, 65536);
    }
    b.doorbell(p, 32, 32);
  }
  return b.run();
}

base::Rate half(base::Rate r) {
  return {r.bytes, r.ps * 2};
}

TEST(Bottleneck, OnlyTheSlowestResourceMatters) {
  struct Case {
    uint32_t from, to, engines;
    int slowest;  // 0 engine, 1 HBM, 2 fabric between the cores
  };
  for (const Case& c : {Case{0, 0, 1, 0}, Case{0, 0, 16, 1}, Case{0, 1, 16, 2}, Case{0, 0, 2, 0}}) {
    TimingParams timing;
    if (c.slowest == 1) timing.hbm_stack = {200, 1000};
    const base::Ps before = sixteen(timing, c.from, c.to, c.engines);
    for (int changed = 0; changed < 3; ++changed) {
      TimingParams slower = timing;
      base::Rate& rate = changed == 0   ? slower.dma_engine
                         : changed == 1 ? slower.hbm_stack
                                        : slower.core_fabric;
      rate = half(rate);
      const base::Ps after = sixteen(slower, c.from, c.to, c.engines);
      const double ratio = static_cast<double>(after) / static_cast<double>(before);
      if (changed == c.slowest) {
        EXPECT_GT(ratio, 1.9) << c.from << c.to << c.engines << changed;
        EXPECT_LE(ratio, 2.0);
      } else {
        EXPECT_LT(ratio, 1.02) << c.from << c.to << c.engines << changed;
      }
    }
  }
}

// Bytes per ns in each direction when each core's engines copy from one memory to the other.
double exchange(bool read) {
  BenchConfig config;
  config.options.timing_only = true;
  DmaBench b(config);
  constexpr uint32_t each = 64;
  for (uint32_t e = 0; e < 32; ++e) {
    auto p = b.setup(e, 0);
    const uint32_t own = e / 16;
    const uint32_t from = read ? 1 - own : own;
    for (uint32_t i = 0; i < each; ++i) b.copy(p, b.hbm(from, kA), b.hbm(1 - from, kB), 65536);
    b.doorbell(p, each, each);
  }
  return 16.0 * each * 65536 * 1000 / static_cast<double>(b.run());
}

TEST(Bottleneck, TwoCoresExchangeAtTheFabricRatePerDirection) {
  EXPECT_NEAR(exchange(false), 70.0, 0.5);
  EXPECT_NEAR(exchange(true), 48.0, 0.5);
}

// ---- coalesced and packet-by-packet execution ------------------------------------------------

struct Outcome {
  bool reset = false;
  base::Ps end = 0;
  uint64_t events = 0;
  Counters counters;
  std::map<std::string, std::vector<Spans::Span>> spans;
  std::vector<std::tuple<base::Ps, uint64_t, uint32_t>> stores;
  std::vector<std::tuple<std::string, uint64_t, base::Ps>> resources;
  std::vector<uint8_t> memory;
  std::vector<uint32_t> registers;
};

// Software that acts at times of its own: doorbells, register reads, queue stops.
struct Actor : EventSink {
  void on_event(const EventKey&, uint32_t tag, uint64_t) override { actions[tag](); }
  std::vector<std::function<void()>> actions;
};

constexpr uint64_t kWindow = 256 << 10;  // sources; destinations have one such window per queue

// Queues do not write what others read or write: without synchronisation that order is open.
void add_packet(DmaBench& b, RingPair& p, uint32_t window, bool aligned, std::mt19937& rng) {
  const auto pick = [&](uint32_t n) { return static_cast<uint32_t>(rng() % n); };
  static constexpr uint32_t sizes[] = {4, 64, 256, 1000, 4096, 9999, 65536};
  static constexpr uint32_t round_sizes[] = {68, 1700, 17000, 34000, 17000, 17000, 6800};
  const uint32_t bytes = (aligned ? round_sizes : sizes)[pick(7)];
  const uint64_t from = b.hbm(pick(2), kA) + pick(kWindow - 65536) / 4 * 4;
  const uint64_t to = b.hbm(pick(2), kB) + window * kWindow + pick(kWindow - 65536) / 4 * 4;
  const bool barrier = pick(8) == 0;
  switch (pick(8)) {
    case 0: {  // semaphore
      b.copy(p, from, b.map().nc_semaphores(0) + pick(256) * 4, 4, barrier);
      return;
    }
    case 1: {  // reduction, or one source; into as many copies as there is room for
      static constexpr contract::DType types[] = {contract::DType::kUint8, contract::DType::kUint16,
                                                  contract::DType::kFp32};
      contract::DmaCompute add;
      add.src = add.dst = types[pick(3)];
      add.sources = static_cast<uint8_t>(1 + pick(3));
      const uint32_t n = bytes & 0xFFFC;
      if (n == 0) break;
      add.copies = static_cast<uint8_t>(n > 16384 ? 1 : 1 + pick(4));
      b.push(p.tx, add.pack(0));
      for (uint32_t i = 1; i <= add.sources; ++i) {
        const uint32_t last = i == add.sources ? desc::kLast : 0;
        b.push(p.tx, {n | last, desc::kOpCompute, i == 2 ? to : from});
      }
      for (uint32_t i = 0; i < add.copies; ++i) b.push(p.rx, desc::rx(to + i * n, n, 0));
      return;
    }
    case 2: {  // DMB
      b.push(p.tx, desc::tx_copy(from, bytes, 0, desc::kFirst | desc::kLast | desc::kDmb));
      b.push(p.rx, desc::rx(to, bytes, 0));
      return;
    }
    case 3: {  // host
      b.copy(p, from, b.host_address(0x10'0000 + window % 6 * 0x10'0000 + pick(256) * 4096), 4096,
             barrier);
      return;
    }
    default:
      break;
  }
  b.copy(p, from, to, bytes, barrier);
}

Outcome random_workload(uint32_t seed, bool coalesce, bool timing_only, uint32_t most_engines = 3,
                        uint64_t burst_packets = TimingParams{}.dma_burst_packets) {
  std::mt19937 rng(seed);
  const auto pick = [&](uint32_t n) { return static_cast<uint32_t>(rng() % n); };
  BenchConfig config;
  Spans spans;
  config.options.tracer = &spans;
  config.options.coalesce = coalesce;
  config.options.timing_only = timing_only;
  // Awkward rates make rounding visible; round ones, with round sizes and times, make packets of
  // several engines meet in the same picosecond.
  const bool aligned = pick(2) == 0;
  static constexpr uint64_t rates[] = {17, 17, 23, 7, 34};
  static constexpr uint64_t round_rates[] = {17, 17, 34, 17, 34};
  const auto rate = [&] { return (aligned ? round_rates : rates)[pick(5)]; };
  config.timing.dma_engine = {rate(), 1000};
  config.timing.hbm_stack = {rate() * (1 + pick(3)), 1000};
  config.timing.core_fabric = {rate(), 1000};
  config.timing.dma_buffer = aligned ? 0 : pick(2) * 1000;
  config.timing.dma_buffer_least = aligned ? 0 : pick(2) * 8500;
  config.timing.dma_burst_packets = burst_packets;
  config.timing.dma_fetch = aligned ? 1'000'000 : 1 + pick(3) * 385'000;
  const base::Ps grid = aligned ? 1'000'000 : 1;  // of software's actions
  DmaBench b(config);
  for (uint32_t h = 0; h < 2; ++h) {
    b.fill(b.hbm(h, kA), kWindow, seed + h);
  }
  Actor actor;
  Outcome out;
  const uint32_t engines = 1 + pick(most_engines);
  for (uint32_t k = 0; k < engines; ++k) {
    const uint32_t e = pick(2) * 16 + k * 3;
    const uint32_t queues = 1 + pick(2);
    for (uint32_t q = 0; q < queues; ++q) {
      auto p = std::make_shared<RingPair>(b.setup(e, q * 5, 512));
      const uint32_t window = k * 2 + q;
      const uint32_t bursts = 1 + pick(4);
      for (uint32_t i = 0; i < bursts; ++i) {
        const uint32_t packets = 1 + pick(60);
        const uint32_t seed2 = pick(1 << 30);
        const base::Ps at = pick(4) == 0 ? 0 : pick(200'000'000) / grid * grid;
        actor.actions.push_back([&b, p, packets, window, aligned, seed2] {
          std::mt19937 inner(seed2);
          const Ring tx = p->tx;
          const Ring rx = p->rx;
          // Only what fits; the ring may still hold earlier bursts.
          const uint32_t used = b.read(p->engine, DmaBench::reg(kM2s, p->q, udma::kM2sQStatus));
          if ((used & 0x1FF'FFFF) + packets * 4 > p->tx.length) return;
          for (uint32_t n = 0; n < packets; ++n) add_packet(b, *p, window, aligned, inner);
          const auto distance = [](const Ring& a, const Ring& z) {
            return (z.index + z.length - a.index) % z.length;
          };
          b.doorbell(*p, distance(tx, p->tx), distance(rx, p->rx));
        });
        b.events.schedule({at, 0xFFFF0, Phase::kEffect}, actor,
                          static_cast<uint32_t>(actor.actions.size() - 1));
      }
    }
    for (uint32_t i = pick(4); i != 0; --i) {  // software looks at pointers in the middle
      actor.actions.push_back([&b, &out, e] {
        out.registers.push_back(b.read(e, DmaBench::reg(kM2s, 0, udma::kM2sQCurrent)));
        out.registers.push_back(b.read(e, DmaBench::reg(kS2m, 0, udma::kM2sQStatus)));
      });
      b.events.schedule({pick(300'000'000) / grid * grid + 1, 0xFFFF1, Phase::kEffect}, actor,
                        static_cast<uint32_t>(actor.actions.size() - 1));
    }
  }
  out.reset = pick(3) == 0;
  if (out.reset) {  // a queue is, on the way
    const uint32_t e = pick(2) * 16;
    actor.actions.push_back([&b, e] { b.setup(e, 0, 512); });
    b.events.schedule({pick(200'000'000) / grid * grid + 1, 0xFFFF2, Phase::kEffect}, actor,
                      static_cast<uint32_t>(actor.actions.size() - 1));
  }
  out.end = b.run();
  out.events = b.events.executed();
  out.counters = b.counters;
  out.spans = std::move(spans.by_name);
  for (const auto& s : b.recorder.stores) out.stores.emplace_back(s.time, s.offset, s.value);
  auto resources = b.fabric.resources();
  for (auto* r : b.dma.resources()) resources.push_back(r);
  for (auto* r : resources) out.resources.emplace_back(r->name(), r->total_bytes(), r->busy_ps());
  for (uint32_t h = 0; h < 2; ++h) {
    if (timing_only) break;
    const uint64_t bytes = uint64_t{most_engines} * 2 * kWindow;
    const uint8_t* p = b.at(b.hbm(h, kB), bytes);
    out.memory.insert(out.memory.end(), p, p + bytes);
  }
  return out;
}

void expect_same_times(const Outcome& a, const Outcome& b) {
  EXPECT_EQ(a.end, b.end);
  EXPECT_EQ(a.counters.descriptors, b.counters.descriptors);
  EXPECT_EQ(a.counters.packets, b.counters.packets);
  EXPECT_EQ(a.counters.doorbells, b.counters.doorbells);
  EXPECT_EQ(a.counters.bytes, b.counters.bytes);
  EXPECT_EQ(a.counters.register_writes, b.counters.register_writes);
  EXPECT_EQ(a.counters.dma_errors, b.counters.dma_errors);
  EXPECT_TRUE(a.spans == b.spans);
  EXPECT_EQ(a.resources, b.resources);
  EXPECT_EQ(a.registers, b.registers);
}

class Coalescing : public ::testing::TestWithParam<uint32_t> {};

TEST_P(Coalescing, AgreesWithPacketByPacketToThePicosecond) {
  uint64_t packets = 0;
  uint64_t events[2] = {};
  for (uint32_t i = 0; i < 16; ++i) {
    const uint32_t seed = GetParam() * 1000 + i;
    SCOPED_TRACE(seed);
    const Outcome a = random_workload(seed, true, false);
    const Outcome b = random_workload(seed, false, false);
    expect_same_times(a, b);
    EXPECT_EQ(a.stores, b.stores);
    EXPECT_TRUE(a.memory == b.memory);
    packets += a.counters.packets;
    events[0] += a.events;
    events[1] += b.events;
    if (HasFailure()) break;
  }
  EXPECT_LT(events[0], events[1]);  // runs were formed
  EXPECT_GT(packets, 300u);         // the workloads are not trivial
}

// Ten engines and more at two stacks: runs yield all the time.
TEST_P(Coalescing, AgreesWhereEverythingIsShared) {
  for (uint32_t i = 0; i < 3; ++i) {
    const uint32_t seed = GetParam() * 3000 + i;
    SCOPED_TRACE(seed);
    const Outcome a = random_workload(seed, true, false, 10);
    const Outcome b = random_workload(seed, false, false, 10);
    expect_same_times(a, b);
    EXPECT_EQ(a.stores, b.stores);
    EXPECT_TRUE(a.memory == b.memory);
  }
}

// How much is reserved at once changes times, and nothing else.
TEST_P(Coalescing, BurstsDoWhatPacketsDo) {
  uint32_t compared = 0;
  for (uint32_t i = 0; i < 6; ++i) {
    const uint32_t seed = GetParam() * 4000 + i;
    SCOPED_TRACE(seed);
    const Outcome a = random_workload(seed, true, false, 10);
    const Outcome b = random_workload(seed, true, false, 10, 0);
    if (a.reset || a.counters.dma_errors != 0) continue;  // when it happens makes a difference
    EXPECT_EQ(a.counters.packets, b.counters.packets);
    EXPECT_EQ(a.counters.descriptors, b.counters.descriptors);
    EXPECT_EQ(a.counters.bytes, b.counters.bytes);
    EXPECT_EQ(a.stores.size(), b.stores.size());
    EXPECT_TRUE(a.memory == b.memory);
    for (size_t r = 0; r < a.resources.size(); ++r) {
      EXPECT_EQ(std::get<1>(a.resources[r]), std::get<1>(b.resources[r]));
    }
    ++compared;
  }
  EXPECT_GT(compared, 0u);
}

TEST_P(Coalescing, TimingOnlyTakesTheSameTimes) {
  for (uint32_t i = 0; i < 3; ++i) {
    const uint32_t seed = GetParam() * 2000 + i;
    SCOPED_TRACE(seed);
    const uint32_t engines = i == 0 ? 8 : 3;
    const Outcome a = random_workload(seed, true, false, engines);
    const Outcome b = random_workload(seed, true, true, engines);
    expect_same_times(a, b);
    ASSERT_EQ(a.stores.size(), b.stores.size());
    EXPECT_GT(b.counters.elided_bytes, 0u);
    EXPECT_EQ(a.counters.elided_bytes, 0u);
    EXPECT_EQ(a.events, b.events);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Coalescing, ::testing::Range(0u, 8u));

TEST(Coalescing, OneEngineAloneNeedsFewEvents) {
  uint64_t events[2];
  base::Ps end[2];
  for (const bool coalesce : {false, true}) {
    BenchConfig config;
    config.options.coalesce = coalesce;
    config.options.timing_only = true;
    DmaBench b(config);
    auto p = b.setup(0, 0, 4096);
    for (uint32_t i = 0; i < 4000; ++i) b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 65536);
    b.doorbell(p, 4000, 4000);
    end[coalesce] = b.run();
    events[coalesce] = b.events.executed();
  }
  EXPECT_EQ(end[0], end[1]);
  EXPECT_GT(events[0], 4000u);
  EXPECT_LT(events[1], 60u);
}

TEST(TimingOnly, MovesWhatMustMove) {
  BenchConfig config;
  config.options.timing_only = true;
  DmaBench b(config);
  auto p = b.setup(0, 0);
  b.fill(b.hbm(0, kA), 4096, 1);
  b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 512);
  b.copy(p, b.hbm(0, kA), b.hbm(1, kB), 513);
  b.copy(p, b.hbm(0, kA), b.map().nc_semaphores(0), 4);
  b.doorbell(p, 3, 3);
  auto driver = b.setup(32, 0, 4096);
  b.copy(driver, b.hbm(0, kA), b.hbm(1, kA), 4096);
  b.doorbell(driver, 1, 1);
  b.run();
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(0, kB), 512));
  EXPECT_EQ(*b.at(b.hbm(1, kB), 1), 0);
  EXPECT_EQ(b.recorder.stores.size(), 1u);
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(1, kA), 4096));
  EXPECT_EQ(b.counters.elided_bytes, 513u);
}

TEST(TimingOnly, KnowsWhoReadsWhatWasNotComputed) {
  BenchConfig config;
  config.options.timing_only = true;
  DmaBench b(config);
  auto p = b.setup(0, 0);
  b.copy(p, b.hbm(0, kA), b.hbm(0, kB), 4096);           // left out
  b.copy(p, b.hbm(0, kB) + 64, b.hbm(1, kB), 64);        // moves, but what it moves is not known
  b.copy(p, b.hbm(1, kB), b.map().nc_semaphores(0), 4);  // a register gets it
  b.copy(p, b.hbm(0, kA), b.hbm(0, kB) + 128, 64);       // real bytes again
  b.doorbell(p, 4, 4);
  b.run();
  EXPECT_EQ(b.counters.elided_reads, 1u);
  EXPECT_TRUE(b.fabric.hbm(1).elided().overlaps(kB, 64));
  EXPECT_TRUE(b.fabric.hbm(0).elided().overlaps(kB + 127, 1));
  EXPECT_FALSE(b.fabric.hbm(0).elided().overlaps(kB + 128, 64));
  EXPECT_TRUE(b.fabric.hbm(0).elided().overlaps(kB + 192, 1));
}

TEST(TimingOnly, HolesCopyAsHoles) {
  BenchConfig config;
  config.options.timing_only = true;
  DmaBench b(config);
  auto p = b.setup(32, 0);
  *b.at(b.hbm(0, kA) + 65536 + 5000, 1) = 9;
  b.fill(b.hbm(0, kB) + 2 * 65536, 65536, 1);
  for (uint32_t i = 0; i < 3; ++i) {
    b.copy(p, b.hbm(0, kA) + i * 65536, b.hbm(0, kB) + i * 65536, 65536);
  }
  b.doorbell(p, 3, 3);
  b.run();
  EXPECT_TRUE(b.fabric.hbm(0).is_hole(kB, 65536));
  EXPECT_FALSE(b.fabric.hbm(0).is_hole(kB + 65536, 65536));
  EXPECT_TRUE(b.fabric.hbm(0).is_hole(kB + 65536, 4096));
  EXPECT_EQ(*b.at(b.hbm(0, kB) + 65536 + 5000, 1), 9);
  const std::vector<uint8_t> zeros(65536);
  EXPECT_EQ(std::memcmp(b.at(b.hbm(0, kB) + 2 * 65536, 65536), zeros.data(), 65536), 0);
  b.fabric.hbm(0).discard(kB, 1 << 20);
  EXPECT_TRUE(b.fabric.hbm(0).is_hole(kB, 1 << 20));
}

}  // namespace
}  // namespace hw
