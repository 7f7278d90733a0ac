// What every schedule must pass.
#pragma once

#include <gtest/gtest.h>

#include "runtime/collectives/schedule/algorithms.h"
#include "runtime/collectives/schedule/verify.h"
#include "tests/collectives/schedule/mesh_groups.h"

namespace ccl {

using MakeSchedule = base::Result<Schedule> (*)(const OpRequest&, const Group&,
                                                const ScheduleOptions&);

// `bytes`: of a chunk; of the buffer for an all-reduce. `most_events`: of all channels.
inline void expect_valid(MakeSchedule make, const NamedGroup& named, OpKind kind, uint64_t bytes,
                         bool in_place, size_t most_events) {
  ScheduleOptions options;
  options.in_place = in_place;
  const auto schedule = make(request_of(kind, named.group.ranks(), bytes), named.group, options);
  SCOPED_TRACE(named.name + " " + to_string(kind) + " " + std::to_string(bytes) +
               (in_place ? " in place" : ""));
  ASSERT_TRUE(schedule) << schedule.error().what;
  EXPECT_LE(schedule->shape.events.size(), most_events);
  EXPECT_LE(schedule->shape.channels, options.max_channels);
  for (uint32_t r = 0; r < named.group.ranks(); ++r) {
    for (const Step& step : schedule->steps(r)) {
      ASSERT_LE(step.bytes, schedule->shape.largest_step);
    }
  }
  const base::Status status = verify(*schedule);
  EXPECT_TRUE(status) << status.error().what;
}

// Large groups take long to check: fewer sizes.
constexpr uint32_t kSmallGroup = 16;
constexpr uint32_t kLargeGroup = 32;

// Chunks around the cuts, and all-reduce buffers of uneven and empty chunks.
inline void expect_reductions_valid(MakeSchedule make, const NamedGroup& named,
                                    size_t most_events) {
  const uint64_t n = named.group.ranks();
  const bool small = n <= kSmallGroup;
  std::vector<uint64_t> chunks = {1026};
  std::vector<uint64_t> buffers = {64 * n / 2 + 2, 40000};
  if (small) chunks.insert(chunks.end(), {2, 64});
  if (small) buffers.insert(buffers.end(), {0, 2, 64, 64 * n, 64 * n + 2});
  for (const bool in_place : {false, true}) {
    for (const uint64_t chunk : chunks) {
      if (n <= kLargeGroup || !in_place) {
        expect_valid(make, named, OpKind::kAllGather, chunk, in_place, most_events);
      }
      if (n <= kLargeGroup || in_place) {
        expect_valid(make, named, OpKind::kReduceScatter, chunk, in_place, most_events);
      }
    }
    if (n > kLargeGroup) buffers.resize(1);
    for (const uint64_t bytes : buffers) {
      expect_valid(make, named, OpKind::kAllReduce, bytes, in_place, most_events);
    }
  }
}

}  // namespace ccl
