// Hosts of an ultraserver elect their places over the links of the machine: hw-registers.md 9,
// 10.8; driver-ioctl.md 3.16, 7.4.
#include "tests/e2e/cluster.h"

namespace e2e {
namespace {

constexpr uint32_t kWindows = contract::kNeighbourWindows;

uint64_t serial(Cluster& c, uint32_t node) {
  return uint64_t{c.word(node, 0, misc::kSerialHi)} << 32 | c.word(node, 0, misc::kSerialLo);
}

class Generations : public ::testing::TestWithParam<Gen> {};

TEST_P(Generations, FourNodesFindTheirPlaces) {
  ClusterOptions options;
  options.gen = GetParam();
  Cluster c(options);
  c.load_all();
  for (uint32_t n = 0; n < 4; ++n) {
    EXPECT_EQ(c.pod(n).node, static_cast<int>(n));
    EXPECT_EQ(c.pod(n).count, 4u);
    EXPECT_EQ(c.pod(n).serial, serial(c, 0));
    EXPECT_EQ(c.word(n, 0, misc::kElectionStatus), 0x0400'0303u | n << 16);
    EXPECT_EQ(c.word(n, 0, misc::kPodSerialLo), static_cast<uint32_t>(serial(c, 0)));
    EXPECT_EQ(c.word(n, 0, misc::kPodSerialHi), static_cast<uint32_t>(serial(c, 0) >> 32));
    for (uint32_t d = 0; d < 16; ++d) {
      if (d != 0) {
        EXPECT_EQ(c.word(n, d, misc::kElectionStatus), 3u);
      }
      for (uint32_t w = misc::kElectionLeftHi; w <= misc::kElectionRightLo; w += 4) {
        EXPECT_EQ(c.word(n, d, w), 0u) << "cleared";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Election, Generations, ::testing::Values(Gen::kV3, Gen::kV4),
                         [](const auto& info) {
                           return "v" + std::to_string(static_cast<int>(info.param));
                         });

}  // namespace
}  // namespace e2e
