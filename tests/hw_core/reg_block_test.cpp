// The register table: what a block may hook, and what each hook is told.
#include "hw/reg/reg_block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace hw {
namespace {

using contract::Access;
using contract::RegInfo;
using contract::RegKind;

constexpr uint32_t kWindow = 0x40;
constexpr RegInfo kRegs[] = {
    {"one", 0x10, 4, 1, Access::kReadWrite, 0, ~0u, 0xFF, RegKind::kFunction, ""},
    {"four", 0x20, 4, 4, Access::kReadWrite, 7, ~0u, 0xFF, RegKind::kFunction, ""},
    {"outside", 0x40, 4, 1, Access::kReadWrite, 0, ~0u, 0xFF, RegKind::kFunction, ""}};

struct Block : RegBlock<Block> {
  Block() : RegBlock(log) {}
  static const RegTable<Block>& table() {
    static const RegTable<Block> t("block", kRegs, kWindow,
                                   {{0x20, &Block::read_four, &Block::write_four}});
    return t;
  }
  uint32_t read_four(uint32_t element, uint32_t stored, bool) { return 100 * element + stored; }
  void write_four(uint32_t element, uint32_t value) { written = {element, value}; }

  static inline AccessLog log;
  std::pair<uint32_t, uint32_t> written;
};

uint32_t read(Block& block, uint64_t offset) {
  uint8_t bytes[4];
  EXPECT_TRUE(block.access(offset, bytes, 4, false, false));
  return base::load<uint32_t>(bytes);
}
void write(Block& block, uint64_t offset, uint32_t value) {
  uint8_t bytes[4];
  base::store(bytes, value);
  EXPECT_TRUE(block.access(offset, bytes, 4, true, false));
}

TEST(RegTable, HooksGetTheElement) {
  Block block;
  write(block, 0x10, 5);
  EXPECT_EQ(read(block, 0x10), 5u);
  EXPECT_EQ(read(block, 0x20), 7u);
  EXPECT_EQ(read(block, 0x2C), 307u);
  write(block, 0x28, 9);
  EXPECT_EQ(block.written, std::make_pair(2u, 9u));
  EXPECT_EQ(read(block, 0x40), 0u) << "beyond the window";
  block.reset_registers();
  EXPECT_EQ(read(block, 0x10), 0u);
}

TEST(RegTable, WhatReachesNothingIsCountedByItsOffset) {
  Block block;
  write(block, 0x1C, 1);
  const AccessLog::Key key{block.instance(), AccessLog::Kind::kUnknown, "0x0001c", true};
  EXPECT_EQ(Block::log.entries().count(key), 1u);
}

// A table is made once, when the first block is: a hook that misses would never be called, or be
// written over memory of others.
TEST(RegTable, HooksWithoutARegisterAreRefused) {
  const auto hooked_at = [](uint32_t offset) {
    const RegTable<Block> t("block", kRegs, kWindow, {{offset, &Block::read_four, nullptr}});
  };
  EXPECT_NO_THROW(hooked_at(0x10));
  for (const uint32_t wrong : {0x0u, 0x14u, 0x12u, 0x24u, 0x40u, 0x44u, 0xFFFFFFFCu}) {
    EXPECT_THROW(hooked_at(wrong), std::logic_error) << wrong;
  }
  try {
    hooked_at(0x24);
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(),
                 "register table 'block': a hook for offset 0x24; expected element 0 of a register "
                 "of the table, once");
  }
}

TEST(RegTable, ARegisterIsHookedOnce) {
  const auto twice = [] {
    const RegTable<Block> t(
        "block", kRegs, kWindow,
        {{0x20, &Block::read_four, nullptr}, {0x20, nullptr, &Block::write_four}});
  };
  EXPECT_THROW(twice(), std::logic_error);
}

}  // namespace
}  // namespace hw
