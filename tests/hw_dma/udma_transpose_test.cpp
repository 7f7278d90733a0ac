// Transpose packets and scattered buffers (docs/hardware-contract.md 6).
#include "tests/hw_dma/bench.h"

namespace hw {
namespace {

// A matrix of 2-byte elements in rows that lie apart, to columns that lie apart.
void turn(DmaBench& b, RingPair& p, uint32_t rows, uint32_t columns, uint64_t from, uint64_t to,
          uint32_t mark = 0) {
  contract::DmaTranspose t;
  t.rows = rows;
  b.push(p.tx, t.pack(0));
  for (uint32_t r = 0; r < rows; ++r) {
    const uint32_t last = r + 1 == rows ? desc::kLast : 0;
    b.push(p.tx, {2 * columns | last, desc::kOpTranspose | mark, from + 256 * r});
  }
  for (uint32_t c = 0; c < columns; ++c) b.push(p.rx, desc::rx(to + 512 * c, 2 * rows, 0));
}

TEST(Transpose, WritesRowsAsColumns) {
  DmaBench b;
  auto p = b.setup(0, 0);
  b.fill(b.hbm(0, kA), 256 * 16, 3);
  turn(b, p, 16, 9, b.hbm(0, kA), b.hbm(0, kB));
  b.doorbell(p, 17, 9);
  b.run();
  EXPECT_EQ(b.counters.dma_errors, 0u);
  EXPECT_EQ(b.counters.bytes, 2u * 16 * 9);
  for (uint32_t r = 0; r < 16; ++r) {
    for (uint32_t c = 0; c < 9; ++c) {
      ASSERT_TRUE(b.same(b.hbm(0, kA) + 256 * r + 2 * c, b.hbm(0, kB) + 512 * c + 2 * r, 2));
    }
  }
}

// In place, and with a result that one descriptor takes: the spec's example a b c / d e f.
TEST(Transpose, ReadsAllBeforeItWrites) {
  DmaBench b;
  auto p = b.setup(0, 0);
  const uint32_t x[6] = {1, 2, 3, 4, 5, 6};
  const uint32_t expected[6] = {1, 4, 2, 5, 3, 6};
  std::memcpy(b.at(b.hbm(0, kA), sizeof x), x, sizeof x);
  contract::DmaTranspose t;
  t.rows = 2;
  t.element_bytes = 4;
  b.push(p.tx, t.pack(0));
  b.push(p.tx, {24 | desc::kLast, desc::kOpTranspose, b.hbm(0, kA)});
  b.push(p.rx, desc::rx(b.hbm(0, kA), 24, 0));
  b.doorbell(p, 2, 1);
  b.run();
  EXPECT_EQ(std::memcmp(b.at(b.hbm(0, kA), sizeof x), expected, sizeof x), 0);
}

TEST(Transpose, TakesLongerThanACopy) {
  const auto time = [](uint64_t from, uint32_t mark) {
    DmaBench b;
    auto p = b.setup(0, 0);
    turn(b, p, 16, 8, from == 0 ? b.hbm(0, kA) : b.map().nc(0).device, b.hbm(0, kB), mark);
    b.doorbell(p, 17, 8);
    b.run();
    EXPECT_EQ(b.counters.dma_errors, 0u);
    return b.dma.engine(0).resource().busy_ps();
  };
  const TimingParams t;
  EXPECT_EQ(time(0, 0), t.dma_engine.time_for(256 * 10 / 9));
  EXPECT_EQ(time(1, 0), t.dma_engine.time_for(256 * 2));
  EXPECT_EQ(time(0, desc::kScattered),
            t.dma_engine.time_for(256 * 10 / 9) + 16 * t.dma_scattered_buffer);
}

TEST(Transpose, RefusesRowsOfDifferentLength) {
  for (const uint32_t element : {2u, 3u}) {
    DmaBench b;
    auto p = b.setup(0, 0);
    contract::DmaTranspose t;
    t.rows = 4;
    t.element_bytes = static_cast<uint8_t>(element);
    b.push(p.tx, t.pack(0));
    b.push(p.tx, {(element == 2 ? 12u : 24u) | desc::kLast, desc::kOpTranspose, b.hbm(0, kA)});
    b.push(p.rx, desc::rx(b.hbm(0, kB), 24, 0));
    b.doorbell(p, 2, 1);
    b.run();
    EXPECT_EQ(b.cause(0, kS2m), s2m_cause::kLengthMismatch);
  }
}

TEST(Transpose, KnowsItsDescriptors) {
  DmaBench b;
  auto p = b.setup(0, 0);
  b.push(p.tx, contract::DmaTranspose{}.pack(0));
  b.push(p.tx, {8 | desc::kLast, desc::kOpCopy, b.hbm(0, kA)});  // no operation of this packet
  b.push(p.rx, desc::rx(b.hbm(0, kB), 8, 0));
  b.doorbell(p, 2, 1);
  b.run();
  EXPECT_EQ(b.cause(0, kM2s), m2s_cause::kStreamResponse);
}

// Rows that were found through an index take their time, whatever their length.
TEST(Transpose, ScatteredBuffersTakeTheirTime) {
  DmaBench b;
  auto p = b.setup(0, 0);
  for (uint32_t i = 0; i < 4; ++i) {
    Descriptor d = desc::tx_copy(b.hbm(0, kA) + 512 * i, 64, 0,
                                 (i == 0 ? desc::kFirst : 0) | (i == 3 ? desc::kLast : 0));
    d.w1 |= desc::kScattered;
    b.push(p.tx, d);
    b.push(p.rx, desc::rx(b.hbm(0, kB) + 64 * i, 64, 0));
  }
  b.doorbell(p, 4, 4);
  b.run();
  const TimingParams t;
  EXPECT_EQ(b.dma.engine(0).resource().busy_ps(),
            t.dma_engine.time_for(256) + 4 * t.dma_scattered_buffer);
}

}  // namespace
}  // namespace hw
