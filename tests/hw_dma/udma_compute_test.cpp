// Compute packets (docs/hardware-contract.md 6).
#include <cmath>

#include "tests/hw_dma/bench.h"

namespace hw {
namespace {

TEST(Compute, AddsInPlaceAndCasts) {
  DmaBench b;
  auto p = b.setup(0, 0);
  constexpr uint32_t n = 1001;
  std::vector<float> x(n), y(n);
  for (uint32_t i = 0; i < n; ++i) {
    x[i] = static_cast<float>(i) * 0.5F;
    y[i] = 1000.0F - static_cast<float>(i);
  }
  std::memcpy(b.at(b.hbm(0, kA), 4 * n), x.data(), 4 * n);
  std::memcpy(b.at(b.hbm(1, kB), 4 * n), y.data(), 4 * n);
  contract::DmaCompute add;
  add.src = add.dst = contract::DType::kFp32;
  add.sources = 2;
  b.push(p.tx, add.pack(0));
  b.push(p.tx, {4 * n, desc::kOpCompute, b.hbm(0, kA)});
  b.push(p.tx, {4 * n | desc::kLast, desc::kOpCompute, b.hbm(1, kB)});
  b.push(p.rx, desc::rx(b.hbm(1, kB), 4 * n, 0));
  contract::DmaCompute cast;
  cast.src = contract::DType::kFp32;
  cast.dst = contract::DType::kInt16;
  b.push(p.tx, cast.pack(0));
  b.push(p.tx, {4 * n | desc::kLast, desc::kOpCompute, b.hbm(1, kB)});
  b.push(p.rx, desc::rx(b.hbm(0, kC), 500, 0));  // the result in two pieces
  b.push(p.rx, desc::rx(b.hbm(0, kC) + 500, 65000, 0));
  b.doorbell(p, 5, 3);
  b.run();
  EXPECT_EQ(b.counters.dma_errors, 0u);
  EXPECT_EQ(b.counters.compute_packets, 2u);
  for (uint32_t i = 0; i < n; ++i) {
    ASSERT_EQ(base::load<float>(b.at(b.hbm(1, kB) + 4 * i, 4)), x[i] + y[i]);
    const auto rounded = static_cast<int16_t>(std::nearbyint(x[i] + y[i]));
    ASSERT_EQ(base::load<int16_t>(b.at(b.hbm(0, kC) + 2 * i, 2)), rounded);
  }
}

TEST(Compute, FmaTakesTheConstantOfTheSlotBefore) {
  DmaBench b;
  auto p = b.setup(0, 0);
  for (uint32_t k = 0; k < 3; ++k) {
    base::store<float>(b.at(b.hbm(0, kA) + 64 * k, 4), static_cast<float>(k + 1));
  }
  contract::DmaCompute fma;
  fma.op = contract::ReduceOp::kFma;
  fma.src = fma.dst = contract::DType::kFp32;
  fma.sources = 3;
  fma.has_constant = true;
  const float half = 0.5F;
  const float ten = 10.0F;
  std::memcpy(&fma.constant_bits, &half, 4);
  b.push(p.tx, fma.pack(0));
  b.push(p.tx, {4, desc::kOpCompute, b.hbm(0, kA)});
  std::memcpy(&fma.constant_bits, &ten, 4);
  Descriptor slot = fma.pack(0);
  slot.w0 &= ~desc::kFirst;
  b.push(p.tx, slot);
  b.push(p.tx, {4, desc::kOpCompute, b.hbm(0, kA) + 64});
  b.push(p.tx, {4 | desc::kLast, desc::kOpCompute, b.hbm(0, kA) + 128});
  b.push(p.rx, desc::rx(b.hbm(0, kB), 4, 0));
  b.doorbell(p, 5, 1);
  b.run();
  EXPECT_EQ(base::load<float>(b.at(b.hbm(0, kB), 4)), 0.5F * 1 + 10 * 2 + 10 * 3);
}

TEST(Compute, PartialOverlapReadsAllSourcesFirst) {
  DmaBench b;
  auto p = b.setup(0, 0);
  for (uint32_t i = 0; i < 600; ++i) base::store<uint32_t>(b.at(b.hbm(0, kA) + 4 * i, 4), i);
  contract::DmaCompute add;
  add.src = add.dst = contract::DType::kUint32;
  add.sources = 2;
  b.push(p.tx, add.pack(0));
  b.push(p.tx, {2000, desc::kOpCompute, b.hbm(0, kA)});
  b.push(p.tx, {2000 | desc::kLast, desc::kOpCompute, b.hbm(0, kA)});
  b.push(p.rx, desc::rx(b.hbm(0, kA) + 4, 2000, 0));
  b.doorbell(p, 3, 1);
  b.run();
  for (uint32_t i = 0; i < 500; ++i) {
    ASSERT_EQ(base::load<uint32_t>(b.at(b.hbm(0, kA) + 4 + 4 * i, 4)), 2 * i);
  }
}

// Pushes a compute packet: sources of `bytes` each, then one receive descriptor per destination.
void push_compute(DmaBench& b, RingPair& p, const contract::DmaCompute& op,
                  const std::vector<uint64_t>& sources, uint32_t bytes,
                  const std::vector<Buffer>& destinations) {
  b.push(p.tx, op.pack(0));
  for (size_t i = 0; i < sources.size(); ++i) {
    const uint32_t last = i + 1 == sources.size() ? desc::kLast : 0;
    b.push(p.tx, {(bytes & desc::kLengthMask) | last, desc::kOpCompute, sources[i]});
  }
  for (const Buffer& d : destinations) b.push(p.rx, desc::rx(d.address, d.length, 0));
}

contract::DmaCompute operation(contract::DType type, uint8_t sources, uint8_t copies) {
  contract::DmaCompute op;
  op.src = op.dst = type;
  op.sources = sources;
  op.copies = copies;
  return op;
}

TEST(Compute, CostsHalfTheThroughputForTwoSources) {
  DmaBench b;
  auto p = b.setup(0, 0);
  push_compute(b, p, operation(contract::DType::kFp32, 2, 1), {b.hbm(0, kA), b.hbm(0, kB)}, 34000,
               {{b.hbm(0, kC), 34000}});
  b.doorbell(p, 3, 1);
  EXPECT_EQ(b.run(), 770'000u + 4'000'000 + 2000);
}

// 2.5 8-bit elements per nanosecond, if that is slower than the bytes; of one source there is no
// limit, nor of longer elements.
TEST(Compute, SmallElementsAreMadeOneByOne) {
  struct Case {
    contract::DType from, to;
    uint8_t sources, copies;
    base::Ps time;
  };
  using contract::DType;
  for (const Case& c : {Case{DType::kUint8, DType::kUint8, 2, 1, 13'600'000},
                        Case{DType::kUint8, DType::kUint8, 2, 4, 13'600'000},
                        Case{DType::kUint8, DType::kUint8, 16, 1, 32'000'000},
                        Case{DType::kBf16, DType::kBf16, 2, 1, 4'000'000},
                        Case{DType::kUint8, DType::kFp32, 2, 1, 16'000'000},
                        Case{DType::kUint8, DType::kInt8, 1, 1, 4'000'000}}) {
    DmaBench b;
    auto p = b.setup(0, 0);
    contract::DmaCompute op = operation(c.from, c.sources, c.copies);
    op.dst = c.to;
    const uint32_t bytes = 34000;
    const uint32_t result =
        bytes / contract::dtype_size(c.from) * contract::dtype_size(c.to) * c.copies;
    std::vector<Buffer> to(result / 34000, {b.hbm(0, kC), 34000});
    push_compute(b, p, op, std::vector<uint64_t>(c.sources, b.hbm(0, kA)), bytes, to);
    b.doorbell(p, p.tx.index, p.rx.index);
    const auto buffers = 1000 * std::max<base::Ps>(c.sources, to.size());
    const base::Ps time = b.run() - 770'000 - buffers;
    EXPECT_EQ(b.counters.packets, 1u);
    EXPECT_GE(time, c.time);
    EXPECT_LE(time, c.time + 60);  // a byte at most
  }
}

TEST(Copies, OfAReductionAreAllTheSame) {
  constexpr uint32_t n = 4096;
  for (uint8_t copies = 1; copies <= 4; ++copies) {
    DmaBench b;
    auto p = b.setup(0, 0);
    for (uint32_t i = 0; i < n / 4; ++i) {
      base::store<uint32_t>(b.at(b.hbm(0, kA) + 4 * i, 4), i * 77777);
      base::store<uint32_t>(b.at(b.hbm(1, kA) + 4 * i, 4), ~i);
    }
    // Copy 0 in place of a source, the others in one or in two pieces.
    std::vector<Buffer> to = {{b.hbm(0, kA), n}};
    for (uint32_t c = 1; c < copies; ++c) {
      const uint64_t at = b.hbm(c % 2, kB) + c * n;
      if (copies == 4) {
        to.push_back({at, 1000});
        to.push_back({at + 1000, n - 1000});
      } else {
        to.push_back({at, n});
      }
    }
    push_compute(b, p, operation(contract::DType::kUint32, 2, copies), {b.hbm(0, kA), b.hbm(1, kA)},
                 n, to);
    b.doorbell(p, p.tx.index, p.rx.index);
    b.run();
    EXPECT_EQ(b.counters.dma_errors, 0u);
    EXPECT_EQ(b.counters.packets, 1u);
    EXPECT_EQ(b.counters.bytes, uint64_t{copies} * n);
    for (uint32_t i = 0; i < n / 4; ++i) {
      ASSERT_EQ(base::load<uint32_t>(b.at(b.hbm(0, kA) + 4 * i, 4)), i * 77777 + ~i);
    }
    for (uint32_t c = 1; c < copies; ++c) {
      EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(c % 2, kB) + c * n, n));
    }
    EXPECT_EQ(b.read(0, DmaBench::reg(kS2m, 0, udma::kM2sQCurrent)), 0x4000'0000u | p.rx.index);
  }
}

TEST(Copies, OfOneSourceKeepEveryBit) {
  for (const auto type :
       {contract::DType::kFp32, contract::DType::kFp8E5, contract::DType::kInt64}) {
    DmaBench b;
    auto p = b.setup(0, 0);
    std::vector<uint32_t> bits(16384);
    for (uint32_t i = 0; i < bits.size(); ++i)
      bits[i] = 0x7F80'0001 + i * 0x8000'0001u;  // NaNs too
    std::memcpy(b.at(b.hbm(0, kA), 65536), bits.data(), 65536);
    push_compute(b, p, operation(type, 1, 3), {b.hbm(0, kA)}, 65536,
                 {{b.hbm(0, kB), 65536}, {b.hbm(1, kB), 65536}, {b.host_address(0x1000), 65536}});
    contract::DmaCompute max = operation(type, 1, 1);
    max.op = contract::ReduceOp::kMax;  // of one value
    push_compute(b, p, max, {b.hbm(0, kA)}, 65536, {{b.hbm(1, kC), 65536}});
    b.doorbell(p, p.tx.index, p.rx.index);
    b.run();
    EXPECT_EQ(b.counters.dma_errors, 0u);
    for (const uint64_t to : {b.hbm(0, kB), b.hbm(1, kB), b.host_address(0x1000), b.hbm(1, kC)}) {
      EXPECT_EQ(std::memcmp(b.at(to, 65536), bits.data(), 65536), 0);
    }
  }
}

TEST(Copies, ThatOverlapTheirSourceOrEachOther) {
  constexpr uint32_t n = 2000;
  for (const uint8_t sources : {uint8_t{1}, uint8_t{2}}) {
    DmaBench b;
    auto p = b.setup(0, 0);
    b.fill(b.hbm(0, kA), n, 3);
    std::vector<uint8_t> value(b.at(b.hbm(0, kA), n), b.at(b.hbm(0, kA), n) + n);
    std::vector<uint64_t> from(sources, b.hbm(0, kA));
    if (sources == 2) from[1] = b.hbm(1, kB);  // zeros
    // Copy 1 over the source and half of copy 0, copy 2 apart.
    push_compute(b, p, operation(contract::DType::kUint8, sources, 3), from, n,
                 {{b.hbm(0, kA) + n + 500, n}, {b.hbm(0, kA) + 700, n}, {b.hbm(0, kC), n}});
    b.doorbell(p, p.tx.index, p.rx.index);
    b.run();
    EXPECT_EQ(std::memcmp(b.at(b.hbm(0, kA) + 700, n), value.data(), n), 0);
    EXPECT_EQ(std::memcmp(b.at(b.hbm(0, kC), n), value.data(), n), 0);
    EXPECT_EQ(std::memcmp(b.at(b.hbm(0, kA) + 700 + n, n - 200), value.data() + 200, n - 200), 0);
  }
}

TEST(Copies, CostTheirWritesOnTheEngineAndTheMemories) {
  struct Case {
    uint8_t sources, copies;
    uint32_t engine;  // bytes of a copy that takes as long
  };
  for (const Case& c :
       {Case{1, 1, 34000}, Case{1, 2, 68000}, Case{1, 4, 136'000}, Case{2, 1, 68000},
        Case{2, 2, 68000}, Case{2, 4, 136'000}, Case{3, 1, 102'000}, Case{3, 2, 102'000}}) {
    DmaBench b;
    auto p = b.setup(0, 0);
    std::vector<uint64_t> from(c.sources, b.hbm(0, kA));
    std::vector<Buffer> to(c.copies, {b.hbm(1, kB), 34000});
    push_compute(b, p, operation(contract::DType::kFp32, c.sources, c.copies), from, 34000, to);
    b.doorbell(p, p.tx.index, p.rx.index);
    const base::Ps buffers = 1000 * std::max(c.sources, c.copies);
    EXPECT_EQ(b.run(), 770'000u + c.engine * 1000ull / 17 + buffers);
    EXPECT_EQ(b.fabric.hbm_resource(0).total_bytes(), 34000u * c.sources);
    EXPECT_EQ(b.fabric.hbm_resource(1).total_bytes(), 34000u * c.copies);
  }
}

TEST(Copies, OfTimingOnlyRunsAreKnownAsLeftOut) {
  BenchConfig config;
  config.options.timing_only = true;
  DmaBench b(config);
  auto p = b.setup(0, 0);
  b.fill(b.hbm(0, kA), 4096, 3);
  push_compute(b, p, operation(contract::DType::kFp32, 1, 2), {b.hbm(0, kA)}, 4096,
               {{b.hbm(0, kB), 4096}, {b.hbm(1, kB), 4096}});
  // Up to timing_only.real_bytes a copy moves, however many there are.
  push_compute(b, p, operation(contract::DType::kFp32, 1, 2), {b.hbm(0, kA)}, 512,
               {{b.hbm(0, kC), 512}, {b.hbm(1, kC), 512}});
  b.doorbell(p, p.tx.index, p.rx.index);
  b.run();
  EXPECT_EQ(b.counters.elided_bytes, 2u * 4096);
  EXPECT_TRUE(b.fabric.hbm(0).elided().overlaps(kB, 4096));
  EXPECT_TRUE(b.fabric.hbm(1).elided().overlaps(kB, 4096));
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(0, kC), 512));
  EXPECT_TRUE(b.same(b.hbm(0, kA), b.hbm(1, kC), 512));
}

}  // namespace
}  // namespace hw
