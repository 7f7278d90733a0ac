// Types of NeuronCore v4 and numbers with scales of groups (spec/engine-isa.md 5.1, 5.6), with
// literal results.
#include <cmath>

#include "tests/engines/special.h"

namespace engine_reference {
namespace {

using contract::Gen;
using isa::Accumulate;
using isa::DataType;
using isa::Engine;
using isa::Opcode;
using isa::Operands;
using isa::TensorOp;
using Bits = std::vector<uint64_t>;
using Bytes = std::vector<uint8_t>;
using Floats = std::vector<float>;

constexpr uint32_t kPackedOne = 0x38383838;  // four numbers 1 of e4m3fn

class MxTest : public SpecialTest {
 protected:
  void quantize(const isa::TensorOperand& dst, const isa::TensorOperand& src,
                const isa::TensorOperand& scale, uint8_t partitions = 32) {
    run(Engine::kDve, Opcode::kQuantizeMx, &Operands::quantize_mx,
        isa::QuantizeMx{dst, src, scale, partitions, static_cast<uint8_t>(partitions - 28)});
  }
  void load(const isa::TensorOperand& src, const isa::TensorOperand& scale, uint8_t rows = 32) {
    run(Engine::kPe, Opcode::kLdweightsMx, &Operands::ldweights_mx,
        isa::LdweightsMx{src, scale, rows, static_cast<uint8_t>(rows - 28)});
  }
  void multiply(const isa::TensorOperand& dst, const isa::TensorOperand& moving,
                const isa::TensorOperand& scale, uint8_t columns, uint8_t rows = 32) {
    run(Engine::kPe, Opcode::kMatmulMx, &Operands::matmul_mx,
        isa::MatmulMx{Accumulate::kOverwrite, dst, moving, scale, rows, columns,
                      static_cast<uint8_t>(rows - 28)});
  }
  template <typename T>
  void put_all(const isa::TensorOperand& t, const std::vector<T>& values, uint32_t lanes) {
    for (uint32_t lane = 0; lane < lanes; ++lane) put(t, values, lane);
  }
  static isa::TensorOperand from_partition(isa::TensorOperand t, uint8_t partition) {
    t.start_partition = partition;
    return t;
  }
};

TEST_F(MxTest, E4m3fnSaturates) {
  const isa::TensorOperand src = sbuf(DataType::kFloat32, 0, 8);
  const isa::TensorOperand dst = sbuf(DataType::kFloat8e4fn, 64, 8);
  put<float>(src, {448, 464, 465, -kInfinity, canonical_nan(), 1, 0.001953125f, 240});
  for (const Engine e : {Engine::kDve, Engine::kPool, Engine::kAct}) {
    copy(e, dst, src);
    EXPECT_EQ(bits(dst, 8), (Bits{0x7E, 0x7E, 0x7E, 0xFE, 0x7F, 0x38, 0x01, 0x77}));
  }
}

// 32 numbers share a scale: 8 partitions, 4 neighbours. The scale is twice OCP's, and a group of
// zeros has the least one.
TEST_F(MxTest, Quantizes) {
  const isa::TensorOperand src = sbuf(DataType::kBfloat16, 0, 8);
  const isa::TensorOperand dst = sbuf(DataType::kFloat8e4fnx4, 64, 2);
  const isa::TensorOperand scale = sbuf(DataType::kFloat8e8, 128, 2);
  put_all<uint16_t>(src, {0x3F80, 0xBF80, 0, 0x3F00, 0, 0, 0, 0}, 32);  // 1 -1 0 .5, zeros
  put<uint16_t>(src, {0x40E0, 0, 0, 0, 0, 0, 0, 0x0001}, 9);  // 7 in the second group, a denormal
  quantize(dst, src, scale);
  // 2^(0 - 7): 1 becomes 128.
  EXPECT_EQ(bits(dst, 2, 0), (Bits{0x6800F070, 0}));
  EXPECT_EQ(bits(scale, 2, 0), (Bits{120, 0}));
  // 2^(2 - 7): 7 becomes 224, 1 becomes 32.
  EXPECT_EQ(bits(dst, 2, 9), (Bits{0x00000076, 0x08000000}));
  EXPECT_EQ(bits(dst, 2, 8), (Bits{0x5800E060, 0}));
  EXPECT_EQ(bits(scale, 2, 1), (Bits{122, 0}));
  EXPECT_EQ(bits(scale, 2, 2), (Bits{120, 0}));
  EXPECT_EQ(bits(scale, 2, 4), (Bits{0, 0}));  // not a scale's
}

TEST_F(MxTest, QuantizesToE5m2AndMarksWhatHasNoScale) {
  const isa::TensorOperand src = sbuf(DataType::kFloat16, 0, 4);
  const isa::TensorOperand dst = sbuf(DataType::kFloat8e5x4, 64, 1);
  const isa::TensorOperand scale = from_partition(sbuf(DataType::kUint8, 128, 1), 12);
  put_all<uint16_t>(src, {0x3C00, 0x3C01, 0xBC00, 0}, 32);  // 1, just above, -1
  put<uint16_t>(src, {0x7C00, 0, 0, 0}, 31);                // infinity
  quantize(dst, src, scale);
  EXPECT_EQ(bits(dst, 1, 0), (Bits{0x00F47474}));  // 2^14
  EXPECT_EQ(bits(scale, 1, 0), (Bits{113}));
  EXPECT_EQ(bits(scale, 1, 3), (Bits{255}));
  EXPECT_EQ(bits(dst, 1, 31), (Bits{0x7E7E7E7E}));
}

TEST_F(MxTest, ProductsOfGroups) {
  const isa::TensorOperand weights = sbuf(DataType::kFloat8e4fnx4, 0, 2);
  const isa::TensorOperand moving = sbuf(DataType::kFloat8e4fnx4, 64, 1);
  const isa::TensorOperand weight_scale = sbuf(DataType::kFloat8e8, 128, 2);
  const isa::TensorOperand scale = from_partition(sbuf(DataType::kFloat8e8, 160, 1), 4);
  put_all<uint32_t>(weights, {kPackedOne, kPackedOne}, 32);
  put_all<uint32_t>(moving, {kPackedOne}, 32);
  for (uint32_t group = 0; group < 4; ++group) {
    put<uint8_t>(weight_scale, {static_cast<uint8_t>(127 + group), 127}, group);
    put<uint8_t>(scale, {static_cast<uint8_t>(group == 3 ? 137 : 127)}, group);
  }
  load(weights, weight_scale);
  const isa::TensorOperand dst = psum(DataType::kFloat32, 0, 1);
  multiply(dst, moving, scale, 2);
  // 32 numbers of each group.
  EXPECT_EQ(get<float>(dst, 1, 0), (Floats{32 * (1 + 2 + 4 + 8 * 1024)}));
  EXPECT_EQ(get<float>(dst, 1, 1), (Floats{32 * (3 + 1024)}));
  put<uint8_t>(scale, {255}, 0);
  multiply(dst, moving, scale, 2);
  EXPECT_EQ(bits(dst, 1, 0), (Bits{0x7FC0'0000}));
}

// Numbers of 4 and of 8 bits mix; number j of partition k goes with its like.
TEST_F(MxTest, NumbersMeetByPlace) {
  const isa::TensorOperand weights = sbuf(DataType::kFloat4e2fnx4, 0, 2);
  const isa::TensorOperand moving = sbuf(DataType::kFloat8e5x4, 64, 2);
  const isa::TensorOperand weight_scale = sbuf(DataType::kUint8, 128, 2);
  const isa::TensorOperand scale = sbuf(DataType::kUint8, 160, 2);
  put_all<uint8_t>(weight_scale, {127, 127}, 4);
  put_all<uint8_t>(scale, {127, 127}, 4);
  put<uint16_t>(weights, {0x7521, 0x000A}, 5);         // .5 1 3 6; -1 0 0 0
  put<uint32_t>(moving, {0x3C000000, 0x3C3C3C3C}, 5);  // 0 0 0 1; 1 1 1 1
  load(weights, weight_scale);
  const isa::TensorOperand dst = psum(DataType::kFloat32, 0, 2);
  multiply(dst, moving, scale, 2);
  EXPECT_EQ(get<float>(dst, 2, 0), (Floats{6, 10.5f}));
  EXPECT_EQ(get<float>(dst, 2, 1), (Floats{0, -1}));
}

// What is quantized multiplies to about what it was.
TEST_F(MxTest, ThereAndBack) {
  const isa::TensorOperand src = sbuf(DataType::kBfloat16, 0, 8);
  const isa::TensorOperand packed = sbuf(DataType::kFloat8e4fnx4, 64, 2);
  const isa::TensorOperand scale = sbuf(DataType::kFloat8e8, 128, 2);
  double squares = 0;
  for (uint32_t lane = 0; lane < 128; ++lane) {
    std::vector<uint16_t> values;
    for (uint32_t i = 0; i < 8; ++i) {
      const float x = std::ldexp(static_cast<float>(1 + (lane * 7 + i * 3) % 15) / 8,
                                 static_cast<int>(lane / 8) - 8);
      values.push_back(static_cast<uint16_t>(bits_of(x) >> 16));
      if (i < 4) squares += static_cast<double>(x) * x;
    }
    put(src, values, lane);
  }
  quantize(packed, src, scale, 128);
  load(packed, scale, 128);
  const isa::TensorOperand dst = psum(DataType::kFloat32, 0, 2);
  multiply(dst, packed, scale, 2, 128);
  EXPECT_NEAR(get<float>(dst, 1, 0)[0], squares, squares / 1000);
}

}  // namespace
}  // namespace engine_reference
