// Which routes transfers take, and how evenly they load the links.
#include "hw/link/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "arch/config/platform.h"
#include "arch/config/timing.h"
#include "sim/machine_params.h"

namespace hw {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Loads = std::map<std::pair<uint32_t, uint32_t>, uint32_t>;

MachineParams params_of(const std::string& name) {
  const config::Platform platform = *config::load_platform(name);
  return sim::machine_params(platform, *config::Timing::load(platform.timing), {});
}

Router router_of(const MachineParams& p) {
  return {p.routes, static_cast<uint32_t>(p.chips.size()), p.links, p.switches};
}

// Units on each direction when every chip sends one to every other; all ways are walked.
Loads all_to_all(const Router& router, uint32_t chips) {
  Loads loads;
  for (uint32_t from = 0; from < chips; ++from) {
    const auto ways = router.routes(from);
    EXPECT_EQ(ways.size(), chips);
    EXPECT_THAT(ways[from], IsEmpty());
    for (uint32_t to = 0; to < chips; ++to) {
      if (to == from) continue;
      EXPECT_GE(ways[to].size(), 2u) << from << " to " << to;
      if (ways[to].empty()) continue;
      EXPECT_EQ(ways[to].front(), from);
      EXPECT_EQ(ways[to].back(), to);
      for (size_t i = 1; i < ways[to].size(); ++i) {
        EXPECT_TRUE(router.joined(ways[to][i - 1], ways[to][i]));
        ++loads[{ways[to][i - 1], ways[to][i]}];
      }
    }
  }
  return loads;
}

void expect_all(const Loads& loads, size_t directions, uint32_t units) {
  EXPECT_EQ(loads.size(), directions);
  for (const auto& [ends, load] : loads) {
    EXPECT_EQ(load, units) << ends.first << " to " << ends.second;
  }
}

TEST(Router, EveryChipOfEveryPlatformReachesEveryOther) {
  for (const std::string& name : config::platform_names()) {
    SCOPED_TRACE(name);
    const MachineParams p = params_of(name);
    all_to_all(router_of(p), static_cast<uint32_t>(p.chips.size()));
  }
}

// spec/collectives.md 2.7.1: "each of the 64 directed links carries exactly 8 units"; first and
// last moves split 4/4/4/3.
TEST(Router, PlaneOfSixteen) {
  for (const char* name : {"trn1.32xlarge", "trn2.48xlarge"}) {
    const MachineParams p = params_of(name);
    const Router router = router_of(p);
    expect_all(all_to_all(router, 16), 64, 8);
    const auto ways = router.routes(5);  // row 1, column 1
    EXPECT_THAT(ways[6], ElementsAre(5, 6));
    EXPECT_THAT(ways[7], ElementsAre(5, 4, 7)) << "WW";
    EXPECT_THAT(ways[15], ElementsAre(5, 9, 13, 14, 15)) << "SSEE";
    EXPECT_THAT(ways[0], ElementsAre(5, 1, 0)) << "NW";
    EXPECT_THAT(ways[3], ElementsAre(5, 1, 2, 3)) << "NEE";
    EXPECT_THAT(ways[11], ElementsAre(5, 4, 7, 11)) << "WWS";
  }
}

// Every plane sends what its 16 chips have for 4 planes over its own links first; then each of the
// 16 columns carries, per direction, 16 times (1 + 1) units.
TEST(Router, TorusOfSixtyFour) {
  const MachineParams p = params_of("trn2-ultraserver");
  const Router router = router_of(p);
  const Loads loads = all_to_all(router, 64);
  EXPECT_EQ(loads.size(), 384u);
  for (const auto& [ends, load] : loads) EXPECT_EQ(load, 32u) << ends.first << " " << ends.second;
  const auto ways = router.routes(5);
  EXPECT_THAT(ways[16 + 6], ElementsAre(5, 6, 16 + 6)) << "the plane first";
  EXPECT_THAT(ways[32 + 5], ElementsAre(5, 16 + 5, 32 + 5)) << "even servers go up";
  EXPECT_THAT(router.routes(16 + 5)[48 + 5], ElementsAre(16 + 5, 5, 48 + 5)) << "odd ones down";
}

// Distances 1 to 5 both ways, and half of the pairs at distance 6 each route.
TEST(Router, RingAndChain) {
  const MachineParams ring = params_of("inf2.48xlarge");
  expect_all(all_to_all(router_of(ring), 12), 24, 1 + 2 + 3 + 4 + 5 + 3);
  const MachineParams chain = params_of("inf2.24xlarge");
  EXPECT_THAT(router_of(chain).routes(4)[1], ElementsAre(4, 3, 2, 1));
}

// spec/platforms.md 7.6.
TEST(Router, RulesOfTheSwitchedFabric) {
  const MachineParams p = params_of("trn3-gen2-ultraserver");
  const Router router = router_of(p);
  const auto switch_of = [&](const char* name) {
    uint32_t k = 144;
    while (p.switches[k - 144].name != name) ++k;
    return k;
  };
  const auto ways = router.routes(1);
  EXPECT_THAT(ways[3], ElementsAre(1, switch_of("L1.r0.s0"), 3));
  EXPECT_THAT(ways[71], ElementsAre(1, switch_of("L2.r0"), 71));
  EXPECT_THAT(ways[72 + 1], ElementsAre(1, 72 + 1));
  EXPECT_THAT(ways[72 + 50], ElementsAre(1, switch_of("L2.r0"), 50, 72 + 50));
  EXPECT_THAT(ways[72 + 2], ElementsAre(1, switch_of("L2.r0"), 2, 72 + 2)) << "as written";
  const Loads loads = all_to_all(router, 144);
  EXPECT_EQ(loads.at({1, 73}), 72u) << "one to each of the other rack, for each of this one";
}

// A link of a torus that is not there: the rest is still reached.
TEST(Router, MissingLinksAreGoneRound) {
  MachineParams p = params_of("trn2.48xlarge");
  p.links.erase(std::remove_if(p.links.begin(), p.links.end(),
                               [](const LinkParams& l) { return l.a == 0 && l.b == 1; }),
                p.links.end());
  const Router router = router_of(p);
  all_to_all(router, 16);
  EXPECT_EQ(router.routes(0)[1].size(), 4u);
}

TEST(Router, GraphsTakeTheFewestHopsThenTheFewestSwitches) {
  // 0 - 1 - 2 by links, 0 and 2 on a switch; 3 hangs on 2; 4 stands alone.
  const std::vector<LinkParams> links{{0, 1, {1, 1}}, {1, 2, {1, 1}}, {2, 3, {1, 1}}};
  const std::vector<SwitchParams> switches{{"s", 1, {1, 1}, {0, 2}}, {"t", 1, {1, 1}, {0, 1}}};
  const Router router({}, 5, links, switches);
  const auto ways = router.routes(0);
  EXPECT_THAT(ways[1], ElementsAre(0, 1)) << "not over switch t";
  EXPECT_THAT(ways[2], ElementsAre(0, 5, 2)) << "one hop, not two";
  EXPECT_THAT(ways[3], ElementsAre(0, 5, 2, 3));
  EXPECT_THAT(ways[4], IsEmpty());
  EXPECT_THAT(router.routes(4), ::testing::Each(IsEmpty()));
}

// Equal ways are used in turn: between two rows of a ladder every rung carries its part.
TEST(Router, EqualWaysTakeTurns) {
  std::vector<LinkParams> links;
  constexpr uint32_t kMiddle = 4;  // chips 8..11 join 0..3 with 4..7
  for (uint32_t end = 0; end < 8; ++end) {
    for (uint32_t m = 0; m < kMiddle; ++m) links.push_back({end, 8 + m, {1, 1}});
  }
  const Router router({}, 12, links, {});
  Loads loads;
  for (uint32_t from = 0; from < 4; ++from) {
    const auto ways = router.routes(from);
    for (uint32_t to = 4; to < 8; ++to) {
      ASSERT_EQ(ways[to].size(), 3u);
      ++loads[{ways[to][0], ways[to][1]}];
      ++loads[{ways[to][1], ways[to][2]}];
    }
  }
  expect_all(loads, 32, 1);
  EXPECT_EQ(router.routes(0), router.routes(0)) << "always the same";
}

TEST(Router, RefusesWhatCannotBe) {
  const std::vector<LinkParams> far{{0, 2, {1, 1}}};
  EXPECT_THROW(Router({}, 2, far, {}), std::invalid_argument);
  EXPECT_THROW(Router({}, 2, {}, {{"s", 1, {1, 1}, {0, 2}}}), std::invalid_argument);
  EXPECT_THROW(Router({}, 2, {{0, 1, {1, 1}}, {1, 0, {1, 1}}}, {}), std::invalid_argument);
  RouteParams torus;
  torus.rule = RouteParams::Rule::kTorus;
  torus.dims = {2};
  torus.coords = {{0}, {0}};
  EXPECT_THROW(Router(torus, 2, {}, {}), std::invalid_argument);
  torus.coords = {{0}, {2}};
  EXPECT_THROW(Router(torus, 2, {}, {}), std::invalid_argument);
  torus.coords = {{0}, {1}};
  EXPECT_NO_THROW(Router(torus, 2, {{0, 1, {1, 1}}}, {}));
  torus.coords = {};
  EXPECT_THROW(Router(torus, 2, {}, {}), std::invalid_argument) << "a torus has coordinates";
}

// Two switches of level 1 that join the same four chips.
MachineParams two_switches() {
  MachineParams p;
  p.chips.resize(4);
  p.routes.rule = RouteParams::Rule::kSwitched;
  for (const char* name : {"s0", "s1"}) p.switches.push_back({name, 1, {1, 1}, {0, 1, 2, 3}});
  return p;
}

TEST(SwitchPort, FirstOrInTurns) {
  MachineParams p = two_switches();
  EXPECT_THAT(router_of(p).routes(1)[2], ElementsAre(1, 4, 2));
  p.routes.switch_port = RouteParams::Switch::kSpread;
  EXPECT_THAT(router_of(p).routes(1)[2], ElementsAre(1, 5, 2));
  EXPECT_THAT(router_of(p).routes(1)[3], ElementsAre(1, 4, 3));
}

TEST(SwitchPort, ChosenByOthers) {
  struct Choice : soma::SwitchChoice {
    size_t choose(uint32_t from, uint32_t to, const std::vector<uint32_t>& switches) override {
      EXPECT_THAT(switches, ElementsAre(4, 5));
      return from > to ? 1 : from == 1 ? 2 : 0;
    }
  };
  MachineParams p = two_switches();
  p.routes.switch_choice = [](const soma::Topology&) { return std::make_unique<Choice>(); };
  EXPECT_THAT(router_of(p).routes(2)[1], ElementsAre(2, 5, 1));
  EXPECT_THROW((void)router_of(p).routes(1), std::runtime_error) << "there is no third switch";
}

TEST(Routing, ChosenByOthers) {
  struct Detour : soma::Routing {
    explicit Detour(const soma::Topology& t) : topology(t) {}
    std::vector<uint32_t> route(uint32_t from, uint32_t to) override {
      EXPECT_EQ(topology.chips(), 16u);
      EXPECT_EQ(topology.dimensions(), (std::vector<uint32_t>{4, 4}));
      EXPECT_EQ(topology.coordinates(6), (std::vector<uint32_t>{1, 2}));
      if (from == 0 && to == 1) return {0, 4, 5, 1};
      if (from == 0 && to == 2) return {};
      if (from == 1) return {1, to};  // chips that are not joined, too
      return {from, to};
    }
    const soma::Topology& topology;
  };
  MachineParams p = params_of("trn2.48xlarge");
  const Router own = router_of(p);
  p.routes.routing = [](const soma::Topology& t) { return std::make_unique<Detour>(t); };
  p.chips.resize(16);
  const Router router = router_of(p);
  EXPECT_THROW((void)router.routes(1), std::runtime_error);
  MachineParams two = p;
  two.routes.routing = [](const soma::Topology&) {
    struct Some : soma::Routing {
      std::vector<uint32_t> route(uint32_t from, uint32_t to) override {
        return from == 0 && to == 1 ? std::vector<uint32_t>{0, 4, 5, 1} : std::vector<uint32_t>{};
      }
    };
    return std::make_unique<Some>();
  };
  const Router other = router_of(two);
  EXPECT_THAT(other.routes(0)[1], ElementsAre(0, 4, 5, 1));
  EXPECT_EQ(other.routes(0)[2], own.routes(0)[2]) << "what it leaves to us";
}

}  // namespace
}  // namespace hw
