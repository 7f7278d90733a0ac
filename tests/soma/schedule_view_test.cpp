// What the picture of a schedule shows, on platforms of every kind.
#include "tools/soma/schedule_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>

#include "arch/config/timing.h"
#include "runtime/collectives/schedule/crossings.h"
#include "runtime/collectives/schedule/verify.h"
#include "tests/collectives/schedule/samples.h"

namespace soma {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr size_t kMostElements = 600;

// A ring over all ranks of a platform, one after the other, and what is shown of it.
class Shown {
 public:
  explicit Shown(const std::string& name, const ccl::Sample* sample = nullptr)
      : platform(*config::load_platform(name)),
        routes(*sim::routes(platform, *config::Timing::load(platform.timing))) {
    const uint32_t cores = platform.chip.cores / platform.chip.lnc_default;
    group.topology.cores = cores;
    const auto chips = static_cast<uint32_t>(platform.chips.size());
    const uint32_t ranks = sample != nullptr ? sample->shape.ranks : chips * cores;
    for (uint32_t r = 0; r < ranks; ++r) {
      const config::Chip& at = platform.chips[r / cores];
      group.members.push_back({r, at.node, at.id, at.local_id, r % cores, r % cores});
    }
    schedule =
        sample != nullptr ? sample->schedule() : ccl::ring_all_reduce(ranks, 64, 8).schedule();
    loads = schedule_loads(schedule, group, routes);
    view = *schedule_view(platform, group, schedule, routes, loads);
  }

  config::Platform platform;
  sim::RouteTable routes;
  ccl::Group group;
  ccl::Schedule schedule;
  std::map<Link, uint64_t> loads;
  ScheduleView view;
};

size_t elements(const std::string& svg) {
  size_t out = 0;
  for (size_t i = 0; i + 1 < svg.size(); ++i) {
    out += svg[i] == '<' && svg[i + 1] != '/' ? 1 : 0;
  }
  return out;
}

class OnPlatform : public testing::TestWithParam<const char*> {};

TEST_P(OnPlatform, LinksCarryWhatTheScheduleMoves) {
  const Shown shown(GetParam());
  const Links& links = shown.view.links;
  uint64_t most = 0;
  for (const auto& [link, bytes] : shown.loads) {
    most = std::max(most, bytes);
    EXPECT_EQ(links.bytes.at(link), bytes);
  }
  if (!shown.view.on_chip) {
    EXPECT_EQ(links.most, most);
    EXPECT_EQ(links.busy, shown.loads.size());
    EXPECT_EQ(shown.loads.at(links.busiest), most);
    size_t all = 2 * shown.platform.edges.size();
    for (const config::Switch& each : shown.platform.switches) all += 2 * each.members.size();
    EXPECT_EQ(links.bytes.size(), all);
  }
  EXPECT_EQ(links.bytes.at(links.busiest), links.most);
}

TEST_P(OnPlatform, TheSliceGoesRoundTheRingTwiceOverLinksThatExist) {
  const Shown shown(GetParam());
  const uint32_t ranks = shown.group.ranks();
  const SliceWay& way = shown.view.way;
  ASSERT_EQ(way.hops, 2 * (ranks - 1));
  ASSERT_EQ(way.moves.size(), way.hops);
  for (uint32_t i = 0; i < way.hops; ++i) {
    EXPECT_EQ(way.moves[i].hop, i + 1);
    EXPECT_EQ(way.moves[i].from, i % ranks);
    EXPECT_EQ(way.moves[i].to, (i + 1) % ranks);
    for (const Link& link : way.moves[i].links) EXPECT_NE(shown.view.links.bytes.count(link), 0u);
  }
}

TEST_P(OnPlatform, EveryPlaceOfADrawnUnitIsApartFromTheOthers) {
  const Shown shown(GetParam());
  size_t drawn = 0;
  for (const Unit& unit : shown.view.units) {
    std::set<std::pair<double, double>> spots;
    for (const uint32_t p : unit.places) {
      const Place& place = shown.view.places[p];
      EXPECT_TRUE(spots.emplace(place.x, place.y).second) << place.name;
      EXPECT_LT(place.x, unit.columns);
      EXPECT_LT(place.y, unit.rows);
    }
    drawn += unit.drawn ? 1 + unit.alike.size() : 0;
  }
  EXPECT_EQ(drawn == shown.view.units.size(), shown.view.hidden.empty());
}

TEST_P(OnPlatform, ThePictureStaysSmall) {
  const Shown shown(GetParam());
  const std::string svg = schedule_svg(shown.view);
  EXPECT_LE(elements(svg), kMostElements);
  EXPECT_EQ(svg, schedule_svg(shown.view));
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_THAT(svg, HasSubstr("busiest: "));
}

INSTANTIATE_TEST_SUITE_P(Kinds, OnPlatform,
                         testing::Values("trn1.2xlarge", "inf2.24xlarge", "inf2.48xlarge",
                                         "trn1.32xlarge", "trn2.48xlarge", "trn2-ultraserver",
                                         "trn3-gen2-server", "trn3-gen1-server",
                                         "trn3-gen1-ultraserver"));

TEST(ScheduleView, TellsARingsOrderAndItsSteps) {
  const Shown shown("trn1.32xlarge");
  ASSERT_EQ(shown.view.orders.size(), 1u);
  EXPECT_EQ(shown.view.orders[0].form, Order::Form::kCircles);
  EXPECT_EQ(shown.view.orders[0].text,
            "ring of 16 chips: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 and round again");
  EXPECT_EQ(shown.view.orders[0].arrows.size(), 16u);
  // One signal, 32 folds or copies, 30 copies, and the last wait.
  const StepTable& steps = shown.view.steps;
  EXPECT_EQ(steps.title, "rank 0, channel 0: 64 of the rank's 64 steps");
  EXPECT_EQ(steps.first[1].text, "send");
  EXPECT_EQ(steps.first[1].peer, "to rank 1");
  EXPECT_EQ(steps.first[1].waits, "signal of rank 1");
  EXPECT_EQ(steps.first[2].text, "reduce 2, send");
  EXPECT_EQ(steps.first[2].bytes, "64");
  EXPECT_EQ(steps.first[2].waits, "bytes of rank 31, signal of rank 1");
  EXPECT_EQ(steps.between, "44 more alike: 19 x 'reduce 2, send', 25 x 'send'");
  EXPECT_EQ(steps.last.back().text, "wait");
}

TEST(ScheduleView, TellsWhatAMeshIs) {
  const ccl::Sample sample = ccl::mesh_all_gather(32, 64);
  const Shown shown("trn1.32xlarge", &sample);
  ASSERT_EQ(shown.view.orders.size(), 1u);
  EXPECT_EQ(shown.view.orders[0].form, Order::Form::kPeers);
  EXPECT_EQ(shown.view.orders[0].text,
            "each of 16 chips gives to 15 others; drawn: those of chip 0");
  EXPECT_EQ(shown.view.orders[0].arrows.size(), 15u);
  EXPECT_EQ(shown.view.way.hops, 1u);
  EXPECT_EQ(shown.view.way.moves.size(), 31u);
  EXPECT_EQ(shown.view.way.slice, "channel 0: 64 B at byte 0 of the input of rank 0");
  // 2.7.1 loads all links alike: 2 x 2 pairs of ranks for each of 8 pairs of chips.
  EXPECT_EQ(shown.view.links.most, 8 * 4 * 64u);
  EXPECT_EQ(shown.view.links.sum, 64 * 8 * 4 * 64u);
}

TEST(ScheduleView, ANewSliceInTheSamePlaceIsAnother) {
  // The partial sums of six chunks go through the same two slots.
  const ccl::Sample sample = ccl::ring_all_reduce(6, 64, 2);
  const Shown shown("trn1.32xlarge", &sample);
  EXPECT_EQ(shown.view.way.moves.size(), 10u);
}

TEST(ScheduleView, LeavesOutNodesThatAreAlike) {
  const ccl::Sample ring = ccl::ring_all_reduce(9 * 16, 64, 2);
  const Shown shown("trn3-gen2-ultraserver", &ring);
  ASSERT_EQ(shown.view.units.size(), 9u);
  EXPECT_EQ(shown.view.units[0].alike.size(), 8u);
  EXPECT_FALSE(shown.view.units[1].drawn);
  EXPECT_EQ(shown.view.hidden, "");
  EXPECT_THAT(schedule_svg(shown.view), HasSubstr("node 0 (8 alike)"));
}

// Node k sends k times as much: no two are alike.
TEST(ScheduleView, SaysHowManyNodesAreMissing) {
  ccl::Sample sample = ccl::ring_all_reduce(9 * 16, 64, 2);
  for (uint32_t r = 0; r < 9 * 16; ++r) {
    ccl::Step more;
    more.bytes = 64;
    more.sources = {ccl::Range{r, ccl::Buffer::kInput, 0}};
    more.destinations = {ccl::Range{r ^ 4, ccl::Buffer::kOutput, 0}};
    sample.ranks[r].insert(sample.ranks[r].end(), r / 16, more);
  }
  const Shown shown("trn3-gen2-ultraserver", &sample);
  std::vector<std::string> drawn;
  for (const Unit& unit : shown.view.units) {
    if (unit.drawn) drawn.push_back(unit.name);
  }
  EXPECT_THAT(drawn, ElementsAre("node 0", "node 1", "node 2", "node 8"));  // 8 is the busiest
  EXPECT_EQ(shown.view.hidden, "5 more nodes carry other loads and are not drawn");
}

TEST(ScheduleView, TextIsEscaped) {
  Shown shown("trn1.2xlarge");
  shown.view.title = "a < b & \"c\"";
  EXPECT_THAT(schedule_svg(shown.view), HasSubstr("a &lt; b &amp; &quot;c&quot;"));
}

TEST(ScheduleView, ABrokenScheduleIsAnError) {
  const ccl::Sample good = ccl::ring_all_reduce(2, 64, 2);
  const Shown shown("trn1.2xlarge", &good);
  ccl::Sample bad = good;
  bad.ranks[0][1].destinations[0].rank = 9;
  const auto view =
      schedule_view(shown.platform, shown.group, bad.schedule(), shown.routes, shown.loads);
  ASSERT_FALSE(view);
  EXPECT_THAT(view.error().message(), HasSubstr("rank 0 step 1"));
}

}  // namespace
}  // namespace soma

// The library of the simulation kernel wants it; nothing of it runs. Weak: sim's may be linked.
extern "C" __attribute__((weak, visibility("default"))) int sc_main(int, char**) {
  return 0;
}
