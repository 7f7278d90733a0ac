#include "hw/core/datapath.h"

#include <cmath>
#include <limits>

#include "tests/hw_core/nc_bench.h"

namespace {

using contract::kDve;
using contract::kPool;
using hw_test::isa::DataType;
using hw_test::isa::Memory;
using hw_test::isa::Opcode;
namespace isa = hw_test::isa;
using namespace hw_test;  // NOLINT(google-build-using-namespace): the small assembler

class DatapathTest : public ::testing::Test {
 protected:
  void run(contract::Engine e, const isa::Instruction& i) {
    bench_.put(e, contract::engine::kPc, 0);
    bench_.load(e, {i, op(Opcode::kHalt)});
    bench_.start(e);
    bench_.queue.run_all();
    EXPECT_EQ(bench_.status(e), contract::EngineStatus::kHalted)
        << "error " << bench_.get(e, contract::engine::kErrorCode);
  }
  // By a copy of the Vector engine.
  template <typename From, typename To>
  std::vector<To> convert(DataType from, const std::vector<From>& values, DataType to) {
    constexpr uint32_t kTo = 0x10000;
    const auto n = static_cast<uint16_t>(values.size());
    std::memcpy(bench_.sbuf<From>(0, 0), values.data(), n * sizeof(From));
    run(kDve, copy(tensor(to, kTo, n), tensor(from, 0, n), 1));
    const To* results = bench_.sbuf<To>(0, kTo);
    return {results, results + n};
  }
  template <typename From, typename To>
  To convert_one(DataType from, From value, DataType to) {
    return convert<From, To>(from, {value}, to)[0];
  }
  NcBench bench_;
};

TEST_F(DatapathTest, AddsEveryPartition) {
  for (uint32_t p = 0; p < 128; ++p) {
    for (uint32_t i = 0; i < 3; ++i) {
      *bench_.sbuf<float>(p, 4 * i) = static_cast<float>(p + i);
      *bench_.sbuf<float>(p, 100 + 4 * i) = 0.5f;
    }
  }
  run(kDve, add(tensor(DataType::kFloat32, 200, 3), tensor(DataType::kFloat32, 0, 3),
                tensor(DataType::kFloat32, 100, 3), 128));
  for (uint32_t p = 0; p < 128; ++p) {
    EXPECT_EQ(*bench_.sbuf<float>(p, 208), static_cast<float>(p) + 2.5f);
    EXPECT_EQ(*bench_.sbuf<float>(p, 212), 0.0f);
  }
}

TEST_F(DatapathTest, PsumAndPartitionsFarApart) {
  *bench_.psum<float>(31, 16) = 3.0f;
  isa::TensorOperand dst = tensor(DataType::kFloat32, 0, 1);
  dst.start_partition = 96;
  run(kDve, copy(dst, tensor(DataType::kFloat32, 16, 1, Memory::kPsum), 32));
  EXPECT_EQ(*bench_.sbuf<float>(127, 0), 3.0f);
}

TEST_F(DatapathTest, StridesBroadcastAndRegisters) {
  for (uint32_t i = 0; i < 8; ++i) *bench_.sbuf<uint16_t>(0, 2 * i) = static_cast<uint16_t>(i);
  isa::TensorOperand src = tensor(DataType::kUint16, 14, 4, Memory::kSbuf, -2);  // 7 5 3 1
  src.dims[1] = {0, 2};                                                          // twice
  isa::TensorOperand dst = tensor(DataType::kUint16, 0, 8);
  dst.offset_register = 9;
  bench_.put(kPool, contract::engine::kRegister + 4 * 9, 64);
  run(kPool, copy(dst, src, 1));
  const uint16_t expected[] = {7, 5, 3, 1, 7, 5, 3, 1};
  for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(*bench_.sbuf<uint16_t>(0, 64 + 2 * i), expected[i]);
}

TEST_F(DatapathTest, InPlaceAndShifted) {
  for (uint32_t i = 0; i < 4; ++i) *bench_.sbuf<int32_t>(0, 4 * i) = static_cast<int32_t>(i + 1);
  run(kDve, copy(tensor(DataType::kInt32, 4, 4), tensor(DataType::kInt32, 0, 4), 1));
  for (uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(*bench_.sbuf<int32_t>(0, 4 + 4 * i), static_cast<int32_t>(i + 1));
  }
}

TEST_F(DatapathTest, IntegerArithmeticPerEngine) {
  const auto a = tensor(DataType::kInt32, 0, 1);
  const auto b = tensor(DataType::kInt32, 4, 1);
  const auto c = tensor(DataType::kInt32, 8, 1);
  *bench_.sbuf<int32_t>(0, 0) = 16'777'217;  // 2^24 + 1: not a float32
  *bench_.sbuf<int32_t>(0, 4) = 0;
  run(kPool, add(c, a, b, 1));
  EXPECT_EQ(*bench_.sbuf<int32_t>(0, 8), 16'777'217);
  run(kDve, add(c, a, b, 1));
  EXPECT_EQ(*bench_.sbuf<int32_t>(0, 8), 16'777'216);
  *bench_.sbuf<int32_t>(0, 0) = std::numeric_limits<int32_t>::max();
  *bench_.sbuf<int32_t>(0, 4) = 1;
  run(kPool, add(c, a, b, 1));
  EXPECT_EQ(*bench_.sbuf<int32_t>(0, 8), std::numeric_limits<int32_t>::min());
  run(kDve, add(c, a, b, 1));
  EXPECT_EQ(*bench_.sbuf<int32_t>(0, 8), std::numeric_limits<int32_t>::max());
}

TEST_F(DatapathTest, CrossesSlotsOnlyWhereFull) {
  isa::TensorOperand t = tensor(DataType::kFloat32, 192 * 1024 - 4, 1);
  run(kDve, copy(t, tensor(DataType::kFloat32, 0, 1), 1));
  t = tensor(DataType::kFloat32, 16 * 1024 - 4, 1, Memory::kPsum);
  run(kDve, copy(t, tensor(DataType::kFloat32, 0, 1), 1));
}

TEST(DatapathTimingOnly, ElidesLargeResultsOnly) {
  NcBench bench(contract::Gen::kV2, true);
  const auto a = tensor(DataType::kFloat32, 0, 4);
  const auto b = tensor(DataType::kFloat32, 64, 4);
  *bench.sbuf<float>(0, 0) = 1;
  *bench.sbuf<float>(0, 64) = 9;
  bench.load(kDve, {copy(b, a, 128), op(Opcode::kHalt)});  // 2048 bytes
  bench.start(kDve);
  bench.queue.run_all();
  EXPECT_EQ(*bench.sbuf<float>(0, 64), 9);
  EXPECT_EQ(bench.counters.elided_bytes, 2048u);
  bench.put(kDve, contract::engine::kPc, 0);
  bench.load(kDve, {copy(b, a, 32), op(Opcode::kHalt)});  // 512 bytes
  bench.start(kDve);
  bench.queue.run_all();
  EXPECT_EQ(*bench.sbuf<float>(0, 64), 1);
}

TEST(DatapathTimingOnly, ComputesNothingWithWhatWasLeftOut) {
  NcBench bench(contract::Gen::kV2, true);
  const auto a = tensor(DataType::kFloat32, 0, 4);
  const auto b = tensor(DataType::kFloat32, 64, 4);
  const auto c = tensor(DataType::kFloat32, 128, 4);
  *bench.sbuf<float>(0, 0) = 1;
  *bench.sbuf<float>(0, 64) = 9;
  *bench.sbuf<float>(0, 128) = 5;
  const auto run = [&](uint8_t lanes) {
    bench.put(kDve, contract::engine::kPc, 0);
    bench.load(kDve, {copy(b, a, lanes), copy(c, b, 1), op(Opcode::kHalt)});
    bench.start(kDve);
    bench.queue.run_all();
  };
  run(128);
  EXPECT_EQ(*bench.sbuf<float>(0, 128), 5);
  EXPECT_EQ(bench.counters.elided_bytes, 2048u);  // of what is large
  run(1);
  EXPECT_EQ(*bench.sbuf<float>(0, 128), 1);
}

TEST_F(DatapathTest, FloatFormats) {
  const auto bf16 = [this](float v) {
    return convert_one<float, uint16_t>(DataType::kFloat32, v, DataType::kBfloat16);
  };
  const auto fp16 = [this](float v) {
    return convert_one<float, uint16_t>(DataType::kFloat32, v, DataType::kFloat16);
  };
  const auto e4 = [this](float v) {
    return convert_one<float, uint8_t>(DataType::kFloat32, v, DataType::kFloat8e4);
  };
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(bf16(1.0f), 0x3F80);
  EXPECT_EQ(bf16(-0.0f), 0x8000);
  EXPECT_EQ(bf16(1.00390625f), 0x3F80);  // half way: to even
  EXPECT_EQ(bf16(1.01171875f), 0x3F82);
  EXPECT_EQ(bf16(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(bf16(inf), 0x7F80);
  EXPECT_EQ(bf16(std::nanf("")) & 0x7FC0, 0x7FC0);
  EXPECT_EQ(bf16(std::ldexp(1.0f, -133)), 0x0001);  // smallest subnormal
  EXPECT_EQ(bf16(std::ldexp(1.0f, -134)), 0x0000);  // half of it: to even
  EXPECT_EQ(fp16(65504.0f), 0x7BFF);
  EXPECT_EQ(fp16(65520.0f), 0x7C00);
  EXPECT_EQ(fp16(std::ldexp(1.0f, -24)), 0x0001);
  EXPECT_EQ(fp16(-2.0f), 0xC000);
  EXPECT_EQ(e4(240.0f), 0x77);
  EXPECT_EQ(e4(256.0f), 0x78);  // infinity of the legacy format
  EXPECT_EQ(e4(std::ldexp(1.0f, -9)), 0x01);
}

// Every bit pattern survives the way through float32 and back.
TEST_F(DatapathTest, RoundTripsOfSmallFormats) {
  const auto round_trip = [this](DataType type, auto first) {
    using Bits = decltype(first);
    std::vector<Bits> patterns(0x100);
    for (size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<Bits>(first + i);
    const auto values = convert<Bits, float>(type, patterns, DataType::kFloat32);
    const auto back = convert<float, Bits>(DataType::kFloat32, values, type);
    for (size_t i = 0; i < patterns.size(); ++i) {
      if (std::isnan(values[i])) continue;
      EXPECT_EQ(back[i], patterns[i]) << static_cast<int>(type);
    }
  };
  for (const DataType type : {DataType::kFloat8e3, DataType::kFloat8e4, DataType::kFloat8e5}) {
    round_trip(type, uint8_t{0});
  }
  for (const DataType type : {DataType::kFloat16, DataType::kBfloat16}) {
    for (uint32_t first = 0; first < 0x10000; first += 0x100) {
      round_trip(type, static_cast<uint16_t>(first));
    }
  }
}

TEST_F(DatapathTest, FloatToIntegerSaturatesToNearestEven) {
  const auto i8 = [this](float v) {
    return convert_one<float, int8_t>(DataType::kFloat32, v, DataType::kInt8);
  };
  EXPECT_EQ(i8(2.5f), 2);
  EXPECT_EQ(i8(3.5f), 4);
  EXPECT_EQ(i8(-2.5f), -2);
  EXPECT_EQ(i8(127.5f), 127);
  EXPECT_EQ(i8(-1000.0f), -128);
  EXPECT_EQ(i8(std::nanf("")), 0);
  EXPECT_EQ((convert_one<float, uint8_t>(DataType::kFloat32, -1.0f, DataType::kUint8)), 0);
}

TEST_F(DatapathTest, MinMaxPropagateNaN) {
  const auto result = tensor(DataType::kFloat32, 16, 2);
  const auto values = tensor(DataType::kFloat32, 0, 2);
  const auto turned = tensor(DataType::kFloat32, 4, 2, Memory::kSbuf, -1);
  *bench_.sbuf<float>(0, 0) = 1.0f;
  *bench_.sbuf<float>(0, 4) = std::nanf("");
  for (const auto operation : {isa::TensorOp::kMin, isa::TensorOp::kMax}) {
    isa::Instruction i = add(result, values, turned, 1);
    i.operands.tensor_tensor.op = operation;
    run(kDve, i);
    EXPECT_TRUE(std::isnan(*bench_.sbuf<float>(0, 16)));
    EXPECT_TRUE(std::isnan(*bench_.sbuf<float>(0, 20)));
  }
}

}  // namespace
