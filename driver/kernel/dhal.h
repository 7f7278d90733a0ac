// Everything a driver does differently per generation and per product, as tables: adding a chip
// adds a row, never an #if. Addresses come from the hardware contract; this file holds values and
// limits. Sources: hw-registers.md 1.1, 1.5, 1.6, 3.2 - 3.12, 8.2;
// driver-ioctl.md 1.2, 3.1, 6.3, 7.3.
#pragma once

#include <array>
#include <cstdint>

#include "arch/contract/address_map.h"

namespace driver {

using contract::Gen;

struct Dhal {
  contract::AddressMap map;

  // Engine initialisation (hw-registers.md 3.10).
  uint32_t m2s_data_rd_cfg;
  uint32_t m2s_axi_outstanding;
  uint32_t s2m_axi_outstanding_rd;
  bool broadcast_groups;      // step 1
  bool s2m_outstanding_wr_2;  // step 14a
  bool overhead_beats;        // step 26
  bool axi_error_tables;      // step 27
  bool mask_ring_id_errors;   // step 28

  // Host copies (3.12; driver-ioctl.md 6.3), microseconds per descriptor without the marker.
  uint32_t copy_estimate_us;
  uint32_t copy_first_delay_cut_us;
  uint32_t copy_timeout_us;  // times 100
  bool retry_copy_over_reset;
  bool zerocopy;

  // Reset (8.1, 8.2).
  uint32_t reset_give_up_s;
  uint32_t qemu_timeout_factor;
  bool qemu_reset_uses_mailbox;
  int qemu_register_bar;

  // Interface version window (driver-ioctl.md 3.1.5) and other ABI facts.
  uint32_t compatible_min;
  uint32_t compatible_max;
  uint32_t dies;
  bool nc_map;            // GET_LOGICAL_TO_PHYSICAL_NC_MAP is known
  bool hbm_resource;      // RESOURCE_MMAP_INFO lists the HBMs
  uint32_t nx_rings;      // bit e mod 16: queue 14 belongs to an instruction fetcher (3.13)
  const char* core_arch;  // "NCv2"
  // Engines that reach the neighbours of an ultraserver: two left, two right (hw-registers.md 9.2);
  // none on v2.
  std::array<uint32_t, 4> election_engines;

  // Unit map of an NC reset (8.1).
  constexpr uint32_t reset_units(uint32_t nc_map_bits) const {
    uint32_t units = 0;
    for (uint32_t n = 0; n < map.ncs(); ++n) {
      if ((nc_map_bits >> n & 1) == 0) continue;
      units |= map.v2() ? (1u << n | 0x700u << (3 * n)) : 0x0001'0101u << n;
    }
    return units;
  }
  // First engine of the same seng pair of NCs that shares an H2T engine; v2: the NC itself.
  constexpr uint32_t ncs_per_h2t_engine() const { return map.v2() ? 1 : 2; }
  constexpr bool is_h2t_engine(uint32_t e) const { return e >= map.compute_engines(); }
  constexpr bool is_nx_ring(uint32_t e, uint32_t q) const {
    return q == 14 && !is_h2t_engine(e) && (nx_rings >> (e % 16) & 1) != 0;
  }
  // True when [address, address + size) lies in one window that PROGRAM_ENGINE may write
  // (driver-ioctl.md 3.4.5). 64-bit arithmetic; an overflowing range is refused.
  constexpr bool programmable(uint64_t address, uint64_t size) const {
    const auto inside = [=](uint64_t base, uint64_t length) {
      return address >= base && address - base <= length && size <= length - (address - base);
    };
    if (map.v2()) {
      return inside(map.nc(0).device, 2 * contract::tpb::kBarWindow) ||
             inside(map.topsp(0).device, 6 * contract::topsp::kWindow);
    }
    constexpr uint64_t kNcBlock = 0x8'0400'0000;
    constexpr uint64_t kPreproc = 0x12'0000'0000;
    constexpr uint64_t kPreprocBytes = 0x034C'0000;
    constexpr uint64_t kTopspStride = 0x4000'0000;
    for (uint32_t n = 0; n < map.ncs(); ++n) {
      if (inside(map.nc(n).device, kNcBlock)) return true;
    }
    for (uint32_t k = 0; k < 20; ++k) {  // hardware indices: ten per die
      const uint64_t die0 = map.topsp(k < 10 ? 0 : 8).device;
      if (inside(die0 + k % 10 * kTopspStride, contract::topsp::kWindow)) return true;
    }
    for (uint32_t h = 0; h < map.hbms(); ++h) {
      if (inside(map.hbm_base(h), map.hbm_size())) return true;
      if (inside(map.hbm_base(h) + kPreproc, kPreprocBytes)) return true;
    }
    return false;
  }
  // Engines of HBM h that can reach the host (hw-registers.md 2.6), ascending; 16 of them.
  constexpr uint32_t scrub_engine(uint32_t h, uint32_t k) const {
    return map.v2() ? 16 * h + k : 32 * h + 8 * (k / 4) + 4 + k % 4;
  }
};

constexpr uint32_t kNxRingsV2 = 0x07ff;  // e mod 16 < 11
constexpr uint32_t kNxRingsV3 = 0x019f;  // 0..4, 7, 8

constexpr Dhal kDhalV2{{Gen::kV2}, 0x0100'0400, 0x0000'086F, 0x0040'0008, true,        false, false,
                       true,       false,       4,           3,           400,         true,  false,
                       120,        10'000,      true,        2,           5,           7,     1,
                       false,      false,       kNxRingsV2,  "NCv2",      {0, 0, 0, 0}};
constexpr Dhal kDhalV3{{Gen::kV3},  0x0100'08F8,
                       0x2080'8080, 0x0040'0080,
                       false,       false,
                       true,        false,
                       true,        2,
                       1,           800,
                       false,       true,
                       480,         10'000,
                       false,       0,
                       10,          11,
                       2,           true,
                       true,        kNxRingsV3,
                       "NCv3",      {36, 68, 4, 100}};
constexpr Dhal kDhalV4{{Gen::kV4},  0x0100'08F8,
                       0x2080'8080, 0x0040'0080,
                       false,       true,
                       true,        false,
                       true,        2,
                       1,           800,
                       false,       true,
                       480,         10'000,
                       false,       0,
                       10,          11,
                       2,           true,
                       true,        kNxRingsV3,
                       "NCv4",      {40, 72, 8, 104}};
static_assert(kDhalV2.reset_units(1) == 0x0000'0701 && kDhalV2.reset_units(2) == 0x0000'3802);
static_assert(kDhalV3.reset_units(1) == 0x0001'0101 && kDhalV3.reset_units(2) == 0x0002'0202);
static_assert(kDhalV3.scrub_engine(1, 0) == 36 && kDhalV3.scrub_engine(0, 15) == 31);

// Routing id mod 16 -> device index (hw-registers.md 1.5).
using RoutingTable = std::array<uint8_t, 16>;
constexpr RoutingTable kRoutingTrn1{0, 4, 1, 5, 3, 7, 2, 6, 12, 8, 13, 9, 15, 11, 14, 10};
constexpr RoutingTable kRoutingTrn2{0, 3, 4, 7, 12, 15, 8, 11, 1, 2, 5, 6, 13, 14, 9, 10};

struct Product {
  uint16_t device_id;
  const Dhal* dhal;
  const RoutingTable* routing;  // null: identity
  bool routing_blocks;          // 16 devices per block, the block number is kept
  const char* arch_type;        // sysfs, driver-ioctl.md 7.3
  const char* instance_type;
  const char* device_name;
};
constexpr Product kProducts[] = {
    {0x7164, &kDhalV2, &kRoutingTrn1, true, "NDv2", "Trn1", "Trainium1"},
    {0x7264, &kDhalV2, nullptr, true, "NDv3", "Inf2", "Inferentia2"},
    {0x7364, &kDhalV3, &kRoutingTrn2, false, "NDv3", "Trn2", "Trainium2"},
    {0x7564, &kDhalV4, &kRoutingTrn2, false, "NDv4", "Trn3", "Trainium3"},
    {0x7565, &kDhalV4, &kRoutingTrn2, false, "NDv4", "Trn3", "Trainium3"},
};
constexpr uint16_t kVendorId = 0x1D0F;
constexpr uint8_t kRevisionQemu = 0xFF;
constexpr uint8_t kRevisionEmulator = 0xF0;

constexpr const Product* find_product(uint16_t device_id) {
  for (const Product& p : kProducts) {
    if (p.device_id == device_id) return &p;
  }
  return nullptr;
}

// Neighbours of device d, in the order that is reported (hw-registers.md 1.5).
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

// Position -> physical NC, by device index (hw-registers.md 1.6).
using NcOrder = std::array<uint8_t, 8>;
constexpr NcOrder kNcOrderEvenLow{4, 5, 6, 7, 2, 3, 0, 1};   // 0, 2, 8, 10; PDS even
constexpr NcOrder kNcOrderOddLow{2, 3, 0, 1, 4, 5, 6, 7};    // 1, 3, 9, 11; v4 PDS odd (2.26)
constexpr NcOrder kNcOrderEvenHigh{0, 1, 2, 3, 6, 7, 4, 5};  // 4, 6, 12, 14
constexpr NcOrder kNcOrderOddHigh{6, 7, 4, 5, 0, 1, 2, 3};   // 5, 7, 13, 15
// `v4_max`: the odd devices of a v4 MAX platform, which only releases from 2.30 on know.
constexpr const NcOrder& nc_order(uint32_t device, bool v4_pds, bool v4_max = false) {
  const bool odd = (device & 1) != 0;
  if (v4_max) return odd ? kNcOrderOddHigh : kNcOrderEvenLow;
  if (v4_pds || (device & 4) == 0) return odd ? kNcOrderOddLow : kNcOrderEvenLow;
  return odd ? kNcOrderOddHigh : kNcOrderEvenHigh;
}

}  // namespace driver
