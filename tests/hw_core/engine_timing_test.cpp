#include "hw/core/engine_timing.h"

#include "tests/hw_core/nc_bench.h"

namespace {

using contract::Gen;
using contract::kDve;
using contract::kPool;
using hw_test::add;
using hw_test::copy;
using hw_test::tensor;
using hw_test::isa::DataType;
using hw_test::isa::Memory;
using hw_test::isa::TensorOp;
namespace isa = hw_test::isa;

hw::TimingParams trn2() {
  hw::TimingParams p;
  p.clk_dve = {24, 25000};
  p.clk_pool = {6, 5000};
  p.dve_pipe_latency = base::ns(160);
  p.dve_fp32_copy_speedup = 2;
  return p;
}

uint64_t cycles(base::Ps time, base::Rate clock) {
  return (time * clock.bytes + clock.ps - 1) / clock.ps;
}

isa::Instruction with(TensorOp op, isa::Instruction i) {
  i.operands.tensor_tensor.op = op;
  return i;
}

class Trn2Vector : public ::testing::Test {
 protected:
  hw::TimingParams params_ = trn2();
  hw::EngineTiming timing_{params_, Gen::kV3, kDve};

  double copy_ns(isa::TensorOperand dst, isa::TensorOperand src) {
    const hw::InstructionTime t = timing_.of(copy(dst, src, 128));
    return static_cast<double>(t.interval + t.latency) / 1000;
  }
};

// spec/timing.md 9: FP32, N = 512: 696, 690 and 428 ns, +-2 percent.
TEST_F(Trn2Vector, PublishedTimes) {
  const auto sbuf = tensor(DataType::kFloat32, 0, 512);
  const auto psum = tensor(DataType::kFloat32, 0, 512, Memory::kPsum);
  EXPECT_NEAR(copy_ns(sbuf, psum), 696, 696 * 0.02);
  EXPECT_NEAR(copy_ns(sbuf, sbuf), 428, 428 * 0.02);
  const hw::InstructionTime t = timing_.of(add(sbuf, sbuf, psum, 128));
  EXPECT_NEAR(static_cast<double>(t.interval + t.latency) / 1000, 690, 690 * 0.02);
}

TEST_F(Trn2Vector, ModesOfSixteenBitFloats) {
  const auto a = tensor(DataType::kBfloat16, 0, 1024);
  const auto b = tensor(DataType::kFloat16, 4096, 1024);
  const auto strided = tensor(DataType::kBfloat16, 0, 1024, Memory::kSbuf, 2);
  const auto n = [&](isa::TensorOperand d, isa::TensorOperand s) {
    return cycles(timing_.of(copy(d, s, 1)).interval, params_.clk_dve);
  };
  EXPECT_EQ(n(a, b), 256u);
  EXPECT_EQ(n(a, strided), 512u);
  EXPECT_EQ(n(tensor(DataType::kBfloat16, 0, 1024, Memory::kPsum), b), 512u);
  EXPECT_EQ(n(tensor(DataType::kBfloat16, 0, 8), b), 64u);  // floor
}

TEST(Trn1Vector, TensorTensorReadsTwice) {
  hw::TimingParams params;
  const hw::EngineTiming timing(params, Gen::kV2, kDve);
  const auto f = tensor(DataType::kFloat32, 0, 1000);
  const auto h = tensor(DataType::kBfloat16, 0, 1000);
  const auto h8 = tensor(DataType::kBfloat16, 0, 1000, Memory::kSbuf, 8);  // 16-byte stride
  const auto n = [&](TensorOp op, isa::TensorOperand x) {
    return cycles(timing.of(with(op, add(x, x, x, 1))).interval, params.clk_dve);
  };
  EXPECT_EQ(n(TensorOp::kAdd, f), 2000u);
  EXPECT_EQ(n(TensorOp::kAdd, h), 1000u);
  EXPECT_EQ(n(TensorOp::kMax, h), 2000u);
  EXPECT_EQ(n(TensorOp::kAdd, h8), 4000u);
}

TEST(Trn1GpSimd, StartUpAndDynamicAddress) {
  hw::TimingParams params;
  const hw::EngineTiming timing(params, Gen::kV2, kPool);
  const auto a = tensor(DataType::kInt32, 0, 1000);
  EXPECT_EQ(cycles(timing.of(add(a, a, a, 1)).interval, params.clk_pool),
            2150u);  // 150 + 2N
  auto dynamic = tensor(DataType::kInt32, 0, 4);
  dynamic.offset_register = 0;
  EXPECT_EQ(cycles(timing.of(copy(dynamic, dynamic, 1)).interval, params.clk_pool), 600u);
}

}  // namespace
