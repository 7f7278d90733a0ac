// Data of --check: different by rank and index, results that can fail.
#include "tools/nccom-test/golden.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

namespace nccom {
namespace {

using contract::DType;

constexpr DataType kAll[] = {
    {"uint8", DType::kUint8, ""},   {"int8", DType::kInt8, ""},     {"fp8", DType::kFp8E4, ""},
    {"uint16", DType::kUint16, ""}, {"int16", DType::kInt16, ""},   {"fp16", DType::kFp16, ""},
    {"bf16", DType::kBf16, ""},     {"uint32", DType::kUint32, ""}, {"int32", DType::kInt32, ""},
    {"fp32", DType::kFp32, ""},     {"fp8e3", DType::kFp8E3, ""},   {"fp8e5", DType::kFp8E5, ""},
    {"int64", DType::kInt64, ""},   {"uint64", DType::kUint64, ""}};

Options options(Operation operation, const DataType& type, uint32_t ranks) {
  Options o;
  o.operation = operation;
  o.dtype = type;
  o.ranks = ranks;
  o.check = Check::kRandom;
  o.seed = 42;
  return o;
}

TEST(Golden, InputsDifferByRankIndexAndSeed) {
  for (const DataType& type : kAll) {
    Options o = options(Operation::kAllReduce, type, 2);
    const uint32_t width = contract::dtype_size(type.code);
    std::vector<uint8_t> a(64 * width), b(64 * width), c(64 * width), d(64 * width);
    make_input(o, 0, 0, 64, a.data());
    make_input(o, 1, 0, 64, b.data());
    make_input(o, 0, 1, 64, c.data());
    EXPECT_NE(a, b) << type.name;
    EXPECT_NE(a, c) << type.name;
    EXPECT_EQ(0, std::memcmp(a.data() + width, c.data(), 63 * width));  // any part, anywhere
    std::set<std::string> distinct;
    for (int i = 0; i < 64; ++i) {
      distinct.insert(std::string(reinterpret_cast<char*>(a.data()) + i * width, width));
    }
    EXPECT_GT(distinct.size(), 20u) << type.name;
    o.seed = 43;
    make_input(o, 0, 0, 64, d.data());
    EXPECT_NE(a, d);
  }
}

// The expected output passes; any changed element, order of ranks or missing rank does not.
TEST(Golden, ComparisonAcceptsTheResultAndNothingElse) {
  for (const Operation operation :
       {Operation::kAllReduce, Operation::kAllGather, Operation::kReduceScatter}) {
    for (const DataType& type : kAll) {
      const Options o = options(operation, type, 3);
      const uint32_t width = contract::dtype_size(type.code);
      const uint64_t size = 9000ull * 3 * width;  // more than a block
      const std::vector<uint32_t> group = group_of(o, 1);
      std::vector<uint8_t> out = expected_output(o, group, 1, size);
      ASSERT_EQ(out.size(), output_bytes(o, size));
      EXPECT_FALSE(compare(o, group, 1, size, out.data())) << type.name;
      const uint64_t at = out.size() / width - 2;
      encode(type.code, decode(type.code, out.data() + at * width) > 0.5 ? -3 : 3,
             out.data() + at * width);
      const auto mismatch = compare(o, group, 1, size, out.data());
      ASSERT_TRUE(mismatch) << type.name;
      EXPECT_EQ(mismatch->index, at);
      EXPECT_EQ(mismatch->wrong, 1u);
      if (operation == Operation::kReduceScatter) {
        const std::vector<uint8_t> other = expected_output(o, group, 2, size);
        EXPECT_TRUE(compare(o, group, 1, size, other.data()));
      }
    }
  }
}

TEST(Golden, IntegerSumsWrap) {
  const Options o = options(Operation::kAllReduce, kAll[0], 3);
  std::vector<uint8_t> sum(100);
  std::vector<uint8_t> in(100);
  for (uint32_t r = 0; r < 3; ++r) {
    make_input(o, r, 0, 100, in.data());
    for (int i = 0; i < 100; ++i) sum[i] = static_cast<uint8_t>(sum[i] + in[i]);
  }
  EXPECT_EQ(expected_output(o, {0, 1, 2}, 0, 100), sum);
}

TEST(Golden, AllOnes) {
  for (const DataType& type : kAll) {
    Options o = options(Operation::kAllReduce, type, 2);
    o.check = Check::kAllOnes;
    const std::vector<uint8_t> out = expected_output(o, {0, 1}, 0, contract::dtype_size(type.code));
    EXPECT_EQ(decode(type.code, out.data()), 2) << type.name;
    o.operation = Operation::kAllGather;
    const std::vector<uint8_t> gathered =
        expected_output(o, {0, 1}, 0, 2 * contract::dtype_size(type.code));
    EXPECT_EQ(decode(type.code, gathered.data()), 1) << type.name;
  }
}

TEST(Golden, GroupsOfADataParallelRun) {
  Options o = options(Operation::kAllReduce, kAll[0], 6);
  o.groups = {{0, 1}, {2, 3}, {4, 5}};
  EXPECT_EQ(group_of(o, 3), (std::vector<uint32_t>{2, 3}));
  EXPECT_EQ(group_of(o, 5), (std::vector<uint32_t>{4, 5}));
}

// Element i of what rank r puts in.
uint64_t input_element(const Options& o, uint32_t rank, uint64_t i) {
  uint8_t raw[8] = {};
  make_input(o, rank, i, 1, raw);
  uint64_t value = 0;
  std::memcpy(&value, raw, sizeof value);
  return value;
}

TEST(Golden, MovingOperations) {
  Options o = options(Operation::kAllToAll, {"uint32", DType::kUint32, "uint32"}, 2);
  o.check = Check::kRandom;
  const std::vector<uint8_t> all = expected_output(o, {0, 1}, 1, 16);  // two elements per peer
  const auto* words = reinterpret_cast<const uint32_t*>(all.data());
  EXPECT_EQ(words[0], input_element(o, 0, 2));
  EXPECT_EQ(words[3], input_element(o, 1, 3));
  o.operation = Operation::kPermute;
  o.pairs = {{0, 1}, {1, 0}};
  const std::vector<uint8_t> swapped = expected_output(o, {0, 1}, 1, 8);
  EXPECT_EQ(reinterpret_cast<const uint32_t*>(swapped.data())[1], input_element(o, 0, 1));
  o.operation = Operation::kSendRecv;
  o.pairs = {{0, 1}};
  EXPECT_TRUE(receives(o, {0, 1}, 1));
  EXPECT_FALSE(receives(o, {0, 1}, 0));
}

TEST(Golden, PartsAreOperationsOfTheirOwn) {
  Options o = options(Operation::kAllGather, {"uint32", DType::kUint32, "uint32"}, 2);
  o.check = Check::kRandom;
  o.parts = {1, 1};
  // 16 bytes: two parts of one element per rank each.
  const std::vector<uint8_t> out = expected_output(o, {0, 1}, 0, 16);
  const auto* words = reinterpret_cast<const uint32_t*>(out.data());
  EXPECT_EQ(words[0], input_element(o, 0, 0));
  EXPECT_EQ(words[1], input_element(o, 1, 0));
  EXPECT_EQ(words[2], input_element(o, 0, 1));
}

TEST(Golden, CodecRoundTrips) {
  for (const DType dtype :
       {DType::kFp8E3, DType::kFp8E4, DType::kFp8E5, DType::kFp16, DType::kBf16}) {
    const uint32_t width = contract::dtype_size(dtype);
    for (uint32_t bits = 0; bits < (1u << (8 * width)); ++bits) {
      uint8_t raw[4] = {};
      std::memcpy(raw, &bits, sizeof raw);
      const double value = decode(dtype, raw);
      if (!std::isfinite(value)) continue;
      uint32_t back = 0;
      encode(dtype, value, reinterpret_cast<uint8_t*>(&back));
      ASSERT_EQ(back, bits) << static_cast<int>(dtype);
    }
  }
  uint8_t raw[4];
  encode(DType::kFp32, 0.1, raw);
  float f = 0;
  std::memcpy(&f, raw, sizeof f);
  EXPECT_EQ(f, 0.1f);
  encode(DType::kBf16, 1.00390625, raw);  // half way between 1 and 1.0078125: to even
  EXPECT_EQ(decode(DType::kBf16, raw), 1.0);
}

TEST(Golden, MaximumAndMinimumAreExact) {
  for (const DataType& type : kAll) {
    Options o = options(Operation::kAllReduce, type, 3);
    const uint32_t width = contract::dtype_size(type.code);
    for (const contract::ReduceOp op : {contract::ReduceOp::kMax, contract::ReduceOp::kMin}) {
      o.reduction = op;
      std::vector<uint8_t> out = expected_output(o, {0, 1, 2}, 0, 100 * width);
      EXPECT_FALSE(compare(o, {0, 1, 2}, 0, 100 * width, out.data())) << type.name;
      for (uint64_t i = 0; i < 100; ++i) {
        uint8_t raw[3][8] = {};
        for (uint32_t r = 0; r < 3; ++r) make_input(o, r, i, 1, raw[r]);
        const auto less = [&](const uint8_t* a, const uint8_t* b) {
          return decode(type.code, a) < decode(type.code, b);
        };
        const uint8_t* last = op == contract::ReduceOp::kMax
                                  ? *std::max_element(std::begin(raw), std::end(raw), less)
                                  : *std::min_element(std::begin(raw), std::end(raw), less);
        EXPECT_EQ(decode(type.code, out.data() + i * width), decode(type.code, last)) << type.name;
      }
      out[0] = static_cast<uint8_t>(out[0] ^ 1);
      EXPECT_TRUE(compare(o, {0, 1, 2}, 0, 100 * width, out.data())) << type.name;
    }
  }
}

// A ring adds rank by rank and rounds each time: right for any number of elements. What one rank
// gives in addition, or does not, shows in some of them.
TEST(Golden, SumsThatAreRoundedAtEachHop) {
  constexpr uint32_t kRanks = 32;
  constexpr uint64_t kElements = 1 << 15;
  for (const DType code : {DType::kBf16, DType::kFp16, DType::kFp32, DType::kFp8E4}) {
    const DataType& type = *std::find_if(std::begin(kAll), std::end(kAll),
                                         [&](const DataType& each) { return each.code == code; });
    const Options o = options(Operation::kAllReduce, type, kRanks);
    const uint32_t width = contract::dtype_size(code);
    std::vector<uint8_t> sum(kElements * width), input(kElements * width), short_of_one;
    make_input(o, 0, 0, kElements, sum.data());
    for (uint32_t rank = 1; rank < kRanks; ++rank) {
      if (rank + 1 == kRanks) short_of_one = sum;
      make_input(o, rank, 0, kElements, input.data());
      for (uint64_t i = 0; i < kElements * width; i += width) {
        encode(code, decode(code, &sum[i]) + decode(code, &input[i]), &sum[i]);
      }
    }
    const uint64_t size = kElements * width;
    EXPECT_FALSE(compare(o, group_of(o, 0), 0, size, sum.data())) << type.name;
    if (code == DType::kFp8E4) continue;  // one hop rounds by more than a rank gives
    const auto mismatch = compare(o, group_of(o, 0), 0, size, short_of_one.data());
    ASSERT_TRUE(mismatch) << type.name;
    EXPECT_GT(mismatch->wrong, kElements / 20) << type.name;
  }
}

TEST(Golden, RootedOperations) {
  Options o = options(Operation::kBroadcast, {"uint32", DType::kUint32, "uint32"}, 3);
  o.root = 2;
  const std::vector<uint8_t> out = expected_output(o, {4, 5, 6}, 4, 8);
  EXPECT_EQ(reinterpret_cast<const uint32_t*>(out.data())[1], input_element(o, 6, 1));
  o.operation = Operation::kReduce;
  EXPECT_TRUE(receives(o, {4, 5, 6}, 6));
  EXPECT_FALSE(receives(o, {4, 5, 6}, 4));
  EXPECT_EQ(expected_output(o, {4, 5, 6}, 6, 4),
            expected_output(options(Operation::kAllReduce, o.dtype, 3), {4, 5, 6}, 6, 4));
}

// Whose data came is read off the data, part by part; data of nobody is a mismatch.
TEST(Golden, RingPermutesTellTheirSources) {
  Options o = options(Operation::kPermuteReduceImplicit, {"fp16", DType::kFp16, "float16"}, 3);
  o.parts = {1, 1};
  Options explicit_pairs = o;
  explicit_pairs.operation = Operation::kPermuteReduce;
  const std::vector<uint32_t> group{0, 1, 2};
  explicit_pairs.pairs = {{1, 0}};
  std::vector<uint8_t> out = expected_output(explicit_pairs, group, 0, 800);
  explicit_pairs.pairs = {{2, 0}};
  const std::vector<uint8_t> other = expected_output(explicit_pairs, group, 0, 800);
  std::copy(other.begin() + 400, other.end(), out.begin() + 400);
  const std::vector<Source> sources = sources_of(o, group, 0, 800, out.data());
  ASSERT_EQ(sources.size(), 2u);
  EXPECT_EQ(sources[0].rank, 1u);
  EXPECT_EQ(sources[1].rank, 2u);
  EXPECT_TRUE(sources[0].certain && sources[1].certain);
  EXPECT_FALSE(compare(o, group, 0, 800, out.data()));
  out[798] = static_cast<uint8_t>(out[798] ^ 0xFF);
  out[799] = static_cast<uint8_t>(out[799] ^ 0x40);
  EXPECT_TRUE(compare(o, group, 0, 800, out.data()));
  o.check = Check::kAllOnes;
  std::vector<uint8_t> twos(800);
  for (size_t i = 0; i < twos.size(); i += 2) encode(DType::kFp16, 2, twos.data() + i);
  EXPECT_FALSE(sources_of(o, group, 0, 800, twos.data())[0].certain);  // all look alike
}

}  // namespace
}  // namespace nccom
