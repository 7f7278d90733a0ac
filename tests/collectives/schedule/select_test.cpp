#include "runtime/collectives/schedule/select.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "tests/collectives/schedule/groups.h"
#include "tests/collectives/schedule/msccl_programs.h"

namespace ccl {
namespace {

using testing::HasSubstr;

constexpr uint64_t kMB = 1000 * 1000;

std::string chosen(const Group& group, OpKind kind, uint64_t bytes,
                   const std::string& override_text = "") {
  const OpRequest request = request_of(kind, group.ranks(), bytes);
  const auto schedule = make_schedule(request, group, {}, override_text);
  return schedule ? to_string(schedule->shape.algorithm) : schedule.error().message();
}

class File {
 public:
  explicit File(const std::string& text) {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = testing::TempDir() + "select_" + test->name();
    std::ofstream(path_) << text;
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The published limits of a Trn2 node.
TEST(Select, FollowsTheTableOfTrn2) {
  const Platform node = torus(Gen::kV3, 4);
  const Group all = whole(node);
  EXPECT_EQ(chosen(all, OpKind::kAllReduce, 128 * 1024), "mesh");
  EXPECT_EQ(chosen(all, OpKind::kAllReduce, kMB - 64), "mesh");
  EXPECT_EQ(chosen(all, OpKind::kAllReduce, kMB), "rdh");
  EXPECT_EQ(chosen(all, OpKind::kAllGather, 56 * kMB), "rdh");
  EXPECT_EQ(chosen(all, OpKind::kReduceScatter, 57 * kMB), "kangaring");
  const Group row = group_of_ranks(node, 0, 16);
  EXPECT_EQ(chosen(row, OpKind::kAllReduce, 128 * 1024), "mesh");
  EXPECT_EQ(chosen(row, OpKind::kAllReduce, 2 << 20), "rdh");
  EXPECT_EQ(chosen(row, OpKind::kAllReduce, 32 << 20), "kangaring");
  EXPECT_EQ(chosen(group_of_ranks(node, 0, 4), OpKind::kAllReduce, 4 * kMB), "mesh");
  EXPECT_EQ(chosen(group_of_ranks(node, 0, 4), OpKind::kAllReduce, 5 * kMB), "ring");
  EXPECT_EQ(chosen(group_of_ranks(node, 1, 16, 4), OpKind::kAllReduce, 1024), "ring");
}

TEST(Select, FollowsTheTablesOfOtherPlatforms) {
  const Platform trn1 = torus(Gen::kV2, 2);
  EXPECT_EQ(chosen(whole(trn1), OpKind::kAllReduce, 4 << 20), "mesh");
  EXPECT_EQ(chosen(whole(trn1), OpKind::kAllReduce, (4 << 20) + 64), "ring");
  EXPECT_EQ(chosen(whole(one_chip(Gen::kV2, 2)), OpKind::kAllReduce, 1 << 20), "ring");
  EXPECT_EQ(chosen(whole(one_chip(Gen::kV2, 2)), OpKind::kAllReduce, 1 << 16), "mesh");
  EXPECT_EQ(chosen(whole(row_of_chips(6, false)), OpKind::kAllGather, kMB), "ring");
  EXPECT_EQ(chosen(whole(racks(2)), OpKind::kAllReduce, 4 * kMB), "mesh");
  EXPECT_EQ(chosen(whole(racks(2)), OpKind::kAllReduce, 65 * kMB), "kangaring");
  const Platform nodes = torus(Gen::kV2, 2, 2);
  EXPECT_EQ(chosen(whole(nodes), OpKind::kAllReduce, 16 * kMB + 64), "flatring");
  EXPECT_EQ(chosen(whole(torus(Gen::kV3, 4, 4, true)), OpKind::kAllGather, kMB), "hier");
}

// The first choice is not eligible.
TEST(Select, FallsBackToWhatIsEligible) {
  const Platform node = torus(Gen::kV3, 4);
  // Three chips of a row are no cycle, and three ranks of a chip no whole chip.
  EXPECT_EQ(chosen(group_of_ranks(node, 0, 12), OpKind::kAllReduce, kMB), "ring");
  EXPECT_EQ(chosen(group_of_ranks(node, {0, 1, 2, 4, 5, 6}), OpKind::kAllReduce, 9 * kMB), "ring");
  // Too many chips for a mesh and ranks for a KangaRing.
  EXPECT_EQ(chosen(whole(racks(18)), OpKind::kAllReduce, kMB), "hier");
  for (const OpKind kind : {OpKind::kBroadcast, OpKind::kReduce, OpKind::kBarrier}) {
    EXPECT_EQ(chosen(whole(node), kind, 1024), "tree");
  }
  EXPECT_EQ(chosen(whole(racks(2)), OpKind::kAllToAll, 64 * kMB), "mesh");
}

TEST(Select, WhatIsChosenWorks) {
  for (const Platform& p : {one_chip(Gen::kV3, 4), torus(Gen::kV2, 2), row_of_chips(6, false),
                            racks(2), torus(Gen::kV2, 2, 2)}) {
    for (const OpKind kind :
         {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter, OpKind::kAllToAll,
          OpKind::kBroadcast, OpKind::kReduce, OpKind::kBarrier}) {
      for (const bool in_place : {false, true}) {
        if (in_place && (kind == OpKind::kAllToAll || kind == OpKind::kBarrier)) continue;
        ScheduleOptions options;
        options.in_place = in_place;
        const Group group = whole(p);
        const OpRequest request = request_of(kind, group.ranks(), 70000);
        EXPECT_EQ(problem(make_schedule(request, group, options, ""), options), "")
            << p.name << " " << to_string(kind) << (in_place ? " in place" : "");
      }
    }
  }
}

TEST(Select, OverridesByName) {
  const Group pair = whole(one_chip(Gen::kV2, 2));
  EXPECT_EQ(chosen(pair, OpKind::kAllReduce, 1024, "allr:ring"), "ring");
  EXPECT_EQ(chosen(pair, OpKind::kAllReduce, 64 * kMB, "allg:ring,all_reduce:mesh"), "mesh");
  EXPECT_EQ(chosen(pair, OpKind::kAllReduce, 1024, "allg:ring"), "mesh");
  EXPECT_EQ(chosen(pair, OpKind::kAllReduce, 1024, "allr:mesh,allr:tree"), "tree");
  EXPECT_EQ(chosen(pair, OpKind::kAllToAll, 1024, "alltoall:pairwise"), "pairwise");
  EXPECT_EQ(chosen(whole(torus(Gen::kV3, 4)), OpKind::kReduceScatter, 1024, "redsct:kangaring"),
            "kangaring");
  EXPECT_EQ(chosen(whole(torus(Gen::kV2, 2, 2)), OpKind::kAllGather, 64 * kMB, "allg:hier"),
            "hier");
  // One rank per chip is no KangaRing: an override does not fall back.
  EXPECT_THAT(chosen(group_of_ranks(torus(Gen::kV3, 4), 0, 16, 4), OpKind::kAllReduce, 1024,
                     "allr:kangaring"),
              HasSubstr("kangaring"));
}

TEST(Select, BadOverridesNameTheChoices) {
  for (const char* text : {"allr", "allr:", "allr:bruck", "sum:ring", ",", "allr:ring,", ":ring",
                           "table:/nonexistent", "msccl:/nonexistent", "table:"}) {
    const base::Result<Overrides> r = load_overrides(text);
    ASSERT_FALSE(r) << text;
    EXPECT_EQ(r.error().code, kNrtInvalid);
    EXPECT_FALSE(r.error().what.empty());
  }
  EXPECT_THAT(load_overrides("allr:bruck").error().what, HasSubstr("kangaring"));
  EXPECT_TRUE(load_overrides(""));
}

TEST(Select, ATableOfTheUserComesFirst) {
  const File file(R"({"rules": [
    {"op": ["allr", "all_gather"], "platform": "trn1", "ranks": 2, "below_bytes": 100,
     "algorithm": "ring"},
    {"op": "allr", "min_bytes": 1000, "in_place": false, "nodes": 1, "chips": 1,
     "algorithm": "tree"},
    {"algorithm": "rdh", "platform": "trn3"}]})");
  const std::string table = "table:" + file.path();
  const Group pair = whole(one_chip(Gen::kV2, 2));
  EXPECT_EQ(chosen(pair, OpKind::kAllReduce, 64, table), "ring");
  EXPECT_EQ(chosen(pair, OpKind::kAllGather, 64, table), "ring");
  EXPECT_EQ(chosen(pair, OpKind::kAllReduce, 100, table), "mesh");
  EXPECT_EQ(chosen(pair, OpKind::kAllReduce, 1000, table), "tree");
  EXPECT_EQ(chosen(pair, OpKind::kAllReduce, 1000, table + ",allr:ring"), "ring");
  EXPECT_EQ(chosen(whole(torus(Gen::kV2, 2)), OpKind::kAllReduce, 1000, table), "mesh");
}

TEST(Select, BadTablesNameTheRule) {
  const auto refusal = [](const std::string& text) {
    const auto rules = parse_table(text, "t.json");
    return rules ? std::string("accepted") : rules.error().message();
  };
  EXPECT_EQ(refusal("{"), "t.json: no valid JSON");
  EXPECT_THAT(refusal("[]"), HasSubstr("the list 'rules'"));
  EXPECT_THAT(refusal(R"({"rules": [], "x": 1})"), HasSubstr("nothing else"));
  EXPECT_THAT(refusal(R"({"rules": [1]})"), HasSubstr("rule 0: a rule must be an object"));
  EXPECT_THAT(refusal(R"({"rules": [{"algorithm": "ring"}, {}]})"),
              HasSubstr("rule 1: a rule without 'algorithm'"));
  EXPECT_THAT(refusal(R"({"rules": [{"algorithm": "bruck"}]})"), HasSubstr("available: ring"));
  EXPECT_THAT(refusal(R"({"rules": [{"algorithm": 1}]})"), HasSubstr("available: ring"));
  EXPECT_THAT(refusal(R"({"rules": [{"op": "x"}]})"), HasSubstr("expected all_reduce"));
  EXPECT_THAT(refusal(R"({"rules": [{"op": []}]})"), HasSubstr("empty list"));
  EXPECT_THAT(refusal(R"({"rules": [{"platform": "gpu"}]})"), HasSubstr("trn1, inf2"));
  EXPECT_THAT(refusal(R"({"rules": [{"ranks": -1}]})"), HasSubstr("whole number"));
  EXPECT_THAT(refusal(R"({"rules": [{"ranks": 4294967296}]})"), HasSubstr("too large"));
  EXPECT_THAT(refusal(R"({"rules": [{"in_place": 1}]})"), HasSubstr("true or false"));
  EXPECT_THAT(refusal(R"({"rules": [{"size": 1}]})"), HasSubstr("unknown key 'size'"));
  EXPECT_THAT(refusal(R"({"rules": [{"algorithm": "ring", "min_bytes": 5, "below_bytes": 5}]})"),
              HasSubstr("min_bytes >= below_bytes"));
}

TEST(Select, ImportedProgramsComeFirst) {
  const File file(msccl_ring(2, false));
  const std::string entry = "allr:mesh,msccl:" + file.path();
  const Group pair = whole(one_chip(Gen::kV2, 2));
  EXPECT_EQ(chosen(pair, OpKind::kAllReduce, 1024, entry), "msccl");
  EXPECT_EQ(chosen(pair, OpKind::kAllReduce, 1026, entry), "mesh");  // no two equal chunks
  EXPECT_EQ(chosen(pair, OpKind::kAllGather, 1024, entry), "mesh");
  const File bad("<algo/>");
  EXPECT_THAT(chosen(pair, OpKind::kAllReduce, 64, "msccl:" + bad.path()), HasSubstr("missing"));
}

TEST(Select, ADirectoryIsNoFile) {
  const std::string directory = testing::TempDir();
  for (const char* kind : {"table:", "msccl:"}) {
    const base::Result<Overrides> r = load_overrides(kind + directory);
    ASSERT_FALSE(r);
    EXPECT_EQ(r.error().code, kNrtInvalid);
    EXPECT_EQ(r.error().message(), directory + ": cannot read: Is a directory");
  }
}

TEST(Select, RefusesIllegalGroups) {
  const Platform nodes = torus(Gen::kV3, 4, 4, true);
  EXPECT_THAT(chosen(group_of_ranks(nodes, {0, 1, 64}), OpKind::kAllReduce, 1024),
              HasSubstr("is not symmetric"));
  OpRequest request = request_of(OpKind::kPermute, 4, 1024);
  request.pairs = {{0, 1}, {1, 2}};
  const auto open = make_schedule(request, whole(one_chip(Gen::kV3, 4)), {}, "");
  ASSERT_FALSE(open);
  EXPECT_THAT(open.error().what, HasSubstr("open chain"));
  request.pairs = {{0, 1}, {1, 0}};
  EXPECT_TRUE(make_schedule(request, whole(one_chip(Gen::kV3, 4)), {}, ""));
}

TEST(Select, StrictTakesPublishedGroupsOnly) {
  const Group three = group_of_ranks(torus(Gen::kV3, 4), 0, 3);
  const OpRequest request = request_of(OpKind::kAllReduce, 3, 1024);
  ScheduleOptions options;
  EXPECT_TRUE(make_schedule(request, three, options, ""));
  options.strict = true;
  const auto refused = make_schedule(request, three, options, "");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, kNrtInvalid);
  EXPECT_THAT(refused.error().what, HasSubstr("of 3 ranks on trn2; legal sizes: 1, 2, 4, 8"));
  const Group one = group_of_ranks(torus(Gen::kV3, 4), 0, 4);
  EXPECT_TRUE(make_schedule(request_of(OpKind::kAllGatherV, 4, 1024), one, options, ""));
  const auto variable = make_schedule(request_of(OpKind::kAllToAllV, 4, 1024), one, options, "");
  ASSERT_FALSE(variable);
  EXPECT_THAT(variable.error().what, HasSubstr("one on each of several nodes"));
}

}  // namespace
}  // namespace ccl
