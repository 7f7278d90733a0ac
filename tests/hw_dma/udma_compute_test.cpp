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

TEST(Compute, CostsHalfTheThroughputForTwoSources) {
  DmaBench b;
  auto p = b.setup(0, 0);
  contract::DmaCompute add;
  add.src = add.dst = contract::DType::kBf16;
  add.sources = 2;
  b.push(p.tx, add.pack(0));
  b.push(p.tx, {34000, desc::kOpCompute, b.hbm(0, kA)});
  b.push(p.tx, {34000 | desc::kLast, desc::kOpCompute, b.hbm(0, kB)});
  b.push(p.rx, desc::rx(b.hbm(0, kC), 34000, 0));
  b.doorbell(p, 3, 1);
  EXPECT_EQ(b.run(), 770'000u + 4'000'000 + 2000);
}

}  // namespace
}  // namespace hw
