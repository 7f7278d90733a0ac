// BLOCK records: what the firmware reads, what it refuses, which descriptors it makes.
#include <gtest/gtest.h>

#include <functional>

#include "arch/contract/address_map.h"
#include "arch/contract/descriptor.h"
#include "contract/regs/udma.h"
#include "firmware/cc/block_mover.h"
#include "firmware/cc/interpreter.h"
#include "tests/firmware/fake_hal.h"

namespace {

namespace desc = contract::desc;
namespace udma = contract::udma;
using contract::CcError;
using contract::Descriptor;
using contract::cc_program::Block;
using contract::cc_program::Op;
using contract::cc_program::Record;
using Stores = std::vector<std::pair<uint64_t, uint32_t>>;

constexpr uint64_t kMemory = 0x1000'0000'0000;  // FakeHal
constexpr uint64_t kBlockAt = kMemory;
constexpr uint64_t kRings = kMemory + 0x1000;  // 0x400 bytes each: M2S and S2M of engine 0, 1
constexpr uint64_t kUnits = 0x40'0000;         // engine 0; engine 1 at the next 4 KiB
constexpr uint64_t kCount = 0x100;             // words
constexpr uint64_t kFrom = 0x104;
constexpr uint64_t kTo = 0x108;
constexpr uint64_t kSource = 0x10'0000;
constexpr uint64_t kTarget = 0x20'0000;
constexpr uint64_t kSemaphore = 0x30'0000;
constexpr uint64_t kOne = 0x400;
constexpr uint32_t kLength = 32;  // of a ring
constexpr uint32_t kWeight = 32;

class CcBlock : public ::testing::Test {
 protected:
  CcBlock() {
    block_.count = kCount;
    block_.source_place = kFrom;
    block_.target_place = kTo;
    block_.source_elements = 1000;
    block_.target_elements = 1000;
    block_.target = kTarget;
    block_.completion = kSemaphore;
    block_.one = kOne;
    block_.queue = kUnits;
    block_.piece_bytes = 128;
    block_.least_bytes = 64;
    block_.engines = 2;
    block_.pieces = 2;
    block_.dtype = static_cast<uint8_t>(contract::DType::kInt32);
    block_.sources[0] = kSource;
    for (uint32_t half = 0; half < 4; ++half) attach(half, 0, 1);
    words(0, 0, 0);
  }

  static uint64_t registers(uint32_t half) {
    return kUnits + (half / 2 << contract::cc_program::kRangeShift) +
           (half % 2) * contract::kS2mOffset;
  }
  void attach(uint32_t half, uint32_t tail, uint32_t id) {
    const uint64_t base = kRings + half * 0x400;
    hal_.registers[registers(half) + udma::kM2sQRingBaseLo] = static_cast<uint32_t>(base);
    hal_.registers[registers(half) + udma::kM2sQRingBaseHi] = static_cast<uint32_t>(base >> 32);
    hal_.registers[registers(half) + udma::kM2sQRingLength] = kLength;
    hal_.registers[registers(half) + udma::kM2sQTail] = tail | id << 30;
  }
  void words(uint32_t count, uint32_t from, uint32_t to) {
    hal_.registers[kCount] = count;
    hal_.registers[kFrom] = from;
    hal_.registers[kTo] = to;
  }
  firmware::cc::BlockResult move(uint32_t tile = 0) {
    hal_.stores.clear();
    hal_.write(kBlockAt, &block_, sizeof block_);
    Record record;
    record.op = static_cast<uint8_t>(Op::kBlock);
    record.imm = kWeight;
    record.address = kBlockAt;
    return firmware::cc::move_block(record, tile, hal_);
  }
  Descriptor at(uint32_t half, uint32_t index) {
    Descriptor d;
    hal_.read(kRings + half * 0x400 + index * sizeof d, &d, sizeof d);
    return d;
  }
  void expect(const Descriptor& is, const Descriptor& wanted) {
    EXPECT_EQ(is.w0, wanted.w0);
    EXPECT_EQ(is.w1, wanted.w1);
    EXPECT_EQ(is.address, wanted.address);
  }

  Block block_;
  firmware_test::FakeHal hal_;
};

constexpr uint32_t kPacket = desc::kFirst | desc::kLast;

TEST_F(CcBlock, CopiesATileInPiecesOverTheEngines) {
  words(100, 7, 9);
  attach(1, kLength - 1, 2);  // wraps
  const auto result = move();
  ASSERT_EQ(result.error, CcError::kNone);
  EXPECT_FALSE(result.out_of_bounds);
  EXPECT_EQ(result.tiles, 1u);
  // 400 bytes: four pieces of 128, 128, 128, 16, dealt in turn.
  const uint64_t from = kSource + 28;
  const uint64_t to = kTarget + 36;
  expect(at(0, 0), desc::tx_copy(from, 128, 1, kPacket));
  expect(at(0, 1), desc::tx_copy(from + 256, 128, 1, kPacket, true));
  expect(at(0, 2), desc::tx_copy(kOne, 4, 1, kPacket));
  expect(at(1, kLength - 1), desc::rx(to, 128, 2));
  expect(at(1, 0), desc::rx(to + 256, 128, 3));
  expect(at(1, 1), desc::rx(kSemaphore, 4, 3));
  expect(at(2, 1), desc::tx_copy(from + 384, 16, 1, kPacket, true));
  expect(at(3, 0), desc::rx(to + 128, 128, 1));
  const Stores stores = {{registers(1) + udma::kM2sQTailInc, 3},
                         {registers(0) + udma::kM2sQTailInc, 3},
                         {registers(3) + udma::kM2sQTailInc, 3},
                         {registers(2) + udma::kM2sQTailInc, 3},
                         {kSemaphore, kWeight - 2}};
  EXPECT_EQ(hal_.stores, stores);
}

TEST_F(CcBlock, TilesOfALongBlock) {
  words(300, 0, 0);  // 1200 bytes: 512, 512, 176
  EXPECT_EQ(move(2).tiles, 3u);
  // Cut into equal parts, rounded up to 64 bytes.
  expect(at(0, 0), desc::tx_copy(kSource + 1024, 128, 1, kPacket, true));
  expect(at(2, 0), desc::tx_copy(kSource + 1152, 48, 1, kPacket, true));
  EXPECT_EQ(hal_.stores.size(), 5u);
  // Behind the end only the semaphore is told.
  EXPECT_EQ(move(3).tiles, 3u);
  EXPECT_EQ(hal_.stores, (Stores{{kSemaphore, kWeight}}));
}

TEST_F(CcBlock, FirstEngineTakesTheFirstPiece) {
  words(10, 0, 0);
  block_.first_engine = 1;
  move();
  expect(at(2, 0), desc::tx_copy(kSource, 40, 1, kPacket, true));
  EXPECT_EQ(hal_.stores.size(), 3u);
}

TEST_F(CcBlock, FoldsOnTopOfTheTarget) {
  words(16, 4, 8);
  block_.source_count = 2;
  block_.sources[1] = kSource + 0x8000;
  block_.op = static_cast<uint8_t>(contract::ReduceOp::kMax);
  block_.flags = Block::kFence | Block::kAccumulate;
  move();
  contract::DmaCompute compute;
  compute.op = contract::ReduceOp::kMax;
  compute.src = compute.dst = contract::DType::kInt32;
  compute.sources = 2;
  Descriptor meta = compute.pack(1);
  meta.w0 |= desc::kDmb;
  expect(at(0, 0), meta);
  const uint32_t op = desc::kOpCompute | 2u << 20;
  expect(at(0, 1), {64 | 1u << desc::kRingIdShift, op, kTarget + 32});
  expect(at(0, 2), {64 | 1u << desc::kRingIdShift | desc::kLast, op | desc::kWriteBarrier,
                    kSource + 0x8000 + 16});
  expect(at(1, 0), desc::rx(kTarget + 32, 64, 1));
}

TEST_F(CcBlock, BoundsAreThoseOfTheTensors) {
  const auto bad = [&](uint32_t count, uint32_t from, uint32_t to) {
    words(count, from, to);
    const auto result = move();
    EXPECT_EQ(result.error, CcError::kNone);
    if (result.out_of_bounds) {
      EXPECT_EQ(result.tiles, 0u);
      EXPECT_EQ(hal_.stores, (Stores{{kSemaphore, kWeight}}));
    }
    return result.out_of_bounds;
  };
  EXPECT_FALSE(bad(1000, 0, 0));
  EXPECT_FALSE(bad(1, 999, 999));
  EXPECT_TRUE(bad(1001, 0, 0));
  EXPECT_TRUE(bad(1, 1000, 0));
  EXPECT_TRUE(bad(1, 0, 1000));
  EXPECT_TRUE(bad(0xFFFF'FFFF, 0, 0));
  EXPECT_TRUE(bad(1, 0xFFFF'FFFF, 0));  // no wrap-around
  EXPECT_TRUE(bad(2, 0, 0xFFFF'FFFF));
  EXPECT_FALSE(bad(0, 0xFFFF'FFFF, 0xFFFF'FFFF));  // an empty block is nowhere
}

TEST_F(CcBlock, MalformedBlocksAreRefused) {
  words(1, 0, 0);
  const Block good = block_;
  const std::vector<std::function<void(Block*)>> bends = {
      [](Block* b) { b->engines = 0; },
      [](Block* b) { b->engines = 17; },
      [](Block* b) { b->engine_shift = 40; },
      [](Block* b) { b->first_engine = 2; },
      [](Block* b) { b->pieces = 0; },
      [](Block* b) { b->piece_bytes = 0; },
      [](Block* b) { b->piece_bytes = 100; },
      [](Block* b) { b->piece_bytes = 0x10040; },
      [](Block* b) { b->least_bytes = 256; },
      [](Block* b) { b->source_count = 0; },
      [](Block* b) { b->source_count = 17; },
      [](Block* b) { b->dtype = 0; },
      [](Block* b) { b->op = 4; },
      [](Block* b) { b->source_count = 16, b->piece_bytes = 0x10000; }};
  for (size_t i = 0; i < bends.size(); ++i) {
    block_ = good;
    bends[i](&block_);
    EXPECT_EQ(move().error, CcError::kBadInstruction) << i;
    EXPECT_TRUE(hal_.stores.empty()) << i;
  }
  block_ = good;
  block_.count = 0x999;  // nothing there
  EXPECT_EQ(move().error, CcError::kBusError);
  block_ = good;
  hal_.registers[registers(0) + udma::kM2sQRingLength] = 0;  // no ring
  EXPECT_EQ(move().error, CcError::kBusError);
}

// A program goes through the tiles and reports bad counts once.
TEST_F(CcBlock, ProgramsLoopOverTiles) {
  const auto rec = [](Op op, uint8_t a, uint8_t b, uint32_t imm, uint64_t address) {
    Record r;
    r.op = static_cast<uint8_t>(op);
    r.a = a;
    r.b = b;
    r.imm = imm;
    r.address = address;
    return r;
  };
  const std::vector<Record> program = {
      rec(Op::kMov, 0, 0, 0, 0),           rec(Op::kMov, 1, 0, 0, 0),
      rec(Op::kBlock, 0, 1, 32, kBlockAt), rec(Op::kAdd, 0, 0, 1, 0),
      rec(Op::kBranchLess, 0, 1, 2, 0),    rec(Op::kDone, 0, 0, 1, 0x6000)};
  struct Bank final : firmware::SemaphoreBank {
    uint32_t value(uint32_t) const override { return 0; }
    void subtract(uint32_t, uint32_t) override {}
  } bank;
  std::vector<uint8_t> memory(0x10000);
  std::memcpy(memory.data(), program.data(), sizeof(Record) * program.size());
  std::vector<uint32_t> table(2048);
  const auto run = [&] {
    hal_.stores.clear();
    firmware::cc::Interpreter core;
    core.run();
    core.trigger(0, hal_);
    uint32_t blocks = 0;
    while (true) {
      const auto step = core.step({memory.data(), table.data()}, bank, hal_);
      if (step.next != firmware::cc::Next::kSpend) break;
      if (step.cost == firmware::cc::Cost::kBlock) ++blocks;
    }
    EXPECT_EQ(core.operations_done(), 1u);
    return blocks;
  };
  hal_.write(kBlockAt, &block_, sizeof block_);
  words(300, 0, 0);
  EXPECT_EQ(run(), 3u);
  EXPECT_TRUE(hal_.notifications.empty());
  words(3000, 0, 0);
  EXPECT_EQ(run(), 1u);
  ASSERT_EQ(hal_.notifications.size(), 1u);
  EXPECT_EQ(hal_.notifications[0].payload, contract::cc_notify::kOutOfBounds);
}

}  // namespace
