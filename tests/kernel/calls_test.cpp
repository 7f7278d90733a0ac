#include "tests/kernel/built_kernel.h"

namespace {

using namespace kernel_test;  // NOLINT(google-build-using-namespace): names of the builder
using isa::Engine;

class Calls : public ::testing::Test {
 protected:
  std::vector<std::string> lines(Engine engine) { return build(k_).lines(engine); }

  Kernel k_{{"calls"}};
  Tile x_ = k_.sbuf({128, 64}, kF32, "x");
  Tile y_ = k_.sbuf({128, 64}, kF32, "y");
  Tile z_ = k_.sbuf({128, 64}, kF32, "z");
  Tile s_ = k_.sbuf({128, 1}, kF32, "s");
};

TEST_F(Calls, ElementWise) {
  k_.tensor_tensor(z_, x_, y_, Op::kMultiply);
  k_.tensor_scalar(z_, z_, {Op::kSubtract, s_, true}, {Op::kMultiply, 0.5});
  k_.scalar_tensor_tensor(z_, x_, {Op::kMultiply, 2.0}, Op::kAdd, y_);
  k_.tensor_tensor_scan(z_, x_, y_, 0.0, Op::kMultiply, Op::kAdd);
  k_.reciprocal(y_, z_);
  const auto text = lines(Engine::kDve);
  EXPECT_EQ(text[0],
            "TENSOR_TENSOR op=MULTIPLY dst=fp32@512[1][64] src0=fp32@0[1][64] "
            "src1=fp32@256[1][64] partitions=0..127");
  EXPECT_EQ(text[1],
            "TENSOR_SCALAR op0=SUBTRACT op1=MULTIPLY dst=fp32@512[1][64] src=fp32@512[1][64] "
            "operand0=fp32@768[1][1] operand1=0.5 reverse=1 partitions=0..127");
  EXPECT_EQ(text[2],
            "SCALAR_TENSOR_TENSOR op0=MULTIPLY op1=ADD dst=fp32@512[1][64] src0=fp32@0[1][64] "
            "operand=2 src1=fp32@256[1][64] partitions=0..127");
  EXPECT_EQ(text[3],
            "TENSOR_TENSOR_SCAN op0=MULTIPLY op1=ADD dst=fp32@512[1][64] src0=fp32@0[1][64] "
            "initial=0 src1=fp32@256[1][64] partitions=0..127");
  EXPECT_EQ(text[4], "RECIPROCAL dst=fp32@256[1][64] src=fp32@512[1][64] partitions=0..127");
}

TEST_F(Calls, Activation) {
  k_.activation_reduce(y_, s_, x_, {kernel::Function::kExp, 0.125, s_});
  const auto text = lines(Engine::kAct);
  EXPECT_EQ(text[0],
            "ACTIVATE function=EXP dst=fp32@256[1][64] src=fp32@0[1][64] scale=0.125 "
            "bias=fp32@768[1][1] reduce_cmd=RESET_REDUCE partitions=0..127");
  EXPECT_EQ(text[1].substr(0, 17), "READ_ACCUMULATOR ");
}

TEST_F(Calls, ReductionsKeepWhatIsFoldedApart) {
  const Tile r = k_.sbuf({128, 4}, kF32, "r");
  k_.tensor_reduce(r, x_.reshape({128, 4, 4, 4}), Op::kMax, 2);
  k_.tensor_reduce(s_, x_, Op::kAdd, 1, true);
  k_.tensor_reduce(r, x_.reshape({128, 4, 16}).slice(2, 0, 1), Op::kAdd);
  const auto text = lines(Engine::kDve);
  EXPECT_EQ(text[0],
            "TENSOR_REDUCE op=MAX dst=fp32@772[1][4] src=fp32@0[1,16][16,4] dims=1 "
            "partitions=0..127");
  EXPECT_EQ(text[1],
            "TENSOR_REDUCE op=ADD dst=fp32@768[1][1] src=fp32@0[1][64] dims=1 negate=1 "
            "partitions=0..127");
  EXPECT_EQ(text[2],
            "TENSOR_REDUCE op=ADD dst=fp32@772[1][4] src=fp32@0[1,16][1,4] dims=1 "
            "partitions=0..127");
}

TEST_F(Calls, Products) {
  const Tile p = k_.psum({64, 32}, kF32, "p");
  k_.matmul(p, x_, y_.slice(1, 0, 32), kernel::Accumulate::kStart);
  k_.multiply(p, y_.slice(1, 32, 32), kernel::Accumulate::kFirstWrite);
  const auto text = lines(Engine::kPe);
  EXPECT_EQ(text[0], "LDWEIGHTS src=fp32@0[1][64] rows=0..127");
  EXPECT_EQ(text[1],
            "MATMUL accumulate=START dst=fp32@psum:0[1][32] moving=fp32@256[1][32] rows=0..127 "
            "columns=0..63");
  EXPECT_EQ(text[2].substr(0, 30), "MATMUL accumulate=FIRST_WRITE ");
}

// The array's tiles keep their own weights.
TEST_F(Calls, ProductsOfTiles) {
  const Tile p = k_.psum({128, 32}, kF32, "p");
  const View top = x_.slice(0, 0, 64).slice(1, 0, 32);
  const View bottom = x_.slice(0, 64, 64).slice(1, 0, 32);
  k_.load_weights(top, 0);
  k_.load_weights(bottom, 64);
  k_.multiply(p.slice(0, 0, 32), y_.slice(0, 0, 64).slice(1, 0, 32));
  k_.multiply(p.slice(0, 64, 32), y_.slice(0, 64, 64).slice(1, 0, 32));
  const auto code = build(k_).instructions(Engine::kPe);
  EXPECT_EQ(code[1].operands.ldweights.column, 64);
  EXPECT_EQ(code[3].operands.matmul.dst.start_partition, 64);
  EXPECT_EQ(code[3].operands.matmul.moving.start_partition, 64);
}

TEST(Transposes, AreBitByBitWhereTheyCan) {
  for (const auto generation : {kernel::Generation::kV2, kernel::Generation::kV3}) {
    Kernel k({"transpose", generation});
    const Tile x = k.sbuf({64, 32}, kF32, "x");
    const Tile one = k.sbuf({64, 64}, kF32, "one");
    const Tile p = k.psum({32, 64}, kF32, "p");
    k.identity(one);
    k.transpose(p, x, one);
    const auto code = build(k).instructions(Engine::kPe);
    EXPECT_EQ(code.back().opcode, isa::Opcode::kHalt);
    const isa::Instruction& product = code[code.size() - 3];
    EXPECT_EQ(product.operands.matmul.transpose, generation == kernel::Generation::kV3);
  }
}

TEST_F(Calls, SelectionAndSearch) {
  const View mask = s_.as(DType::kUint32);
  const Tile best = k_.sbuf({128, 8}, kF32, "best");
  const Tile places = k_.sbuf({128, 8}, DType::kUint32, "places");
  const Tile stats = k_.sbuf({128, 6}, kF32, "stats");
  const Tile sum = k_.sbuf({1, 64}, kF32, "sum");
  k_.copy_predicated(s_, s_, mask, true);
  k_.max8(best, x_);
  k_.find_index8(places, x_, best);
  k_.bn_stats(stats, x_);
  k_.bn_aggregate(best.slice(1, 0, 2), stats);
  k_.tensor_scalar_cumulative(y_, x_, {Op::kMultiply, 1.0}, Op::kAdd);
  k_.gather(best, x_, places);
  k_.partition_reduce(sum, x_, Op::kAdd);
  const Built built = build(k_);
  const auto vector = built.lines(Engine::kDve);
  const auto gpsimd = built.lines(Engine::kPool);
  const auto name = [](const std::string& line) { return line.substr(0, line.find(' ')); };
  const std::vector<std::string> expected = {
      "COPY_PREDICATED",          "MAX8",  "FIND_INDEX8", "BN_STATS", "BN_AGGREGATE",
      "TENSOR_SCALAR_CUMULATIVE", "DRAIN", "HALT"};
  std::vector<std::string> names;
  for (const std::string& line : vector) names.push_back(name(line));
  EXPECT_EQ(names, expected);
  EXPECT_EQ(gpsimd[0],
            "N_GATHER $S[3]>=1 dst=fp32@772[1][8] src=fp32@0[1][64] "
            "index=uint32@804[1][8] partitions=0..127");
  EXPECT_EQ(name(gpsimd[1]), "PARTITION_REDUCE");
}

TEST_F(Calls, ConstantsAndPatterns) {
  k_.memset(x_, 1.5);
  k_.memset(s_.as(DType::kInt32), -3);
  k_.iota(y_.as(DType::kInt32).reshape({128, 8, 8}), {10, 100, {8, 1}});
  k_.identity(z_);
  const auto text = lines(Engine::kPool);
  EXPECT_EQ(text[0], "MEMSET dst=fp32@0[1][64] value=1069547520 partitions=0..127");
  EXPECT_EQ(text[1], "MEMSET dst=int32@768[1][1] value=4294967293 partitions=0..127");
  EXPECT_EQ(text[2], "IOTA dst=int32@256[1][64] pattern=10+100p[1,8][8,8] partitions=0..127");
  EXPECT_EQ(text[4],
            "AFFINE_SELECT op=EQUAL dst=fp32@512[1][64] src=fp32@512[1][64] "
            "pattern=0+1p[-1][64] fill=0 partitions=0..127");
}

TEST_F(Calls, EnginesAreChosen) {
  const View i = x_.as(DType::kInt32);
  k_.tensor_tensor(i, i, i, Op::kAdd);              // exact integers
  k_.tensor_tensor(i, i, i, Op::kXor);              // bits
  k_.tensor_copy(y_, z_, kernel::Engine::kGpSimd);  // as asked
  k_.set_register(kernel::Engine::kVector, 3, 7);
  k_.tensor_scalar(y_, y_, {Op::kAdd, kernel::Scalar::reg(3)});
  const Built built = build(k_);
  EXPECT_EQ(built.instructions(Engine::kPool)[0].opcode, isa::Opcode::kTensorTensor);
  EXPECT_EQ(built.instructions(Engine::kPool)[1].opcode, isa::Opcode::kTensorCopy);
  EXPECT_EQ(built.instructions(Engine::kDve)[0].opcode, isa::Opcode::kTensorTensor);
  EXPECT_EQ(built.instructions(Engine::kDve)[1].opcode, isa::Opcode::kRegisterMove);
  EXPECT_EQ(built.instructions(Engine::kDve)[2].operands.tensor_scalar.operand0.kind,
            isa::ScalarOperand::kRegister);
}

TEST_F(Calls, TransfersOfAnyShape) {
  const View a = k_.input("a", kF32, {2, 3, 4, 5, 6});
  const View b = k_.input("b", DType::kBfloat16, {64, 128});
  const View c = k_.output("c", kF32, {128, 64});
  const Tile t = k_.sbuf({4, 2, 3, 5, 6}, kF32, "t");
  k_.load(t, a.permute({2, 0, 1, 3, 4}));  // merges to 3 dimensions
  k_.load(x_, b.permute({1, 0}));          // element by element, converted
  k_.store(c.slice(1, 0, 32, 2), x_.slice(1, 32, 32));
  k_.load(t.slice(4, 0, 3), a.slice(4, 0, 3).slice(3, 0, 5).permute({2, 0, 1, 3, 4}));
  const Built built = build(k_);
  const neff::EngineProgram* sp = built.program(Engine::kSp);
  const neff::DmaTransfer& first = sp->dma[0].transfers[0];
  EXPECT_EQ(first.sources[0].pattern.dims, 4u - 1);
  EXPECT_EQ(first.sources[0].pattern.sizes[0], 5 * 6 * 4);
  EXPECT_EQ(first.destination.pattern.steps[1], 0x40000);
  EXPECT_EQ(sp->dma[1].transfers[0].op, neff::DmaOp::kCast);
  EXPECT_EQ(sp->dma[1].transfers[0].sources[0].pattern.sizes[0], 2);
  const neff::EngineProgram* pool = built.program(Engine::kPool);
  EXPECT_EQ(pool->dma[0].transfers[0].destination.pattern.steps[1], 8);
}

TEST_F(Calls, TransfersAreCutWhereFourDimensionsDoNotDo) {
  const View a = k_.input("a", kF32, {3, 8, 4, 5, 6});
  const Tile t = k_.sbuf({3, 3, 4, 4, 4}, kF32, "t");
  k_.load(t, a.slice(1, 0, 3, 2).slice(2, 0, 4).slice(3, 0, 4).slice(4, 0, 4));
  const Built built = build(k_);
  const neff::DmaElement& element = built.program(Engine::kSp)->dma[0];
  ASSERT_EQ(element.transfers.size(), 3u);
  EXPECT_EQ(element.transfers[1].sources[0].pattern.offset, 8 * 4 * 5 * 6 * 4);
  EXPECT_EQ(element.transfers[2].destination.pattern.offset, 2 * 0x40000 + 772);
}

TEST_F(Calls, Mistakes) {
  const auto expect = [](const char* what, auto call) {
    Kernel k({"calls"});
    const Tile x = k.sbuf({128, 64}, kF32, "x");
    const Tile p = k.psum({128, 64}, kF32, "p");
    const View a = k.input("a", kF32, {128, 64});
    const View c = k.output("c", kF32, {128, 64});
    call(k, x, p, a, c);
    EXPECT_EQ(mistake(k), what);
    EXPECT_FALSE(k.finish().ok());
  };
  using V = const View&;
  expect("tensor_tensor: dst has 128 partitions of 64 elements, b 128 partitions of 32 elements",
         [](Kernel& k, V x, V, V, V) { k.tensor_tensor(x, x, x.slice(1, 0, 32), Op::kAdd); });
  expect("tensor_tensor: a and b are both in PSUM; copy one to SBUF",
         [](Kernel& k, V x, V p, V, V) { k.tensor_tensor(x, p, p, Op::kAdd); });
  expect("tensor_copy: src (HBM 'a') is not on the chip; load it into a tile",
         [](Kernel& k, V x, V, V a, V) { k.tensor_copy(x, a); });
  expect(
      "tensor_copy: src (SBUF 'x') has 64 partitions from 32 on; 65 to 128 start at 0, 33 to 64 "
      "at 0 or 64, up to 32 at a multiple of 32",
      [](Kernel& k, V x, V, V, V) { k.tensor_copy(x.slice(0, 0, 64), x.slice(0, 32, 64)); });
  expect("tensor_copy: TENSOR_COPY does not run on the Tensor engine",
         [](Kernel& k, V x, V, V, V) { k.tensor_copy(x, x, kernel::Engine::kTensor); });
  expect("tensor_copy: the GpSimd engine does not reach PSUM",
         [](Kernel& k, V x, V p, V, V) { k.tensor_copy(x, p, kernel::Engine::kGpSimd); });
  expect("tensor_tensor: these operands do not go together in TENSOR_TENSOR",
         [](Kernel& k, V x, V, V, V) { k.tensor_tensor(x, x, x, Op::kXor); });
  expect("tensor_scalar: the first operand of an operator on bits is no integer",
         [](Kernel& k, V x, V, V, V) {
           k.tensor_scalar(x.as(DType::kInt32), x.as(DType::kInt32), {Op::kAnd, 1.5});
         });
  expect("tensor_scalar: the first operand (SBUF 'x') is not one element in each of 128 partitions",
         [](Kernel& k, V x, V, V, V) {
           k.tensor_scalar(x, x, {Op::kAdd, x});
         });
  expect("tensor_reduce: 2 dimensions are to be folded, src has 1",
         [](Kernel& k, V x, V, V, V) { k.tensor_reduce(x, x, Op::kAdd, 2); });
  expect("tensor_reduce: 8192 elements folded by 64 give 128, dst has 8192",
         [](Kernel& k, V x, V, V, V) { k.tensor_reduce(x, x, Op::kAdd); });
  expect("matmul: no weights begin at row 0, where moving begins, and column 0, where dst does",
         [](Kernel& k, V x, V p, V, V) { k.multiply(p, x); });
  expect(
      "matmul: stationary is 128 x 32 (K x M) and moving 128 x 64 (K x N), dst is 128 x 64 "
      "(M x N)",
      [](Kernel& k, V x, V p, V, V) { k.matmul(p, x.slice(1, 0, 32), x); });
  expect("matmul: 32-bit types multiply only with themselves", [](Kernel& k, V x, V p, V, V) {
    k.matmul(p.slice(0, 0, 64), x, x.as(DType::kBfloat16).slice(1, 0, 64));
  });
  expect("load: HBM 'a' is read only", [](Kernel& k, V x, V, V a, V) { k.load(a, x); });
  expect("load: transfers do not reach PSUM; copy the tile to SBUF first",
         [](Kernel& k, V, V p, V a, V) { k.load(p, a); });
  expect("load: dst (SBUF 'x') has 8192 elements, src (HBM 'a') has 64",
         [](Kernel& k, V x, V, V a, V) { k.load(x, a.slice(0, 0, 1)); });
  expect("dma_copy: dst (SBUF 'x') and src (SBUF 'x') overlap",
         [](Kernel& k, V x, V, V, V) { k.dma_copy(x.slice(1, 0, 4), x.slice(1, 3, 4)); });
  expect("store: dst is broadcast: its elements have one place",
         [](Kernel& k, V x, V, V, V c) { k.store(c.slice(0, 0, 1).broadcast(0, 128), x); });
  expect("iota: 0 steps; dst has 1 free dimensions, of up to 4",
         [](Kernel& k, V x, V, V, V) { k.iota(x, {}); });
  expect("activation: a bias on NeuronCore v2 is a tile with one element in each partition",
         [](Kernel& k, V x, V, V, V) {
           k.activation(x, x, {kernel::Function::kExp, 1.0, 0.5});
         });
  expect("tensor_scalar_reduce: its operands cannot be reversed", [](Kernel& k, V x, V, V, V) {
    k.tensor_scalar_reduce(x, x, {Op::kAdd, 1.0, true}, Op::kMax);
  });
  expect("matmul: 1024 columns; a bank of PSUM holds 512", [](Kernel& k, V x, V, V, V) {
    const Tile wide = k.sbuf({128, 1024}, kF32, "wide");
    const Tile product = k.psum({64, 1024}, kF32, "product");
    k.matmul(product, x, wide);
  });
  expect("set_register: of which engine?",
         [](Kernel& k, V, V, V, V) { k.set_register(kernel::Engine::kAuto, 0, 1); });
  expect("memset: dst is an empty view", [](Kernel& k, V, V, V, V) { k.memset(View(), 0); });
}

TEST_F(Calls, ReducesIntoAccumulators) {
  k_.tensor_scalar_reduce(y_, x_, {Op::kMultiply, 2.0}, Op::kMax, kernel::Reduce::kLoadReduce,
                          -1.0);
  k_.read_accumulator(s_, kernel::Engine::kVector, true);
  const auto text = lines(Engine::kDve);
  EXPECT_EQ(text[0],
            "TENSOR_SCALAR_REDUCE op=MULTIPLY reduce_op=MAX reduce_cmd=LOAD_REDUCE "
            "dst=fp32@256[1][64] src=fp32@0[1][64] operand=2 initial=-1 partitions=0..127");
  EXPECT_EQ(text[1], "READ_ACCUMULATOR dst=fp32@768[1][1] negate=1 partitions=0..127");
}

TEST_F(Calls, AnEngineAndDirectionIsAQueueSet) {
  const View s = k_.scratch("s", kF32, {128, 64});
  const View a = k_.input("a", kF32, {128, 64});
  const View c = k_.output("c", kF32, {128, 64});
  for (const auto engine : {kernel::Engine::kTensor, kernel::Engine::kScalar,
                            kernel::Engine::kGpSimd, kernel::Engine::kVector}) {
    k_.load(x_, a, engine);
    k_.load(x_, s, engine);
    k_.store(c, x_, engine);
  }
  k_.load(x_, a);
  k_.load(x_, s);
  EXPECT_TRUE(k_.status().ok()) << mistake(k_);
  k_.store(c, x_, kernel::Engine::kSync);
  EXPECT_EQ(mistake(k_), "store: more than 14 combinations of triggering engine and direction");
}

TEST_F(Calls, OtherKernelsAndAfterTheEnd) {
  Kernel other({"other"});
  other.memset(x_, 0);
  EXPECT_EQ(mistake(other), "memset: dst belongs to another kernel");
  build(k_);
  k_.memset(x_, 0);
  EXPECT_EQ(mistake(k_), "memset: the kernel is finished");
}

}  // namespace
