#include "hw/pcie/endpoint.h"

#include <map>
#include <stdexcept>

#include "contract/regs/misc.h"
#include "tests/hw_core/core_bench.h"

namespace {

using contract::Gen;
using hw::AccessLog;

struct NoRegisters final : hw::EndpointOwner {
  base::Result<pcie::BarMapping> map_registers(uint64_t, uint64_t) override {
    return base::Error{base::Fault::kUnsupported, 0, "", "none"};
  }
  void power_on() override { ++power_ons; }
  int power_ons = 0;
};

// A block of 32-bit words.
struct Words final : hw::BusTarget {
  bool access(uint64_t offset, uint8_t* data, size_t size, bool write, bool) override {
    if (size != 4 || offset + 4 > sizeof words) return false;
    if (write) {
      words[offset / 4] = base::load<uint32_t>(data);
    } else {
      base::store(data, words[offset / 4]);
    }
    return true;
  }
  uint32_t words[16] = {};
};

class EndpointTest : public ::testing::Test {
 protected:
  explicit EndpointTest(Gen gen = Gen::kV2) : bench_(gen) {
    const contract::Window misc = bench_.map().misc_ram();
    EXPECT_TRUE(bench_.fabric.map(misc.device, sizeof words_.words, words_, 0, "words"));
    base_ = misc.bar0;
    endpoint_.config_write(0x04, 2, 0x2);
  }
  hw_test::CoreBench bench_;
  NoRegisters none_;
  Words words_;
  uint64_t base_ = 0;
  hw::Endpoint endpoint_{{"d0", 0x7164, 0}, bench_.fabric, none_, bench_.log};
};

TEST_F(EndpointTest, Header) {
  EXPECT_EQ(endpoint_.config_read(0, 4), 0x7164'1D0Fu);
  EXPECT_EQ(endpoint_.config_read(0x08, 1), 0u);
  EXPECT_EQ(endpoint_.config_read(0x0B, 1), 0x12u);
  EXPECT_EQ(endpoint_.config_read(0x0E, 1), 0u);
  EXPECT_EQ(endpoint_.config_read(0x06, 2), 0x10u);
  EXPECT_EQ(endpoint_.config_read(0x34, 1), 0x40u);
  EXPECT_EQ(endpoint_.config_read(0x40, 1), 0x10u);
  EXPECT_EQ(endpoint_.config_read(0x41, 1), 0u);
  EXPECT_EQ(endpoint_.config_read(0x3D, 1), 0u);  // no interrupt pin
  EXPECT_EQ(endpoint_.config_read(0x100, 4), 0u);
  endpoint_.config_write(0, 4, 0);
  EXPECT_EQ(endpoint_.config_read(0, 4), 0x7164'1D0Fu);
}

TEST_F(EndpointTest, BarSizing) {
  const auto size_of = [&](uint32_t bar) {
    endpoint_.config_write(0x10 + 4 * bar, 4, ~0u);
    endpoint_.config_write(0x14 + 4 * bar, 4, ~0u);
    const uint64_t low = endpoint_.config_read(0x10 + 4 * bar, 4) & ~0xFu;
    const uint64_t high = endpoint_.config_read(0x14 + 4 * bar, 4);
    return ~(high << 32 | low) + 1;
  };
  EXPECT_EQ(size_of(0), 1ull << 30);
  EXPECT_EQ(size_of(4), 32ull << 30);
  EXPECT_EQ(endpoint_.config_read(0x10, 4) & 0xF, 0x4u);
  EXPECT_EQ(endpoint_.config_read(0x20, 4) & 0xF, 0xCu);
  EXPECT_EQ(endpoint_.config_read(0x18, 4), 0u);
  endpoint_.config_write(0x10, 4, 0xC000'0000);
  EXPECT_EQ(endpoint_.config_read(0x10, 4), 0xC000'0004u);
}

TEST_F(EndpointTest, RegistersAnswerAlignedWords) {
  endpoint_.write32(0, base_ + 4, 0x1234'5678);
  EXPECT_EQ(endpoint_.read32(0, base_ + 4), 0x1234'5678u);
  uint8_t two[2] = {0xEE, 0xEE};
  endpoint_.bar_read(0, base_ + 4, {two, 2});
  EXPECT_EQ(two[0], 0);
  endpoint_.bar_write(0, base_ + 6, {two, 2});
  EXPECT_EQ(words_.words[1], 0x1234'5678u);
  EXPECT_EQ(bench_.log.total(AccessLog::Kind::kPartial), 2u);
  EXPECT_EQ(bench_.log.entries().count({"words", AccessLog::Kind::kPartial, "0x00006", true}), 1u);
  uint8_t eight[8] = {1, 0, 0, 0, 2, 0, 0, 0};
  endpoint_.bar_write(0, base_ + 8, {eight, 8});
  EXPECT_EQ(words_.words[2], 1u);
  EXPECT_EQ(words_.words[3], 2u);
}

TEST_F(EndpointTest, UnclaimedReadsZeroAndIsCounted) {
  EXPECT_EQ(endpoint_.read32(0, 0x3FFF'0000), 0u);
  endpoint_.write32(0, 0x3FFF'0000, 1);
  EXPECT_EQ(endpoint_.read32(0, 1ull << 30), 0u);  // past the BAR
  EXPECT_EQ(endpoint_.read32(4, 32ull << 30), 0u);
  EXPECT_EQ(endpoint_.read32(2, 0), 0u);  // no such BAR
  EXPECT_EQ(bench_.log.total(AccessLog::Kind::kUnknown), 5u);
}

TEST_F(EndpointTest, NothingWithoutMemoryDecode) {
  words_.words[0] = 5;
  endpoint_.config_write(0x04, 2, 0);
  endpoint_.write32(0, base_, 9);
  EXPECT_EQ(endpoint_.read32(0, base_), 0u);
  EXPECT_EQ(words_.words[0], 5u);
  EXPECT_EQ(bench_.log.total(AccessLog::Kind::kUnknown), 0u);
}

TEST_F(EndpointTest, HbmAnySizeAndStacks) {
  std::vector<uint8_t> bytes(7);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i + 1);
  const uint64_t end_of_first = bench_.map().hbm_size() - 3;
  endpoint_.bar_write(4, end_of_first, bytes);  // crosses into the second stack
  std::vector<uint8_t> back(7);
  endpoint_.bar_read(4, end_of_first, back);
  EXPECT_EQ(back, bytes);
  EXPECT_EQ(*bench_.fabric.direct(bench_.map().hbm_base(1), 1), 4);
}

TEST_F(EndpointTest, SbufThroughRegisterBar) {
  const uint64_t sbuf = bench_.map().nc(1).bar0;
  const uint8_t bytes[3] = {7, 8, 9};
  endpoint_.bar_write(0, sbuf + 5, {bytes, 3});
  EXPECT_EQ(*bench_.fabric.sbuf(1).at(6, 1), 8);
}

TEST_F(EndpointTest, MapsHbm) {
  const auto mapping = endpoint_.bar_map(4, bench_.map().bar4_stride() + 0x1000, 0x2000);
  ASSERT_TRUE(mapping.ok());
  EXPECT_TRUE(mapping->writable);
  EXPECT_EQ(mapping->fd_offset, bench_.map().bar4_stride() + 0x1000);  // one file for the BAR
  auto view = base::Mapping::map_shared(mapping->fd, mapping->fd_offset, mapping->length, true);
  ASSERT_TRUE(view.ok());
  view->data()[5] = 0x5A;
  EXPECT_EQ(*bench_.fabric.direct(bench_.map().hbm_base(1) + 0x1005, 1), 0x5A);
  EXPECT_FALSE(endpoint_.bar_map(4, 0x10, 0x1000).ok());
  EXPECT_FALSE(endpoint_.bar_map(4, 0, 0).ok());
  EXPECT_FALSE(endpoint_.bar_map(4, bench_.map().hbm_size() - 0x1000, 0x2000).ok());
  const auto state_buffer = endpoint_.bar_map(0, bench_.map().nc(0).bar0, 0x200'0000);
  ASSERT_TRUE(state_buffer.ok());
  EXPECT_TRUE(state_buffer->writable);
  EXPECT_FALSE(endpoint_.bar_map(0, bench_.map().nc(0).bar0, 0x200'1000).ok());
  EXPECT_FALSE(endpoint_.bar_map(0, 0x3FFF'0000, 0x1000).ok());
}

// spec/hw-registers.md 1.3: 16 GiB stacks one after the other.
TEST_F(EndpointTest, AllOfBar4LiesInOneFile) {
  const auto areas = endpoint_.bar_areas(4);
  ASSERT_EQ(areas.size(), 1u);
  EXPECT_EQ(areas[0].offset, 0u);
  EXPECT_EQ(areas[0].length, 32ull << 30);
  EXPECT_TRUE(endpoint_.bar_areas(0).empty());
  hw::Endpoint small({"d0", 0x7164, 0, pcie::BarLayout::k32Bit}, bench_.fabric, none_, bench_.log);
  ASSERT_EQ(small.bar_areas(4).size(), 1u);
  EXPECT_EQ(small.bar_areas(4)[0].length, 512ull << 20);
}

class EndpointV3 : public EndpointTest {
 protected:
  EndpointV3() : EndpointTest(Gen::kV3) {}
};

TEST_F(EndpointV3, FourGibBarAndHoles) {
  endpoint_.config_write(0x10, 4, ~0u);
  endpoint_.config_write(0x14, 4, ~0u);
  EXPECT_EQ(endpoint_.config_read(0x10, 4), 0x4u);
  EXPECT_EQ(endpoint_.config_read(0x14, 4), 0xFFFF'FFFFu);
  // 24 GiB stacks in 64 GiB slots.
  EXPECT_EQ(endpoint_.read32(4, 30ull << 30), 0u);
  EXPECT_EQ(bench_.log.total(AccessLog::Kind::kUnknown), 1u);
  const uint8_t byte = 3;
  endpoint_.bar_write(4, 64ull << 30, {&byte, 1});
  EXPECT_EQ(*bench_.fabric.direct(bench_.map().hbm_base(1), 1), 3);
}

// Besides base addresses (BarSizing): command, cache line, interrupt line, device control.
TEST_F(EndpointTest, WritableBits) {
  std::map<uint32_t, uint32_t> writable;
  for (uint32_t offset = 0; offset < 256; ++offset) {
    if (offset >= 0x10 && offset < 0x28) continue;
    endpoint_.config_write(offset, 1, 0xFF);
    const uint32_t ones = endpoint_.config_read(offset, 1);
    endpoint_.config_write(offset, 1, 0);
    const uint32_t bits = ones & ~endpoint_.config_read(offset, 1);
    if (bits != 0) writable[offset] = bits;
  }
  const std::map<uint32_t, uint32_t> expected = {{0x04, 0x46}, {0x05, 0x05}, {0x0C, 0xFF},
                                                 {0x3C, 0xFF}, {0x48, 0xFF}, {0x49, 0x7F}};
  EXPECT_EQ(writable, expected);
}

// Nothing outside the header, whatever the offset and the size.
TEST_F(EndpointTest, ConfigurationSpaceAnywhere) {
  for (const unsigned size : {1u, 2u, 4u}) {
    for (uint32_t offset = 0; offset < 4096; ++offset) {
      endpoint_.config_write(offset, size, ~0u);
      const uint32_t value = endpoint_.config_read(offset, size);
      EXPECT_TRUE(offset < 256 || value == 0) << offset;
      EXPECT_TRUE(size == 4 || value >> (8 * size) == 0) << offset;
    }
  }
  for (const uint32_t offset : {0xFFu, 0xFEu, 0xFDu, 0xFFFu, 0xFFFF'FFFDu, 0xFFFF'FFFFu}) {
    endpoint_.config_write(offset, 4, ~0u);
    EXPECT_EQ(endpoint_.config_read(offset, 4), 0u);
  }
  endpoint_.config_write(0, 0, ~0u);
  EXPECT_EQ(endpoint_.config_read(0, 0), 0u);
  EXPECT_EQ(endpoint_.config_read(0, 4), 0x7164'1D0Fu);
  EXPECT_EQ(endpoint_.config_read(1, 2), 0x641Du);
  EXPECT_EQ(endpoint_.config_read(0x100, 4), 0u);
  EXPECT_EQ(endpoint_.config_read(0x3D, 1), 0u);
}

TEST_F(EndpointTest, AccessesThatWouldWrapAround) {
  words_.words[0] = 5;
  uint8_t bytes[16] = {};
  endpoint_.bar_read(0, ~0ull - 3, {bytes, 16});
  endpoint_.bar_write(0, ~0ull, {bytes, 2});
  endpoint_.bar_write(4, ~0ull - 7, {bytes, 16});
  EXPECT_EQ(bench_.log.total(AccessLog::Kind::kUnknown), 3u);
  // The last bytes of the registers, and those behind them.
  endpoint_.bar_read(0, (1ull << 30) - 8, {bytes, 16});
  endpoint_.bar_read(-1, 0, {bytes, 4});
  endpoint_.bar_read(6, 0, {bytes, 4});
  EXPECT_EQ(words_.words[0], 5u);
}

TEST_F(EndpointTest, ResetIsPowerOn) {
  endpoint_.config_write(0x10, 4, 0xC000'0000);
  endpoint_.config_write(0x3C, 1, 11);
  endpoint_.config_write(0x04, 2, 6);
  endpoint_.reset();
  EXPECT_EQ(none_.power_ons, 1);
  EXPECT_EQ(endpoint_.config_read(0x10, 4), 0x4u);
  EXPECT_EQ(endpoint_.config_read(0x3C, 1), 0u);
  EXPECT_EQ(endpoint_.config_read(0x04, 2), 0u);
  EXPECT_EQ(bench_.fabric.host(), nullptr);
}

TEST_F(EndpointTest, HostMemoryNeedsBusMastering) {
  using hw::Space;
  const uint64_t host = bench_.host_address(0x100);
  uint8_t bytes[4] = {1, 2, 3, 4};
  EXPECT_FALSE(bench_.fabric.write(host, {bytes, 4}));
  EXPECT_EQ(bench_.fabric.direct(host, 4), nullptr);
  EXPECT_EQ(bench_.fabric.reach(host, 4), Space::kNone);
  endpoint_.config_write(0x04, 2, 0x6);
  EXPECT_TRUE(bench_.fabric.write(host, {bytes, 4}));
  EXPECT_EQ(bench_.fabric.reach(host, 4), Space::kHost);
  endpoint_.config_write(0x04, 1, 0x2);
  EXPECT_FALSE(bench_.fabric.read(host, {bytes, 4}));
}

class SmallBars : public EndpointTest {
 protected:
  SmallBars() { small_.config_write(0x04, 2, 0x2); }
  hw::Endpoint small_{{"d0", 0x7164, 0, pcie::BarLayout::k32Bit}, bench_.fabric, none_, bench_.log};
};

TEST_F(SmallBars, FitAHoleOf32Bits) {
  EXPECT_EQ(small_.identity().bar_size[0], 1ull << 30);
  EXPECT_EQ(small_.identity().bar_size[4], 512ull << 20);
  const uint32_t sizes[6] = {0xC000'0000, 0, 0, 0, 0xE000'0000, 0};
  for (uint32_t bar = 0; bar < 6; ++bar) {
    small_.config_write(0x10 + 4 * bar, 4, ~0u);
    EXPECT_EQ(small_.config_read(0x10 + 4 * bar, 4), sizes[bar]) << bar;
  }
  small_.config_write(0x28, 4, ~0u);  // no CardBus
  EXPECT_EQ(small_.config_read(0x28, 4), 0u);
  small_.config_write(0x30, 4, ~0u);  // no ROM
  EXPECT_EQ(small_.config_read(0x30, 4), 0u);
}

TEST_F(SmallBars, TheFirstPartOfTheFirstStack) {
  const uint64_t end = 512ull << 20;
  small_.write32(4, end - 4, 0x1234'5678);
  EXPECT_EQ(base::load<uint32_t>(bench_.fabric.direct(bench_.map().hbm_base(0) + end - 4, 4)),
            0x1234'5678u);
  uint8_t bytes[8] = {9, 9, 9, 9, 9, 9, 9, 9};
  small_.bar_read(4, end - 4, {bytes, 8});  // half of it behind the BAR
  EXPECT_EQ(bytes[3], 0x12);
  EXPECT_EQ(bytes[4], 0);
  EXPECT_TRUE(small_.bar_map(4, end - 0x1000, 0x1000).ok());
  EXPECT_FALSE(small_.bar_map(4, end - 0x1000, 0x2000).ok());
  EXPECT_FALSE(small_.bar_map(4, end, 0x1000).ok());
}

TEST_F(SmallBars, TheQemuRevisionMovesTheRegisters) {
  hw::Endpoint qemu{
      {"d0", 0x7164, 0xFF, pcie::BarLayout::k32Bit}, bench_.fabric, none_, bench_.log};
  qemu.config_write(0x18, 4, ~0u);
  EXPECT_EQ(qemu.config_read(0x18, 4), 0xC000'0000u);
  qemu.config_write(0x10, 4, ~0u);
  EXPECT_EQ(qemu.config_read(0x10, 4), 0u);
}

TEST_F(EndpointV3, SmallBarsAreTooSmall) {
  EXPECT_THROW(
      (hw::Endpoint{{"d0", 0x7364, 0, pcie::BarLayout::k32Bit}, bench_.fabric, none_, bench_.log}),
      std::invalid_argument);
}

// 24 GiB of each 64 GiB are there.
TEST_F(EndpointV3, EveryStackCanBeMapped) {
  const auto areas = endpoint_.bar_areas(4);
  ASSERT_EQ(areas.size(), 4u);
  for (uint64_t h = 0; h < 4; ++h) {
    EXPECT_EQ(areas[h].offset, h << 36);
    EXPECT_EQ(areas[h].length, bench_.map().hbm_size());
    const auto mapping = endpoint_.bar_map(4, areas[h].offset, areas[h].length);
    ASSERT_TRUE(mapping.ok());
    EXPECT_EQ(mapping->fd_offset, areas[h].offset);
  }
  EXPECT_EQ(endpoint_.bar_map(4, 0, 4096)->fd, endpoint_.bar_map(4, 1ull << 36, 4096)->fd);
}

// spec/hw-registers.md 1.2: a driver then takes a quarter of BAR 4 for a stack.
TEST(QemuRevision, AQuarterOfTheBarIsPopulated) {
  for (const Gen gen : {Gen::kV3, Gen::kV4}) {
    hw_test::CoreBench bench(gen);
    NoRegisters none;
    hw::Endpoint endpoint{{"d0", 0x7364, 0xFF}, bench.fabric, none, bench.log};
    endpoint.config_write(0x04, 2, 0x2);
    const uint64_t stride = endpoint.identity().bar_size[4] / 4;
    EXPECT_EQ(stride, (gen == Gen::kV3 ? 16ull : 32ull) << 30);
    for (uint32_t h = 0; h < 4; ++h) {
      endpoint.write32(4, h * stride, h + 1);
      endpoint.write32(4, (h + 1) * stride - 4, h + 11);
      const uint64_t base = bench.map().hbm_base(h);
      EXPECT_EQ(base::load<uint32_t>(bench.fabric.direct(base, 4)), h + 1);
      EXPECT_EQ(base::load<uint32_t>(bench.fabric.direct(base + stride - 4, 4)), h + 11);
    }
    EXPECT_EQ(bench.log.total(AccessLog::Kind::kUnknown), 0u);
  }
}

}  // namespace
