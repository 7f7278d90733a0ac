// What shares a link, a switch port, the on-chip fabric or HBM takes longer; what does not, does
// not. Times in picoseconds against closed forms.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>

#include "arch/config/platform.h"
#include "arch/config/timing.h"
#include "sim/machine_params.h"
#include "tests/hw_link/net_bench.h"

namespace hw {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr uint32_t kPackets = 20;
constexpr uint32_t kBytes = 4000;
constexpr uint64_t kAll = uint64_t{kPackets} * kBytes;

MachineParams params_of(const std::string& name) {
  const config::Platform platform = *config::load_platform(name);
  return sim::machine_params(platform, *config::Timing::load(platform.timing), {});
}

// Chips of v2, whose links belong to no S-engine, at 10 GB/s: slower than a DMA engine.
MachineParams graph(uint32_t chips, const std::vector<std::pair<uint32_t, uint32_t>>& links) {
  MachineParams p;
  p.timing.link_wire = base::ns(500);
  p.timing.link_route_extra = base::ns(200);
  p.timing.dma_burst_packets = 0;  // closed forms are simpler packet by packet
  p.chips.resize(chips);
  for (const auto& [a, b] : links) p.links.push_back({a, b, {10, 1000}});
  return p;
}

// From the doorbell to the end of `bytes` at `rate` plus what lies between that and a signal that
// nothing holds up: first byte, write acknowledge, and the way there and back.
base::Ps base_time(const NetBench& b, base::Rate rate, uint64_t bytes, base::Ps one_way) {
  const TimingParams& t = b.params.timing;
  return t.dma_fetch + rate.time_for(bytes) + t.dma_first_byte + t.dma_write_ack + 2 * one_way;
}

// To the signal that follows on an idle way: as long as the DMA engine takes for any packet.
base::Ps expected(const NetBench& b, base::Rate rate, uint64_t bytes, base::Ps one_way) {
  const TimingParams& t = b.params.timing;
  return base_time(b, rate, bytes, one_way) + t.dma_buffer_least;
}

TEST(Contention, TwoTransfersOverOneLinkTakeTwiceAsLong) {
  for (const bool coalesce : {false, true}) {
    NetBench b(graph(2, {{0, 1}}), coalesce);
    const base::Ps alone = expected(b, {10, 1000}, kAll, base::ns(500));
    b.stream(0, 0, b.hbm(0, 0), b.hbm(1, 0), kPackets, kBytes, 1);
    b.stream(0, 16, b.hbm(0, 1), b.hbm(1, 1), kPackets, kBytes, 1);
    b.run();
    const auto times = b.signals(1);
    ASSERT_EQ(times.size(), 2u);
    EXPECT_EQ(times[1], alone + kAll * 100);
    // One stream ends a packet earlier; its signal finds the other's last packet on the link.
    EXPECT_EQ(times[0], base_time(b, {10, 1000}, 2 * kAll + 4, base::ns(500)));
  }
}

TEST(Contention, OppositeDirectionsAndOtherLinksAreFree) {
  NetBench b(graph(4, {{0, 1}, {2, 3}}));
  const base::Ps alone = expected(b, {10, 1000}, kAll, base::ns(500));
  b.stream(0, 0, b.hbm(0, 0), b.hbm(1, 0), kPackets, kBytes, 1);
  b.stream(1, 0, b.hbm(1, 1), b.hbm(0, 1), kPackets, kBytes, 0);
  b.stream(2, 0, b.hbm(2, 0), b.hbm(3, 0), kPackets, kBytes, 3);
  b.run();
  for (const uint32_t chip : {0u, 1u, 3u}) EXPECT_THAT(b.signals(chip), ElementsAre(alone)) << chip;
}

// 0 - 1 - 2 - 3: a transfer occupies all links of its route at once, so it is no slower than over
// one of them, but shares each with those that need only that.
TEST(Contention, RoutesOccupyEveryLink) {
  const std::vector<std::pair<uint32_t, uint32_t>> chain{{0, 1}, {1, 2}, {2, 3}};
  NetBench alone(graph(4, chain));
  alone.stream(0, 0, alone.hbm(0, 0), alone.hbm(3, 0), kPackets, kBytes, 3);
  alone.run();
  const base::Ps one_way = base::ns(500) + 2 * base::ns(200);
  EXPECT_THAT(alone.signals(3), ElementsAre(expected(alone, {10, 1000}, kAll, one_way)));
  for (const char* link : {"link.d0-d1", "link.d1-d2", "link.d2-d3"}) {
    EXPECT_EQ(alone.bytes_of(link), kAll + 4) << link;
  }
  EXPECT_EQ(alone.bytes_of("link.d1-d0"), 0u);

  NetBench b(graph(4, chain));
  b.stream(0, 0, b.hbm(0, 0), b.hbm(3, 0), kPackets, kBytes, 3);
  b.stream(1, 0, b.hbm(1, 0), b.hbm(2, 0), kPackets, kBytes, 2);
  b.run();
  EXPECT_EQ(b.signals(3).back(), base_time(b, {10, 1000}, 2 * kAll + 4, one_way));
  EXPECT_EQ(b.signals(2).back(), expected(b, {10, 1000}, 2 * kAll, base::ns(500)));
}

// spec/collectives.md 2.7.1, with real transfers.
TEST(Contention, AllToAllLoadsEveryLinkOfThePlaneAlike) {
  for (const char* name : {"trn1.32xlarge", "trn2.48xlarge"}) {
    NetBench b(params_of(name));
    for (uint32_t from = 0; from < 16; ++from) {
      auto q = b.queue(from, 0);
      for (uint32_t to = 0; to < 16; ++to) {
        if (to != from) b.copy(q, b.hbm(from, 0), b.hbm(to, 0, kA + from * 0x1000), 1000);
      }
      b.ring(q);
    }
    b.run();
    EXPECT_EQ(b.counters.dma_errors, 0u);
    const auto all = b.links->resources();
    EXPECT_EQ(all.size(), 64u);
    for (const auto* each : all) EXPECT_EQ(each->total_bytes(), 8000u) << each->name();
  }
}

TEST(Contention, PortsOfASwitch) {
  MachineParams p = graph(4, {});
  p.switches.push_back({"main", 1, {10, 1000}, {0, 1, 2, 3}});
  const base::Ps one_way = base::ns(500) + base::ns(250);
  const auto run = [&](std::vector<std::array<uint32_t, 2>> flows) {
    NetBench b(p);
    for (const auto& [from, to] : flows) {
      b.stream(from, to, b.hbm(from, 0), b.hbm(to, 0), kPackets, kBytes, to);
    }
    b.run();
    EXPECT_EQ(b.bytes_of("switch.main.from.d0"), kAll + 4);
    base::Ps last = 0;
    for (uint32_t chip = 0; chip < 4; ++chip) {
      for (const base::Ps time : b.signals(chip)) last = std::max(last, time);
    }
    return last - expected(b, {10, 1000}, 0, one_way);
  };
  EXPECT_EQ(run({{0, 1}}), kAll * 100);
  EXPECT_EQ(run({{0, 1}, {1, 2}, {2, 3}, {3, 0}}), kAll * 100) << "nothing is shared";
  EXPECT_EQ(run({{0, 3}, {1, 3}}), 2 * kAll * 100) << "the port of the receiver";
  NetBench b(p);
  b.stream(0, 0, b.hbm(0, 0), b.hbm(1, 0), kPackets, kBytes, 1);
  b.stream(0, 1, b.hbm(0, 1), b.hbm(2, 0), kPackets, kBytes, 2);
  b.run();
  EXPECT_EQ(b.signals(2).back(), expected(b, {10, 1000}, 2 * kAll, one_way)) << "of the sender";
}

// Latency of each level, and the rates of ports: 256, 320 and 128 GB/s.
TEST(Contention, LevelsOfTheSwitchedFabric) {
  struct Case {
    uint32_t to;
    uint32_t hops, switches;
    std::vector<std::string> used;
  };
  const std::vector<Case> cases{
      {1, 1, 1, {"switch.L1.r0.s0.from.d0", "switch.L1.r0.s0.to.d1"}},
      {5, 1, 1, {"switch.L2.r0.from.d0", "switch.L2.r0.to.d5"}},
      {72, 1, 0, {"link.d0-d72"}},
      {77, 2, 1, {"link.d5-d77", "switch.L2.r0.from.d0", "switch.L2.r0.to.d5"}}};
  for (const Case& c : cases) {
    NetBench b(params_of("trn3-gen2-ultraserver"));
    b.stream(0, 0, b.hbm(0, 0), b.hbm(c.to, 3), kPackets, kBytes, c.to);
    b.run();
    EXPECT_THAT(b.used(), ::testing::UnorderedElementsAreArray(c.used)) << c.to;
    const base::Ps one_way =
        base::ns(500) + (c.hops - 1) * base::ns(200) + c.switches * base::ns(250);
    EXPECT_EQ(b.links->latency(0, c.to), one_way) << c.to;
    const auto* first = b.links->resource(c.used.back());
    EXPECT_EQ(first->rate().time_for(c.to == 72 ? 128 : c.to == 1 ? 256 : 320), 1000u) << c.to;
  }
}

// Copies in one stack read and write it: twice the bytes.
TEST(Contention, ReadsAndWritesShareAStack) {
  MachineParams p = graph(1, {});
  p.timing.hbm_stack = {10, 1000};
  NetBench b(p);
  b.stream(0, 0, b.hbm(0, 0), b.hbm(0, 0, kB), kPackets, kBytes, 0);
  b.run();
  EXPECT_THAT(b.signals(0), ElementsAre(expected(b, {10, 1000}, 2 * kAll, 0)));
  NetBench two(p);
  two.params.timing = p.timing;
  two.stream(0, 0, two.hbm(0, 0), two.hbm(0, 0, kB), kPackets, kBytes, 0);
  two.stream(0, 1, two.hbm(0, 0), two.hbm(0, 0, kC + 0x1000), kPackets, kBytes, 0);
  two.run();
  EXPECT_EQ(two.signals(0).back(), expected(two, {10, 1000}, 4 * kAll, 0));
}

TEST(Efficiency, ScalesRatesExactly) {
  const config::Platform platform = *config::load_platform("trn2.48xlarge");
  config::Timing timing = *config::Timing::load("trn2");
  ASSERT_TRUE(timing.set("link.efficiency=0.55").ok());
  ASSERT_TRUE(timing.set("hbm.efficiency=0.8").ok());
  const MachineParams p = sim::machine_params(platform, timing, {});
  EXPECT_EQ(p.links[0].rate.bytes * 1000, p.links[0].rate.ps * 704 / 10);  // 128 * 0.55
  EXPECT_EQ(p.timing.hbm_stack.bytes * 1000, p.timing.hbm_stack.ps * 580);
  EXPECT_TRUE(timing.unread_overrides().empty());
  config::Timing alone = *config::Timing::load("trn2");
  ASSERT_TRUE(alone.set("link.efficiency=0.5").ok());
  (void)sim::machine_params(*config::load_platform("trn2.3xlarge"), alone, {});
  EXPECT_THAT(alone.unread_overrides(), ElementsAre("link.efficiency")) << "no links, no effect";
}

// spec/collectives.md 2.3, the table as printed: S-engine and direction of core l by position.
TEST(Ports, BelongToTheSEnginesOfTheTable) {
  struct Place {
    uint32_t se[4];
    const char* direction;
  };
  const Place places[2][2] = {{{{2, 3, 1, 0}, "WSEN"}, {{1, 0, 2, 3}, "NWSE"}},
                              {{{0, 1, 3, 2}, "SENW"}, {{3, 2, 0, 1}, "ENWS"}}};
  const MachineParams p = params_of("trn2.48xlarge");
  uint32_t seen = 0;
  // The core whose port leads from one chip to the other.
  const auto core = [&](uint32_t from, uint32_t to, uint8_t owners) {
    const uint32_t row = from / 4;
    const uint32_t column = from % 4;
    const Place& place = places[row % 2][column % 2];
    for (uint32_t l = 0; l < 4; ++l) {
      const char d = place.direction[l];
      const uint32_t r = (row + (d == 'S' ? 1 : d == 'N' ? 3 : 0)) % 4;
      const uint32_t c = (column + (d == 'E' ? 1 : d == 'W' ? 3 : 0)) % 4;
      if (r * 4 + c != to) continue;
      EXPECT_EQ(owners, 1u << place.se[l]) << from << " to " << to;
      ++seen;
      return l;
    }
    return 99u;
  };
  for (const LinkParams& link : p.links) {
    EXPECT_EQ(core(link.a, link.b, link.owners_a) + core(link.b, link.a, link.owners_b), 3u);
  }
  EXPECT_EQ(seen, 64u);
}

// Chip 0 is an even-even place: west is S-engine 2; chip 3, to its west, is even-odd: east is 3.
TEST(Ports, OtherSEnginesAreReachedOverTheChip) {
  const auto used = [](uint32_t from_stack, uint32_t engine, uint32_t to, uint32_t to_stack) {
    NetBench b(params_of("trn2.48xlarge"));
    auto q = b.queue(0, engine);
    b.copy(q, b.hbm(0, from_stack), b.hbm(to, to_stack), kBytes);
    b.ring(q);
    b.run();
    for (const std::string& name : b.used()) EXPECT_EQ(b.bytes_of(name), kBytes) << name;
    return b.used();
  };
  EXPECT_THAT(used(2, 64, 3, 3), ElementsAre("link.d0-d3"));
  EXPECT_THAT(used(2, 64, 3, 2), UnorderedElementsAre("link.d0-d3", "d3.cross3to2"));
  EXPECT_THAT(used(2, 64, 3, 0), UnorderedElementsAre("link.d0-d3", "d3.cross3to0", "d3.die1to0"));
  EXPECT_THAT(used(0, 0, 3, 3), UnorderedElementsAre("link.d0-d3", "d0.cross0to2", "d0.die0to1"));
  EXPECT_THAT(used(0, 64, 3, 3),
              UnorderedElementsAre("link.d0-d3", "d0.cross0to2", "d0.die0to1", "d0.die0to1.reads"))
      << "read by the engine, which has the port";
  // WW: straight through chip 3, in by 3 and out by 0, from one die to the other.
  EXPECT_THAT(used(2, 64, 2, 1),
              UnorderedElementsAre("link.d0-d3", "link.d3-d2", "d3.cross3to0", "d3.die1to0"));
  EXPECT_THAT(used(1, 32, 0, 2), UnorderedElementsAre("d0.cross1to2", "d0.die0to1"));
  EXPECT_THAT(used(1, 32, 0, 0), ElementsAre("d0.cross1to0"));
}

// Reads cross the far chip first.
TEST(Ports, ReadsComeTheOtherWay) {
  NetBench b(params_of("trn2.48xlarge"));
  auto q = b.queue(3, 48);  // S-engine 1
  b.copy(q, b.hbm(0, 0), b.hbm(3, 1), kBytes);
  b.ring(q);
  b.run();
  EXPECT_THAT(b.used(), UnorderedElementsAre("link.d0-d3", "d0.cross0to2", "d0.die0to1",
                                             "d3.cross3to1", "d3.die1to0"));
}

// Left cables (nodes 0-1, 2-3) belong to S-engines 1 and 2, right ones (1-2, 3-0) to 0 and 3.
TEST(Ports, CablesBetweenServersAreTakenOnTheOwnDie) {
  const auto used = [](uint32_t se, uint32_t to) {
    NetBench b(params_of("trn2-ultraserver"));
    auto q = b.queue(0, se * 32);
    b.copy(q, b.hbm(0, se), b.hbm(to, se), kBytes);
    b.ring(q);
    b.run();
    return b.used();
  };
  EXPECT_THAT(used(1, 16), ElementsAre("link.d0-d16"));
  EXPECT_THAT(used(2, 16), ElementsAre("link.d0-d16"));
  EXPECT_THAT(used(0, 16), UnorderedElementsAre("link.d0-d16", "d0.cross0to1", "d16.cross1to0"));
  EXPECT_THAT(used(3, 16), UnorderedElementsAre("link.d0-d16", "d0.cross3to2", "d16.cross2to3"));
  EXPECT_THAT(used(0, 48), ElementsAre("link.d0-d48"));
  EXPECT_THAT(used(2, 48), UnorderedElementsAre("link.d0-d48", "d0.cross2to3", "d48.cross3to2"));
  // Up by a left cable, on by a right one: the node between crosses within the die.
  EXPECT_THAT(used(1, 32), UnorderedElementsAre("link.d0-d16", "link.d16-d32", "d16.cross1to0",
                                                "d32.cross0to1"));
}

// The fabric between two S-engines and between the dies is shared.
TEST(Ports, DiesShareOneWay) {
  MachineParams p = params_of("trn2.3xlarge");
  p.timing.core_fabric = {10, 1000};
  p.timing.die_to_die = {12, 1000};
  p.timing.dma_burst_packets = 0;
  NetBench b(p);
  b.stream(0, 64, b.hbm(0, 0), b.hbm(0, 2), kPackets, kBytes, 0);
  b.stream(0, 96, b.hbm(0, 1), b.hbm(0, 3), kPackets, kBytes, 0);
  b.run();
  // The signals have nothing to cross but what their word does: 4 bytes each way to the engine.
  EXPECT_EQ(b.bytes_of("d0.cross0to2"), kAll + 4);
  EXPECT_EQ(b.bytes_of("d0.die0to1"), 2 * kAll + 8);
  EXPECT_EQ(b.signals(0).back(), expected(b, {12, 1000}, 2 * kAll, 0));
}

// A word behind data takes the same route and is not seen before all of the data is there.
TEST(Order, ASemaphoreWriteFollowsItsData) {
  for (const char* name : {"trn1.32xlarge", "trn2-ultraserver", "trn3-gen2-ultraserver"}) {
    NetBench b(params_of(name));
    const auto chips = static_cast<uint32_t>(b.chips.size());
    const uint32_t to = chips - 2;
    const uint32_t stack = b.map().hbms() - 1;
    // Others in the way.
    b.stream(1, 3, b.hbm(1, 0), b.hbm(to, 0, kB), 200, 4096, 1);
    b.stream(0, 5, b.hbm(0, 0), b.hbm(to, 0, kB), 200, 4096, 1);
    for (uint32_t k = 0; k < 50 * 64; ++k) b.fabric(0).direct(b.hbm(0, 0, kB) + k, 1)[0] = 0x77;
    struct Check final : BusTarget {
      bool access(uint64_t, uint8_t*, size_t, bool write, bool) override {
        complete = complete || (write && data[50 * 64 - 1] == 0x77);
        return true;
      }
      const uint8_t* data = nullptr;
      bool complete = false;
    } check;
    check.data = b.fabric(to).direct(b.hbm(to, stack, kA), 50 * 64);
    ASSERT_TRUE(
        b.fabric(to).map(b.map().nc_semaphores(1), contract::kSemaphoreBlock, check, 0, "sem1"));
    auto q = b.queue(0, 7);
    for (uint32_t k = 0; k < 50; ++k) {
      b.copy(q, b.hbm(0, 0, kB + k * 64), b.hbm(to, stack, kA + k * 64), 64);
    }
    b.copy(q, b.map().hbm_base(0) + kC, b.map().peer_address(to, b.map().nc_semaphores(1)), 4);
    b.ring(q);
    b.run();
    EXPECT_TRUE(check.complete) << name;
    // The links of the route to a register and to memory are the same, whatever die they come from.
    const auto route = b.links->hops(0, to, 0);
    std::vector<const BandwidthResource*> first(route.hops, route.hops + route.count);
    for (uint32_t domain = 0; domain < b.map().hbms(); ++domain) {
      const auto other = b.links->hops(0, to, domain);
      std::vector<const BandwidthResource*> hops;
      for (uint32_t i = 0; i < other.count; ++i) {
        if (other.hops[i]->name()[0] != 'd') hops.push_back(other.hops[i]);
      }
      std::vector<const BandwidthResource*> plain;
      for (const auto* each : first) {
        if (each->name()[0] != 'd') plain.push_back(each);
      }
      EXPECT_EQ(hops, plain);
    }
  }
}

// A link that is down: what has started arrives, what starts later stands still until it is up.
TEST(Faults, ALinkGoesDownAndUp) {
  for (const bool coalesce : {false, true}) {
    NetBench b(graph(3, {{0, 1}, {1, 2}}), coalesce);
    b.stream(0, 0, b.hbm(0, 0), b.hbm(1, 0), kPackets, kBytes, 1);
    const base::Ps middle = b.params.timing.dma_fetch + kAll * 100 / 2 + 1;
    b.at_time(middle, [&b] { ASSERT_TRUE(b.links->set_up(1, 0, false)); });
    b.run();
    // Ten packets had ended, the eleventh was on its way.
    EXPECT_EQ(b.bytes_of("link.d0-d1"), 11 * kBytes) << coalesce;
    EXPECT_THAT(b.signals(1), IsEmpty());
    std::vector<std::string> lines;
    b.chips[0]->dma.who_waits(lines);
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_NE(lines[0].find("not connected"), std::string::npos);
    EXPECT_EQ(b.counters.dma_errors, 0u);

    b.stream(1, 0, b.hbm(1, 0), b.hbm(2, 0), kPackets, kBytes, 2);  // other links work
    b.run();
    EXPECT_EQ(b.signals(2).size(), 1u);

    ASSERT_TRUE(b.links->set_up(0, 1, true));
    b.run();
    EXPECT_EQ(b.bytes_of("link.d0-d1"), kAll + 4);
    EXPECT_EQ(b.signals(1).size(), 1u);
    lines.clear();
    b.chips[0]->dma.who_waits(lines);
    EXPECT_THAT(lines, IsEmpty());
  }
}

bool set_up(Links& links, const char* name, bool up) {
  const auto ends = links.ends_of(name);
  return ends && links.set_up(ends->first, ends->second, up);
}

// Reads need the way back, and routes that pass the link are lost with it; a reset frees a queue.
TEST(Faults, RoutesAreFixed) {
  NetBench b(graph(4, {{0, 1}, {1, 2}, {2, 3}, {3, 0}}));
  const bool by_one = b.links->hops(0, 2, 0).hops[0] == b.links->resource("link.d0-d1");
  EXPECT_FALSE(b.links->set_up(0, 2, false)) << "no such link";
  ASSERT_TRUE(set_up(*b.links, by_one ? "link.d2-d1" : "link.d2-d3", false));
  EXPECT_EQ(b.fabric(0).reach(b.hbm(2, 0), 4), Space::kNoLink) << "though the ring has another way";
  EXPECT_EQ(b.fabric(0).reach(b.hbm(by_one ? 1 : 3, 0), 4), Space::kHbm);
  auto q = b.queue(0, 0);
  b.copy(q, b.hbm(2, 0), b.hbm(0, 0, kB), kBytes);
  b.ring(q);
  b.run();
  b.chips[0]->dma.reset_engine(0);
  q = b.queue(0, 0);
  b.copy(q, b.hbm(by_one ? 1 : 3, 0), b.hbm(0, 0, kB), kBytes);
  b.ring(q);
  b.run();
  EXPECT_EQ(b.bytes_of(by_one ? "link.d1-d0" : "link.d3-d0"), kBytes);
  ASSERT_TRUE(set_up(*b.links, by_one ? "link.d1-d2" : "link.d3-d2", true));
  EXPECT_EQ(b.fabric(0).reach(b.hbm(2, 0), 4), Space::kHbm);
}

// Processors learn at once that a store has no answer; what a DMA engine had sent arrives.
TEST(Faults, StoresThatSetOutAreBusErrors) {
  NetBench b(graph(2, {{0, 1}}));
  const uint32_t value = 7;
  const base::ConstByteSpan word{reinterpret_cast<const uint8_t*>(&value), 4};
  EXPECT_TRUE(b.fabric(0).store(b.semaphore(1), word));
  auto q = b.queue(0, 0);
  b.copy(q, b.map().hbm_base(0) + kA, b.semaphore(1), 4);
  b.ring(q);
  b.at_time(b.params.timing.dma_fetch + 2000, [&b] { ASSERT_TRUE(b.links->set_up(0, 1, false)); });
  EXPECT_FALSE(b.fabric(0).store(b.semaphore(1), word));
  EXPECT_EQ(b.signals(1).size(), 1u);
  b.run();
  EXPECT_EQ(b.signals(1).size(), 2u);
  EXPECT_EQ(b.counters.dma_errors, 0u);
  ASSERT_TRUE(b.links->set_up(0, 1, true));
  EXPECT_TRUE(b.fabric(0).store(b.semaphore(1), word));
}

TEST(Faults, PortsOfSwitchesToo) {
  MachineParams p = graph(3, {});
  p.switches.push_back({"main", 1, {10, 1000}, {0, 1, 2}});
  NetBench b(p);
  ASSERT_TRUE(b.links->set_up(b.links->switch_vertex(0), 1, false));
  EXPECT_EQ(b.fabric(0).reach(b.hbm(1, 0), 4), Space::kNoLink);
  EXPECT_EQ(b.fabric(0).reach(b.hbm(2, 0), 4), Space::kHbm);
}

TEST(Peers, WithoutARouteAreBusErrors) {
  NetBench b(graph(4, {{0, 1}, {2, 3}}));
  EXPECT_EQ(b.fabric(0).reach(b.hbm(2, 0), 4), Space::kNone);
  EXPECT_EQ(b.fabric(0).reach(b.hbm(9, 0), 4), Space::kNone);
  auto q = b.queue(0, 0);
  b.copy(q, b.hbm(0, 0), b.hbm(2, 0), 64);
  b.ring(q);
  b.run();
  EXPECT_EQ(b.counters.dma_errors, 1u);
}

}  // namespace
}  // namespace hw
