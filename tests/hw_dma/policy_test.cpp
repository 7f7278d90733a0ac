// Policies for queues of a DMA engine and for links: built-in ones by name, and those of others.
#include <stdexcept>

#include "tests/hw_dma/bench.h"

namespace hw {
namespace {

// Queues that wait together, all with copies of one size; which of them end in which order.
std::vector<uint32_t> order_of(const BenchConfig& config, uint32_t each) {
  DmaBench b(config);
  Spans spans;
  std::vector<RingPair> queues;
  for (const uint32_t q : {2u, 5u, 9u}) {
    queues.push_back(b.setup(0, q));
    // Class of the queue, on any generation: 9 is the most urgent.
    const uint32_t urgency = (9 - q) / 3;
    b.write(0, DmaBench::reg(kM2s, q, udma::kM2sQCfg), 0x0303'0000 | urgency << 28);
    for (uint32_t i = 0; i < each; ++i) {
      b.copy(queues.back(), b.hbm(0, kA), b.hbm(1, kB) + q * 0x10000 + i * 64, 64);
    }
  }
  for (const RingPair& q : queues) b.doorbell(q, each, each);
  std::vector<uint32_t> order;
  std::map<uint32_t, uint32_t> left;
  for (const RingPair& q : queues) left[q.q] = each;
  while (!b.events.empty()) {
    b.events.run_until(b.events.next_time());
    for (const RingPair& q : queues) {
      const uint32_t now = b.dma.engine(0).depth(q.q);
      for (; left[q.q] > now; --left[q.q]) order.push_back(q.q);
    }
  }
  return order;
}

BenchConfig with(const QueuePolicy& policy) {
  BenchConfig config;
  config.timing.dma_burst_packets = 0;
  config.options.coalesce = false;
  config.options.policy = policy;
  return config;
}

TEST(QueuePolicy, BuiltIn) {
  using Order = std::vector<uint32_t>;
  using Rule = QueuePolicy::Rule;
  EXPECT_EQ(order_of(with({Rule::kRoundRobin, {}}), 2), (Order{2, 5, 9, 2, 5, 9}));
  EXPECT_EQ(order_of(with({Rule::kStrictPriority, {}}), 2), (Order{9, 9, 5, 5, 2, 2}));
  EXPECT_EQ(order_of(with({}), 2), (Order{2, 5, 9, 2, 5, 9})) << "v2";
  BenchConfig v4 = with({});
  v4.gen = Gen::kV4;
  EXPECT_EQ(order_of(v4, 2), (Order{9, 9, 5, 5, 2, 2}));
  v4.options.policy.rule = Rule::kRoundRobin;
  EXPECT_EQ(order_of(v4, 2), (Order{2, 5, 9, 2, 5, 9}));
}

// The highest number first, but never twice in a row while another waits.
struct Fancy : soma::QueueArbiter {
  uint32_t next(uint32_t waiting, uint32_t last, const uint8_t* service_class) override {
    EXPECT_EQ(service_class[9], 0);
    EXPECT_EQ(service_class[2], 2);
    const uint32_t others = waiting & ~(1u << last);
    const uint32_t among = others != 0 ? others : waiting;
    return 31 - static_cast<uint32_t>(__builtin_clz(among));
  }
  void started(uint32_t queue, uint64_t bytes) override { bytes_by_queue[queue] += bytes; }
  static std::map<uint32_t, uint64_t> bytes_by_queue;
};
std::map<uint32_t, uint64_t> Fancy::bytes_by_queue;

TEST(QueuePolicy, OfOthers) {
  QueuePolicy policy;
  policy.arbiter = [] { return std::make_unique<Fancy>(); };
  EXPECT_EQ(order_of(with(policy), 2), (std::vector<uint32_t>{9, 5, 9, 5, 2, 2}));
  EXPECT_EQ(Fancy::bytes_by_queue, (std::map<uint32_t, uint64_t>{{2, 128}, {5, 128}, {9, 128}}));
}

TEST(QueuePolicy, AChoiceThatDoesNotWaitIsAnError) {
  struct Wrong : soma::QueueArbiter {
    uint32_t next(uint32_t, uint32_t, const uint8_t*) override { return 3; }
  };
  QueuePolicy policy;
  policy.arbiter = [] { return std::make_unique<Wrong>(); };
  try {
    (void)order_of(with(policy), 1);
    FAIL() << "no error";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(),
                 "d0.dma0: the policy for DMA queues chooses queue 3, which does not wait");
  }
}

// Every packet takes twice its time.
struct Slow : soma::LinkArbiter {
  explicit Slow(base::Rate r) : rate(r) {}
  uint64_t serve(uint64_t now, uint64_t bytes, uint32_t chip) override {
    EXPECT_EQ(chip, 3u);
    end = std::max<uint64_t>(end, now) + rate.time_for(2 * bytes);
    return end;
  }
  base::Rate rate;
  uint64_t end = 0;
};

TEST(LinkPolicy, TheArbiterSaysWhenAPacketIsThrough) {
  BandwidthResource link("link", {10, 1000});
  link.set_arbiter(std::make_unique<Slow>(link.rate()));
  EXPECT_EQ(link.reserve({0, 3u << 16 | 5, Phase::kStart}, 100), 20'000u);
  EXPECT_EQ(link.reserve({1'000, 3u << 16 | 6, Phase::kStart}, 100, 7), 40'007u);
  EXPECT_EQ(link.total_bytes(), 200u);
  EXPECT_EQ(link.busy_ps(), 20'007u) << "of its rate, whatever the arbiter does";
  EXPECT_EQ(link.state().end, 40'007u);
}

TEST(LinkPolicy, ATimeThatIsOverIsAnError) {
  struct Back : soma::LinkArbiter {
    uint64_t serve(uint64_t now, uint64_t, uint32_t) override { return now - 1; }
  };
  BandwidthResource link("link.d0-d1", {10, 1000});
  link.set_arbiter(std::make_unique<Back>());
  EXPECT_THROW(link.reserve({50, 0, Phase::kStart}, 100), std::runtime_error);
}

}  // namespace
}  // namespace hw
