// The Tensor engine: products, accumulation in PSUM, and when loads and products start.
#include <cmath>

#include "contract/regs/engine.h"
#include "tests/hw_core/nc_bench.h"

namespace {

using contract::EngineError;
using contract::EngineStatus;
using contract::Gen;
using contract::kPe;
using hw_test::isa::Accumulate;
using hw_test::isa::DataType;
using hw_test::isa::Memory;
using hw_test::isa::Opcode;
namespace isa = hw_test::isa;
using namespace hw_test;  // NOLINT(google-build-using-namespace): the small assembler

isa::Instruction weights(const isa::TensorOperand& from, uint8_t rows, uint8_t column = 0) {
  isa::Instruction i = op(Opcode::kLdweights);
  i.operands.ldweights = {from, rows, column, 0, 0};
  return i;
}
isa::Instruction product(Accumulate how, const isa::TensorOperand& to,
                         const isa::TensorOperand& moving, uint8_t rows, uint8_t columns) {
  isa::Instruction i = op(Opcode::kMatmul);
  i.operands.matmul = {how, to, moving, rows, columns, 0, 0, 0};
  return i;
}

class TensorEngine : public ::testing::Test {
 protected:
  static constexpr uint32_t kMoving = 0x1000;  // bytes in a partition

  // Weights k + 10 m and moving values k - n, of 128 x 4 and 128 x 6.
  void fill() {
    for (uint32_t k = 0; k < 128; ++k) {
      for (uint32_t m = 0; m < 4; ++m) {
        *bench_.sbuf<float>(k, 4 * m) = static_cast<float>(k + 10 * m);
      }
      for (uint32_t n = 0; n < 6; ++n) {
        *bench_.sbuf<float>(k, kMoving + 4 * n) = static_cast<float>(k) - static_cast<float>(n);
      }
    }
  }
  static float expected(uint32_t m, uint32_t n, uint32_t rows = 128) {
    float sum = 0;
    for (uint32_t k = 0; k < rows; ++k) {
      sum += static_cast<float>(k + 10 * m) * (static_cast<float>(k) - static_cast<float>(n));
    }
    return sum;
  }
  base::Ps run(std::vector<isa::Instruction> program) {
    program.push_back(op(Opcode::kHalt));
    bench_.put(kPe, contract::engine::kPc, 0);
    bench_.load(kPe, program);
    const base::Ps begin = bench_.queue.now();
    bench_.start(kPe);
    bench_.queue.run_all();
    return bench_.queue.now() - begin;
  }
  void expect_halted() { EXPECT_EQ(bench_.status(kPe), EngineStatus::kHalted); }
  void expect_error(uint32_t info) {
    EXPECT_EQ(bench_.status(kPe), EngineStatus::kError);
    EXPECT_EQ(bench_.get(kPe, contract::engine::kErrorCode),
              static_cast<uint32_t>(EngineError::kBadOperand));
    EXPECT_EQ(bench_.get(kPe, contract::engine::kErrorInfo), info);
    bench_.put(kPe, contract::engine::kControl, 4);
  }
  isa::TensorOperand stationary() { return tensor(DataType::kFloat32, 0, 4); }
  isa::TensorOperand moving(uint16_t n = 6) { return tensor(DataType::kFloat32, kMoving, n); }
  static isa::TensorOperand result(uint32_t byte, uint16_t n = 6) {
    return tensor(DataType::kFloat32, byte, n, Memory::kPsum);
  }

  NcBench bench_;
};

TEST_F(TensorEngine, ProductsAndAccumulation) {
  fill();
  *bench_.psum<float>(3, 64) = 5;
  run({weights(stationary(), 128), product(Accumulate::kOverwrite, result(0), moving(), 128, 4),
       product(Accumulate::kAdd, result(0), moving(), 128, 4),
       product(Accumulate::kAdd, result(64), moving(), 128, 4)});
  expect_halted();
  for (uint32_t m = 0; m < 4; ++m) {
    for (uint32_t n = 0; n < 6; ++n) {
      EXPECT_EQ(*bench_.psum<float>(m, 4 * n), 2 * expected(m, n));
    }
  }
  EXPECT_EQ(*bench_.psum<float>(3, 64), expected(3, 0) + 5);
  EXPECT_EQ(*bench_.psum<float>(4, 0), 0);
}

// Each tile of the array has weights of its own, and works on its own.
TEST_F(TensorEngine, TilesOfTheArray) {
  fill();
  isa::TensorOperand low = stationary();
  isa::TensorOperand low_values = moving();
  isa::TensorOperand high = low;
  isa::TensorOperand high_values = low_values;
  high.start_partition = high_values.start_partition = 64;
  isa::TensorOperand to = result(0);
  to.start_partition = 64;
  const base::Ps one =
      run({weights(low, 64), product(Accumulate::kOverwrite, result(0, 6), low_values, 64, 4)});
  const base::Ps both = run({weights(low, 64), weights(high, 64, 64),
                             product(Accumulate::kOverwrite, result(0), low_values, 64, 4),
                             product(Accumulate::kOverwrite, to, high_values, 64, 4)});
  expect_halted();
  EXPECT_EQ(*bench_.psum<float>(1, 8), expected(1, 2, 64));
  EXPECT_EQ(*bench_.psum<float>(65, 8), expected(1, 2, 128) - expected(1, 2, 64));
  EXPECT_LT(both - one, base::ns(10));
  run({product(Accumulate::kOverwrite, to, low_values, 64, 4)});
  expect_error(2);  // no weights on that tile
}

TEST(TensorEngineV3, TransposesBitByBit) {
  NcBench bench(Gen::kV3);
  for (uint16_t k = 0; k < 3; ++k) {
    for (uint16_t m = 0; m < 5; ++m) {
      *bench.sbuf<uint16_t>(k, 2 * m) = static_cast<uint16_t>(0x7FC0 + 16 * k + m);  // NaN
    }
    *bench.sbuf<uint16_t>(k, 64 + 2 * k) = 0x3F80;  // the unit matrix
  }
  isa::Instruction turn =
      product(Accumulate::kOverwrite, tensor(DataType::kBfloat16, 0, 3, Memory::kPsum),
              tensor(DataType::kBfloat16, 64, 3), 3, 5);
  turn.operands.matmul.transpose = 1;
  bench.load(kPe, {weights(tensor(DataType::kBfloat16, 0, 5), 3), turn, op(Opcode::kHalt)});
  bench.start(kPe);
  bench.queue.run_all();
  EXPECT_EQ(bench.status(kPe), EngineStatus::kHalted);
  for (uint16_t k = 0; k < 3; ++k) {
    for (uint16_t m = 0; m < 5; ++m) {
      EXPECT_EQ(*bench.psum<uint16_t>(m, 2 * k), 0x7FC0 + 16 * k + m);
    }
  }
}

TEST(TensorEngineV3, DoubleRow) {
  NcBench bench(Gen::kV3);
  for (uint32_t k = 0; k < 2; ++k) {
    for (uint32_t i = 0; i < 4; ++i) {
      *bench.sbuf<uint8_t>(k, i) = static_cast<uint8_t>(0x38 + 8 * k);           // 1, 2 in e4m3
      *bench.sbuf<uint8_t>(k, 64 + i) = static_cast<uint8_t>(0x38 + i / 2 * 8);  // 1 1 2 2
    }
  }
  isa::Instruction load = weights(tensor(DataType::kFloat8e4, 0, 4), 2);  // two slices of two
  isa::Instruction step =
      product(Accumulate::kOverwrite, tensor(DataType::kFloat32, 0, 2, Memory::kPsum),
              tensor(DataType::kFloat8e4, 64, 4), 2, 2);
  load.operands.ldweights.double_row = step.operands.matmul.double_row = 1;
  bench.load(kPe, {load, step, op(Opcode::kHalt)});
  bench.start(kPe);
  bench.queue.run_all();
  EXPECT_EQ(bench.status(kPe), EngineStatus::kHalted);
  EXPECT_EQ(*bench.psum<float>(1, 4), 1 * 1 + 2 * 1 + 1 * 2 + 2 * 2);
}

// Where products of one group overlap they add, elsewhere they replace what was there.
TEST_F(TensorEngine, FirstWriteIsPerElement) {
  fill();
  for (uint32_t n = 0; n < 16; ++n) *bench_.psum<float>(0, 4 * n) = 1000;
  *bench_.psum<float>(0, 2048) = 1000;
  run({weights(stationary(), 128), product(Accumulate::kStart, result(0, 6), moving(), 128, 4),
       product(Accumulate::kFirstWrite, result(8, 6), moving(), 128, 4)});
  expect_halted();
  EXPECT_EQ(*bench_.psum<float>(0, 4), expected(0, 1));
  EXPECT_EQ(*bench_.psum<float>(0, 8), expected(0, 2) + expected(0, 0));
  EXPECT_EQ(*bench_.psum<float>(0, 20), expected(0, 5) + expected(0, 3));
  EXPECT_EQ(*bench_.psum<float>(0, 28), expected(0, 5));
  EXPECT_EQ(*bench_.psum<float>(0, 32), 1000);
  // A group of its own in the next bank; the first one goes on.
  run({product(Accumulate::kStart, result(2048), moving(), 128, 4),
       product(Accumulate::kFirstWrite, result(24), moving(), 128, 4)});
  EXPECT_EQ(*bench_.psum<float>(0, 2048), expected(0, 0));
  EXPECT_EQ(*bench_.psum<float>(0, 28), expected(0, 5) + expected(0, 1));
  EXPECT_EQ(*bench_.psum<float>(0, 32), expected(0, 2));
  // The same element twice in one product.
  isa::TensorOperand folded = result(4096, 3);
  folded.dims[1] = {0, 2};
  run({product(Accumulate::kStart, folded, moving(), 128, 4)});
  EXPECT_EQ(*bench_.psum<float>(2, 4096 + 4), expected(2, 1) + expected(2, 4));
}

TEST_F(TensorEngine, TypesOfTheOperands) {
  const auto with = [](isa::TensorOperand t, DataType type) {
    t.dtype = type;
    return t;
  };
  *bench_.sbuf<uint16_t>(0, 0) = 0x3F80;                 // 1 in bfloat16
  *bench_.sbuf<uint8_t>(0, kMoving) = 0x38;              // 1 in e4m3
  *bench_.sbuf<float>(0, kMoving + 8) = 1.00048828125f;  // 1 + 2^-11: half of tf32's step
  const isa::Instruction load = weights(with(stationary(), DataType::kBfloat16), 1);
  run({load,
       product(Accumulate::kOverwrite, result(0, 1), with(moving(1), DataType::kFloat8e4), 1, 4)});
  expect_halted();
  EXPECT_EQ(*bench_.psum<float>(0, 0), 1);
  run({load, product(Accumulate::kOverwrite, result(0, 1), moving(1), 1, 4)});
  expect_error(2);  // float32 goes with itself only
  isa::TensorOperand tf32 = with(moving(1), DataType::kFloat32r);
  tf32.byte_offset += 8;
  run({weights(tf32, 1), product(Accumulate::kOverwrite, result(0, 1), tf32, 1, 1)});
  expect_halted();
  EXPECT_EQ(*bench_.psum<float>(0, 0), 1);  // to even
}

TEST_F(TensorEngine, IllegalProducts) {
  run({product(Accumulate::kOverwrite, result(0), moving(), 128, 4)});
  expect_error(2);  // no weights
  run({weights(stationary(), 128), product(Accumulate::kOverwrite, result(0), moving(), 64, 4)});
  expect_error(2);
  run({weights(stationary(), 128), product(Accumulate::kOverwrite, result(0), moving(), 128, 5)});
  expect_error(2);
  run({weights(stationary(), 128),
       product(Accumulate::kOverwrite, result(2044), moving(), 128, 4)});
  expect_error(0);  // two banks
  run({weights(stationary(), 128), product(Accumulate::kOverwrite, result(2), moving(), 128, 4)});
  expect_error(0);  // not a whole word
}

TEST(TensorEngineV4, SpansBanks) {
  NcBench bench(Gen::kV4);
  *bench.sbuf<float>(0, 0) = 2;
  for (uint32_t n = 0; n < 4; ++n) *bench.sbuf<float>(0, 64 + 4 * n) = static_cast<float>(n);
  const auto one = tensor(DataType::kFloat32, 0, 1);
  bench.load(kPe,
             {weights(one, 1),
              product(Accumulate::kOverwrite, tensor(DataType::kFloat32, 2040, 4, Memory::kPsum),
                      tensor(DataType::kFloat32, 64, 4), 1, 1),
              op(Opcode::kHalt)});
  bench.start(kPe);
  bench.queue.run_all();
  EXPECT_EQ(bench.status(kPe), EngineStatus::kHalted);
  EXPECT_EQ(*bench.psum<float>(0, 2052), 6);
}

// spec/engine-isa.md 7: pairs of a load and a product.
TEST_F(TensorEngine, PairsTakeAsLongAsTheirLongerHalf) {
  const auto time_of = [&](uint16_t columns, uint16_t n, DataType type) {
    const auto from = tensor(type, 0, columns);
    const auto values = tensor(type, kMoving, n);
    const auto to = result(0, n);
    const auto pairs = [&](size_t count) {
      std::vector<isa::Instruction> program;
      for (size_t i = 0; i < count; ++i) {
        program.push_back(weights(from, 128));
        program.push_back(
            product(Accumulate::kAdd, to, values, 128, static_cast<uint8_t>(columns)));
      }
      return run(program);
    };
    const base::Ps difference = pairs(8) - pairs(4);
    return static_cast<double>(difference) / 4 / 1000 * 2.8;  // cycles
  };
  EXPECT_NEAR(time_of(128, 1, DataType::kBfloat16), 64, 0.2);
  EXPECT_NEAR(time_of(1, 128, DataType::kBfloat16), 128, 0.2);
  EXPECT_NEAR(time_of(128, 512, DataType::kBfloat16), 512, 0.2);
  EXPECT_NEAR(time_of(128, 512, DataType::kFloat32), 2048, 0.2);
  EXPECT_NEAR(time_of(128, 512, DataType::kFloat32r), 512, 0.2);
}

// spec/calibration.md P01: 0.875 of the time on trn1, once it is 3 us ahead of that.
TEST(TensorEngineLimit, LongProducts) {
  uint64_t eighths = 7;
  base::Ps window = base::us(3);
  const auto products = [&](uint8_t side, size_t count) {
    NcBench bench(Gen::kV2, /*timing_only=*/true);
    bench.timing.pe_activity_num = eighths;
    bench.timing.pe_activity_window = window;
    std::vector<isa::Instruction> program{weights(tensor(DataType::kBfloat16, 0, side), side)};
    program.insert(program.end(), count,
                   product(Accumulate::kAdd, tensor(DataType::kFloat32, 0, 512, Memory::kPsum),
                           tensor(DataType::kBfloat16, 0x1000, 512), side, side));
    program.push_back(op(Opcode::kHalt));
    bench.load(kPe, program);
    bench.start(kPe);
    bench.queue.run_all();
    return static_cast<double>(bench.queue.now()) / 1000 * 2.8;  // cycles
  };
  EXPECT_NEAR(products(128, 101) - products(128, 1), 100 * 512, 1);
  EXPECT_NEAR(products(128, 400) - products(128, 300), 100 * 512 / 0.875, 1);
  EXPECT_NEAR(products(96, 400) - products(96, 300), 100 * 512, 1);  // 9 of 16 parts
  const double limited = 400 * 512 / 0.875;
  EXPECT_NEAR(limited - (products(128, 400) - products(128, 1) + 512 / 0.875), 3 * 2800, 1);
  window = 0;
  EXPECT_NEAR(products(128, 11) - products(128, 1), 10 * 512 / 0.875, 1);
  eighths = 5;  // inf2
  EXPECT_NEAR(products(128, 11) - products(128, 1), 10 * 512 / 0.625, 1);
  eighths = 8;
  EXPECT_NEAR(products(128, 400) - products(128, 300), 100 * 512, 1);
}

// Lets the second part of a program go on.
struct Resume final : public hw::EventSink {
  explicit Resume(NcBench& bench) : bench(bench) {}
  void on_event(const hw::EventKey&, uint32_t, uint64_t) override {
    bench.group.core(0).semaphores().add(9, 1);
  }
  NcBench& bench;
};

// spec/engine-isa.md 6.5: half of the rate at first, all of it 3 us later, again after a rest.
TEST(TensorEngineLimit, StartsSlowly) {
  constexpr base::Ps kWindow = base::us(3);
  const auto run = [](bool limit, size_t first, base::Ps rest, size_t second) {
    NcBench bench(Gen::kV3, /*timing_only=*/true);
    bench.timing.pe_start_limit = limit;
    const isa::Instruction one =
        product(Accumulate::kAdd, tensor(DataType::kFloat32, 0, 512, Memory::kPsum),
                tensor(DataType::kBfloat16, 0x1000, 512), 128, 128);
    std::vector<isa::Instruction> program{weights(tensor(DataType::kBfloat16, 0, 128), 128)};
    program.insert(program.end(), first, one);
    if (second != 0) {
      isa::Instruction wait = op(Opcode::kEventSemaphore);
      wait.wait = {isa::WaitCond::kGe, false, 9, 1};
      program.push_back(wait);
      program.insert(program.end(), second, one);
    }
    program.push_back(op(Opcode::kHalt));
    bench.load(kPe, program);
    bench.start(kPe);
    bench.queue.run_all();
    if (second == 0) return bench.queue.now();
    const base::Ps begin = bench.queue.now() + rest;
    Resume resume(bench);
    bench.queue.schedule({begin, 0xFFFF, hw::Phase::kEffect}, resume, 0);
    bench.queue.run_all();
    return bench.queue.now() - begin;
  };
  const base::Ps product = run(false, 101, 0, 0) - run(false, 100, 0, 0);
  // The climb costs what the mean of 0.5 and 1 leaves of it, give or take a product.
  const base::Ps lost = run(true, 100, 0, 0) - run(false, 100, 0, 0);
  EXPECT_NEAR(static_cast<double>(lost), static_cast<double>(kWindow) / 4,
              static_cast<double>(product));
  const base::Ps early = run(true, 3, 0, 0) - run(false, 3, 0, 0);
  EXPECT_NEAR(static_cast<double>(early), 1.75 * static_cast<double>(product),
              .1 * static_cast<double>(product));
  EXPECT_EQ(run(true, 100, kWindow / 10, 10), run(false, 100, kWindow / 10, 10));
  EXPECT_GT(run(true, 100, 3 * kWindow, 10), run(false, 100, 3 * kWindow, 10) + 2 * product);
}

TEST_F(TensorEngine, CountsItsActivity) {
  run({weights(tensor(DataType::kBfloat16, 0, 128), 128),
       product(Accumulate::kOverwrite, result(0, 512), tensor(DataType::kBfloat16, 0, 512), 128,
               128)});
  const hw::PeActivity& activity = bench_.group.core(0).pe_activity();
  for (const auto& row : activity.rows) {
    EXPECT_EQ(row.matmul, 512u);
    EXPECT_EQ(row.load, 32u);
    EXPECT_EQ(row.active, 512u + 32u);
  }
}

}  // namespace
