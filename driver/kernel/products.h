// The products a driver binds, and the numbering of their devices, links and cores. Sources:
// spec/hw-registers.md 1.1, 1.5, 1.6; spec/driver-ioctl.md 1.2, 7.3.
#pragma once

#include <array>
#include <cstdint>

#include "driver/kernel/dhal.h"

namespace driver {

// Routing id mod 16 -> device index (spec/hw-registers.md 1.5).
using RoutingTable = std::array<uint8_t, 16>;
constexpr RoutingTable kRoutingTrn1{0, 4, 1, 5, 3, 7, 2, 6, 12, 8, 13, 9, 15, 11, 14, 10};
constexpr RoutingTable kRoutingTrn2{0, 3, 4, 7, 12, 15, 8, 11, 1, 2, 5, 6, 13, 14, 9, 10};

// Neighbours of device d, in the order that is reported (spec/hw-registers.md 1.5).
using NeighbourTable = std::array<std::array<uint8_t, 4>, 16>;
constexpr NeighbourTable kNeighboursTrn1{{{12, 3, 4, 1},
                                          {13, 0, 5, 2},
                                          {14, 1, 6, 3},
                                          {15, 2, 7, 0},
                                          {0, 7, 8, 5},
                                          {1, 4, 9, 6},
                                          {2, 5, 10, 7},
                                          {3, 6, 11, 4},
                                          {4, 11, 12, 9},
                                          {5, 8, 13, 10},
                                          {6, 9, 14, 11},
                                          {7, 10, 15, 8},
                                          {8, 15, 0, 13},
                                          {9, 12, 1, 14},
                                          {10, 13, 2, 15},
                                          {11, 14, 3, 12}}};
constexpr NeighbourTable kNeighboursTrn2{{{12, 1, 3, 4},
                                          {0, 13, 5, 2},
                                          {14, 3, 1, 6},
                                          {2, 15, 7, 0},
                                          {8, 5, 7, 0},
                                          {4, 9, 1, 6},
                                          {10, 7, 5, 2},
                                          {6, 11, 3, 4},
                                          {4, 9, 11, 12},
                                          {8, 5, 13, 10},
                                          {6, 11, 9, 14},
                                          {10, 7, 15, 8},
                                          {0, 13, 15, 8},
                                          {12, 1, 9, 14},
                                          {2, 15, 13, 10},
                                          {14, 3, 11, 12}}};

struct Product {
  uint16_t device_id;
  const Dhal* dhal;
  const RoutingTable* routing;       // null: identity
  bool routing_blocks;               // 16 devices per block, the block number is kept
  const NeighbourTable* neighbours;  // null: a ring of 12 or a chain of 6
  const char* arch_type;             // sysfs, spec/driver-ioctl.md 7.3
  const char* instance_type;
  const char* device_name;
};
constexpr Product kProducts[] = {
    {0x7164, &kDhalV2, &kRoutingTrn1, true, &kNeighboursTrn1, "NDv2", "Trn1", "Trainium1"},
    {0x7264, &kDhalV2, nullptr, true, nullptr, "NDv3", "Inf2", "Inferentia2"},
    {0x7364, &kDhalV3, &kRoutingTrn2, false, &kNeighboursTrn2, "NDv3", "Trn2", "Trainium2"},
    {0x7564, &kDhalV4, &kRoutingTrn2, false, &kNeighboursTrn2, "NDv4", "Trn3", "Trainium3"},
    {0x7565, &kDhalV4, &kRoutingTrn2, false, &kNeighboursTrn2, "NDv4", "Trn3", "Trainium3"},
};
constexpr uint16_t kVendorId = 0x1D0F;

constexpr const Product* find_product(uint16_t device_id) {
  for (const Product& p : kProducts) {
    if (p.device_id == device_id) return &p;
  }
  return nullptr;
}

// Position -> physical NC, by device index (spec/hw-registers.md 1.6).
using NcOrder = std::array<uint8_t, 8>;
constexpr NcOrder kNcOrderEvenLow{4, 5, 6, 7, 2, 3, 0, 1};   // 0, 2, 8, 10; PDS even
constexpr NcOrder kNcOrderOddLow{2, 3, 0, 1, 4, 5, 6, 7};    // 1, 3, 9, 11; v4 PDS odd (2.26)
constexpr NcOrder kNcOrderEvenHigh{0, 1, 2, 3, 6, 7, 4, 5};  // 4, 6, 12, 14
constexpr NcOrder kNcOrderOddHigh{6, 7, 4, 5, 0, 1, 2, 3};   // 5, 7, 13, 15
// `pds` and `max`: such platforms with an order of their own (Dhal::switched_nc_order). The odd
// devices of a MAX platform are known to releases from 2.30 on only.
constexpr const NcOrder& nc_order(uint32_t device, bool pds, bool max = false) {
  const bool odd = (device & 1) != 0;
  if (max) return odd ? kNcOrderOddHigh : kNcOrderEvenLow;
  if (pds || (device & 4) == 0) return odd ? kNcOrderOddLow : kNcOrderEvenLow;
  return odd ? kNcOrderOddHigh : kNcOrderEvenHigh;
}

}  // namespace driver
