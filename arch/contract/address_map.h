// Device address map and BAR decoding of one chip, for v2, v3 and v4.
// Source: spec/hw-registers.md 2.2 to 2.7 and 3.10; blocks marked "own" are
// docs/hardware-contract.md. Everything is a constexpr function of the generation; v4 equals v3 but
// for the HBM size.
#pragma once

#include <cstdint>

namespace contract {

enum class Gen : uint8_t { kV2 = 2, kV3 = 3, kV4 = 4 };

// Offsets inside a TPB (NeuronCore) window.
namespace tpb {
constexpr uint64_t kBarWindow = 0x0400'0000;  // 64 MiB visible through BAR0
constexpr uint64_t kSbuf = 0x0;
constexpr uint64_t kSbufWindow = 0x0200'0000;
constexpr uint64_t kPartitionStride = 0x4'0000;  // 256 KiB of addresses per SBUF partition
constexpr uint32_t kPartitions = 128;
constexpr uint64_t kPsum = 0x0200'0000;
constexpr uint64_t kPsumStride = 0x8000;  // own: 32 KiB of addresses per PSUM partition
constexpr uint64_t kPsumPartitionBytes = 16 * 1024;
constexpr uint64_t kPsumBankBytes = 2 * 1024;  // spec/engine-isa.md 2
constexpr uint64_t kEngine = 0x0260'0000;  // own: sequencer control, one block per engine
constexpr uint64_t kEngineStride = 0x1'0000;
constexpr uint64_t kEngineBlock = 0x1000;
constexpr uint64_t kSemaphores = 0x0270'0000;
}  // namespace tpb

// Offsets inside a TopSP (CC-core) window.
namespace topsp {
constexpr uint64_t kWindow = 0x40'0000;
constexpr uint64_t kSemaphores = 0x0;
constexpr uint64_t kControl = 0x2000;         // own: offsets of regs/cc.h count from the window
constexpr uint64_t kProgram = 0x1'0000;       // own: program memory
constexpr uint64_t kProgramBytes = 0x1'0000;  // own: 64 KiB, 4096 records
}  // namespace topsp

constexpr uint64_t kSemaphoreBlock = 0x2000;
constexpr uint64_t kUdmaUnit = 0x4'0000;  // UDMA registers of one engine
constexpr uint64_t kSdmaUnit = 0x7000;
constexpr uint64_t kNqBlock = 0x1000;
constexpr uint64_t kSdmaTraceNq = 0x1000;  // DMA-trace notification block in the SDMA wrapper, 3.8
constexpr uint64_t kMiscRamBytes = 0x1000;
constexpr uint64_t kS2mOffset = 0x2'0000;            // S2M half of a UDMA unit
constexpr uint64_t kFirmwareReserved = 16ull << 20;  // lowest bytes of each HBM stack, 2.6

enum Engine : uint8_t { kPe = 0, kAct = 1, kPool = 2, kDve = 3, kSp = 4 };
constexpr uint32_t kEnginesPerNc = 5;
constexpr uint32_t kDmaPerNc = 16;
constexpr uint32_t kQueuesPerEngine = 16;
// Conventions of docs/hardware-contract.md 7: the other queues of an engine belong to programs.
constexpr uint32_t kCollectiveQueue = 15;
constexpr uint32_t kFetchQueue = 14;
constexpr uint32_t kNeighbourWindows = 4;  // v3, v4
constexpr uint32_t kMaxChips = 1024;       // of a platform: peer windows of v3 and v4
constexpr uint32_t kMaxChipsV2 = 16;
constexpr uint32_t kMaxLnc = 2;  // NeuronCores of a logical core

// A contiguous window that is visible both to DMA (device address) and through BAR0.
struct Window {
  uint64_t device = 0;
  uint64_t bar0 = 0;
  uint64_t size = 0;
};

struct AddressMap {
  Gen gen = Gen::kV2;

  constexpr bool v2() const { return gen == Gen::kV2; }

  // Counts (2.6).
  constexpr uint32_t ncs() const { return v2() ? 2 : 8; }
  constexpr uint32_t topsps() const { return v2() ? 6 : 16; }
  constexpr uint32_t topsps_per_nc() const { return v2() ? 3 : 2; }
  constexpr uint32_t hbms() const { return v2() ? 2 : 4; }
  constexpr uint32_t compute_engines() const { return ncs() * kDmaPerNc; }
  constexpr uint32_t host_engines() const { return v2() ? 2 : 4; }  // the "D2H" and "H2D" engines
  constexpr uint32_t dma_engines() const { return compute_engines() + host_engines(); }
  constexpr uint64_t hbm_size() const {
    return gen == Gen::kV2 ? 0x4'0000'0000 : gen == Gen::kV3 ? 0x6'0000'0000 : 0x9'0000'0000;
  }
  constexpr uint64_t sbuf_partition_bytes() const {
    return (gen == Gen::kV2 ? 192 : gen == Gen::kV3 ? 224 : 256) * 1024ull;
  }
  // Chips that peer windows can name; NeuronCores of a logical core, at most.
  constexpr uint32_t max_chips() const { return v2() ? kMaxChipsV2 : kMaxChips; }
  constexpr uint32_t max_lnc() const { return v2() ? 1 : kMaxLnc; }
  constexpr uint32_t nc_of_topsp(uint32_t t) const { return t / topsps_per_nc(); }
  constexpr uint32_t nc_of_engine(uint32_t e) const { return e / kDmaPerNc; }
  constexpr uint32_t hbm_of_nc(uint32_t n) const { return v2() ? n : n / 2; }
  // Engine and queue that the kernel driver uses for host copies of an NC (3.12).
  constexpr uint32_t h2t_engine(uint32_t n) const { return v2() ? 32 + n : 128 + n / 2; }
  constexpr uint32_t h2t_queue(uint32_t n) const { return v2() ? 0 : n % 2; }

  // Memory (2.2 to 2.5).
  constexpr uint64_t hbm_base(uint32_t h) const {
    if (v2()) return h * 0x10'0000'0000ull;
    return (h & 1) * 0x40'0000'0000ull + (h >> 1) * kDie;
  }
  constexpr uint64_t bar4_stride() const { return v2() ? 0x4'0000'0000 : 0x10'0000'0000; }
  constexpr uint64_t host_window() const { return v2() ? 1ull << 44 : 1ull << 46; }
  constexpr uint64_t host_limit() const { return host_window(); }
  constexpr bool is_host(uint64_t address) const {
    if (v2()) return (address >> 44) == 1;
    return (address >> 46) == 1;
  }
  // Own: windows of other chips of the platform.
  constexpr bool is_peer(uint64_t address) const {
    return v2() ? (address >> 44) >= 16 && (address >> 44) < 16 + kMaxChipsV2
                : (address >> 63) == 1;
  }
  constexpr uint32_t peer_chip(uint64_t address) const {
    return static_cast<uint32_t>(v2() ? (address >> 44) - 16 : (address >> 53) & (kMaxChips - 1));
  }
  constexpr uint64_t peer_local(uint64_t address) const {
    return v2() ? address & ((1ull << 44) - 1) : address & ((1ull << 53) - 1) & ~(1ull << 46);
  }
  constexpr uint64_t peer_address(uint32_t chip, uint64_t local) const {
    return v2() ? ((16ull + chip) << 44) | local
                : (1ull << 63) | (static_cast<uint64_t>(chip) << 53) | local;
  }
  // Inter-server windows of v3 and v4 (2.4, 9.2): window k forwards the low 50 bits.
  constexpr bool is_neighbour(uint64_t address) const { return !v2() && (address >> 52) == 1; }
  static constexpr uint32_t neighbour_window(uint64_t address) {
    return static_cast<uint32_t>(address >> 50 & 3);
  }
  static constexpr uint64_t neighbour_local(uint64_t address) {
    return address & ((1ull << 50) - 1);
  }
  static constexpr uint64_t neighbour_address(uint32_t window, uint64_t local) {
    return (1ull << 52) + (static_cast<uint64_t>(window) << 50) + local;
  }

  // NeuronCore and CC-core windows.
  constexpr Window nc(uint32_t n) const {
    if (v2()) return linear(0x0FFF'C000'0000 + n * tpb::kBarWindow, tpb::kBarWindow);
    const uint64_t device = 0x20'0000'0000 + (n & 1) * 0x10'0000'0000ull +
                            ((n >> 1) & 1) * 0x40'0000'0000ull + (n >> 2) * kDie;
    return {device, 0xD000'0000 + n * tpb::kBarWindow, tpb::kBarWindow};
  }
  constexpr Window topsp(uint32_t t) const {  // t: software index
    if (v2()) return linear(0x0FFF'D000'0000 + t * topsp::kWindow, topsp::kWindow);
    const uint32_t die = t / 8;
    const uint32_t k = t % 8;
    return {0x82'8000'0000 + k * 0x4000'0000ull + die * kDie,
            (die == 0 ? 0xF000'0000 : 0xF280'0000) + k * topsp::kWindow, topsp::kWindow};
  }
  constexpr uint64_t nc_semaphores(uint32_t n) const { return nc(n).device + tpb::kSemaphores; }
  constexpr uint64_t topsp_semaphores(uint32_t t) const { return topsp(t).device; }
  constexpr uint64_t engine_block(uint32_t n, uint32_t engine) const {
    return nc(n).device + tpb::kEngine + engine * tpb::kEngineStride;
  }

  // DMA engines (2.3, 2.4). `e` counts compute engines first, then the host-copy engines.
  constexpr Window udma(uint32_t e) const {
    if (v2()) {
      const uint64_t offset = e < 16    ? e * kUdmaUnit
                              : e < 32  ? 0x70'0000 + (e - 16) * kUdmaUnit
                              : e == 32 ? 0x60'0000
                                        : 0xD0'0000;
      return linear(kApbV2 + offset, kUdmaUnit);
    }
    if (e < 128) {
      const uint32_t se = e / 32;
      const uint64_t offset = ((se & 1) != 0 ? 0x0400'0000 : 0x0200'0000) + (e % 32) * 0x10'0000ull;
      return in_se(se, offset, kUdmaUnit);
    }
    const uint32_t host = e - 128;
    return in_io(host / 2, 0x0680'0000 + (host % 2) * 0x10'0000ull, kUdmaUnit);
  }
  constexpr Window sdma(uint32_t e) const {
    if (v2() && e < 32) {
      const uint64_t offset = e < 16 ? 0x40'0000 + e * kSdmaUnit : 0xB0'0000 + (e - 16) * kSdmaUnit;
      return linear(kApbV2 + offset, kSdmaUnit);
    }
    const Window unit = udma(e);
    return {unit.device + kUdmaUnit, unit.bar0 + kUdmaUnit, kSdmaUnit};
  }
  // Error-trigger block; v3 and v4, compute engines only.
  constexpr Window error_trigger(uint32_t e) const {
    const uint32_t se = e / 32;
    const uint64_t offset = ((se & 1) != 0 ? 0x0C40'0000 : 0x0C00'0000) + (e % 32) * 0x2'0000ull;
    return in_se(se, offset, 0x1000);
  }
  // Own: a store here is forwarded to the same offset of the UDMA units of all 16 engines of NC n.
  constexpr Window broadcast(uint32_t n) const {
    if (v2()) return linear(kApbV2 + 0x100'0000 + n * kUdmaUnit, kUdmaUnit);
    return in_se(n / 2, 0x0E00'0000 + (n % 2) * kUdmaUnit, kUdmaUnit);
  }

  // Notification blocks, misc RAM, counters, QEMU reset register.
  constexpr Window nc_nq(uint32_t n) const {
    if (v2()) return linear(kApbV2 + (n == 0 ? 0x53'5000 : 0xC3'5000), kNqBlock);
    const uint64_t offset = 0x0600'1000 + ((n >> 1) & 1) * 0x40'0000ull + (n & 1) * 0x18'0000ull;
    return in_io(n / 4, offset, kNqBlock);
  }
  constexpr Window topsp_nq(uint32_t t) const {
    if (v2()) return linear(kApbV2 + 0xE0'4000 + t * 0x4'0000ull, kNqBlock);
    return in_io(t / 8, 0x06A0'0000 + (t % 8) * 0x4'0000ull, kNqBlock);
  }
  // Windows that software may name but where nothing is modelled: memory of the pre-processing
  // blocks (2.4, no BAR0 window), CC-cores without a software index (hardware 8, 9, 18, 19).
  constexpr uint32_t preprocs() const { return v2() ? 0 : 4; }
  constexpr Window preproc(uint32_t p) const {
    return {0x12'0000'0000 + (p & 1) * 0x40'0000'0000ull + (p >> 1) * kDie, 0, 0x034C'0000};
  }
  constexpr uint32_t spare_topsps() const { return v2() ? 0 : 4; }
  constexpr Window spare_topsp(uint32_t s) const {
    const uint64_t die = s / 2;
    const uint64_t k = 8 + s % 2;
    return {0x82'8000'0000 + k * 0x4000'0000 + die * kDie,
            0xF000'0000 + die * 0x280'0000 + k * topsp::kWindow, topsp::kWindow};
  }
  constexpr Window misc_ram() const {
    if (v2()) return linear(kApbV2 + 0xFA'0000, kMiscRamBytes);
    return in_io(0, 0x06C8'4000, kMiscRamBytes);
  }
  constexpr Window pe_counters(uint32_t n) const {
    if (v2()) return linear(kApbV2 + (n == 0 ? 0x5B'1100 : 0xCB'1100), 0x600);
    return in_io(n / 4, 0x0614'1100 + ((n >> 1) & 1) * 0x40'0000ull + (n & 1) * 0x18'0000ull,
                 0x800);
  }
  constexpr Window qemu_reset() const {
    return v2() ? linear(kApbV2 + 0x64'7010, 4) : in_io(0, 0x0630'0010, 4);
  }

  // Own: where blocks that are not ours have their windows.
  constexpr Window extension() const {
    return v2() ? linear(0x0FFF'E000'0000, kExtension)
                : Window{0x80'1000'0000, 0x1000'0000, kExtension};
  }

  // BAR sizes that hold everything (1.3); BAR0 of v3 and v4 is a 64-bit BAR.
  constexpr uint64_t bar0_size() const { return v2() ? 1ull << 30 : 1ull << 32; }
  constexpr uint64_t bar4_size() const { return bar4_stride() * hbms(); }

  // Device address of a BAR0 offset; 0 where no window claims it (address 0 is HBM, never in BAR0).
  constexpr uint64_t device_of_bar0(uint64_t offset) const {
    if (v2()) return offset < bar0_size() ? offset + kLinearV2 : 0;
    if (offset < 0x8000'0000) {
      const uint64_t die = offset / 0x4000'0000;
      const uint64_t in = offset % 0x4000'0000;
      return in < 0x2000'0000 ? 0x80'0000'0000 + die * kDie + in : 0;
    }
    if (offset < 0xC000'0000) {
      const uint64_t se = (offset - 0x8000'0000) / 0x1000'0000;
      return se_base(static_cast<uint32_t>(se)) + (offset & 0x0FFF'FFFF);
    }
    if (offset < 0xD000'0000) return 0;
    if (offset < 0xF000'0000) {
      const auto n = static_cast<uint32_t>((offset - 0xD000'0000) / tpb::kBarWindow);
      return nc(n).device + (offset & (tpb::kBarWindow - 1));
    }
    if (offset >= bar0_size()) return 0;
    const uint64_t die = offset >= 0xF280'0000 ? 1 : 0;
    const uint64_t in = offset - (die != 0 ? 0xF280'0000 : 0xF000'0000);
    const uint64_t k = in / topsp::kWindow;  // hardware index within the die, 0..9
    return k < 10 ? 0x82'8000'0000 + k * 0x4000'0000 + die * kDie + in % topsp::kWindow : 0;
  }
  // Device address of a BAR4 offset, or ~0 outside the populated stacks.
  constexpr uint64_t device_of_bar4(uint64_t offset) const {
    const uint64_t h = offset / bar4_stride();
    const uint64_t in = offset % bar4_stride();
    return h < hbms() && in < hbm_size() ? hbm_base(static_cast<uint32_t>(h)) + in : ~0ull;
  }

 private:
  static constexpr uint64_t kExtension = 256ull << 20;
  static constexpr uint64_t kDie = 0x8000'0000'0000;
  static constexpr uint64_t kLinearV2 = 0x0FFF'C000'0000;
  static constexpr uint64_t kApbV2 = 0x0FFF'F000'0000;

  static constexpr Window linear(uint64_t device, uint64_t size) {
    return {device, device - kLinearV2, size};
  }
  static constexpr uint64_t se_base(uint32_t se) {
    return 0x10'0000'0000 + (se & 1) * 0x40'0000'0000ull + (se >> 1) * kDie;
  }
  static constexpr Window in_se(uint32_t se, uint64_t offset, uint64_t size) {
    return {se_base(se) + offset, 0x8000'0000 + se * 0x1000'0000ull + offset, size};
  }
  static constexpr Window in_io(uint32_t die, uint64_t offset, uint64_t size) {
    return {0x80'0000'0000 + die * kDie + offset, die * 0x4000'0000ull + offset, size};
  }
};

}  // namespace contract
