// KangaRing on Trn2 (both LNC), an UltraServer and Trn3.
#include <gtest/gtest.h>

#include <set>

#include "tests/collectives/schedule/groups.h"

namespace ccl {
namespace {

const std::vector<OpKind> kThree = {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter};

void check_sizes(const Group& group, const std::vector<uint64_t>& sizes,
                 const ScheduleOptions& base = {}) {
  for (const OpKind kind : kThree) {
    for (const uint64_t bytes : sizes) {
      for (const bool in_place : {false, true}) {
        ScheduleOptions options = base;
        options.in_place = in_place;
        const OpRequest request = request_of(kind, group.ranks(), bytes);
        EXPECT_EQ(problem(kangaring(request, group, options), options), "")
            << to_string(kind) << " of " << bytes << " bytes, in place " << in_place;
      }
    }
  }
}

TEST(KangaRing, NodeOfTrn2) {
  check_sizes(whole(torus(Gen::kV3, 4)), {130, 1 << 20});
}

TEST(KangaRing, RowsOfTrn2) {
  const Platform p = torus(Gen::kV3, 4);
  check_sizes(group_of_ranks(p, 0, 16), {0, 2, 62, 64, 66, 16 * 64 + 2, 100000, 1 << 24});
  check_sizes(group_of_ranks(p, 16, 32), {66, 1 << 20});
}

TEST(KangaRing, FourRanksPerGroupAtLnc1) {
  const Platform p = torus(Gen::kV3, 8);
  check_sizes(group_of_ranks(p, 32, 32), {0, 66, 100000, 1 << 24});
}

TEST(KangaRing, ManySlices) {
  ScheduleOptions options;
  options.slot_bytes = 4096;
  check_sizes(group_of_ranks(torus(Gen::kV3, 4), 0, 16), {(1 << 20) + 2}, options);
}

TEST(KangaRing, ChannelsOnOneCore) {
  ScheduleOptions options;
  options.slot_bytes = 4096;
  const Group row = group_of_ranks(torus(Gen::kV3, 4), 0, 16);
  for (const OpKind kind : kThree) {
    const Schedule schedule = *kangaring(request_of(kind, 16, (1 << 20) + 66), row, options);
    EXPECT_TRUE(verify(on_one_core(schedule)).ok()) << to_string(kind);
  }
}

TEST(KangaRing, Racks) {
  check_sizes(whole(racks(2)), {1 << 20});
}

TEST(KangaRing, UltraServer) {
  const Group group = whole(torus(Gen::kV3, 4, 2, true));
  EXPECT_EQ(problem(kangaring(request_of(OpKind::kAllGather, 128, 1 << 20), group, {}), {}), "");
}

TEST(KangaRing, RefusesOtherGroups) {
  const OpRequest r4 = request_of(OpKind::kAllReduce, 4, 4096);
  const Platform trn2 = torus(Gen::kV3, 4);
  for (const Group& group : {whole(one_chip(Gen::kV3, 4)), group_of_ranks(trn2, 0, 4, 4),
                             group_of_ranks(trn2, 0, 8), whole(torus(Gen::kV2, 2)),
                             whole(torus(Gen::kV3, 4, 2)), whole(torus(Gen::kV3, 8, 4, true))}) {
    const base::Result<Schedule> schedule = kangaring(r4, group, {});
    ASSERT_FALSE(schedule.ok());
    EXPECT_EQ(schedule.error().fault, base::Fault::kUnsupported);
  }
}

// 2.15: 15.5 C per directed link and operation.
TEST(KangaRing, LoadsEveryLinkAlike) {
  const Platform p = torus(Gen::kV3, 4);
  const uint64_t chunk = 1 << 20;
  const std::pair<OpKind, uint64_t> loads[] = {{OpKind::kAllReduce, chunk * 31},
                                               {OpKind::kAllGather, chunk * 31 / 2},
                                               {OpKind::kReduceScatter, chunk * 31 / 2}};
  for (const auto& [kind, load] : loads) {
    const auto links = link_loads(*kangaring(request_of(kind, 64, 64 * chunk), whole(p), {}), p);
    EXPECT_EQ(links.size(), 64u);
    for (const auto& [link, bytes] : links) EXPECT_EQ(bytes, load) << to_string(kind);
  }
}

// 2.6: reads and writes of memory per chunk, without the copy of the own chunk.
TEST(KangaRing, AccessesOfTheSpecification) {
  const Group group = whole(torus(Gen::kV3, 4));
  const uint64_t chunk = 1 << 16;
  const uint64_t m = 32;
  const std::pair<OpKind, uint64_t> expected[] = {{OpKind::kAllGather, 3 * (m - 1) + 2},
                                                  {OpKind::kReduceScatter, 4 * m - 1}};
  for (const auto& [kind, accesses] : expected) {
    ScheduleOptions options;
    options.in_place = true;
    const Schedule schedule = *kangaring(request_of(kind, 64, 64 * chunk), group, options);
    EXPECT_EQ(accesses_of(schedule), 64 * chunk * accesses) << to_string(kind);
  }
}

// 2.6: the primaries of channels 0 and 1 are all ranks, each once.
TEST(KangaRing, EachRankWorksInHalfOfTheChannels) {
  const Group group = whole(torus(Gen::kV3, 4));
  const Schedule schedule = *kangaring(request_of(OpKind::kAllGather, 64, 1 << 24), group, {});
  const std::set<uint32_t> channel_0 = {1,  2,  5,  7,  8,  10, 13, 14, 29, 30, 25,
                                        27, 20, 23, 36, 38, 53, 54, 49, 51, 60, 62,
                                        57, 58, 41, 42, 45, 47, 32, 35, 16, 18};
  for (uint32_t r = 0; r < 64; ++r) {
    std::set<uint32_t> works;
    for (const Step& s : schedule.steps(r)) {
      if (s.destinations.size() > 1) works.insert(s.channel);
    }
    const uint32_t first = channel_0.count(r) != 0 ? 0 : 1;
    EXPECT_EQ(works, (std::set<uint32_t>{first, first + 2}));
  }
}

}  // namespace
}  // namespace ccl
