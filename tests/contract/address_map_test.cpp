// The verification tables of hw-registers.md 2.3 to 2.5 and the worked descriptors of 3.5.
#include "arch/contract/address_map.h"
#include <gtest/gtest.h>
#include "arch/contract/cc_program.h"
#include "arch/contract/descriptor.h"
#include "arch/contract/engine.h"
#include "arch/contract/notification.h"

using namespace contract;  // NOLINT
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
  const DmaCompute back = DmaCompute::unpack(c.pack(3));
  EXPECT_EQ(back.op, c.op);
  EXPECT_EQ(back.src, c.src);
  EXPECT_EQ(back.dst, c.dst);
  EXPECT_EQ(back.sources, 16);
  EXPECT_TRUE(back.has_constant);
  EXPECT_EQ(back.constant_kind, 2);
  EXPECT_EQ(back.constant_bits, 0xDEADBEEF);
  EXPECT_EQ(desc::ring_id(c.pack(3).w0), 3u);
}
