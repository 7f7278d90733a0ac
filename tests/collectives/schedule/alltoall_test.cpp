#include "runtime/collectives/schedule/alltoall.h"

#include "tests/collectives/schedule/checks.h"

namespace ccl {
namespace {

constexpr size_t kMostEvents = 16;
constexpr uint64_t kBlocks[] = {0, 2, 66, 1024};

TEST(AllToAll, DirectAndPairwise) {
  for (const NamedGroup& named : published_groups()) {
    for (const uint64_t bytes : kBlocks) {
      if (named.group.ranks() > kSmallGroup && bytes != 66) continue;
      expect_valid(mesh, named, OpKind::kAllToAll, bytes, false, kMostEvents);
      expect_valid(pairwise, named, OpKind::kAllToAll, bytes, false, kMostEvents);
    }
  }
}

TEST(AllToAll, ByChips) {
  for (const NamedGroup& named : published_groups()) {
    for (const uint64_t bytes : kBlocks) {
      if (named.group.ranks() > kSmallGroup && bytes != 66) continue;
      expect_valid(chip_all_to_all, named, OpKind::kAllToAll, bytes, false, kMostEvents);
    }
  }
}

TEST(AllToAll, ByChipsInSeveralPrograms) {
  const Topology gen2 = switched_topology(8, 18, 4);
  const NamedGroup group{"gen2: 20 chips LNC=1", group_of_chips(gen2, count_from(0, 20))};
  expect_valid(chip_all_to_all, group, OpKind::kAllToAll, 130, false, kMostEvents);
}

}  // namespace
}  // namespace ccl
