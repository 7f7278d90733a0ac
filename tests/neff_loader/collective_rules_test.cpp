// Collectives in programs: every kind is read, and each of their rules (spec/neff.md 1.10, 4.6) is
// kept.
#include <gtest/gtest.h>

#include "neff_loader/asm.h"
#include "neff_loader/pack.h"
#include "tests/neff_loader/rules.h"

namespace neff {
namespace {

using test::Case;
using test::example;
using test::expect_error;
using test::expect_refused;
using test::kDef;
using test::loaded;
using test::Members;
using test::packed;
using test::replace;

class CollectiveRules : public testing::TestWithParam<Case> {};

TEST_P(CollectiveRules, AreEnforced) {
  const Case& c = GetParam();
  Members members = example("allreduce_two_ranks");
  replace(members, c.member, c.from, c.to);
  expect_refused(members, c.rule);
}

constexpr char kPool[] = "sg00/pool.s";
const Case kCollectiveCases[] = {
    {"B-04", kPool, "dst_var_id=4", "dst_var_id=5"},
    {"C-11", kPool, "group_id=0", "group_id=1"},
    {"C-11", kDef, "[ [ [0, 1] ] ]", "[ [ [0, 1], [1, 2] ] ]"},
    {"C-11", kDef, "[ [ [0, 1] ] ]", "[ [ [0, -1] ] ]"},
    {"C-11", kDef, "[ [ [0, 1] ] ]", "7"},
    {"C-15", kPool, "stream_id=0", "stream_id=4"},
    {"C-16", kPool, "src0_pattern=[1][1024]", "src0_pattern=[1][1025]"},
    {"C-16", kPool, "src0_pattern=[1][1024]", "src0_pattern=[2][512]"},
    {"C-16", kPool, "dst_var_offset=0", "dst_var_offset=4"},
    {"C-16", kPool, "src0_shape_reg=0", "src0_shape_reg=1"},
};
INSTANTIATE_TEST_SUITE_P(Collective, CollectiveRules, testing::ValuesIn(kCollectiveCases));

TEST(CollectiveContext, Rules) {
  const Neff neff = loaded(packed(example("allreduce_two_ranks")));
  expect_error(check_context(neff, {}).error(), "C-10", 2);
  expect_error(check_context(neff, {true, 0, 1}).error(), "C-11", 2);
  Members others = example("allreduce_two_ranks");
  replace(others, kDef, "[ [ [0, 1] ] ]", "[ [ [1, 2] ] ]");
  replace(others, kDef, "\"participants\": 2", "\"participants\": 3");
  const base::Status status = check_context(loaded(packed(others)), {true, 0, 3});
  ASSERT_FALSE(status.ok());
  expect_error(status.error(), "C-12", 4);
  EXPECT_NE(status.error().what.find("replica groups ([1, 2]) does not have myself 0"),
            std::string::npos);
  Members world = example("allreduce_two_ranks");
  replace(world, kDef, "\"participants\": 2", "\"participants\": 4");
  expect_error(check_context(loaded(packed(world)), {true, 0, 2}).error(), "C-11", 2);
}

TEST(CollectiveContext, SizesFollowTheKind) {
  const auto status_of = [](const char* kind, const char* from, const char* to) {
    Members members = example("allreduce_two_ranks");
    replace(members, kPool, "ALL_REDUCE", kind);
    replace(members, kPool, "src0_pattern=[1][1024]", from);
    replace(members, kPool, "dst_pattern=[1][1024]", to);
    return check_context(loaded(packed(members)), {true, 1, 2});
  };
  EXPECT_TRUE(status_of("ALL_GATHER", "src0_pattern=[1][512]", "dst_pattern=[1][1024]").ok());
  expect_error(status_of("ALL_GATHER", "src0_pattern=[1][1024]", "dst_pattern=[1][1024]").error(),
               "C-16", 2);
  EXPECT_TRUE(
      status_of("REDUCE_SCATTER", "src0_pattern=[1,512][512,2]", "dst_pattern=[1][512]").ok());
  expect_error(
      status_of("REDUCE_SCATTER", "src0_pattern=[1][1023]", "dst_pattern=[1][511]").error(), "C-16",
      2);
  expect_error(status_of("ALL_REDUCE", "src0_pattern=[1][1024]", "dst_pattern=[1][1023]").error(),
               "C-16", 2);
  expect_error(status_of("ALL_TO_ALL", "src0_pattern=[1][5]", "dst_pattern=[1][5]").error(), "C-16",
               2);
  EXPECT_TRUE(status_of("ALL_TO_ALL", "src0_pattern=[1][6]", "dst_pattern=[1][6]").ok());
}

// The example as another kind: what follows dst_pattern, and the pairs of its group.
base::Result<Neff> as_kind(const std::string& kind, const std::string& more,
                           const char* pairs = "null") {
  Members members = example("allreduce_two_ranks");
  replace(members, kPool, "ALL_REDUCE", kind.c_str());
  replace(members, kPool, "dst_pattern=[1][1024]", ("dst_pattern=[1][1024] " + more).c_str());
  replace(members, kDef, "\"source_target_pairs\": [ null ]",
          (std::string("\"source_target_pairs\": [ ") + pairs + " ]").c_str());
  auto file = pack(members, {});
  if (!file) return file.error();
  return load(*file);
}

TEST(Collectives, EveryKindIsReadAndWrittenAsText) {
  constexpr const char* kKinds[] = {
      "ALL_REDUCE",       "ALL_GATHER", "REDUCE_SCATTER", "ALL_TO_ALL",       "PERMUTE",
      "PERMUTE_IMPLICIT", "SEND_RECV",  "ALL_GATHER_V",   "REDUCE_SCATTER_V", "BROADCAST",
      "REDUCE",           "BARRIER",    "ALL_TO_ALL_V"};
  for (const std::string kind : kKinds) {
    const bool variable = kind.size() > 2 && kind.substr(kind.size() - 2) == "_V";
    const auto neff = as_kind(kind, variable ? "metadata_var_id=1" : "");
    ASSERT_TRUE(neff.ok()) << kind << ": " << neff.error().message();
    const auto text = disassemble(neff->archive->find("sg00/pool.bin")->data);
    ASSERT_TRUE(text.ok());
    EXPECT_NE(text->find("ctype=" + kind), std::string::npos) << *text;
  }
}

TEST(Collectives, WhatSomeKindsHaveBesides) {
  const auto reduced =
      as_kind("PERMUTE_REDUCE", "src1_var_id=1 src1_var_offset=0", "[[0,1],[1,0]]");
  ASSERT_TRUE(reduced.ok()) << reduced.error().message();
  const CollectiveOp& op = reduced->subgraphs[0].collectives[0];
  EXPECT_EQ(reduced->subgraphs[0].variables[*op.second_source].name, "x");
  EXPECT_EQ(reduced->subgraphs[0].cc.groups[0].source_target_pairs.size(), 2u);
  EXPECT_TRUE(check_context(*reduced, {true, 1, 2}).ok());
  expect_error(as_kind("PERMUTE_REDUCE", "src1_var_id=9").error(), "B-04", 2);
  expect_error(as_kind("PERMUTE_REDUCE", "src1_var_id=1 src1_var_offset=4").error(), "C-16", 2);

  const auto v = as_kind("ALL_TO_ALL_V", "metadata_var_id=2 has_rdispls=1 recv_counts_known=1");
  ASSERT_TRUE(v.ok()) << v.error().message();
  const CollectiveOp& variable = v->subgraphs[0].collectives[0];
  EXPECT_EQ(v->subgraphs[0].variables[*variable.metadata].name, "y");
  EXPECT_EQ(variable.metadata_rows(), 4u);
  EXPECT_TRUE(variable.receive_counts_known);
  EXPECT_TRUE(check_context(*v, {true, 1, 2}).ok());
  expect_error(as_kind("ALL_TO_ALL_V", "metadata_var_id=9").error(), "B-04", 2);

  const auto barrier = as_kind("BARRIER", "");
  ASSERT_TRUE(barrier.ok()) << barrier.error().message();
  EXPECT_EQ(barrier->subgraphs[0].collectives[0].source_bytes, 0u);
  EXPECT_EQ(barrier->subgraphs[0].collectives[0].destination_bytes, 0u);

  const auto rooted = as_kind("BROADCAST", "root=1");
  ASSERT_TRUE(rooted.ok()) << rooted.error().message();
  EXPECT_EQ(rooted->subgraphs[0].collectives[0].root, 1u);
  EXPECT_TRUE(check_context(*rooted, {true, 0, 2}).ok());
  const auto outside = as_kind("REDUCE", "root=2");
  ASSERT_TRUE(outside.ok()) << outside.error().message();
  expect_error(check_context(*outside, {true, 0, 2}).error(), "C-11", 2);
  // Operands of another kind.
  EXPECT_FALSE(as_kind("ALL_REDUCE", "root=1").ok());
  EXPECT_FALSE(as_kind("PERMUTE", "metadata_var_id=1").ok());
  EXPECT_FALSE(as_kind("BROADCAST", "src1_var_id=1").ok());
}

TEST(Collectives, PairsAreOfTheGroupAndDistinct) {
  const auto status_of = [](const char* pairs) {
    const auto neff = as_kind("PERMUTE", "", pairs);
    EXPECT_TRUE(neff.ok());
    return check_context(*neff, {true, 0, 2});
  };
  EXPECT_TRUE(status_of("[[0,1],[1,0]]").ok());
  EXPECT_TRUE(status_of("[[1,1]]").ok());
  expect_error(status_of("null").error(), "C-11", 2);
  expect_error(status_of("[[0,2]]").error(), "C-11", 2);
  expect_error(status_of("[[0,1],[0,0]]").error(), "C-11", 2);
  expect_error(status_of("[[0,1],[1,1]]").error(), "C-11", 2);
}

}  // namespace
}  // namespace neff
