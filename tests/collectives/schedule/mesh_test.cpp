#include <gtest/gtest.h>

#include "runtime/collectives/schedule/algorithms.h"
#include "runtime/collectives/schedule/verify.h"
#include "tests/collectives/schedule/mesh_groups.h"

namespace ccl {
namespace {

void check(const NamedGroup& named, OpKind kind, uint64_t bytes, bool in_place) {
  ScheduleOptions options;
  options.in_place = in_place;
  const OpRequest request = request_of(kind, named.group.ranks(), bytes);
  const auto schedule = mesh(request, named.group, options);
  SCOPED_TRACE(named.name + " " + to_string(kind) + " " + std::to_string(bytes) +
               (in_place ? " in place" : ""));
  ASSERT_TRUE(schedule) << schedule.error().what;
  EXPECT_LE(schedule->shape.events.size(), 16u);
  EXPECT_EQ(schedule->shape.channels, 1u);
  const base::Status status = verify(*schedule);
  EXPECT_TRUE(status) << status.error().what;
}

TEST(Mesh, AllGroupsOperationsAndSizes) {
  for (const NamedGroup& named : published_groups()) {
    const uint64_t n = named.group.ranks();
    for (const bool in_place : {false, true}) {
      for (const uint64_t chunk : {uint64_t{2}, uint64_t{64}, uint64_t{1026}}) {
        check(named, OpKind::kAllGather, chunk, in_place);
        check(named, OpKind::kReduceScatter, chunk, in_place);
      }
      for (const uint64_t bytes :
           {uint64_t{2}, uint64_t{64}, 64 * n, 64 * n + 2, uint64_t{40000}}) {
        check(named, OpKind::kAllReduce, bytes, in_place);
      }
      check(named, OpKind::kAllReduce, 0, in_place);
    }
  }
}

}  // namespace
}  // namespace ccl
