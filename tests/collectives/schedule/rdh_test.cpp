#include "tests/collectives/schedule/checks.h"

namespace ccl {
namespace {

constexpr size_t kMostEvents = 24;

bool eligible(const NamedGroup& named) {
  return static_cast<bool>(
      rdh(request_of(OpKind::kAllGather, named.group.ranks(), 64), named.group, {}));
}

TEST(Rdh, AllSubCubesOperationsAndSizes) {
  std::string refused;
  for (const NamedGroup& named : published_groups()) {
    if (eligible(named)) {
      expect_reductions_valid(rdh, named, kMostEvents);
    } else {
      refused += named.name + "; ";
    }
  }
  EXPECT_EQ(refused, "trn2 three chips; inf2 chain; inf2 ring; ");
}

TEST(Rdh, LargeMessagesGoInTwoHalves) {
  for (const NamedGroup& named : published_groups()) {
    if (!eligible(named) || named.group.ranks() > kLargeGroup) continue;
    for (const bool in_place : {false, true}) {
      if (in_place && named.group.ranks() > kSmallGroup) continue;
      expect_valid(rdh, named, OpKind::kAllGather, 65538, in_place, kMostEvents);
      expect_valid(rdh, named, OpKind::kReduceScatter, 65538, in_place, kMostEvents);
      expect_valid(rdh, named, OpKind::kAllReduce, 65538ull * named.group.ranks(), in_place,
                   kMostEvents);
    }
  }
}

}  // namespace
}  // namespace ccl
