// Transfers whose descriptors engines make (docs/hardware-contract.md 3): data, bounds, time.
#include "hw/core/dge.h"

#include <numeric>

#include "tests/hw_core/dge_bench.h"

namespace {

using contract::EngineError;
using contract::EngineStatus;
using contract::Gen;
using contract::kAct;
using contract::kPool;
using contract::kSp;
using hw_test::isa::DataType;
using hw_test::isa::Opcode;
namespace isa = hw_test::isa;
namespace reg = contract::engine;
using namespace hw_test;             // NOLINT(google-build-using-namespace): the small assembler
using namespace hw_test::transfers;  // NOLINT(google-build-using-namespace): its transfers

TEST(Dge, HardwareMovesATile) {
  for (const contract::Engine e : {kSp, kAct}) {
    DgeBench b;
    b.run(e, {memcpy_op(isa::DgeMode::kHwdge, tile(512, DataType::kFloat32, 32, 128),
                        tensor_rows(0, DataType::kFloat32, 32, 128))});
    b.expect_done(e);
    for (uint32_t p = 0; p < 128; ++p) {
      ASSERT_EQ(std::memcmp(b.sbuf<uint8_t>(p, 512), b.bytes(kTensor + p * 128, 128), 128), 0) << p;
    }
    EXPECT_EQ(b.counters.generated_transfers, 1u);
    EXPECT_EQ(b.counters.generated_descriptors, 128u);
  }
}

// 600 ns of the block lie inside the lead; behind it, nothing but what static transfers have.
TEST(Dge, HardwareTakesTheLeadOfAnyTransfer) {
  DgeBench b;
  b.run(kSp, {memcpy_op(isa::DgeMode::kHwdge, tile(0, DataType::kFloat32, 32, 128),
                        tensor_rows(0, DataType::kFloat32, 32, 128))});
  const hw::TimingParams& t = b.timing;
  // Eight buffers of 128 bytes for each engine, then 4 bytes that are acknowledged.
  const base::Ps each = t.dma_engine.time_for(8 * 128) + 8 * t.dma_buffer;
  const base::Ps least = t.seq_write + t.dma_fetch + each + t.dma_write_ack;
  EXPECT_GE(b.queue.now(), least);
  EXPECT_LE(b.queue.now(), least + base::ns(300));
}

TEST(Dge, TransfersOfAQueueKeepTheirDistance) {
  base::Ps ends[2];
  for (uint32_t n = 1; n <= 2; ++n) {
    DgeBench b;
    std::vector<isa::Instruction> program;
    for (uint32_t i = 0; i < 5 * n; ++i) {
      program.push_back(memcpy_op(isa::DgeMode::kHwdge, tile(0, DataType::kFloat32, 8, 128),
                                  tensor_rows(0, DataType::kFloat32, 8, 128)));
    }
    b.run(kSp, program);
    b.expect_done(kSp, 5 * n);
    ends[n - 1] = b.queue.now();
  }
  EXPECT_EQ(ends[1] - ends[0], 5 * hw::TimingParams().dma_t0);
}

// The published curve, relative to 32 KiB in each of 128 partitions (spec/timing.md 5).
TEST(Dge, ThroughputFollowsTheSize) {
  const auto time = [](uint32_t bytes, uint32_t transfers) {
    DgeBench b;
    base::store<uint64_t>(b.bytes(kTable + 8, 8), 128 * 32768);
    const std::vector<isa::Instruction> program(
        transfers, memcpy_op(isa::DgeMode::kHwdge, tile(0, DataType::kUint8, bytes, 128),
                             tensor_rows(0, DataType::kUint8, bytes, 128)));
    b.run(kSp, program);
    b.expect_done(kSp, transfers);
    return b.queue.now();
  };
  const auto rate = [&](uint32_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(time(bytes, 8) - time(bytes, 4));
  };
  const double whole = rate(32768);
  const std::pair<uint32_t, double> published[] = {{32, .013},    {128, .052},   {512, .2075},
                                                   {1024, .4235}, {2048, .8145}, {4096, .967},
                                                   {8192, .984},  {16384, .992}};
  for (const auto& [bytes, expected] : published) {
    EXPECT_NEAR(rate(bytes) / whole, expected, .05) << bytes;
  }
}

TEST(Dge, SoftwareOccupiesGpSimd) {
  DgeBench b;
  b.run(kPool, {memcpy_op(isa::DgeMode::kSwdge, tile(0, DataType::kFloat32, 64, 128),
                          tensor_rows(0, DataType::kFloat32, 64, 128))});
  b.expect_done(kPool);
  const base::Ps busy = b.group.core(0).engine(kPool).busy();
  const base::Ps halt = b.timing.clk_pool.time_for(b.timing.seq_alu_cycles);
  EXPECT_EQ(busy, b.timing.clk_pool.time_for(150 + 4 * 128) + halt);
}

// The Scalar engine's block works under what the engine computes before it.
TEST(Dge, HardwareGeneratesUnderCompute) {
  const auto transfer = memcpy_op(isa::DgeMode::kHwdge, tile(0, DataType::kFloat32, 8, 128),
                                  tensor_rows(0, DataType::kFloat32, 8, 128));
  isa::Instruction activate = op(Opcode::kTensorCopy);
  activate.operands.tensor_copy = {tensor(DataType::kFloat32, 4096, 4000),
                                   tensor(DataType::kFloat32, 65536, 4000), 128};
  isa::Instruction other = activate;
  other.operands.tensor_copy.dst.byte_offset = 24576;
  base::Ps end[3];
  base::Ps busy[3];
  const std::vector<isa::Instruction> programs[3] = {
      {transfer}, {activate}, {activate, transfer, other}};
  for (size_t i = 0; i < 3; ++i) {
    DgeBench b;
    b.run(kAct, programs[i]);
    EXPECT_EQ(b.status(kAct), EngineStatus::kHalted);
    end[i] = b.queue.now();
    busy[i] = b.group.core(0).engine(kAct).busy();
  }
  EXPECT_LT(end[0], end[1]);
  const base::Ps halt = hw::TimingParams().clk_act.time_for(hw::TimingParams().seq_alu_cycles);
  EXPECT_EQ(busy[2], 2 * (busy[1] - halt) + halt);  // nothing between the two
  EXPECT_LE(end[2], 2 * end[1]);
}

TEST(Dge, RegistersMoveTheStart) {
  DgeBench b;
  isa::SideOperand src = tensor_rows(0, DataType::kUint8, 64, 4, 128);
  src.offset_register = 9;
  src.scale = 256;
  b.run(kSp, {move(9, 5), memcpy_op(isa::DgeMode::kHwdge, tile(0, DataType::kUint8, 64, 4), src)});
  b.expect_done(kSp);
  const uint64_t at = kTensor + 128 + 5 * 256;
  EXPECT_EQ(std::memcmp(b.sbuf<uint8_t>(3, 0), b.bytes(at + 3 * 64, 64), 64), 0);
}

TEST(Dge, SoftwareConvertsAndAdds) {
  DgeBench b;
  for (uint32_t i = 0; i < 256; ++i) {
    base::store<float>(b.bytes(kTensor + 4 * i, 4), static_cast<float>(i) + 0.5F);
    *b.sbuf<float>(i / 64, 1024 + i % 64 * 4) = 1000;
  }
  isa::Instruction sum = memcpy_op(isa::DgeMode::kSwdge, tile(1024, DataType::kFloat32, 64, 4),
                                   tensor_rows(0, DataType::kFloat32, 64, 4));
  sum.operands.dma_memcpy.op = isa::DgeOp::kAdd;
  b.run(kPool, {memcpy_op(isa::DgeMode::kSwdge, tile(0, DataType::kInt32, 64, 4),
                          tensor_rows(0, DataType::kFloat32, 64, 4)),
                sum});
  b.expect_done(kPool, 2);
  EXPECT_EQ(*b.sbuf<int32_t>(1, 4 * 3), 68);  // 67.5 to even
  EXPECT_EQ(*b.sbuf<float>(1, 1024 + 4 * 3), 1067.5F);
}

TEST(Dge, GathersAndScattersRows) {
  DgeBench b;
  const std::vector<uint32_t> index = {7, 0, 63, 7, 12};
  b.set_index(0, index);
  isa::SideOperand table = tensor_rows(0, DataType::kUint16, 100, 5);
  isa::SideOperand to = tensor_rows(1, DataType::kUint16, 100, 5);
  const std::vector<uint32_t> places = {4, 3, 9, 1, 0};
  b.set_index(4, places);
  b.run(kPool,
        {indirect(isa::DgeDirection::kGather, tile(512, DataType::kUint16, 100, 5), table, 0, 5)});
  b.expect_done(kPool);
  for (uint32_t p = 0; p < 5; ++p) {
    ASSERT_EQ(std::memcmp(b.sbuf<uint8_t>(p, 512), b.bytes(kTensor + index[p] * 200, 200), 200), 0);
  }
  b.put(kPool, reg::kPc, 0);
  b.run(kPool,
        {indirect(isa::DgeDirection::kScatter, to, tile(512, DataType::kUint16, 100, 5), 4, 5)});
  b.expect_done(kPool, 2);
  for (uint32_t p = 0; p < 5; ++p) {
    ASSERT_EQ(std::memcmp(b.sbuf<uint8_t>(p, 512), b.bytes(kOther + places[p] * 200, 200), 200), 0);
  }
}

// Rows that share an index add up, when one ring has them all.
TEST(Dge, AddsToTheSameRow) {
  DgeBench b;
  std::memset(b.bytes(kOther, 4096), 0, 4096);
  std::vector<uint32_t> index(32);
  for (uint32_t p = 0; p < 32; ++p) {
    index[p] = p % 3;
    for (uint32_t i = 0; i < 16; ++i) *b.sbuf<float>(p, 64 + 4 * i) = static_cast<float>(p);
  }
  b.set_index(0, index);
  isa::Instruction add =
      indirect(isa::DgeDirection::kScatter, tensor_rows(1, DataType::kFloat32, 16, 32),
               tile(64, DataType::kFloat32, 16, 32), 0, 32);
  add.operands.dma_indirect.op = isa::DgeOp::kAdd;
  add.operands.dma_indirect.ordered = 1;
  b.run(kPool, {add});
  b.expect_done(kPool);
  const float sums[3] = {165, 176, 155};  // 0 + 3 + ... + 30 and so on
  for (uint32_t row = 0; row < 3; ++row) {
    EXPECT_EQ(base::load<float>(b.bytes(kOther + row * 64 + 60, 4)), sums[row]);
  }
}

TEST(Dge, IndicesOutOfRangeAreErrorsOrLeftOut) {
  const std::vector<uint32_t> index = {1, 512, ~0u, 2};  // a tensor has 512 rows of 128 bytes
  const auto program = [](isa::DgeBounds bounds) {
    isa::Instruction i = indirect(isa::DgeDirection::kGather, tile(512, DataType::kUint8, 128, 4),
                                  tensor_rows(0, DataType::kUint8, 128, 4), 0, 4);
    i.operands.dma_indirect.bounds = bounds;
    return i;
  };
  DgeBench error;
  error.set_index(0, index);
  error.run(kPool, {program(isa::DgeBounds::kError)});
  error.expect_error(kPool, EngineError::kOutOfBounds, 1u << 24 | 1);
  DgeBench skip;
  skip.set_index(0, index);
  for (uint32_t p = 0; p < 4; ++p) *skip.sbuf<uint8_t>(p, 512 + 5) = 0xEE;
  skip.run(kPool, {program(isa::DgeBounds::kSkip)});
  skip.expect_done(kPool);
  EXPECT_EQ(*skip.sbuf<uint8_t>(0, 512 + 5), DgeBench::pattern(128 + 5));
  EXPECT_EQ(*skip.sbuf<uint8_t>(1, 512 + 5), 0xEE);
  EXPECT_EQ(*skip.sbuf<uint8_t>(2, 512 + 5), 0xEE);
  EXPECT_EQ(*skip.sbuf<uint8_t>(3, 512 + 5), DgeBench::pattern(256 + 5));
}

TEST(Dge, TransposesAMatrix) {
  for (const uint32_t blocks : {1u, 3u}) {
    DgeBench b;
    const uint32_t rows = 16 * blocks;
    constexpr uint32_t kColumns = 100;
    const auto row = static_cast<int32_t>(2 * kColumns);
    isa::SideOperand src = side(0, 0, DataType::kBfloat16, {{2, kColumns}, {row, 16}});
    isa::SideOperand dst =
        side(isa::kSbufEntry, 64, DataType::kBfloat16, {{2, 16}, {kPitch, kColumns}});
    if (blocks > 1) {  // of 16 rows each, as an axis in between
      src = side(0, 0, DataType::kBfloat16, {{2, kColumns}, {16 * row, blocks}, {row, 16}});
      dst = side(isa::kSbufEntry, 64, DataType::kBfloat16,
                 {{2, 16}, {32, blocks}, {kPitch, kColumns}});
    }
    b.run(kAct, {transpose(dst, src)});
    b.expect_done(kAct);
    for (uint32_t r = 0; r < rows; ++r) {
      for (uint32_t c = 0; c < kColumns; ++c) {
        ASSERT_EQ(*b.sbuf<uint16_t>(c, 64 + 2 * r),
                  base::load<uint16_t>(b.bytes(kTensor + 2 * (r * kColumns + c), 2)))
            << r << ", " << c;
      }
    }
  }
}

// dst[d,b,c,a] = src[a,b,c,d], from SBUF.
TEST(Dge, TransposesFourAxes) {
  DgeBench b;
  constexpr uint32_t kA = 8, kB = 3, kC = 2, kD = 20;
  for (uint32_t a = 0; a < kA; ++a) {
    for (uint32_t i = 0; i < kB * kC * kD; ++i) {
      *b.sbuf<uint16_t>(kFarPartition + a, 2 * i) = static_cast<uint16_t>(a * 1000 + i);
    }
  }
  const uint64_t from = uint64_t{kFarPartition} * static_cast<uint64_t>(kPitch);
  b.run(kSp, {transpose(side(isa::kSbufEntry, 512, DataType::kUint16,
                             {{2, kA}, {2 * kA, kC}, {2 * kA * kC, kB}, {kPitch, kD}}),
                        side(isa::kSbufEntry, from, DataType::kUint16,
                             {{2, kD}, {2 * kD, kC}, {2 * kD * kC, kB}, {kPitch, kA}}))});
  b.expect_done(kSp);
  for (uint32_t a = 0; a < kA; ++a) {
    for (uint32_t i = 0; i < kB * kC; ++i) {
      for (uint32_t d = 0; d < kD; ++d) {
        ASSERT_EQ(*b.sbuf<uint16_t>(d, 512 + 2 * (i * kA + a)), a * 1000 + i * kD + d);
      }
    }
  }
}

TEST(Dge, TransposesGatheredRows) {
  DgeBench b;
  std::vector<uint32_t> index(32);
  for (uint32_t i = 0; i < 32; ++i) index[i] = (i * 37) % 200;
  b.set_index(0, index);
  isa::Instruction i = op(Opcode::kDmaGatherTranspose);
  isa::DmaGatherTranspose& o = i.operands.dma_gather_transpose;
  o.mode = isa::DgeMode::kSwdge;
  o.semaphore = kSemaphore;
  o.queue = kQueue;
  o.src = tensor_rows(0, DataType::kFloat16, 48, 32);
  o.dst = side(isa::kSbufEntry, 512, DataType::kFloat16, {{2, 32}, {kPitch, 48}});
  o.index = tensor(DataType::kUint32, 0, 1);
  o.rows = 32;
  b.run(kPool, {i});
  b.expect_done(kPool);
  for (uint32_t r = 0; r < 32; ++r) {
    for (uint32_t c = 0; c < 48; ++c) {
      ASSERT_EQ(*b.sbuf<uint16_t>(c, 512 + 2 * r),
                base::load<uint16_t>(b.bytes(kTensor + 2 * (index[r] * 48 + c), 2)));
    }
  }
}

// A ring with room for one at a time: the block waits for the engines.
TEST(Dge, WaitsForRoomInTheRings) {
  DgeBench b(Gen::kV3, 32);
  std::vector<isa::Instruction> program;
  for (uint32_t i = 0; i < 12; ++i) {
    program.push_back(memcpy_op(isa::DgeMode::kHwdge, tile(64 * i, DataType::kUint8, 64, 128),
                                tensor_rows(0, DataType::kUint8, 64, 128, 64 * i)));
  }
  b.run(kSp, program);
  b.expect_done(kSp, 12);
  EXPECT_EQ(
      std::memcmp(b.sbuf<uint8_t>(127, 64 * 11), b.bytes(kTensor + 127 * 64 + 64 * 11, 64), 64), 0);
}

// Rings that nobody empties: the machine comes to rest, and transfers behind the one that waits
// cost nothing.
TEST(Dge, RestsWhileNobodyMakesRoom) {
  DgeBench b(Gen::kV3, 32);
  const auto configure = [&](uint32_t value) {
    for (uint32_t e = 0; e < contract::kDmaPerNc; ++e) {
      for (const uint64_t side : {uint64_t{0}, contract::kS2mOffset}) {
        b.store32(b.map().udma(e).device + contract::udma::kM2sQ +
                      kQueue * contract::udma::kM2sQStride + side + contract::udma::kM2sQCfg,
                  value);
      }
    }
  };
  configure(0);
  std::vector<isa::Instruction> program;
  for (uint32_t i = 0; i < 12; ++i) {
    program.push_back(memcpy_op(isa::DgeMode::kHwdge, tile(64 * i, DataType::kUint8, 64, 128),
                                tensor_rows(0, DataType::kUint8, 64, 128, 64 * i)));
  }
  program.push_back(op(Opcode::kHalt));
  b.load(kSp, program);
  b.start(kSp);
  b.queue.run_until(base::us(100));
  EXPECT_TRUE(b.queue.at_rest());
  EXPECT_LT(b.queue.executed(), 1000u);
  EXPECT_EQ(b.status(kSp), EngineStatus::kHalted);
  EXPECT_EQ(b.group.core(0).engine(kSp).stuck(),
            "holds transfers for queue 3, whose rings are full");
  configure(0x0303'0000);
  b.queue.run_until(b.queue.now() + base::us(100));
  b.expect_done(kSp, 12);
  EXPECT_EQ(b.group.core(0).engine(kSp).stuck(), "");
}

TEST(Dge, RefusesWhatIsWrong) {
  const auto dst = tile(0, DataType::kFloat32, 32, 16);
  const auto src = tensor_rows(0, DataType::kFloat32, 32, 16);
  {
    DgeBench b;  // no such queue
    isa::Instruction i = memcpy_op(isa::DgeMode::kHwdge, dst, src);
    i.operands.dma_memcpy.queue = 5;
    b.run(kSp, {i});
    b.expect_error(kSp, EngineError::kBadQueue, 5);
  }
  {
    DgeBench b;  // nor such a tensor
    isa::SideOperand bad = src;
    bad.entry = 2;
    b.run(kSp, {memcpy_op(isa::DgeMode::kHwdge, dst, bad)});
    b.expect_error(kSp, EngineError::kBadOperand, 1);
  }
  {
    DgeBench b;  // an element that is not aligned
    isa::SideOperand bad = src;
    bad.offset = 2;
    b.run(kSp, {memcpy_op(isa::DgeMode::kHwdge, dst, bad)});
    b.expect_error(kSp, EngineError::kBadOperand, 1);
  }
  {
    DgeBench b;  // behind the end of a partition
    isa::SideOperand bad = dst;
    bad.offset = 224 * 1024 - 64;
    b.run(kSp, {memcpy_op(isa::DgeMode::kHwdge, bad, src)});
    b.expect_error(kSp, EngineError::kBadOperand, 0);
  }
  {
    DgeBench b;  // behind the end of the tensor
    isa::SideOperand bad = src;
    bad.offset = kTensorBytes - 64;
    b.run(kSp, {memcpy_op(isa::DgeMode::kHwdge, dst, bad)});
    b.expect_error(kSp, EngineError::kOutOfBounds, 1u << 24);
  }
  {
    DgeBench b;  // a register that leads far away
    isa::SideOperand bad = src;
    bad.offset_register = 1;
    bad.scale = ~3u;
    b.put(kSp, reg::kRegister + 4, ~0u);
    b.run(kSp, {memcpy_op(isa::DgeMode::kHwdge, dst, bad)});
    b.expect_error(kSp, EngineError::kOutOfBounds, 1u << 24);
  }
  {
    DgeBench b;  // an index behind the end of a partition
    b.run(kPool, {indirect(isa::DgeDirection::kGather, dst, src, 224 * 1024, 16)});
    b.expect_error(kPool, EngineError::kBadOperand, 2);
  }
  const auto number = static_cast<uint32_t>(Opcode::kDmaMemcpy);
  {
    DgeBench b(Gen::kV2);  // v2 has no block
    b.run(kSp, {memcpy_op(isa::DgeMode::kHwdge, dst, src)});
    b.expect_error(kSp, EngineError::kBadInstruction, number);
  }
  {
    DgeBench b;  // software is GpSimd's
    b.run(kAct, {memcpy_op(isa::DgeMode::kSwdge, dst, src)});
    b.expect_error(kAct, EngineError::kBadInstruction, number);
  }
}

// The bound by which loaders make rings holds.
TEST(Dge, NeedsNoMoreThanIsSaid) {
  DgeBench b;
  std::vector<uint32_t> registers(64);
  const hw::TransferGenerator generator(b.fabric, 0);
  hw::TransferGenerator::Params params;
  params.table = {b.hbm(kTable), 2};
  params.registers = registers.data();
  const auto check = [&](const isa::Instruction& in) {
    const contract::dge::Transfer t = contract::dge::transfer_of(in);
    hw::GeneratedTransfer out;
    ASSERT_FALSE(generator.generate(t, params, &out).has_value());
    for (const hw::GeneratedRing& ring : out.rings) {
      EXPECT_LE(ring.m2s.size(), contract::dge::most_descriptors(t));
      EXPECT_LE(ring.s2m.size(), contract::dge::most_descriptors(t));
    }
  };
  const auto u8 = DataType::kUint8;
  check(memcpy_op(isa::DgeMode::kHwdge, tile(0, u8, 100, 128), tensor_rows(0, u8, 100, 128)));
  check(
      memcpy_op(isa::DgeMode::kHwdge, tensor_rows(1, u8, 50000, 1), tensor_rows(0, u8, 50000, 1)));
  check(memcpy_op(isa::DgeMode::kHwdge, side(1, 0, u8, {{3, 999}}), side(0, 1, u8, {{5, 999}})));
  check(memcpy_op(isa::DgeMode::kHwdge, side(1, 0, u8, {{1, 7}, {11, 143}}),
                  side(0, 0, u8, {{1, 13}, {20, 77}})));
  isa::Instruction sum = memcpy_op(isa::DgeMode::kSwdge, tensor_rows(1, DataType::kFloat32, 9, 65),
                                   side(0, 0, DataType::kFloat32, {{4, 5}, {24, 117}}));
  sum.operands.dma_memcpy.op = isa::DgeOp::kAdd;
  check(sum);
  params.index.resize(128);
  std::iota(params.index.begin(), params.index.end(), 0);
  isa::Instruction rows = indirect(isa::DgeDirection::kScatter, tensor_rows(1, u8, 300, 128),
                                   tile(0, u8, 300, 128), 0, 128);
  check(rows);
  rows.operands.dma_indirect.ordered = 1;
  check(rows);
  isa::Instruction turned =
      transpose(side(isa::kSbufEntry, 0, DataType::kUint16, {{2, 16}, {32, 9}, {kPitch, 121}}),
                side(0, 0, DataType::kUint16, {{2, 121}, {16 * 242, 9}, {242, 16}}));
  check(turned);
}

// ---- Registers loaded from tensors, and arguments ----

isa::Instruction load_cell(uint8_t dst, isa::SideOperand src) {
  isa::Instruction i = op(Opcode::kTensorLoad);
  i.operands.tensor_load = {dst, src, isa::DgeBounds::kError};
  return i;
}
isa::Instruction store_cell(isa::SideOperand dst, uint8_t src) {
  isa::Instruction i = op(Opcode::kTensorStore);
  i.operands.tensor_store = {dst, src, isa::DgeBounds::kError};
  return i;
}
isa::SideOperand cell(uint32_t entry, uint64_t offset, DataType type) {
  return side(static_cast<uint16_t>(entry), offset, type,
              {{static_cast<int32_t>(isa::data_type_bytes(type)), 1}});
}

TEST(TensorCells, LoadsExtendByType) {
  DgeBench b(Gen::kV2);
  base::store<uint64_t>(b.bytes(kTensor, 8), 0x8192'A3B4'C5D6'E7F8u);
  isa::SideOperand moved = cell(0, 4, DataType::kUint32);
  moved.offset_register = 2;
  moved.scale = 0x100;
  base::store<uint32_t>(b.bytes(kTensor + 0x304, 4), 77);
  b.put(kSp, reg::kRegister + 4 * 2, 3);
  b.run(kSp,
        {load_cell(10, cell(0, 0, DataType::kInt8)), load_cell(11, cell(0, 0, DataType::kUint8)),
         load_cell(12, cell(0, 2, DataType::kInt16)), load_cell(13, cell(0, 2, DataType::kFloat16)),
         load_cell(14, cell(0, 4, DataType::kFloat32)),
         load_cell(15, cell(0, 0, DataType::kUint64)), load_cell(17, moved)});
  EXPECT_EQ(b.status(kSp), EngineStatus::kHalted) << b.get(kSp, reg::kErrorCode);
  const uint32_t expected[] = {0xFFFF'FFF8, 0xF8,        0xFFFF'C5D6, 0xC5D6,
                               0x8192'A3B4, 0xC5D6'E7F8, 0x8192'A3B4, 77};
  for (uint32_t i = 0; i < std::size(expected); ++i) {
    EXPECT_EQ(b.get(kSp, reg::kRegister + 4 * (10 + i)), expected[i]) << i;
  }
}

TEST(TensorCells, StoresKeepWhatIsBesideThem) {
  DgeBench b;
  base::store<uint64_t>(b.bytes(kOther, 8), ~uint64_t{0});
  b.run(kPool,
        {move(4, 0x1234'5678), move(5, 9), store_cell(cell(1, 2, DataType::kUint16), 4),
         store_cell(cell(1, 7, DataType::kInt8), 4), store_cell(cell(1, 8, DataType::kInt64), 4),
         load_cell(6, cell(1, 4, DataType::kUint32))});
  EXPECT_EQ(b.status(kPool), EngineStatus::kHalted) << b.get(kPool, reg::kErrorCode);
  EXPECT_EQ(base::load<uint64_t>(b.bytes(kOther, 8)), 0x78FF'FFFF'5678'FFFFu);
  EXPECT_EQ(base::load<uint64_t>(b.bytes(kOther + 8, 8)), 0x9'1234'5678u);
  EXPECT_EQ(b.get(kPool, reg::kRegister + 4 * 6), 0x78FF'FFFFu);
}

TEST(TensorCells, TakeTheirTime) {
  const auto time = [](const std::vector<isa::Instruction>& program) {
    DgeBench b;
    b.run(kSp, program);
    EXPECT_EQ(b.status(kSp), EngineStatus::kHalted);
    return b.queue.now();
  };
  const hw::TimingParams timing;
  const base::Ps rest = time({op(Opcode::kNop)}) - timing.clk_sp.time_for(timing.seq_alu_cycles);
  EXPECT_EQ(time({load_cell(1, cell(0, 0, DataType::kUint32))}), rest + timing.seq_load_hbm);
  EXPECT_EQ(time({store_cell(cell(0, 0, DataType::kUint32), 1)}), rest + timing.seq_write);
}

TEST(TensorCells, BoundsAreOfTheTensor) {
  for (const uint64_t offset : {kTensorBytes, kTensorBytes - 4 + kTensorBytes}) {
    for (isa::Instruction in : {load_cell(1, cell(0, offset, DataType::kUint32)),
                                store_cell(cell(0, offset, DataType::kUint32), 1)}) {
      DgeBench b;
      b.run(kSp, {in});
      b.expect_error(kSp, EngineError::kOutOfBounds, 0);
    }
  }
  DgeBench b;
  isa::Instruction load = load_cell(1, cell(0, kTensorBytes, DataType::kUint32));
  load.operands.tensor_load.bounds = isa::DgeBounds::kSkip;
  isa::Instruction store = store_cell(cell(0, kTensorBytes, DataType::kUint32), 1);
  store.operands.tensor_store.bounds = isa::DgeBounds::kSkip;
  b.run(kSp, {move(1, 5), load, store});
  EXPECT_EQ(b.status(kSp), EngineStatus::kHalted);
  EXPECT_EQ(b.get(kSp, reg::kRegister + 4), 5u);
  EXPECT_EQ(base::load<uint32_t>(b.bytes(kTensor + kTensorBytes, 4)), 0u);
}

TEST(TensorCells, BadOperands) {
  const isa::SideOperand bad[] = {cell(2, 0, DataType::kUint32),  // no such tensor
                                  cell(0, 2, DataType::kUint32),  // not aligned
                                  cell(isa::kFirstArgument, 0, DataType::kUint32)};
  for (const isa::SideOperand& side : bad) {
    DgeBench b;
    b.run(kSp, {load_cell(1, side)});
    b.expect_error(kSp, EngineError::kBadOperand, 0);
  }
}

isa::Instruction link_with(int32_t target, uint64_t table, uint32_t entries) {
  isa::Instruction i = op(Opcode::kBranchLink);
  i.operands.branch_link = {target, entries, table};
  return i;
}

// Calls with the tables (other, tensor), (tensor), the caller's, and then none.
TEST(TensorCells, ArgumentsAreThoseOfTheCall) {
  constexpr uint64_t kTables = 0x210'0000;
  DgeBench b;
  const uint64_t tables[] = {b.hbm(kOther), kTensorBytes,   b.hbm(kTensor),
                             kTensorBytes,  b.hbm(kTensor), kTensorBytes};
  std::memcpy(b.bytes(kTables, sizeof tables), tables, sizeof tables);
  base::store<uint32_t>(b.bytes(kOther, 4), 11);
  base::store<uint32_t>(b.bytes(kTensor, 4), 22);
  const isa::SideOperand first = cell(isa::kFirstArgument, 0, DataType::kUint32);
  b.load(kSp, {link_with(4, b.hbm(kTables), 2),       // 0
               link_with(7, b.hbm(kTables) + 32, 1),  // 1
               load_cell(4, first),                   // 2, 3: no arguments here
               link_with(4, b.hbm(kTables) + 32, 1),  // 4
               load_cell(3, first),                   // 5, 6: those of the first call again
               op(Opcode::kReturn),                   // 7
               load_cell(1, first),                   // 8, 9
               link_with(2, 0, 0),                    // 10
               op(Opcode::kReturn),                   // 11
               load_cell(2, first),                   // 12, 13
               op(Opcode::kReturn)});                 // 14
  b.start(kSp);
  b.queue.run_all();
  EXPECT_EQ(b.get(kSp, reg::kErrorCode), static_cast<uint32_t>(EngineError::kBadOperand));
  EXPECT_EQ(b.get(kSp, reg::kErrorPc), 2u);
  EXPECT_EQ(b.get(kSp, reg::kRegister + 4 * 1), 22u);
  EXPECT_EQ(b.get(kSp, reg::kRegister + 4 * 2), 22u);
  EXPECT_EQ(b.get(kSp, reg::kRegister + 4 * 3), 11u);
}

TEST(TensorCells, TransfersTakeArguments) {
  constexpr uint64_t kArguments = 0x210'0000;
  DgeBench b;
  const uint64_t table[] = {b.hbm(kOther), kTensorBytes};
  std::memcpy(b.bytes(kArguments, sizeof table), table, sizeof table);
  isa::SideOperand dst = tensor_rows(0, DataType::kFloat32, 32, 128);
  dst.entry = isa::kFirstArgument;
  // A transfer has three records.
  b.load(kSp, {link_with(2, b.hbm(kArguments), 1), op(Opcode::kHalt),
               memcpy_op(isa::DgeMode::kHwdge, dst, tensor_rows(0, DataType::kFloat32, 32, 128)),
               op(Opcode::kReturn)});
  b.start(kSp);
  b.queue.run_all();
  b.expect_done(kSp);
  EXPECT_EQ(std::memcmp(b.bytes(kOther, 128 * 128), b.bytes(kTensor, 128 * 128), 128 * 128), 0);
}

}  // namespace
