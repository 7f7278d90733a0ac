// What a host's place in a pod follows from: the rules of an election and of the configuration
// words, as plain functions. Source: spec/hw-registers.md 9.1, 9.4, 9.6; spec/driver-ioctl.md 3.16.
#pragma once

#include <cstdint>
#include <string>

namespace driver {

// From the DMI product name (spec/hw-registers.md 9.1).
enum class PlatformType { kStandard, kUltraServer, kPds, kMax };
PlatformType platform_type(const std::string& product_name);

// Operating modes; also the bit numbers of a mask of modes.
enum PodMode : uint32_t {
  kModeUnset = 0,
  kModeX4 = 1,
  kModeX2Horizontal = 2,
  kModeX2Vertical = 3,
  kModeX1 = 4,
};
constexpr uint32_t kLinkLeft = 1;   // vertical; bits of a link mask
constexpr uint32_t kLinkRight = 2;  // horizontal

struct Pod {
  int node = -1;
  uint32_t count = 0;  // nodes
  uint64_t serial = 0;
  uint32_t links = 0;  // mask

  constexpr uint32_t modes() const {
    uint32_t mask = 1u << kModeX1;
    if (count == 4) mask |= 1u << kModeX4;
    if (count >= 2 && (links & kLinkLeft) != 0) mask |= 1u << kModeX2Vertical;
    if (count == 2 && (links & kLinkRight) != 0) mask |= 1u << kModeX2Horizontal;
    return mask;
  }
};

// Serial numbers of the primary devices around a node; those of missing sides do not matter.
struct PodSerials {
  uint64_t own = 0;
  uint64_t left = 0;
  uint64_t right = 0;
  uint64_t diagonal = 0;
};

// 9.4, the node id table.
constexpr Pod elect(uint32_t links, const PodSerials& s) {
  if (links != (kLinkLeft | kLinkRight) || s.left == s.right) {
    const uint64_t other = links == kLinkRight ? s.right : s.left;
    const bool first = s.own < other;
    return {first ? 0 : 1, 2, first ? s.own : other, links};
  }
  if (s.own < s.diagonal && s.own < s.left && s.own < s.right) return {0, 4, s.own, links};
  if (s.own >= s.diagonal && s.diagonal < s.left && s.diagonal < s.right) {
    return {2, 4, s.diagonal, links};
  }
  if (s.left < s.right) return {1, 4, s.left, links};
  return {3, 4, s.right, links};
}

// 9.6: the words 0x30 and 0x70, and the reservation id.
constexpr Pod configured_pod(PlatformType platform, uint32_t sizes, uint32_t server_rack,
                             uint64_t reservation) {
  const uint32_t instance = sizes & 0x3F;
  const uint32_t partition = sizes >> 16 & 0x7FFF;
  const bool valid = sizes >> 31 != 0 && instance != 0 && partition >= instance;
  Pod pod;
  pod.count = valid ? partition / instance : platform == PlatformType::kMax ? 1 : 4;
  pod.serial = reservation;
  pod.links = pod.count == 2 ? kLinkLeft : 0;
  const uint32_t server = (server_rack & 0x8000) != 0 ? server_rack & 0x7FFF : 0;
  const uint32_t rack = server_rack >> 31 != 0 ? server_rack >> 16 & 0x7FFF : 0;
  constexpr int kNodes[] = {0, 1, 3, 2};
  const uint32_t place = rack << 1 | server;
  pod.node = place < 4 ? kNodes[place] : -1;
  return pod;
}

}  // namespace driver
