// Machines as platform files describe them: who is behind which window, what firmware publishes.
#include "sim/machine_params.h"

#include <gtest/gtest.h>

#include "arch/config/platform.h"
#include "arch/config/timing.h"
#include "driver/kernel/products.h"

namespace sim {
namespace {

hw::MachineParams params_of(const std::string& name) {
  const config::Platform platform = *config::load_platform(name);
  return machine_params(platform, *config::Timing::load(platform.timing), {});
}

// spec/hw-registers.md 9.5, for every device.
TEST(MachineParams, CablesOfAnUltraserver) {
  const hw::MachineParams p = params_of("trn2-ultraserver");
  ASSERT_EQ(p.chips.size(), 64u);
  EXPECT_EQ(p.links.size(), 192u);
  constexpr uint32_t kLeft[] = {1, 0, 3, 2};
  constexpr uint32_t kRight[] = {3, 2, 1, 0};
  for (uint32_t chip = 0; chip < 64; ++chip) {
    const uint32_t node = chip / 16;
    const uint32_t left = kLeft[node] * 16 + chip % 16;
    const uint32_t right = kRight[node] * 16 + chip % 16;
    const auto& windows = p.chips[chip].neighbours;
    EXPECT_EQ(windows, (std::array<uint32_t, 4>{right, left, left, right})) << chip;
  }
}

TEST(MachineParams, OtherPlatformsHaveNoCables) {
  for (const char* name : {"trn1.32xlarge", "trn2u.48xlarge", "trn3-gen1-ultraserver"}) {
    for (const hw::ChipParams& chip : params_of(name).chips) {
      for (const uint32_t other : chip.neighbours) EXPECT_EQ(other, hw::kNoNeighbour) << name;
    }
  }
}

// The driver turns the routing id into the number that the platform file gives the device.
TEST(MachineParams, RoutingIdsLeadToLocalIds) {
  for (const char* name : {"trn1.32xlarge", "inf2.48xlarge", "trn2.48xlarge", "trn2-ultraserver",
                           "trn3-gen1-server", "trn3-gen2-ultraserver"}) {
    const config::Platform platform = *config::load_platform(name);
    const hw::MachineParams p = params_of(name);
    for (size_t c = 0; c < p.chips.size(); ++c) {
      const driver::Product* product = driver::find_product(p.chips[c].device_id);
      ASSERT_NE(product, nullptr);
      const uint32_t id = p.chips[c].routing_id;
      EXPECT_LT(id, 16u);
      // Hosts on a switched fabric take it as it is.
      const bool plain = product->routing == nullptr || platform.topology == "switched";
      EXPECT_EQ(plain ? id : (*product->routing)[id], platform.chips[c].local_id) << name;
    }
  }
}

// Under a product name that drivers do not know every device is looked up in the table.
TEST(MachineParams, RoutingIdsOfStandardHosts) {
  for (const char* name : {"trn2.48xlarge", "trn3-gen1-server", "trn3-gen2-server"}) {
    const config::Platform platform = *config::load_platform(name);
    const hw::MachineParams p =
        machine_params(platform, *config::Timing::load(platform.timing), {}, HostKind::kStandard);
    for (size_t c = 0; c < p.chips.size(); ++c) {
      const driver::Product* product = driver::find_product(p.chips[c].device_id);
      ASSERT_LT(p.chips[c].routing_id, 16u);
      EXPECT_EQ((*product->routing)[p.chips[c].routing_id], platform.chips[c].local_id) << name;
    }
  }
}

TEST(MachineParams, RatesOfLinksAreThoseOfTheirClass) {
  const hw::MachineParams p = params_of("trn2-ultraserver");
  uint32_t fast = 0;
  for (const hw::LinkParams& link : p.links) {
    const bool z = link.a / 16 != link.b / 16;
    EXPECT_EQ(link.rate.bytes * 1000, link.rate.ps * (z ? 64u : 128u));
    fast += z ? 0 : 1;
  }
  EXPECT_EQ(fast, 128u);
}

}  // namespace
}  // namespace sim
