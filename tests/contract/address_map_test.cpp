// The verification tables of spec/hw-registers.md 2.3 to 2.5 and the worked descriptors of 3.5.
#include "arch/contract/address_map.h"
#include <gtest/gtest.h>
#include "arch/contract/cc_program.h"
#include "arch/contract/descriptor.h"
#include "arch/contract/engine.h"
#include "arch/contract/notification.h"
#include "contract/regs/cc.h"

using namespace contract;  // NOLINT
// The program memory and tables of a CC-core, as firmware and registers have them.
static_assert(cc_program::kMaxRecords == 4096);
static_assert(cc_program::kOperations == cc::kOpCount);
static_assert(cc_program::kBarrierCells == cc::kBarrierCount);
constexpr AddressMap m{Gen::kV2};
static_assert(m.udma(31).device == 0x0FFFF0AC0000 && m.udma(31).bar0 == 0x30AC0000);
static_assert(m.sdma(31).bar0 == 0x30B69000 && m.sdma(33).bar0 == 0x30D40000);
static_assert(m.topsp_nq(5).bar0 == 0x30F44000 && m.topsp(5).bar0 == 0x11400000);
static_assert(m.nc_semaphores(1) == 0x0FFFC6700000);
constexpr AddressMap k{Gen::kV3};
static_assert(k.nc(7).device == 0x807000000000 && k.nc(7).bar0 == 0xEC000000);
static_assert(k.nc_nq(7).bar0 == 0x46581000 && k.nc_nq(6).device == 0x808006401000);
static_assert(k.topsp(15).device == 0x808440000000 && k.topsp(15).bar0 == 0xF4400000);
static_assert(k.topsp_nq(15).bar0 == 0x46BC0000);
static_assert(k.udma(100).device == 0x805004400000 && k.udma(100).bar0 == 0xB4400000);
static_assert(k.sdma(127).bar0 == 0xB5F40000 && k.error_trigger(127).bar0 == 0xBC7E0000);
static_assert(k.udma(131).bar0 == 0x46900000 && k.udma(131).device == 0x808006900000);
static_assert(k.device_of_bar0(0xB5F40000) == k.sdma(127).device);
static_assert(k.device_of_bar0(0xF4400000) == 0x808440000000);
static_assert(k.device_of_bar0(0xEE700000) == 0x807002700000);
static_assert(desc::tx_copy(0x1000AA550000, 0x10000, 1, desc::kFirst | desc::kLast, true).w0 ==
              0x0D000000);
static_assert(desc::tx_copy(0, 0, 1, desc::kFirst | desc::kLast, true).w1 == 0x05080003);

TEST(AddressMap, EveryBlockIsReachableThroughBar0) {
  for (const Gen gen : {Gen::kV2, Gen::kV3, Gen::kV4}) {
    const AddressMap map{gen};
    const auto check = [&](const Window& w) {
      EXPECT_EQ(map.device_of_bar0(w.bar0), w.device);
      EXPECT_EQ(map.device_of_bar0(w.bar0 + w.size - 4), w.device + w.size - 4);
    };
    for (uint32_t n = 0; n < map.ncs(); ++n) {
      check(map.nc(n));
      check(map.nc_nq(n));
      check(map.broadcast(n));
    }
    for (uint32_t t = 0; t < map.topsps(); ++t) {
      check(map.topsp(t));
      check(map.topsp_nq(t));
    }
    for (uint32_t e = 0; e < map.dma_engines(); ++e) {
      check(map.udma(e));
      check(map.sdma(e));
    }
    check(map.misc_ram());
    check(map.qemu_reset());
  }
}

struct V2Engine {
  uint32_t e;
  uint64_t udma, sdma;  // device addresses
};
struct NcRow {
  uint64_t device, bar0, nq;
};
struct EngineRow {
  uint32_t e;
  uint64_t device, udma, sdma, trigger, trace;  // BAR0 but for the first
};

TEST(AddressMap, VerificationTableOfV2) {
  constexpr uint64_t kLinear = 0x0FFF'C000'0000;
  constexpr V2Engine kEngines[] = {
      {0, 0x0FFFF0000000, 0x0FFFF0400000},  {1, 0x0FFFF0040000, 0x0FFFF0407000},
      {15, 0x0FFFF03C0000, 0x0FFFF0469000}, {16, 0x0FFFF0700000, 0x0FFFF0B00000},
      {31, 0x0FFFF0AC0000, 0x0FFFF0B69000}, {32, 0x0FFFF0600000, 0x0FFFF0640000},
      {33, 0x0FFFF0D00000, 0x0FFFF0D40000}};
  for (const V2Engine& row : kEngines) {
    EXPECT_EQ(m.udma(row.e).device, row.udma) << row.e;
    EXPECT_EQ(m.sdma(row.e).device, row.sdma) << row.e;
    EXPECT_EQ(m.udma(row.e).bar0, row.udma - kLinear);
    EXPECT_EQ(m.sdma(row.e).bar0, row.sdma - kLinear);
  }
  EXPECT_EQ(m.nc_nq(0).bar0, 0x30535000u);
  EXPECT_EQ(m.nc_nq(1).bar0, 0x30C35000u);
  EXPECT_EQ(m.topsp_nq(0).device, 0x0FFFF0E04000u);
  EXPECT_EQ(m.topsp(5).device, 0x0FFFD1400000u);
  EXPECT_EQ(m.misc_ram().device, 0x0FFFF0FA0000u);
  EXPECT_EQ(m.qemu_reset().bar0, 0x30647010u);
  EXPECT_EQ(m.pe_counters(0).bar0, 0x305B1100u);
  EXPECT_EQ(m.pe_counters(1).bar0, 0x30CB1100u);
  // The published example of an engine's trigger: queue 8 of the broadcast window (3.6).
  EXPECT_EQ(m.broadcast(0).device + 0x9038, 0x0FFFF1009038u);
  EXPECT_EQ(m.hbm_base(1), 0x10'0000'0000u);
  EXPECT_EQ(m.device_of_bar4(0x4'0000'0000), m.hbm_base(1));
}

TEST(AddressMap, VerificationTablesOfV3AndV4) {
  constexpr NcRow kNcs[] = {
      {0x002000000000, 0xD0000000, 0x008006001000}, {0x003000000000, 0xD4000000, 0x008006181000},
      {0x006000000000, 0xD8000000, 0x008006401000}, {0x007000000000, 0xDC000000, 0x008006581000},
      {0x802000000000, 0xE0000000, 0x808006001000}, {0x803000000000, 0xE4000000, 0x808006181000},
      {0x806000000000, 0xE8000000, 0x808006401000}, {0x807000000000, 0xEC000000, 0x808006581000}};
  constexpr EngineRow kEngines[] = {
      {0, 0x001002000000, 0x82000000, 0x82040000, 0x8C000000, 0x82041000},
      {1, 0x001002100000, 0x82100000, 0x82140000, 0x8C020000, 0x82141000},
      {4, 0x001002400000, 0x82400000, 0x82440000, 0x8C080000, 0x82441000},
      {31, 0x001003F00000, 0x83F00000, 0x83F40000, 0x8C3E0000, 0x83F41000},
      {32, 0x005004000000, 0x94000000, 0x94040000, 0x9C400000, 0x94041000},
      {36, 0x005004400000, 0x94400000, 0x94440000, 0x9C480000, 0x94441000},
      {64, 0x801002000000, 0xA2000000, 0xA2040000, 0xAC000000, 0xA2041000},
      {68, 0x801002400000, 0xA2400000, 0xA2440000, 0xAC080000, 0xA2441000},
      {96, 0x805004000000, 0xB4000000, 0xB4040000, 0xBC400000, 0xB4041000},
      {100, 0x805004400000, 0xB4400000, 0xB4440000, 0xBC480000, 0xB4441000},
      {127, 0x805005F00000, 0xB5F00000, 0xB5F40000, 0xBC7E0000, 0xB5F41000}};
  for (const AddressMap map : {k, AddressMap{Gen::kV4}}) {
    for (uint32_t n = 0; n < 8; ++n) {
      EXPECT_EQ(map.nc(n).device, kNcs[n].device) << n;
      EXPECT_EQ(map.nc(n).bar0, kNcs[n].bar0) << n;
      EXPECT_EQ(map.nc_nq(n).device, kNcs[n].nq) << n;
      EXPECT_EQ(map.nc_nq(n).bar0, (n / 4) * 0x40000000 + (kNcs[n].nq & 0x1FFF'FFFF)) << n;
    }
    for (const EngineRow& row : kEngines) {
      EXPECT_EQ(map.udma(row.e).device, row.device) << row.e;
      EXPECT_EQ(map.udma(row.e).bar0, row.udma) << row.e;
      EXPECT_EQ(map.sdma(row.e).bar0, row.sdma) << row.e;
      EXPECT_EQ(map.error_trigger(row.e).bar0, row.trigger) << row.e;
      EXPECT_EQ(map.sdma(row.e).bar0 + kSdmaTraceNq, row.trace) << row.e;
      EXPECT_EQ(map.device_of_bar0(row.trigger), map.error_trigger(row.e).device);
    }
    EXPECT_EQ(map.topsp(7).device, 0x008440000000u);
    EXPECT_EQ(map.topsp(8).bar0, 0xF2800000u);
    EXPECT_EQ(map.topsp_nq(8).bar0, 0x46A00000u);
    EXPECT_EQ(map.misc_ram().device, 0x008006C84000u);
    EXPECT_EQ(map.qemu_reset().bar0, 0x06300010u);
    EXPECT_EQ(map.pe_counters(6).bar0, 0x46541100u);
    EXPECT_EQ(map.preproc(3).device, 0x805200000000u);
    EXPECT_EQ(map.spare_topsp(0).bar0, 0xF2000000u);
    EXPECT_EQ(map.spare_topsp(3).bar0, 0xF4C00000u);
    EXPECT_EQ(map.hbm_base(3), 0x804000000000u);
    EXPECT_EQ(map.device_of_bar4(0x10'0000'0000), map.hbm_base(1));
    EXPECT_EQ(map.device_of_bar4(map.hbm_size()), ~0ull);
  }
  EXPECT_EQ(k.hbm_size(), 0x6'0000'0000u);
  EXPECT_EQ(AddressMap{Gen::kV4}.hbm_size(), 0x9'0000'0000u);
}

TEST(AddressMap, PeerAddressesSplitBackIntoChipAndLocal) {
  for (const Gen gen : {Gen::kV2, Gen::kV3}) {
    const AddressMap map{gen};
    const uint64_t local = map.udma(5).device + 0x38;
    const uint64_t peer = map.peer_address(9, local);
    EXPECT_TRUE(map.is_peer(peer));
    EXPECT_FALSE(map.is_host(peer));
    EXPECT_FALSE(map.is_peer(local));
    EXPECT_EQ(map.peer_chip(peer), 9u);
    EXPECT_EQ(map.peer_local(peer), local);
  }
}

TEST(Descriptor, ComputeMetadataRoundTrip) {
  DmaCompute c;
  c.op = ReduceOp::kMax;
  c.src = DType::kBf16;
  c.dst = DType::kFp32;
  c.sources = 16;
  c.has_constant = true;
  c.constant_kind = 2;
  c.constant_bits = 0xDEADBEEF;
  c.copies = 4;
  const DmaCompute back = DmaCompute::unpack(c.pack(3));
  EXPECT_EQ(back.op, c.op);
  EXPECT_EQ(back.src, c.src);
  EXPECT_EQ(back.dst, c.dst);
  EXPECT_EQ(back.sources, 16);
  EXPECT_TRUE(back.has_constant);
  EXPECT_EQ(back.constant_kind, 2);
  EXPECT_EQ(back.constant_bits, 0xDEADBEEF);
  EXPECT_EQ(back.copies, 4);
  EXPECT_EQ(desc::ring_id(c.pack(3).w0), 3u);
}
