// The rules behind a pod as functions: spec/hw-registers.md 9.1, 9.4, 9.6.
#include "driver/kernel/pod.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

namespace driver {
namespace {

constexpr uint32_t kBoth = kLinkLeft | kLinkRight;

// 9.5: left cables join 0-1 and 2-3, right cables 1-2 and 3-0.
uint32_t left_of(uint32_t node) {
  return node ^ 1;
}
uint32_t right_of(uint32_t node) {
  return node % 2 == 1 ? (node + 1) % 4 : (node + 3) % 4;
}

TEST(Pod, AllOrdersOfFourSerials) {
  std::array<uint64_t, 4> serials = {0x1'0000'0000, 0x0'FFFF'FFFF, 16, 0xFFFF'FFFF'FFFF'FFFE};
  std::sort(serials.begin(), serials.end());
  int orders = 0;
  do {
    ++orders;
    const auto lowest =
        static_cast<uint32_t>(std::min_element(serials.begin(), serials.end()) - serials.begin());
    std::set<int> nodes;
    for (uint32_t n = 0; n < 4; ++n) {
      const Pod pod = elect(kBoth, {serials[n], serials[left_of(n)], serials[right_of(n)],
                                    serials[right_of(left_of(n))]});
      EXPECT_EQ(pod.count, 4u);
      EXPECT_EQ(pod.serial, serials[lowest]);
      EXPECT_EQ(pod.links, kBoth);
      nodes.insert(pod.node);
      if (n == lowest) {
        EXPECT_EQ(pod.node, 0);
      }
      if (n == left_of(lowest)) {
        EXPECT_EQ(pod.node, 1);
      }
      if (n == right_of(lowest)) {
        EXPECT_EQ(pod.node, 3);
      }
    }
    EXPECT_EQ(nodes, (std::set<int>{0, 1, 2, 3}));
  } while (std::next_permutation(serials.begin(), serials.end()));
  EXPECT_EQ(orders, 24);
}

TEST(Pod, TwoNodes) {
  for (const uint32_t links : {kLinkLeft, kLinkRight, kBoth}) {
    const uint64_t left = links == kLinkRight ? 0 : 70;
    const uint64_t right = links == kLinkLeft ? 0 : 70;
    const Pod first = elect(links, {50, left, right, 50});
    EXPECT_EQ(first.node, 0);
    EXPECT_EQ(first.count, 2u);
    EXPECT_EQ(first.serial, 50u);
    const Pod second = elect(links, {90, left, right, 90});
    EXPECT_EQ(second.node, 1);
    EXPECT_EQ(second.serial, 70u);
  }
}

TEST(Pod, Modes) {
  const auto modes = [](uint32_t count, uint32_t links) { return Pod{0, count, 1, links}.modes(); };
  EXPECT_EQ(Pod{}.modes(), 1u << kModeX1);
  EXPECT_EQ(modes(4, kBoth), 1u << kModeX4 | 1u << kModeX2Vertical | 1u << kModeX1);
  EXPECT_EQ(modes(2, kBoth), 1u << kModeX2Horizontal | 1u << kModeX2Vertical | 1u << kModeX1);
  EXPECT_EQ(modes(2, kLinkLeft), 1u << kModeX2Vertical | 1u << kModeX1);
  EXPECT_EQ(modes(2, kLinkRight), 1u << kModeX2Horizontal | 1u << kModeX1);
  EXPECT_EQ(modes(2, kBoth), 0b1'1100u) << "clients know the numbers";
  EXPECT_EQ(modes(2, kLinkRight), 0b1'0100u);
  EXPECT_EQ(modes(4, 0), 0b1'0010u);
  EXPECT_EQ(modes(4, 0), 1u << kModeX4 | 1u << kModeX1);
  EXPECT_EQ(modes(1, 0), 1u << kModeX1);
}

TEST(Pod, Configured) {
  const auto pds = [](uint32_t sizes, uint32_t server_rack) {
    return configured_pod(PlatformType::kPds, sizes, server_rack, 5);
  };
  EXPECT_EQ(pds(0, 0).count, 4u);
  EXPECT_EQ(configured_pod(PlatformType::kMax, 0, 0, 5).count, 1u);
  EXPECT_EQ(pds(1u << 31 | 32 << 16 | 16, 0).count, 2u);
  EXPECT_EQ(pds(1u << 31 | 32 << 16 | 16, 0).links, kLinkLeft);
  EXPECT_EQ(pds(1u << 31 | 64 << 16 | 16, 0).links, 0u);
  EXPECT_EQ(pds(64 << 16 | 16, 0).count, 4u) << "not valid";
  EXPECT_EQ(pds(1u << 31 | 64 << 16, 0).count, 4u) << "no instance size";
  EXPECT_EQ(pds(1u << 31 | 8 << 16 | 16, 0).count, 4u) << "less than one instance";
  EXPECT_EQ(pds(0, 0).serial, 5u);
  EXPECT_EQ(pds(0, 0x8000'8000).node, 0);
  EXPECT_EQ(pds(0, 0x8000'8001).node, 1);
  EXPECT_EQ(pds(0, 0x8001'8000).node, 3);
  EXPECT_EQ(pds(0, 0x8001'8001).node, 2);
  EXPECT_EQ(pds(0, 0x0001'0001).node, 0) << "neither is valid";
  EXPECT_EQ(pds(0, 0x8001'0001).node, 3) << "only the rack is";
  EXPECT_EQ(pds(0, 0x8002'8001).node, -1);
  EXPECT_EQ(pds(0, 0x8000'8004).node, -1);
}

TEST(Pod, PlatformTypes) {
  EXPECT_EQ(platform_type("trn2u.48xlarge"), PlatformType::kUltraServer);
  EXPECT_EQ(platform_type("trn2u-ac.24xlarge"), PlatformType::kUltraServer);
  EXPECT_EQ(platform_type("trn3p.48xlarge"), PlatformType::kUltraServer);
  EXPECT_EQ(platform_type("trn2es.48xlarge"), PlatformType::kPds);
  EXPECT_EQ(platform_type("trn3.48xlarge"), PlatformType::kPds);
  EXPECT_EQ(platform_type("trn3e.24xlarge"), PlatformType::kMax);
  EXPECT_EQ(platform_type("trn2.48xlarge"), PlatformType::kStandard);
  EXPECT_EQ(platform_type("trn2u.24xlarge"), PlatformType::kStandard);
  EXPECT_EQ(platform_type(""), PlatformType::kStandard);
}

}  // namespace
}  // namespace driver
