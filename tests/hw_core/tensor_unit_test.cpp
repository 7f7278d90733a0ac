#include "hw/core/tensor_unit.h"

#include <cmath>
#include <limits>

#include "hw/core/lanes.h"
#include "tests/hw_core/nc_bench.h"

namespace {

using contract::kDve;
using contract::kPool;
using hw_test::isa::DataType;
using hw_test::isa::Memory;
using hw_test::isa::Opcode;
namespace isa = hw_test::isa;
using namespace hw_test;  // NOLINT(google-build-using-namespace): the small assembler

class TensorUnitTest : public ::testing::Test {
 protected:
  void run(contract::Engine e, const isa::Instruction& i) {
    bench_.put(e, contract::engine::kPc, 0);
    bench_.load(e, {i, op(Opcode::kHalt)});
    bench_.start(e);
    bench_.queue.run_all();
    EXPECT_EQ(bench_.status(e), contract::EngineStatus::kHalted)
        << "error " << bench_.get(e, contract::engine::kErrorCode);
  }
  NcBench bench_;
};

TEST_F(TensorUnitTest, AddsEveryPartition) {
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

TEST_F(TensorUnitTest, PsumAndPartitionsFarApart) {
  *bench_.psum<float>(31, 16) = 3.0f;
  isa::TensorOperand dst = tensor(DataType::kFloat32, 0, 1);
  dst.start_partition = 96;
  run(kDve, copy(dst, tensor(DataType::kFloat32, 16, 1, Memory::kPsum), 32));
  EXPECT_EQ(*bench_.sbuf<float>(127, 0), 3.0f);
}

TEST_F(TensorUnitTest, StridesBroadcastAndRegisters) {
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

TEST_F(TensorUnitTest, InPlaceAndShifted) {
  for (uint32_t i = 0; i < 4; ++i) *bench_.sbuf<int32_t>(0, 4 * i) = static_cast<int32_t>(i + 1);
  run(kDve, copy(tensor(DataType::kInt32, 4, 4), tensor(DataType::kInt32, 0, 4), 1));
  for (uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(*bench_.sbuf<int32_t>(0, 4 + 4 * i), static_cast<int32_t>(i + 1));
  }
}

TEST_F(TensorUnitTest, IntegerArithmeticPerEngine) {
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

TEST_F(TensorUnitTest, CrossesSlotsOnlyWhereFull) {
  isa::TensorOperand t = tensor(DataType::kFloat32, 192 * 1024 - 4, 1);
  run(kDve, copy(t, tensor(DataType::kFloat32, 0, 1), 1));
  t = tensor(DataType::kFloat32, 16 * 1024 - 4, 1, Memory::kPsum);
  run(kDve, copy(t, tensor(DataType::kFloat32, 0, 1), 1));
}

TEST(TensorUnitTimingOnly, ElidesLargeResultsOnly) {
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

template <typename From, typename To>
To convert_one(DataType from, From value, DataType to) {
  To result{};
  hw::lanes::convert(from, reinterpret_cast<const uint8_t*>(&value), to,
                     reinterpret_cast<uint8_t*>(&result), 1);
  return result;
}

TEST(Lanes, FloatFormats) {
  const auto bf16 = [](float v) {
    return convert_one<float, uint16_t>(DataType::kFloat32, v, DataType::kBfloat16);
  };
  const auto fp16 = [](float v) {
    return convert_one<float, uint16_t>(DataType::kFloat32, v, DataType::kFloat16);
  };
  const auto e4 = [](float v) {
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
TEST(Lanes, RoundTripsOfSmallFormats) {
  for (const DataType type : {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat8e3,
                              DataType::kFloat8e4, DataType::kFloat8e5}) {
    const uint32_t patterns = isa::data_type_bytes(type) == 2 ? 0x10000 : 0x100;
    for (uint32_t bits = 0; bits < patterns; ++bits) {
      const auto value =
          convert_one<uint16_t, float>(type, static_cast<uint16_t>(bits), DataType::kFloat32);
      if (std::isnan(value)) continue;
      EXPECT_EQ((convert_one<float, uint16_t>(DataType::kFloat32, value, type)), bits)
          << static_cast<int>(type);
    }
  }
}

TEST(Lanes, FloatToIntegerSaturatesToNearestEven) {
  const auto i8 = [](float v) {
    return convert_one<float, int8_t>(DataType::kFloat32, v, DataType::kInt8);
  };
  EXPECT_EQ(i8(2.5f), 2);
  EXPECT_EQ(i8(3.5f), 4);
  EXPECT_EQ(i8(-2.5f), -2);
  EXPECT_EQ(i8(127.5f), 127);
  EXPECT_EQ(i8(-1000.0f), -128);
  EXPECT_EQ(i8(std::nanf("")), 0);
  EXPECT_EQ((convert_one<float, uint8_t>(DataType::kFloat32, -1.0f, DataType::kUint8)), 0);
  EXPECT_EQ((convert_one<float, uint64_t>(DataType::kFloat32, 1e30f, DataType::kUint64)),
            std::numeric_limits<uint64_t>::max());
  EXPECT_EQ((convert_one<float, int64_t>(DataType::kFloat32, -1e30f, DataType::kInt64)),
            std::numeric_limits<int64_t>::min());
}

TEST(Lanes, MinMaxPropagateNaN) {
  const float values[] = {1.0f, std::nanf("")};
  for (const auto op : {isa::TensorOp::kMin, isa::TensorOp::kMax}) {
    for (int order = 0; order < 2; ++order) {
      float out = 0;
      hw::lanes::combine(op, {DataType::kFloat32, reinterpret_cast<const uint8_t*>(&values[order])},
                         {DataType::kFloat32, reinterpret_cast<const uint8_t*>(&values[1 - order])},
                         {DataType::kFloat32, reinterpret_cast<uint8_t*>(&out)}, 1, false);
      EXPECT_TRUE(std::isnan(out));
    }
  }
}

}  // namespace
