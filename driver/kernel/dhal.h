// Everything a driver does differently per generation, as one table each: adding a chip adds a
// table, never an #if or a comparison elsewhere. Addresses come from the hardware contract; this
// file holds values and limits. Products are in products.h. Sources: spec/hw-registers.md 1.2, 2.7,
// 3.2 to 3.13, 8, 9.2; spec/driver-ioctl.md 3, 6.3.
#pragma once

#include <array>
#include <cstdint>

#include "arch/contract/address_map.h"

namespace driver {

using contract::Gen;

// PCI revisions that select an execution environment; all others are silicon
// (spec/hw-registers.md 1.2).
constexpr uint8_t kRevisionQemu = 0xFF;
constexpr uint8_t kRevisionEmulator = 0xF0;

// What the last descriptor of a host copy writes (spec/hw-registers.md 3.12).
constexpr uint32_t kCopyMarker = 0xABCD'EF01;
// spec/driver-ioctl.md 6.3: the further budget of a copy is this many times the bracket of its
// table.
constexpr uint64_t kCopyBudgetScale = 100;

struct Dhal {
  contract::AddressMap map{};

  // Engine initialisation (spec/hw-registers.md 3.10).
  uint32_t m2s_data_rd_cfg = 0;
  uint32_t m2s_axi_outstanding = 0;
  uint32_t s2m_axi_outstanding_rd = 0;
  bool broadcast_groups = false;      // step 1
  bool s2m_outstanding_wr_2 = false;  // step 14a
  bool overhead_beats = false;        // step 26
  bool axi_error_tables = false;      // step 27
  bool mask_ring_id_errors = false;   // step 28
  // Host copies (spec/hw-registers.md 3.12).
  uint32_t ncs_per_h2t_engine = 1;
  // bit e mod 16: queue 14 belongs to an instruction fetcher (spec/hw-registers.md 3.13)
  uint32_t nx_rings = 0;
  // Address bits that select the host port, which has the value of the host window there
  // (spec/hw-registers.md 2.2).
  uint64_t port_mask = 0;

  // Time of host copies (3.12; spec/driver-ioctl.md 6.3), microseconds per descriptor without the
  // marker.
  uint32_t copy_estimate_us = 0;
  uint32_t copy_first_delay_cut_us = 0;
  uint32_t copy_timeout_us = 0;  // times kCopyBudgetScale
  bool retry_copy_over_reset = false;
  bool zerocopy = false;

  // Reset (spec/hw-registers.md 8.1, 8.2) and what the revisions for QEMU and the emulator change
  // (spec/hw-registers.md 1.2, 8.5).
  uint32_t reset_give_up_s = 0;
  uint32_t qemu_timeout_factor = 10'000;
  uint32_t emulator_timeout_factor = 100'000;
  int emulator_status_reads = 5000;
  bool emulator_skips_reset = false;
  bool simulated_is_standard = false;  // the platform type of a simulated device is not from DMI
  bool qemu_reset_uses_mailbox = false;
  uint32_t qemu_device_reset = 0;     // value of the reset register
  bool qemu_reset_takes_map = false;  // an NC reset writes its unit map there
  int qemu_reset_reads = 0;
  bool qemu_reset_backs_off = false;  // longer from one read to the next
  int qemu_register_bar = 0;
  bool qemu_bar4_sizes_hbm = false;  // a stack is a quarter of BAR4

  // Interface version window (spec/driver-ioctl.md 3.1.5) and other ABI facts.
  uint32_t compatible_min = 0;
  uint32_t compatible_max = 0;
  bool nc_map = false;        // GET_LOGICAL_TO_PHYSICAL_NC_MAP is known
  bool hbm_resource = false;  // RESOURCE_MMAP_INFO lists the HBMs
  // without them POWER_PROFILE succeeds and does nothing (spec/driver-ioctl.md 3.17)
  bool power_profiles = false;
  const char* core_arch = "";  // "NCv2"

  // Pods (9; spec/driver-ioctl.md 3.16).
  bool pods = false;  // may be a part of one
  // MAX platforms number devices as they are probed (spec/hw-registers.md 1.5)
  bool counted_on_max = false;
  // PDS and MAX platforms have an NC order of their own (spec/hw-registers.md 1.6)
  bool switched_nc_order = false;
  // Engines that reach the neighbours of an ultraserver: two left, two right
  // (spec/hw-registers.md 9.2).
  std::array<uint32_t, 4> election_engines{};

  // Counters of sysfs (spec/hw-registers.md 2.7, 7.1).
  uint32_t pe_group_stride = 0;
  uint32_t pe_groups_per_row = 0;
  bool pe_fast_weight_loads = false;  // counted apart from the four columns
  bool hbm_repairable_ecc = false;

  // Unit map of an NC reset (spec/hw-registers.md 8.1).
  constexpr uint32_t reset_units(uint32_t nc_map_bits) const {
    uint32_t units = 0;
    for (uint32_t n = 0; n < map.ncs(); ++n) {
      if ((nc_map_bits >> n & 1) == 0) continue;
      units |= map.v2() ? (1u << n | 0x700u << (3 * n)) : 0x0001'0101u << n;
    }
    return units;
  }
  // What the reset register of the QEMU revision is written for `units`; all: a device reset.
  constexpr uint32_t qemu_reset_value(bool all, uint32_t units) const {
    return all || !qemu_reset_takes_map ? qemu_device_reset : units;
  }
  constexpr bool names_host(uint64_t address) const {
    return (address & port_mask) == map.host_window();
  }
  constexpr bool is_h2t_engine(uint32_t e) const { return e >= map.compute_engines(); }
  constexpr bool is_nx_ring(uint32_t e, uint32_t q) const {
    return q == 14 && !is_h2t_engine(e) && (nx_rings >> (e % 16) & 1) != 0;
  }
  // True when [address, address + size) lies in one window that PROGRAM_ENGINE may write
  // (spec/driver-ioctl.md 3.4.5). 64-bit arithmetic; an overflowing range is refused.
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
  // Engines of HBM h that can reach the host (spec/hw-registers.md 2.6), ascending; 16 of them.
  constexpr uint32_t scrub_engine(uint32_t h, uint32_t k) const {
    return map.v2() ? 16 * h + k : 32 * h + 8 * (k / 4) + 4 + k % 4;
  }
};

constexpr Dhal make_dhal_v2() {
  Dhal d;
  d.map = {Gen::kV2};
  d.m2s_data_rd_cfg = 0x0100'0400;
  d.m2s_axi_outstanding = 0x0000'086F;
  d.s2m_axi_outstanding_rd = 0x0040'0008;
  d.broadcast_groups = true;
  d.axi_error_tables = true;
  d.nx_rings = 0x07ff;  // e mod 16 < 11
  d.port_mask = 0x1'F000'0000'0000;
  d.copy_estimate_us = 4;
  d.copy_first_delay_cut_us = 3;
  d.copy_timeout_us = 400;
  d.retry_copy_over_reset = true;
  d.reset_give_up_s = 120;
  d.qemu_reset_uses_mailbox = true;
  d.qemu_device_reset = 1;
  d.qemu_reset_reads = 5;
  d.qemu_reset_backs_off = true;
  d.qemu_register_bar = 2;
  d.compatible_min = 5;
  d.compatible_max = 7;
  d.core_arch = "NCv2";
  d.pe_group_stride = 0x40;
  d.pe_groups_per_row = 5;
  return d;
}

constexpr Dhal make_dhal_v3() {
  Dhal d;
  d.map = {Gen::kV3};
  d.m2s_data_rd_cfg = 0x0100'08F8;
  d.m2s_axi_outstanding = 0x2080'8080;
  d.s2m_axi_outstanding_rd = 0x0040'0080;
  d.overhead_beats = true;
  d.mask_ring_id_errors = true;
  d.ncs_per_h2t_engine = 2;
  d.nx_rings = 0x019f;  // 0..4, 7, 8
  d.port_mask = 1ull << 46;
  d.copy_estimate_us = 2;
  d.copy_first_delay_cut_us = 1;
  d.copy_timeout_us = 800;
  d.zerocopy = true;
  d.reset_give_up_s = 480;
  d.qemu_reset_takes_map = true;
  d.qemu_reset_reads = 5000;
  d.qemu_bar4_sizes_hbm = true;
  d.compatible_min = 10;
  d.compatible_max = 11;
  d.nc_map = true;
  d.hbm_resource = true;
  d.power_profiles = true;
  d.core_arch = "NCv3";
  d.pods = true;
  d.counted_on_max = true;
  d.election_engines = {36, 68, 4, 100};
  d.pe_group_stride = 0x30;
  d.pe_groups_per_row = 9;
  d.pe_fast_weight_loads = true;
  d.hbm_repairable_ecc = true;
  return d;
}

// v4 is v3 with exceptions (spec/hw-registers.md 2.5, 9.7).
constexpr Dhal make_dhal_v4() {
  Dhal d = make_dhal_v3();
  d.map = {Gen::kV4};
  d.s2m_outstanding_wr_2 = true;
  d.emulator_skips_reset = true;
  d.simulated_is_standard = true;
  d.core_arch = "NCv4";
  d.counted_on_max = false;
  d.switched_nc_order = true;
  d.election_engines = {40, 72, 8, 104};
  return d;
}

constexpr Dhal kDhalV2 = make_dhal_v2();
constexpr Dhal kDhalV3 = make_dhal_v3();
constexpr Dhal kDhalV4 = make_dhal_v4();
static_assert(kDhalV2.reset_units(1) == 0x0000'0701 && kDhalV2.reset_units(2) == 0x0000'3802);
static_assert(kDhalV3.reset_units(1) == 0x0001'0101 && kDhalV3.reset_units(2) == 0x0002'0202);
static_assert(kDhalV3.scrub_engine(1, 0) == 36 && kDhalV3.scrub_engine(0, 15) == 31);

}  // namespace driver
