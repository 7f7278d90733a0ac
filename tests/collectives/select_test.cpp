#include <gtest/gtest.h>

#include "runtime/collectives/ccl.h"

namespace ccl {
namespace {

OpRequest all_reduce(uint64_t bytes) {
  return {OpKind::kAllReduce, DType::kBf16, ReduceOp::kAdd, bytes, bytes};
}

TEST(Select, SmallMessagesTakeTheSingleStep) {
  EXPECT_EQ(*select(all_reduce(1024), 2, false, ""), Algorithm::kMesh);
  EXPECT_EQ(*select(all_reduce(64 << 10), 2, false, ""), Algorithm::kMesh);
  EXPECT_EQ(*select(all_reduce(1 << 20), 2, false, ""), Algorithm::kRing);
  EXPECT_EQ(*select(all_reduce(1024), 17, false, ""), Algorithm::kRing);
}

TEST(Select, InPlaceAllReduceTakesTheRing) {
  EXPECT_EQ(*select(all_reduce(1024), 2, true, ""), Algorithm::kRing);
}

TEST(Select, OverridesByName) {
  EXPECT_EQ(*select(all_reduce(1024), 2, false, "allr:ring"), Algorithm::kRing);
  EXPECT_EQ(*select(all_reduce(1 << 30), 2, false, "allg:ring,all_reduce:mesh"), Algorithm::kMesh);
  EXPECT_EQ(*select(all_reduce(1024), 2, false, "allg:ring"), Algorithm::kMesh);
}

TEST(Select, BadOverridesNameTheChoices) {
  for (const char* text : {"allr", "allr:tree", "bcast:ring", "allr:", ",", "allg:foo,allr:ring"}) {
    const auto r = select(all_reduce(1024), 2, false, text);
    ASSERT_FALSE(r) << text;
    EXPECT_EQ(r.error().code, kNrtInvalid);
    EXPECT_FALSE(r.error().what.empty());
  }
}

TEST(Validate, RefusesWhatTheTableForbids) {
  OpRequest r = all_reduce(1024);
  EXPECT_TRUE(validate(r, 2));
  r.output_bytes = 512;
  EXPECT_FALSE(validate(r, 2));
  r = all_reduce(1023);
  EXPECT_FALSE(validate(r, 2));
  r = all_reduce(1024);
  r.op = ReduceOp::kFma;
  EXPECT_EQ(validate(r, 2).error().fault, base::Fault::kUnsupported);
  r.op = static_cast<ReduceOp>(15);
  EXPECT_EQ(validate(r, 2).error().code, kNrtInvalid);
  r = all_reduce(1024);
  r.dtype = DType::kInvalid;
  EXPECT_FALSE(validate(r, 2));
  r = {OpKind::kAllGather, DType::kInt8, static_cast<ReduceOp>(15), 10, 30};
  EXPECT_TRUE(validate(r, 3));
  EXPECT_FALSE(validate(r, 2));
  r = {OpKind::kReduceScatter, DType::kInt8, ReduceOp::kMax, 31, 10};
  EXPECT_FALSE(validate(r, 3));
  EXPECT_FALSE(validate(all_reduce(0), 0));
}

TEST(Groups, AreCheckedAsTheTableSays) {
  EXPECT_TRUE(validate_groups({{0, 1}}, 2));
  EXPECT_TRUE(validate_groups({{1, 3}, {2, 0}}, 4));
  for (const std::vector<std::vector<uint32_t>>& bad :
       std::vector<std::vector<std::vector<uint32_t>>>{
           {}, {{}}, {{0, 0}}, {{0, 2}}, {{0, 1}, {1, 2}}, {{0}, {1, 2}}}) {
    const auto status = validate_groups(bad, bad.size() > 1 ? 3 : 2);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, kNrtInvalid);
  }
}

TEST(Groups, ARankInNoListGetsThePublicText) {
  const auto r = group_of({{1, 2}}, 0);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code, kNrtResource);
  EXPECT_EQ(r.error().what, "replica groups ([1,2]) does not have myself 0");
  EXPECT_EQ(*group_of({{1, 2}, {0, 3}}, 3), 1u);
}

}  // namespace
}  // namespace ccl
