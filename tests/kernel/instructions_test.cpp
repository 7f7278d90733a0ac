// Calls that stand for one instruction each: what they encode and what they refuse; and that every
// instruction that computes has a call.
#include <functional>
#include <set>

#include "tests/kernel/built_kernel.h"

namespace {

using namespace kernel_test;  // NOLINT(google-build-using-namespace): names of the builder
using isa::Opcode;
using kernel::Generation;
using kernel::Reduce;

constexpr DType kU8 = DType::kUint8;
constexpr DType kU16 = DType::kUint16;
constexpr DType kU32 = DType::kUint32;
constexpr DType kI32 = DType::kInt32;
constexpr DType kBf16 = DType::kBfloat16;
constexpr DType kE4 = DType::kFloat8e4;

std::vector<uint8_t> reversed() {
  std::vector<uint8_t> mask;
  for (uint8_t i = 0; i < 32; ++i) mask.push_back(static_cast<uint8_t>(31 - i));
  return mask;
}

// Tiles for all of them.
struct Tiles {
  explicit Tiles(Generation generation) : k({"instructions", generation}) {}

  Kernel k;
  Tile x = k.sbuf({128, 64}, kF32, "x");
  Tile y = k.sbuf({128, 64}, kF32, "y");
  Tile s = k.sbuf({128, 1}, kF32, "s");
  Tile half = k.sbuf({128, 64}, kBf16, "half");
  Tile mask = k.sbuf({128, 64}, kU8, "mask");
  Tile number = k.sbuf({128, 64}, kU32, "number");
  Tile eight = k.sbuf({128, 8}, kF32, "eight");
  Tile places = k.sbuf({128, 8}, kU32, "places");
  Tile index = k.sbuf({128, 4}, kU16, "index");
  Tile p = k.psum({128, 64}, kF32, "p");
};

class Instructions : public ::testing::Test {
 protected:
  // The one instruction of this opcode.
  isa::Instruction only(Opcode opcode, isa::Engine engine) {
    isa::Instruction found{};
    int count = 0;
    for (const isa::Instruction& in : build(t_.k).instructions(engine)) {
      if (in.opcode != opcode) continue;
      found = in;
      ++count;
    }
    EXPECT_EQ(count, 1);
    return found;
  }

  Tiles t_{Generation::kV4};
  Kernel& k_ = t_.k;
};

TEST_F(Instructions, RangeSelect) {
  kernel::Range range;
  range.first_bound = 3.0;
  range.second = Op::kLessEqual;
  range.second_bound = t_.s;
  range.start = 128;
  range.fill = -1;
  k_.range_select(t_.y, t_.x, range);
  const isa::RangeSelect o = only(Opcode::kRangeSelect, isa::Engine::kDve).operands.range_select;
  EXPECT_EQ(o.op0, isa::TensorOp::kGreaterEqual);
  EXPECT_EQ(o.op1, isa::TensorOp::kLessEqual);
  EXPECT_EQ(o.reduce_cmd, isa::ReduceCmd::kResetReduce);
  EXPECT_EQ(o.bound0.bits, 0x40400000u);
  EXPECT_EQ(o.bound1.kind, isa::ScalarOperand::kTile);
  EXPECT_EQ(o.start, 0x43000000u);
  EXPECT_EQ(o.fill, 0xBF800000u);
}

TEST_F(Instructions, SelectReduce) {
  k_.select_reduce(t_.y, t_.mask, t_.half, -2.0, true, Reduce::kReduce);
  const isa::SelectReduce o = only(Opcode::kSelectReduce, isa::Engine::kDve).operands.select_reduce;
  EXPECT_EQ(o.on_false.bits, 0xC0000000u);
  EXPECT_EQ(o.predicate.dtype, isa::DataType::kUint8);
  EXPECT_EQ(o.on_true.dtype, isa::DataType::kBfloat16);
  EXPECT_EQ(o.reverse, 1);
  EXPECT_EQ(o.reduce_cmd, isa::ReduceCmd::kReduce);
}

TEST_F(Instructions, ExponentialFromPsum) {
  k_.exponential(t_.y, t_.p, t_.s, Reduce::kLoadReduce, 1.0);
  const isa::Exponential o = only(Opcode::kExponential, isa::Engine::kDve).operands.exponential;
  EXPECT_EQ(o.src.memory, isa::Memory::kPsum);
  EXPECT_EQ(o.maximum.kind, isa::ScalarOperand::kTile);
  EXPECT_EQ(o.initial.bits, 0x3F800000u);
}

TEST_F(Instructions, Activation2) {
  kernel::Activation2 what;
  what.function = kernel::Function::kExp;
  what.first = {Op::kMultiply, 0.5};
  what.second = {Op::kSubtract, t_.s, true};
  what.reduce = Reduce::kResetReduce;
  what.reduce_op = Op::kMax;
  k_.activation2(t_.y, t_.x, what);
  const isa::Activate2 o = only(Opcode::kActivate2, isa::Engine::kAct).operands.activate2;
  EXPECT_EQ(o.op0, isa::TensorOp::kMultiply);
  EXPECT_EQ(o.op1, isa::TensorOp::kSubtract);
  EXPECT_EQ(o.reverse, 2);
  EXPECT_EQ(o.reduce_op, isa::TensorOp::kMax);
  EXPECT_EQ(o.operand0.bits, 0x3F000000u);
}

TEST_F(Instructions, StreamShuffle) {
  std::vector<uint8_t> mask = reversed();
  mask[9] = 255;
  k_.stream_shuffle(t_.y, t_.x, mask);
  const isa::StreamShuffle o =
      only(Opcode::kStreamShuffle, isa::Engine::kDve).operands.stream_shuffle;
  EXPECT_EQ(o.mask0, 0x18191A1B1C1D1E1Full);
  EXPECT_EQ(o.mask1, 0x101112131415FF17ull);
  EXPECT_EQ(o.mask3, 0x0001020304050607ull);
}

TEST_F(Instructions, TransposesOfBlocks) {
  const Tile small = k_.sbuf({8, 20}, kBf16, "small");
  const Tile turned = k_.sbuf({20, 8}, kBf16, "turned");
  k_.transpose_blocks(turned, small);
  const isa::Transpose o = only(Opcode::kTranspose, isa::Engine::kDve).operands.transpose;
  EXPECT_EQ(o.rows, 8);
  EXPECT_EQ(o.columns, 20);
}

TEST_F(Instructions, LocalGatherAndTopk) {
  const Tile few = k_.sbuf({128, 6}, kBf16, "few");
  const Tile numbers = k_.sbuf({128, 6}, kU32, "numbers");
  k_.local_gather(t_.y, t_.x, t_.index, 2);
  k_.topk(few, numbers, t_.half, 1000);
  const auto code = build(k_).instructions(isa::Engine::kPool);
  const isa::LocalGather& gather = code[0].operands.local_gather;
  EXPECT_EQ(gather.width, 2);
  EXPECT_EQ(gather.count, 32);
  EXPECT_EQ(code[1].operands.topk.n, 1000);
}

TEST_F(Instructions, MatchReplaceWithAndWithoutPlaces) {
  k_.match_replace8(t_.y, t_.x, t_.eight, -1.0);
  k_.match_replace8(t_.y, t_.x, t_.eight, -1.0, t_.places);
  const auto code = build(k_).instructions(isa::Engine::kDve);
  EXPECT_EQ(code[0].operands.match_replace8.index.kind, isa::ScalarOperand::kImmediate);
  EXPECT_EQ(code[1].operands.match_replace8.index.kind, isa::ScalarOperand::kTile);
  EXPECT_EQ(code[1].operands.match_replace8.fill, 0xBF800000u);
}

TEST_F(Instructions, PlacesAndBounds) {
  const Tile found = k_.sbuf({128, 65}, kI32, "found");
  const Tile bounds = k_.sbuf({1, 128}, kF32, "bounds");
  k_.nonzero_with_count(found, t_.x, 5, -7);
  k_.sequence_bounds(bounds.reshape({1, 2, 64}), t_.x.slice(0, 0, 1));
  const auto code = build(k_).instructions(isa::Engine::kPool);
  EXPECT_EQ(code[0].operands.nonzero_with_count.offset, 5u);
  EXPECT_EQ(code[0].operands.nonzero_with_count.padding, 0xFFFFFFF9u);
  EXPECT_EQ(code[1].opcode, Opcode::kSequenceBounds);
}

TEST_F(Instructions, RandomNumbers) {
  const Tile state = k_.sbuf({128, 24}, kU32, "state");
  k_.set_rng_seed(t_.number.slice(0, 0, 1).slice(1, 0, 1));
  k_.rng(t_.number);
  k_.rand2(t_.x, 0.1, t_.s);
  k_.dropout(t_.y, t_.x, 0.25, true);
  k_.rand_get_state(state, Engine::kVector);
  k_.rand_set_state(state.slice(1, 0, 6));
  k_.rng(t_.number, Engine::kGpSimd);
  const Built built = build(k_);
  const auto vector = built.instructions(isa::Engine::kDve);
  EXPECT_EQ(vector[2].operands.rand2.minimum.bits, 0x3DCCCCCDu);
  EXPECT_EQ(vector[3].operands.dropout.probability.bits, 0x3E800000u);
  EXPECT_EQ(vector[3].operands.dropout.keep, 1);
  EXPECT_EQ(built.instructions(isa::Engine::kPool)[0].opcode, Opcode::kRandSetState);
}

TEST_F(Instructions, ScansInReverseAndCopiesOfNumbers) {
  k_.tensor_tensor_scan(t_.y, t_.x, t_.y, 0.0, Op::kSubtract, Op::kAdd, true);
  k_.copy_predicated(t_.y, 1.5, t_.mask);
  k_.load_function(kernel::Function::kTanh);
  const Built built = build(k_);
  const auto vector = built.instructions(isa::Engine::kDve);
  EXPECT_EQ(vector[0].operands.tensor_tensor_scan.reverse, 1);
  EXPECT_EQ(vector[1].operands.copy_predicated.src.bits, 0x3FC00000u);
  EXPECT_EQ(built.instructions(isa::Engine::kAct)[0].operands.load_act_func_set.function,
            isa::ActFunction::kTanh);
}

TEST_F(Instructions, ProductsOfDoubleRows) {
  const Tile weights = k_.sbuf({128, 2, 64}, kE4, "weights");
  const Tile data = k_.sbuf({128, 2, 64}, DType::kFloat8e5, "data");
  kernel::Product how;
  how.accumulate = kernel::Accumulate::kStart;
  how.double_row = true;
  k_.matmul(t_.p.slice(0, 0, 64), weights, data, how);
  const auto code = build(k_).instructions(isa::Engine::kPe);
  EXPECT_EQ(code[0].operands.ldweights.double_row, 1);
  EXPECT_EQ(code[1].operands.matmul.double_row, 1);
  EXPECT_EQ(code[1].operands.matmul.accumulate, isa::Accumulate::kStart);
}

TEST_F(Instructions, ProductsOfZerosAndOnes) {
  kernel::Product how;
  how.stationary_onezero = true;
  k_.matmul(t_.p.slice(0, 0, 64), t_.x, t_.y, how);
  const auto code = build(k_).instructions(isa::Engine::kPe);
  EXPECT_EQ(code[0].operands.ldweights.onezero, 1);
  EXPECT_EQ(code[1].operands.matmul.onezero, 0);
}

// From v4 on over all banks.
TEST_F(Instructions, WideProducts) {
  t_.p.release();
  const Tile wide = k_.sbuf({64, 4096}, kBf16, "wide");
  const Tile all = k_.psum({64, 4096}, kF32, "all");
  k_.matmul(all, wide.slice(1, 0, 64), wide);
  const auto code = build(k_).instructions(isa::Engine::kPe);
  EXPECT_EQ(isa::element_count(code[1].operands.matmul.dst), 4096u);
}

TEST(InstructionTable, HasACallForEachThatComputes) {
  std::set<Opcode> seen;
  {
    Tiles t(Generation::kV4);
    Kernel& k = t.k;
    const Tile found = k.sbuf({128, 65}, kI32, "found");
    const Tile bounds = k.sbuf({1, 128}, kF32, "bounds");
    const Tile state = k.sbuf({128, 24}, kU32, "state");
    const Tile few = k.sbuf({128, 6}, kBf16, "few");
    const Tile numbers = k.sbuf({128, 6}, kU32, "numbers");
    const Tile stats = k.sbuf({128, 6}, kF32, "stats");
    const Tile mx = k.sbuf({128, 16}, DType::kFloat8e4fnx4, "mx");
    const Tile scale = k.sbuf({128, 16}, kU8, "scale");
    const View rows = t.p.slice(0, 0, 16).slice(1, 0, 16);
    k.tensor_tensor(t.x, t.x, t.y, Op::kAdd);
    k.tensor_copy(t.x, t.y);
    k.tensor_copy(t.x.indirect(t.index), t.y);
    k.tensor_reduce(t.s, t.x, Op::kAdd);
    k.tensor_scalar(t.x, t.x, {Op::kAdd, 1.0});
    k.memset(t.x, 0);
    k.iota(t.number.as(kI32), {0, 1, {1}});
    k.nonzero_with_count(found, t.x);
    k.tensor_scalar_reduce(t.x, t.x, {Op::kAdd, 1.0}, Op::kMax);
    k.scalar_tensor_tensor(t.x, t.x, {Op::kAdd, 1.0}, Op::kAdd, t.y);
    k.tensor_tensor_scan(t.x, t.x, t.y, 0.0, Op::kAdd, Op::kAdd);
    k.reciprocal(t.x, t.y);
    k.read_accumulator(t.s, Engine::kVector);
    k.affine_select(t.x, t.y, {0, 1, {1}}, Op::kGreater, 0);
    k.transpose_blocks(t.x, t.y);
    k.copy_predicated(t.x, t.y, t.mask);
    k.select_reduce(t.x, t.mask, t.y, 0.0);
    k.range_select(t.x, t.y, {});
    k.bn_stats(stats, t.x);
    k.bn_aggregate(t.eight.slice(1, 0, 2), stats);
    k.max8(t.eight, t.x);
    k.find_index8(t.places, t.x, t.eight);
    k.match_replace8(t.x, t.y, t.eight, 0);
    k.stream_shuffle(t.x, t.y, reversed());
    k.tensor_scalar_cumulative(t.x, t.y, {Op::kAdd, 0.0}, Op::kAdd);
    k.exponential(t.x, t.y);
    k.dropout(t.x, t.y, 0.5);
    k.rng(t.number);
    k.set_rng_seed(t.number.slice(0, 0, 1).slice(1, 0, 1));
    k.rand_get_state(state, Engine::kVector);
    k.rand_set_state(state, Engine::kVector);
    k.rand2(t.x, 0.0, 1.0);
    k.matmul(t.p.slice(0, 0, 64), t.x, t.y);
    k.quantize_mx(mx, scale, t.half);
    k.matmul_mx(rows, mx, scale, mx, scale);
    k.activation(t.x, t.y, {});
    k.activation2(t.x, t.y, {});
    k.local_gather(t.x, t.y, t.index);
    k.gather(t.eight, t.x, t.places);
    k.partition_reduce(bounds.slice(1, 0, 64), t.x, Op::kAdd);
    k.sequence_bounds(bounds, t.x.slice(0, 0, 1));
    k.topk(few, numbers, t.half, 100);
    const Built built = build(k);
    for (unsigned e = 0; e < isa::kEngines; ++e) {
      for (const isa::Instruction& in : built.instructions(static_cast<isa::Engine>(e))) {
        seen.insert(in.opcode);
      }
    }
  }
  for (unsigned code = 0; code < 256; ++code) {
    const isa::OpInfo* op = isa::find_op(static_cast<uint8_t>(code));
    if (op == nullptr || !op->computes || !op->supported) continue;
    EXPECT_EQ(seen.count(static_cast<Opcode>(code)), 1u) << op->name;
  }
}

struct Mistake {
  const char* text;
  std::function<void(Tiles&)> call;
  Generation generation = Generation::kV4;
};

TEST(InstructionMistakes, NameOperandAndRule) {
  const Mistake mistakes[] = {
      {"range_select: a bound is equal, less, less or equal, greater or equal, or greater",
       [](Tiles& t) {
         t.k.range_select(t.y, t.x, {Op::kNotEqual, 0, Op::kLess, 0});
       }},
      {"range_select: src is a tile of integers",
       [](Tiles& t) { t.k.range_select(t.y, t.number, {}); }},
      {"range_select: its accumulators begin with no value that is given",
       [](Tiles& t) { t.k.range_select(t.y, t.x, {}, Reduce::kLoadReduce); }},
      {"range_select: the Vector engine of NeuronCore v2 does not execute RANGE_SELECT with these "
       "operands",
       [](Tiles& t) { t.k.range_select(t.y, t.x, {}); }, Generation::kV2},
      {"select_reduce: the predicate is no tile of integers of 8 or 16 bits",
       [](Tiles& t) { t.k.select_reduce(t.y, t.number, t.x, 0.0); }},
      {"exponential: its accumulators are not set to 0 without adding to them",
       [](Tiles& t) { t.k.exponential(t.y, t.x, 0.0, Reduce::kReset); }},
      {"exponential: the Vector engine of NeuronCore v3 does not execute EXPONENTIAL with these "
       "operands",
       [](Tiles& t) { t.k.exponential(t.y, t.x); }, Generation::kV3},
      {"activation2: its operators are multiply, then add, subtract or nothing; or add, subtract "
       "or nothing alone",
       [](Tiles& t) {
         kernel::Activation2 what;
         what.first = {Op::kAdd, 1.0};
         what.second = {Op::kMultiply, 2.0};
         t.k.activation2(t.y, t.x, what);
       }},
      {"stream_shuffle: the mask is not 32 numbers from 0 to 31, or 255",
       [](Tiles& t) {
         t.k.stream_shuffle(t.y, t.x, {1, 2, 3});
       }},
      {"stream_shuffle: the mask is not 32 numbers from 0 to 31, or 255",
       [](Tiles& t) { t.k.stream_shuffle(t.y, t.x, std::vector<uint8_t>(32, 40)); }},
      {"stream_shuffle: 16 partitions; quadrants have 32",
       [](Tiles& t) { t.k.stream_shuffle(t.y.slice(0, 0, 16), t.x.slice(0, 0, 16), reversed()); }},
      {"stream_shuffle: dst has another type than src",
       [](Tiles& t) { t.k.stream_shuffle(t.half, t.x, reversed()); }},
      {"transpose_blocks: src is 128 x 64, dst 64 x 64; up to 32 x 32 are transposed, or each "
       "block "
       "of 32 x 32 of equal tiles",
       [](Tiles& t) { t.k.transpose_blocks(t.y.slice(0, 0, 64), t.x); }},
      {"local_gather: a width is a power of two up to 32",
       [](Tiles& t) { t.k.local_gather(t.y, t.x, t.index, 3); }},
      {"local_gather: indices are uint16", [](Tiles& t) { t.k.local_gather(t.y, t.x, t.places); }},
      {"local_gather: dst has 10 partitions; groups have 16",
       [](Tiles& t) {
         t.k.local_gather(t.y.slice(0, 0, 10), t.x.slice(0, 0, 10), t.index.slice(0, 0, 10));
       }},
      {"local_gather: dst has 64 elements, 1 for each index, of which there are 32; up to 4096 are "
       "used",
       [](Tiles& t) { t.k.local_gather(t.y, t.x, t.index.slice(1, 0, 2)); }},
      {"topk: 2000 values; from 8 to 65535 are possible, and src has 1024 in a group",
       [](Tiles& t) { t.k.topk(t.half, t.number, t.half, 2000); }},
      {"topk: dst has 64 elements and index 8; equally many, up to n",
       [](Tiles& t) { t.k.topk(t.half, t.places, t.half, 100); }},
      {"topk: values are bfloat16, their numbers uint32",
       [](Tiles& t) { t.k.topk(t.x, t.number, t.half, 100); }},
      {"match_replace8: values are eight in each partition of dst",
       [](Tiles& t) { t.k.match_replace8(t.y, t.x, t.s, 0); }},
      {"match_replace8: index is eight uint16 or uint32 in each partition of dst",
       [](Tiles& t) { t.k.match_replace8(t.y, t.x, t.eight, 0, t.eight); }},
      {"nonzero_with_count: dst is not of int32, one element wider than src, in as many partitions",
       [](Tiles& t) { t.k.nonzero_with_count(t.y, t.x); }},
      {"sequence_bounds: ids are in one partition, and so is dst, with two elements for each",
       [](Tiles& t) { t.k.sequence_bounds(t.y, t.x); }},
      {"rng: dst is no tile of integers", [](Tiles& t) { t.k.rng(t.x); }},
      {"set_rng_seed: src is not one element of 4 bytes",
       [](Tiles& t) { t.k.set_rng_seed(t.number); }},
      {"rand_get_state: dst is not 6 uint32 in each partition, the state of the GpSimd engine",
       [](Tiles& t) { t.k.rand_get_state(t.number); }},
      {"dropout: dst has another type than src", [](Tiles& t) { t.k.dropout(t.half, t.x, 0.5); }},
      {"rand2: the Vector engine of NeuronCore v3 does not execute RAND2 with these operands",
       [](Tiles& t) { t.k.rand2(t.x, 0.0, 1.0); }, Generation::kV3},
      {"tensor_scalar: the Scalar engine of NeuronCore v3 does not execute TENSOR_SCALAR with "
       "these "
       "operands",
       [](Tiles& t) {
         t.k.tensor_scalar(t.x, t.x, {Op::kMax, 1.0}, {}, Engine::kScalar);
       },
       Generation::kV3},
      {"load_weights: stationary of a product of double rows is (partitions, 2, columns)",
       [](Tiles& t) {
         kernel::Product how;
         how.double_row = true;
         t.k.load_weights(t.x, 0, how);
       }},
      {"load_weights: stationary of a product of double rows is not of 8-bit floats",
       [](Tiles& t) {
         kernel::Product how;
         how.double_row = true;
         t.k.load_weights(t.x.reshape({128, 2, 32}), 0, how);
       }},
      {"matmul: weights of double rows go with a product of double rows, and only with it",
       [](Tiles& t) {
         kernel::Product how;
         how.double_row = true;
         const View eight_bits = t.mask.as(kE4).reshape({128, 2, 32});
         t.k.load_weights(eight_bits, 0, how);
         t.k.multiply(t.p.slice(0, 0, 32), t.mask.as(kE4));
       }},
      {"memset: 1.500000 is no int32", [](Tiles& t) { t.k.memset(t.number.as(kI32), 1.5); }},
      {"memset: -1.000000 is no uint32", [](Tiles& t) { t.k.memset(t.number, -1); }},
      {"memset: 256.000000 is no uint8", [](Tiles& t) { t.k.memset(t.mask, 256); }},
  };
  for (const Mistake& m : mistakes) {
    Tiles t(m.generation);
    m.call(t);
    EXPECT_EQ(mistake(t.k), m.text);
    const auto file = t.k.finish();
    ASSERT_FALSE(file.ok()) << m.text;
    EXPECT_NE(file.error().message().find("instructions_test.cpp:"), std::string::npos);
  }
}

}  // namespace
