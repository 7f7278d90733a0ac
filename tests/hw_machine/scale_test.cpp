#include <malloc.h>

#include <chrono>
#include <fstream>

#include "tests/hw_machine/machine_bench.h"

namespace {

using contract::Gen;
using hw_test::MachineBench;

uint64_t resident_mib() {
  std::ifstream statm("/proc/self/statm");
  uint64_t total = 0;
  uint64_t resident = 0;
  statm >> total >> resident;
  return resident * 4096 / base::kMiB;
}

TEST(Scale, SixteenTrainium2) {
  MachineBench b(Gen::kV3, 16);
  for (uint32_t c = 0; c < 16; ++c) {
    const uint64_t misc = b.map().misc_ram().bar0;
    EXPECT_EQ(b.machine.device(c).read32(0, misc + contract::misc::kRoutingId), c);
  }
  EXPECT_EQ(b.run(), hw::RunOutcome::kQuiescent);
}

// The goal is 0.2 s and 200 MB in a release build; the limits here leave room for sanitizers and
// loaded hosts.
TEST(Scale, Ultraserver144Trainium3) {
  const uint64_t before = resident_mib();
  const auto start = std::chrono::steady_clock::now();
  MachineBench b(Gen::kV4, 144);
  EXPECT_EQ(b.run(), hw::RunOutcome::kQuiescent);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const uint64_t used = resident_mib() - before;
  RecordProperty("milliseconds", static_cast<int>(took.count() * 1000));
  RecordProperty("mebibytes", static_cast<int>(used));
  std::printf("144 chips: %.0f ms, %llu MiB\n", took.count() * 1000,
              static_cast<unsigned long long>(used));
  EXPECT_LT(took.count(), 5.0);
  EXPECT_LT(used, 600u);
}

}  // namespace
