#include "tests/collectives/schedule/checks.h"

namespace ccl {
namespace {

constexpr size_t kMostEvents = 16;

TEST(Mesh, AllGroupsOperationsAndSizes) {
  for (const NamedGroup& named : published_groups()) {
    expect_reductions_valid(mesh, named, kMostEvents);
  }
}

}  // namespace
}  // namespace ccl
