// Stochastic rounding (spec/engine-isa.md 5.2, 5.5): what the register and the seed do.
#include <cmath>
#include <cstring>
#include <vector>

#include "tests/hw_core/nc_bench.h"

namespace {

using contract::Engine;
using contract::Gen;
using contract::kAct;
using contract::kDve;
using contract::kPe;
using contract::kPool;
using hw_test::copy;
using hw_test::op;
using hw_test::tensor;
using hw_test::isa::DataType;
using hw_test::isa::Memory;
using hw_test::isa::Opcode;
namespace isa = hw_test::isa;
namespace reg = contract::engine;

constexpr uint32_t kLanes = 128;
constexpr uint32_t kCount = 256;  // of each lane
constexpr uint32_t kTo = 4096;    // byte

class Rounding : public ::testing::Test {
 protected:
  hw_test::NcBench bench_{Gen::kV4};
  using Halves = std::vector<uint16_t>;

  void stochastic(Engine e, bool on) {
    bench_.put(e, reg::kRounding, on ? reg::kRoundingStochastic.mask() : 0);
  }
  void run(Engine e, const isa::Instruction& in) {
    bench_.put(e, reg::kPc, 0);
    bench_.load(e, {in, op(Opcode::kHalt)});
    bench_.start(e);
    bench_.queue.run_all();
    ASSERT_EQ(bench_.status(e), contract::EngineStatus::kHalted);
  }
  void fill(float x) {
    for (uint32_t p = 0; p < kLanes; ++p) std::fill_n(bench_.sbuf<float>(p, 0), kCount, x);
  }
  // Of bfloat16, all lanes.
  Halves converted(Engine e) {
    run(e, copy(tensor(DataType::kBfloat16, kTo, kCount), tensor(DataType::kFloat32, 0, kCount),
                kLanes));
    Halves out;
    for (uint32_t p = 0; p < kLanes; ++p) {
      const uint16_t* row = bench_.sbuf<uint16_t>(p, kTo);
      out.insert(out.end(), row, row + kCount);
    }
    return out;
  }
};

// 1 + 1/4 of the step to the next bfloat16.
constexpr float kQuarter = 1 + 1.0f / 512;

TEST_F(Rounding, IsRightOnAverage) {
  fill(kQuarter);
  for (const Engine e : {kDve, kAct, kPool}) {
    EXPECT_EQ(converted(e), Halves(kLanes * kCount, 0x3F80)) << e;  // off: to nearest even
    stochastic(e, true);
    double up = 0;
    for (const uint16_t h : converted(e)) {
      ASSERT_TRUE(h == 0x3F80 || h == 0x3F81);
      up += h - 0x3F80;
    }
    const double n = kLanes * kCount;
    EXPECT_NEAR(up / n, 0.25, 5 * std::sqrt(0.25 * 0.75 / n)) << e;
    stochastic(e, false);
    EXPECT_EQ(converted(e), Halves(kLanes * kCount, 0x3F80)) << e;
  }
}

TEST_F(Rounding, LeavesWhatTheTypeHolds) {
  stochastic(kDve, true);
  for (const float x : {1.0f, -0.5f, 0.0f, -0.0f, INFINITY, 3.0f}) {
    fill(x);
    uint32_t bits = 0;
    std::memcpy(&bits, &x, sizeof bits);
    EXPECT_EQ(converted(kDve), Halves(kLanes * kCount, static_cast<uint16_t>(bits >> 16))) << x;
  }
}

TEST_F(Rounding, SeedDecides) {
  fill(kQuarter);
  stochastic(kDve, true);
  const Halves unseeded = converted(kDve);
  bench_.put(kDve, reg::kRoundingSeed, 7);
  const Halves first = converted(kDve);
  const Halves second = converted(kDve);
  EXPECT_NE(first, unseeded);
  EXPECT_NE(first, second);  // the sequences go on
  bench_.put(kDve, reg::kRoundingSeed, 7);
  EXPECT_EQ(converted(kDve), first);
  bench_.put(kDve, reg::kControl, reg::kControlReset.mask());  // also over a reset
  EXPECT_EQ(converted(kDve), second);
  bench_.put(kDve, reg::kRoundingSeed, 0);
  EXPECT_EQ(converted(kDve), unseeded);
  // Lanes and engines have their own.
  EXPECT_NE(Halves(first.begin(), first.begin() + kCount),
            Halves(first.begin() + kCount, first.begin() + 2 * kCount));
  stochastic(kAct, true);
  bench_.put(kAct, reg::kRoundingSeed, 7);
  EXPECT_NE(converted(kAct), first);
}

TEST_F(Rounding, OfSumsInBfloat16) {
  fill(0);
  *bench_.sbuf<float>(0, 0) = kQuarter;
  for (uint32_t i = 0; i < kCount; ++i) bench_.sbuf<float>(0, kTo)[i] = 1;
  isa::Instruction load = op(Opcode::kLdweights);
  load.operands.ldweights.src = tensor(DataType::kFloat32, 0, 1);
  load.operands.ldweights.rows = 1;
  isa::Instruction product = op(Opcode::kMatmul);
  product.operands.matmul.dst = tensor(DataType::kBfloat16, 0, kCount, Memory::kPsum);
  product.operands.matmul.moving = tensor(DataType::kFloat32, kTo, kCount);
  product.operands.matmul.rows = product.operands.matmul.columns = 1;
  const auto sums = [&] {
    bench_.put(kPe, reg::kPc, 0);
    bench_.load(kPe, {load, product, op(Opcode::kHalt)});
    bench_.start(kPe);
    bench_.queue.run_all();
    EXPECT_EQ(bench_.status(kPe), contract::EngineStatus::kHalted);
    const uint16_t* row = bench_.psum<uint16_t>(0, 0);
    return Halves(row, row + kCount);
  };
  EXPECT_EQ(sums(), Halves(kCount, 0x3F80));
  stochastic(kPe, true);
  double up = 0;
  for (const uint16_t h : sums()) up += h - 0x3F80;
  EXPECT_NEAR(up / kCount, 0.25, 5 * std::sqrt(0.25 * 0.75 / kCount));
}

TEST_F(Rounding, ResetOfTheCoreTurnsItOff) {
  fill(kQuarter);
  stochastic(kDve, true);
  EXPECT_NE(converted(kDve), Halves(kLanes * kCount, 0x3F80));
  bench_.group.core(0).reset();
  EXPECT_EQ(converted(kDve), Halves(kLanes * kCount, 0x3F80));
}

}  // namespace
