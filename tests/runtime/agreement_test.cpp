// Programs of ranks that do not fit together, and what is said about it.
#include "runtime/load/agreement.h"

#include <gtest/gtest.h>

#include "runtime/nrt/status.h"

namespace nrt {
namespace {

ProgramSummary::Operation operation(const std::string& text, neff::RankList ranks) {
  return {text, "plan", std::move(ranks)};
}

ProgramSummary program(const std::vector<std::string>& texts, const neff::RankList& ranks) {
  ProgramSummary summary;
  for (const std::string& text : texts) {
    summary.sequence.push_back(static_cast<uint32_t>(summary.operations.size()));
    summary.operations.push_back(operation(text, ranks));
  }
  return summary;
}

std::string difference(const std::vector<ProgramSummary>& ranks) {
  std::vector<ProgramSummary> sent;
  for (const ProgramSummary& rank : ranks) sent.push_back(*decode_summary(encode(rank)));
  const base::Status status = check_agreement(sent);
  if (status.ok()) return "";
  EXPECT_EQ(status_of(status.error()), NRT_FAILURE);
  return status.error().what;
}

TEST(Agreement, EqualPrograms) {
  EXPECT_EQ(difference({program({"a", "b"}, {0, 1}), program({"a", "b"}, {0, 1})}), "");
  EXPECT_EQ(fingerprint(program({"a"}, {0, 1})), fingerprint(program({"a"}, {2, 3})));
}

TEST(Agreement, TheFirstDifferenceIsNamed) {
  EXPECT_EQ(
      difference({program({"a", "b"}, {0, 1}), program({"a", "c"}, {0, 1})}),
      "collective 1 of 2 differs: rank 0 has b; rank 1 has c. Check if ranks 0 and 1 are using "
      "the same neff");
  EXPECT_EQ(
      difference({program({"a", "b"}, {0, 1}), program({"b", "a"}, {0, 1})}),
      "collective 0 of 2 differs: rank 0 has a; rank 1 has b. Check if ranks 0 and 1 are using "
      "the same neff");
}

TEST(Agreement, NumbersOfCollectives) {
  EXPECT_EQ(difference({program({"a"}, {0, 1, 2}), program({"a"}, {0, 1, 2}),
                        program({"a", "a"}, {0, 1, 2})}),
            "mismatching number of cc ops, expected 1 received 2. Check if ranks 0 and 2 are using "
            "the same neff");
}

TEST(Agreement, AGroupThatOneSideHas) {
  const std::string what =
      difference({program({"one list"}, {0, 1, 2, 3}), program({"one list"}, {0, 1, 2, 3}),
                  program({"two lists"}, {2, 3}), program({"two lists"}, {2, 3})});
  EXPECT_NE(what.find("rank 0 has one list; rank 2 has two lists"), std::string::npos);
}

TEST(Agreement, GroupsMayDoDifferentThings) {
  EXPECT_EQ(difference({program({"a"}, {0, 1}), program({"a"}, {0, 1}), program({"b"}, {2, 3}),
                        program({"b"}, {2, 3})}),
            "");
}

TEST(Agreement, RepetitionsAndPlans) {
  ProgramSummary first = program({"a", "b"}, {0, 1});
  ProgramSummary second = first;
  first.sequence = {0, 1, 0};
  second.sequence = {0, 1, 1};
  EXPECT_NE(difference({first, second}).find("collective 2 of 3 differs"), std::string::npos);
  second = first;
  second.operations[1].plan = "other";
  EXPECT_NE(difference({first, second}).find("collective 1 of 3 (b) is carried out"),
            std::string::npos);
}

TEST(Agreement, MalformedSummaries) {
  const ccl::Blob good = encode(program({"a", "b"}, {0, 1}));
  ASSERT_TRUE(decode_summary(good).ok());
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(decode_summary({good.begin(), good.begin() + static_cast<long>(size)}).ok());
  }
  for (size_t at = 0; at + 4 <= good.size(); at += 4) {
    ccl::Blob bad = good;
    bad[at + 3] = 0xFF;  // a length or an index that is out of range, or a harmless text
    (void)decode_summary(bad);
  }
  ProgramSummary unknown = program({"a"}, {0});
  unknown.sequence.push_back(1);
  EXPECT_FALSE(decode_summary(encode(unknown)).ok());
}

}  // namespace
}  // namespace nrt
