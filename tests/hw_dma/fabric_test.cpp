// Address decoding, memory, peers and the paths that transfers occupy.
#include "tests/hw_dma/bench.h"

namespace hw {
namespace {

constexpr uint64_t kA = 0x100'0000;

struct Null : BusTarget {
  bool access(uint64_t offset, uint8_t* data, size_t size, bool write, bool) override {
    last = offset;
    if (!write) std::memset(data, 0x11, size);
    return true;
  }
  uint64_t last = 0;
};

TEST(Decode, EveryWindowOfEveryGeneration) {
  for (const Gen gen : {Gen::kV2, Gen::kV3, Gen::kV4}) {
    BenchConfig config;
    config.gen = gen;
    DmaBench b(config);
    const AddressMap& map = b.map();
    for (uint32_t h = 0; h < map.hbms(); ++h) {
      EXPECT_EQ(b.fabric.locate(map.hbm_base(h)).space, Space::kHbm);
      const Location last = b.fabric.locate(map.hbm_base(h) + map.hbm_size() - 1);
      EXPECT_EQ(last.index, h);
      EXPECT_EQ(last.length, 1u);
      EXPECT_EQ(b.fabric.reach(map.hbm_base(h) + map.hbm_size(), 1), Space::kNone);
    }
    for (uint32_t n = 0; n < map.ncs(); ++n) {
      const uint64_t base = map.nc(n).device;
      const uint64_t populated = map.sbuf_partition_bytes();
      const uint64_t last = base + 127 * contract::tpb::kPartitionStride + populated - 1;
      EXPECT_EQ(b.fabric.reach(base, populated), Space::kSbuf);
      EXPECT_EQ(b.fabric.reach(last, 1), Space::kSbuf);
      EXPECT_EQ(b.fabric.locate(last).index, n);
      const bool full = populated == contract::tpb::kPartitionStride;
      EXPECT_EQ(b.fabric.reach(base, populated + 1), full ? Space::kSbuf : Space::kNone);
      EXPECT_EQ(b.fabric.direct(base + populated, 1) != nullptr, full);
      const uint64_t psum = base + contract::tpb::kPsum;
      EXPECT_EQ(b.fabric.reach(psum + 127 * 0x8000, 16384), Space::kPsum);
      EXPECT_EQ(b.fabric.reach(psum, 16385), Space::kNone);
      EXPECT_EQ(b.fabric.reach(psum + 128 * 0x8000, 1), Space::kNone);
    }
    for (uint32_t e = 0; e < map.dma_engines(); ++e) {
      EXPECT_TRUE(b.fabric.is_register(map.udma(e).device + contract::kUdmaUnit - 4)) << e;
      EXPECT_TRUE(b.fabric.is_register(map.sdma(e).device)) << e;
    }
    EXPECT_EQ(b.fabric.reach(b.host_address(0), 1 << 20), Space::kHost);
    EXPECT_EQ(b.fabric.direct(map.host_window(), 1), nullptr);
    EXPECT_EQ(b.fabric.domain_of_engine(map.compute_engines()), Fabric::kNoDomain);
    EXPECT_EQ(b.fabric.domain_of_engine(map.compute_engines() - 1), map.hbms() - 1);
  }
}

TEST(Decode, WindowsMustNotOverlap) {
  AccessLog log;
  Fabric fabric({"d0", {}, 0}, TimingParams{}, log);
  Null target;
  const uint64_t at = 0x0FFF'F100'0000;
  EXPECT_TRUE(fabric.map(at, 0x100, target, 0x1000, "a"));
  EXPECT_FALSE(fabric.map(at, 0x100, target, 0, "b"));
  EXPECT_FALSE(fabric.map(at + 0xFF, 4, target, 0, "b"));
  EXPECT_FALSE(fabric.map(at - 1, 2, target, 0, "b"));
  EXPECT_FALSE(fabric.map(at + 0x100, 0, target, 0, "b"));
  EXPECT_TRUE(fabric.map(at + 0x100, 4, target, 0, "b"));
  EXPECT_TRUE(fabric.map(at - 4, 4, target, 0, "c"));
  uint32_t value = 0;
  EXPECT_TRUE(fabric.read32(at + 0xFC, value));
  EXPECT_EQ(value, 0x11111111u);
  EXPECT_EQ(target.last, 0x10FCu);
  EXPECT_FALSE(fabric.read32(at + 0xFE, value));  // leaves the window
  EXPECT_FALSE(fabric.read32(at + 0x104, value));
  EXPECT_EQ(value, 0u);
}

// What runs out of one memory does not reach the one that the host has put beside it.
TEST(MemoryDeathTest, NothingLiesBesideAMapping) {
  constexpr uint64_t kSize = 0x3000;
  for (const Memory::Backing backing : {Memory::Backing::kShared, Memory::Backing::kPrivate}) {
    Memory memory("guarded", kSize, backing);
    volatile uint8_t* data = memory.at(0, kSize);
    ASSERT_NE(data, nullptr);
    data[0] = data[kSize - 1] = 1;
    EXPECT_DEATH(data[kSize] = 1, "");
    EXPECT_DEATH(*(data - 1) = 1, "");
    EXPECT_DEATH(data[kSize + 0xF'FFFF] = 1, "");
  }
}

TEST(Memory, TouchesNothingBeforeUse) {
  AccessLog log;
  Fabric fabric({"d0", {}, 0}, TimingParams{}, log);
  EXPECT_FALSE(fabric.hbm(0).touched());
  EXPECT_TRUE(fabric.hbm(0).is_hole(0, fabric.hbm(0).size()));
  EXPECT_TRUE(fabric.hbm(1).fd().ok());
  *fabric.direct(0x3'0000'0000, 1) = 1;
  EXPECT_FALSE(fabric.hbm(0).is_hole(0x3'0000'0000, 4096));
  EXPECT_TRUE(fabric.hbm(0).is_hole(0x3'0000'1000, 1 << 20));
}

// SBUF is the machine's own memory until a program maps it.
TEST(Memory, BecomesSharedWhereItLies) {
  Memory memory("private", 0x10000, Memory::Backing::kPrivate);
  uint8_t* data = memory.at(0, memory.size());
  ASSERT_NE(data, nullptr);
  data[0x3001] = 7;
  const auto fd = memory.fd();
  ASSERT_TRUE(fd.ok());
  EXPECT_EQ(memory.at(0, 1), data);
  EXPECT_EQ(data[0x3001], 7);
  EXPECT_TRUE(memory.is_hole(0x4000, 0x1000));
  auto mapped = base::Mapping::map_shared(*fd, 0, memory.size(), true);
  ASSERT_TRUE(mapped.ok());
  EXPECT_EQ(mapped->data()[0x3001], 7);
  mapped->data()[0x5000] = 9;
  EXPECT_EQ(data[0x5000], 9);
  data[0x6000] = 11;
  EXPECT_EQ(mapped->data()[0x6000], 11);
  Memory untouched("untouched", 0x10000, Memory::Backing::kPrivate);
  ASSERT_TRUE(untouched.fd().ok());
  EXPECT_TRUE(untouched.is_hole(0, 0x10000));
}

// Two memories in a file, the second one with its end elsewhere than its beginning.
TEST(Memory, SharesAFile) {
  constexpr uint64_t kSize = 0x4000;
  const auto file = std::make_shared<MemoryFile>("shared", 3 * kSize);
  Memory first(file, {}, "first", kSize);
  Memory second(file, {kSize, 0x1000, 2 * kSize}, "second", kSize);
  EXPECT_TRUE(second.is_hole(0, kSize));
  uint8_t* data = second.at(0, kSize);
  ASSERT_NE(data, nullptr);
  for (uint64_t i = 0; i < kSize; ++i) data[i] = static_cast<uint8_t>(i / 0x1000 + 1);
  EXPECT_TRUE(first.is_hole(0, kSize));
  EXPECT_EQ(*first.fd(), *second.fd());
  const auto mapped = base::Mapping::map_shared(*second.fd(), 0, 3 * kSize, true);
  ASSERT_TRUE(mapped.ok());
  EXPECT_EQ(mapped->data()[0], 0);
  EXPECT_EQ(mapped->data()[kSize + 0xFFF], 1);
  EXPECT_EQ(mapped->data()[2 * kSize], 2);
  EXPECT_EQ(mapped->data()[2 * kSize + 0x2FFF], 4);
  EXPECT_EQ(second.in_file(0x800).offset, kSize + 0x800);
  EXPECT_EQ(second.in_file(0x800).length, 0x800u);
  EXPECT_EQ(second.in_file(0x1000).length, 0x3000u);
  second.discard(0, 0x2000);
  EXPECT_TRUE(second.is_hole(0, 0x2000));
  EXPECT_FALSE(second.is_hole(0, 0x3000));
  EXPECT_EQ(data[0x1FFF], 0);
  EXPECT_EQ(data[0x2000], 3);
}

// Chips side by side; every hop is one resource.
class TwoChips : public ChipPort {
 public:
  TwoChips(Fabric& a, Fabric& b) : chips_{&a, &b} {
    a.set_port(this);
    b.set_port(this);
  }
  Fabric* peer(uint32_t, uint32_t chip) override { return chip < 2 ? chips_[chip] : nullptr; }
  RouteHops hops(uint32_t from, uint32_t, uint32_t) override { return {&hops_[from], 1}; }
  BandwidthResource forth{"link.0to1", {10, 1000}};
  BandwidthResource back{"link.1to0", {10, 1000}};

 private:
  BandwidthResource* hops_[2] = {&forth, &back};
  Fabric* chips_[2];
};

class Peers : public ::testing::TestWithParam<Gen> {};

TEST_P(Peers, CopyAndSignalAnotherChip) {
  BenchConfig config;
  config.gen = GetParam();
  DmaBench b(config);
  Fabric other({"d1", {config.gen}, 1}, b.timing, b.log);
  TwoChips port(b.fabric, other);
  Recorder semaphores(b.events);
  ASSERT_TRUE(other.map(b.map().nc_semaphores(1), contract::kSemaphoreBlock, semaphores, 0, "sem"));
  auto p = b.setup(0, 0);
  b.fill(b.hbm(0, kA), 4000, 3);
  base::store<uint32_t>(b.at(b.hbm(0, 2 * kA), 4), 1);
  const uint64_t far = b.map().peer_address(1, b.map().hbm_base(1) + kA);
  b.copy(p, b.hbm(0, kA), far, 4000);
  b.copy(p, far, b.map().peer_address(0, b.hbm(1, kA)), 4000);  // own chip by its number
  b.copy(p, b.hbm(0, 2 * kA), b.map().peer_address(1, b.map().nc_semaphores(1)), 4);
  b.doorbell(p, 3, 3);
  b.run();
  EXPECT_EQ(b.counters.dma_errors, 0u);
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(1, kA), 4000));
  EXPECT_EQ(
      std::memcmp(other.direct(b.map().hbm_base(1) + kA, 4000), b.at(b.hbm(0, kA), 4000), 4000), 0);
  ASSERT_EQ(semaphores.stores.size(), 1u);
  EXPECT_EQ(port.forth.total_bytes(), 4004u);
  EXPECT_EQ(port.back.total_bytes(), 4000u);
  EXPECT_EQ(other.hbm_resource(1).total_bytes(), 8000u);
  // The link is the slowest: each data packet takes 400 ns; the signal 0.4 ns, and 1 ns for its
  // buffer.
  EXPECT_EQ(semaphores.stores[0].time, 770'000u + 800'000 + 1235 + 510'000);
}

TEST_P(Peers, NoRouteIsABusError) {
  BenchConfig config;
  config.gen = GetParam();
  DmaBench b(config);
  auto p = b.setup(0, 0);
  b.copy(p, b.hbm(0, kA), b.map().peer_address(5, b.map().hbm_base(0)), 64);
  b.doorbell(p, 1, 1);
  b.run();
  EXPECT_EQ(b.counters.dma_errors, 1u);
}

INSTANTIATE_TEST_SUITE_P(Generations, Peers, ::testing::Values(Gen::kV2, Gen::kV3, Gen::kV4));

}  // namespace
}  // namespace hw
