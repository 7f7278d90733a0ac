// Instructions that select, search, gather, turn and draw: one case each, worked out by hand from
// spec/engine-isa.md 10. Programs are text.
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "arch/contract/isa_file.h"
#include "contract/regs/engine.h"
#include "neff_loader/asm.h"
#include "tests/hw_core/nc_bench.h"

namespace {

using contract::EngineStatus;
using contract::Gen;
using hw_test::NcBench;
namespace isa = contract::isa;

constexpr float kInf = std::numeric_limits<float>::infinity();

class Compute : public ::testing::Test {
 protected:
  explicit Compute(Gen gen = Gen::kV3) : gen_(gen), bench_(gen) {}

  contract::Engine start(const std::string& engine, const std::string& text) {
    static const std::vector<std::string> kNames = {"pe", "act", "pool", "dve", "sp"};
    const auto at = std::find(kNames.begin(), kNames.end(), engine) - kNames.begin();
    const auto e = static_cast<contract::Engine>(at);
    const auto file =
        neff::assemble(".engine " + engine + "\n.arch v" + std::to_string(static_cast<int>(gen_)) +
                       "\n" + text + "\nHALT\n");
    EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().message());
    if (!file.ok()) return e;
    isa::EngineFileHeader header;
    EXPECT_EQ(isa::parse(file->data(), file->size(), &header), isa::FileError::kNone);
    const uint8_t* first = file->data() + isa::kFileHeaderBytes;
    bench_.put(e, contract::engine::kPc, 0);
    bench_.load_bytes(e, {first, first + header.record_count * isa::kRecordBytes});
    bench_.start(e);
    bench_.queue.run_all();
    return e;
  }
  void run(const std::string& engine, const std::string& text) {
    const contract::Engine e = start(engine, text);
    EXPECT_EQ(bench_.status(e), EngineStatus::kHalted)
        << text << ": error " << bench_.get(e, contract::engine::kErrorCode) << ", info "
        << bench_.get(e, contract::engine::kErrorInfo);
  }
  // The engine does not have this instruction.
  void refuse(const std::string& engine, const std::string& text) {
    const contract::Engine e = start(engine, text);
    EXPECT_EQ(bench_.status(e), EngineStatus::kError) << text;
    EXPECT_EQ(bench_.get(e, contract::engine::kErrorCode),
              static_cast<uint32_t>(contract::EngineError::kBadInstruction));
    bench_.put(e, contract::engine::kControl, 4);
  }
  template <typename T>
  void put(uint32_t partition, uint32_t byte, const std::vector<T>& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      *bench_.sbuf<T>(partition, byte + static_cast<uint32_t>(i * sizeof(T))) = values[i];
    }
  }
  template <typename T = float>
  std::vector<T> get(uint32_t partition, uint32_t byte, size_t n) {
    std::vector<T> values(n);
    for (size_t i = 0; i < n; ++i) {
      values[i] = *bench_.sbuf<T>(partition, byte + static_cast<uint32_t>(i * sizeof(T)));
    }
    return values;
  }
  using Floats = std::vector<float>;
  using Words = std::vector<uint32_t>;

  Gen gen_;
  NcBench bench_;
};

class ComputeV2 : public Compute {
 protected:
  ComputeV2() : Compute(Gen::kV2) {}
};
class ComputeV4 : public Compute {
 protected:
  ComputeV4() : Compute(Gen::kV4) {}
};

TEST_F(Compute, TransposesBlocks) {
  for (uint32_t p = 0; p < 64; ++p) {
    std::vector<uint16_t> row(64);
    for (uint32_t i = 0; i < 64; ++i) row[i] = static_cast<uint16_t>(100 * p + i);
    put(p, 0, row);
  }
  run("dve", "TRANSPOSE dst=uint16@512[1][64] src=uint16@0[1][64] rows=0..63 columns=0..63");
  EXPECT_EQ(*bench_.sbuf<uint16_t>(3, 512 + 2 * 9), 100 * 9 + 3);
  EXPECT_EQ(*bench_.sbuf<uint16_t>(3, 512 + 2 * 41), 100 * 9 + 35);
  EXPECT_EQ(*bench_.sbuf<uint16_t>(40, 512 + 2 * 50), 100 * 50 + 40);
  run("dve", "TRANSPOSE dst=uint16@1024[1][3] src=uint16@0[1][5] rows=0..2 columns=0..4");
  EXPECT_EQ(get<uint16_t>(4, 1024, 3), (std::vector<uint16_t>{4, 104, 204}));
}

TEST_F(Compute, ShufflesQuadrants) {
  for (uint32_t p = 0; p < 64; ++p) put<uint32_t>(p, 0, {p});
  for (uint32_t p = 0; p < 64; ++p) put<uint32_t>(p, 4, {1000});
  // Lane 0 takes lane 5, lane 1 stays, lanes 2 to 7 take lane 0, all others lane 31.
  run("dve",
      "STREAM_SHUFFLE dst=uint32@4[1][1] src=uint32@0[1][1] mask0=0x000000000000ff05 "
      "mask1=0x1f1f1f1f1f1f1f1f mask2=0x1f1f1f1f1f1f1f1f mask3=0x1f1f1f1f1f1f1f1f "
      "partitions=0..63");
  EXPECT_EQ(*bench_.sbuf<uint32_t>(0, 4), 5u);
  EXPECT_EQ(*bench_.sbuf<uint32_t>(1, 4), 1000u);
  EXPECT_EQ(*bench_.sbuf<uint32_t>(2, 4), 0u);
  EXPECT_EQ(*bench_.sbuf<uint32_t>(32, 4), 37u);
  EXPECT_EQ(*bench_.sbuf<uint32_t>(63, 4), 63u);
}

TEST_F(Compute, CopiesWhereThePredicateSays) {
  put<float>(0, 0, {1, 2, 3, 4});
  put<float>(0, 16, {10, 20, 30, 40});
  put<uint8_t>(0, 32, {0, 1, 255, 0});
  run("dve",
      "COPY_PREDICATED dst=fp32@0[1][4] src=fp32@16[1][4] predicate=uint8@32[1][4] "
      "partitions=0..0");
  EXPECT_EQ(get(0, 0, 4), (Floats{1, 20, 30, 4}));
  run("dve",
      "COPY_PREDICATED dst=fp32@0[1][4] src=-7.5 predicate=uint8@32[1][4] reverse=1 "
      "partitions=0..0");
  EXPECT_EQ(get(0, 0, 4), (Floats{-7.5, 20, 30, -7.5}));
  run("dve",
      "COPY_PREDICATED dst=fp32@0[1][4] src=fp32@16[1][1] predicate=uint8@32[1][4] "
      "partitions=0..0");
  EXPECT_EQ(get(0, 0, 4), (Floats{-7.5, 10, 10, -7.5}));
}

TEST_F(Compute, SelectsAndKeepsTheMaximum) {
  put<float>(0, 0, {1, 9, 3, 4});
  put<uint8_t>(0, 32, {1, 0, 1, 1});
  run("dve",
      "SELECT_REDUCE reduce_cmd=RESET_REDUCE dst=fp32@64[1][4] predicate=uint8@32[1][4] "
      "on_true=fp32@0[1][4] on_false=2 partitions=0..0\n"
      "READ_ACCUMULATOR dst=fp32@80[1][1] partitions=0..0");
  EXPECT_EQ(get(0, 64, 5), (Floats{1, 2, 3, 4, 4}));
  run("dve",
      "RANGE_SELECT op0=GREATER_EQUAL op1=LESS reduce_cmd=REDUCE dst=bf16@64[1][4] "
      "src=fp32@0[1][4] bound0=11 bound1=13 start=0x41200000 fill=0xff7fffff "
      "partitions=0..0\n"  // columns 10 to 13
      "READ_ACCUMULATOR dst=fp32@80[1][1] partitions=0..0");
  EXPECT_EQ(get<uint16_t>(0, 64, 4), (std::vector<uint16_t>{0xFF80, 0x4110, 0x4040, 0xFF80}));
  EXPECT_EQ(get(0, 80, 1), Floats{9});
}

TEST_F(Compute, StatisticsAndTheirAggregation) {
  put<float>(0, 0, {1, 10, 3, 20, 5});
  run("dve",
      "BN_STATS dst=fp32@64[1][6] src=fp32@0[1][5] partitions=0..0\n"
      "BN_AGGREGATE dst=fp32@96[1][2] src=fp32@64[1][6] partitions=0..0");
  EXPECT_EQ(get(0, 64, 6), (Floats{3, 3, 8, 2, 15, 50}));
  const double mean = 39.0 / 5;
  double squares = 0;
  for (const double x : {1, 10, 3, 20, 5}) squares += (x - mean) * (x - mean);
  EXPECT_EQ(get(0, 96, 2), (Floats{static_cast<float>(mean), static_cast<float>(squares / 5)}));
}

TEST_F(Compute, LargestOfARow) {
  put<float>(0, 0, {4, 7, 7, NAN, -1, 3, 2, 9, 1, 0});
  run("dve", "MAX8 dst=fp32@64[1][8] src=fp32@0[1][10] partitions=0..0");
  EXPECT_EQ(get(0, 64, 8), (Floats{9, 7, 7, 4, 3, 2, 1, 0}));
  put<float>(0, 64, {9, 7, 7, 7, 5, -1, 4, 0});
  run("dve",
      "FIND_INDEX8 dst=uint16@128[1][8] src=fp32@0[1][10] values=fp32@64[1][8] "
      "partitions=0..0");
  EXPECT_EQ(get<uint16_t>(0, 128, 8), (std::vector<uint16_t>{7, 1, 2, 0xFFFF, 0xFFFF, 4, 0, 9}));
  run("dve",
      "MATCH_REPLACE8 dst=fp32@192[1][10] src=fp32@0[1][10] values=fp32@64[1][8] "
      "index=uint32@256[1][8] fill=0x42c80000 partitions=0..0");
  // From slot 7 down: 0, 4, -1, no 5, then 7 twice and one too many, 9.
  EXPECT_EQ(get<uint32_t>(0, 256, 8), (Words{7, ~0u, 2, 1, ~0u, 4, 0, 9}));
  const Floats replaced = get(0, 192, 10);
  EXPECT_EQ(replaced[0], 100);
  EXPECT_EQ(replaced[2], 100);
  EXPECT_TRUE(std::isnan(replaced[3]));
  EXPECT_EQ(replaced[5], 3);
}

TEST_F(Compute, CumulativeSums) {
  put<float>(0, 0, {1, 2, 3, 4});
  run("dve",
      "TENSOR_SCALAR_CUMULATIVE op0=MULTIPLY op1=ADD reduce_cmd=RESET_REDUCE "
      "dst=fp32@16[1][4] src=fp32@0[1][4] operand=2 partitions=0..0");
  EXPECT_EQ(get(0, 16, 4), (Floats{2, 6, 12, 20}));
  run("dve",
      "TENSOR_SCALAR_CUMULATIVE op0=BYPASS op1=ADD reduce_cmd=REDUCE "
      "dst=fp32@16[1][4] src=fp32@0[1][4] operand=0 partitions=0..0");
  EXPECT_EQ(get(0, 16, 4), (Floats{21, 23, 26, 30}));
  run("dve",
      "TENSOR_SCALAR_CUMULATIVE op0=BYPASS op1=SUBTRACT reduce_cmd=LOAD_REDUCE "
      "dst=fp32@16[1][4] src=fp32@0[1][4] operand=0 initial=5 partitions=0..0");
  EXPECT_EQ(get(0, 16, 4), (Floats{-4, 6, -3, 7}));  // x - acc
}

TEST_F(Compute, GathersWithinGroups) {
  for (uint32_t p = 0; p < 16; ++p) {
    put<float>(p, 0, {100.0F * static_cast<float>(p), 1, 2, 3, 4, 5});
    put<uint16_t>(p, 64, {static_cast<uint16_t>(p % 5), 99});  // entry j in lane j mod 16
  }
  put<uint16_t>(0, 66, {0});  // entry 16
  run("pool",
      "LOCAL_GATHER dst=fp32@128[1][34] src=fp32@0[1][6] index=uint16@64[1][2] width=2 "
      "count=17 partitions=0..15");
  EXPECT_EQ(get(3, 128, 6), (Floats{300, 1, 1, 2, 2, 3}));
  EXPECT_EQ(get(3, 128 + 4 * 32, 2), (Floats{300, 1}));
  put<uint32_t>(0, 512, {5, 0, 7});
  run("pool",
      "N_GATHER dst=fp32@640[1][3] src=fp32@0[1][6] index=uint32@512[1][3] "
      "partitions=0..0");
  EXPECT_EQ(get(0, 640, 3), (Floats{5, 0, 0}));
}

TEST_F(Compute, ReducesPartitions) {
  for (uint32_t p = 0; p < 5; ++p) put<float>(p, 0, {static_cast<float>(p), -2});
  run("pool", "PARTITION_REDUCE op=ADD dst=fp32@16[1][2] src=fp32@0[1][2] partitions=0..4 to=0..0");
  EXPECT_EQ(get(0, 16, 2), (Floats{10, -10}));
  run("pool",
      "PARTITION_REDUCE op=ADD average=1 dst=fp32@16[1][2] src=fp32@0[1][2] "
      "partitions=0..3 to=0..0");
  EXPECT_EQ(get(0, 16, 2), (Floats{1.5, -2}));
  for (uint32_t p = 0; p < 3; ++p) put<uint32_t>(p, 32, {1u << p});
  run("pool",
      "PARTITION_REDUCE op=OR dst=uint32@64[1][1] src=uint32@32[1][1] partitions=0..2 "
      "to=0..0");
  EXPECT_EQ(get<uint32_t>(0, 64, 1), Words{7});
}

TEST_F(Compute, BoundsOfSequences) {
  put<int32_t>(0, 0, {0, 1, 1, 2, 2, 2, 0, 3, 3});
  run("pool", "SEQUENCE_BOUNDS dst=int32@64[1][18] src=int32@0[1][9] partitions=0..0");
  EXPECT_EQ(get<int32_t>(0, 64, 18),
            (std::vector<int32_t>{9, 1, 1, 3, 3, 3, 9, 7, 7, -1, 3, 3, 6, 6, 6, -1, 9, 9}));
}

TEST_F(Compute, PlacesOfNonzeros) {
  put<float>(0, 0, {0, 5, 0, -1});
  put<float>(16, 0, {1, 0, 0, 0});
  put<int32_t>(1, 64, {77});
  run("pool",
      "NONZERO_WITH_COUNT dst=int32@64[1][5] src=fp32@0[1][4] offset=10 "
      "padding=0xffffffff partitions=0..31");
  EXPECT_EQ(get<int32_t>(0, 64, 5), (std::vector<int32_t>{11, 13, -1, -1, 2}));
  EXPECT_EQ(get<int32_t>(16, 64, 5), (std::vector<int32_t>{10, -1, -1, -1, 1}));
  EXPECT_EQ(get<int32_t>(1, 64, 1), std::vector<int32_t>{77});
}

TEST_F(Compute, TopOfAGroup) {
  // 20 values, number i in lane i mod 16: value = i, but 3 for i = 19.
  for (uint32_t i = 0; i < 20; ++i) {
    const float value = i == 19 ? 3 : static_cast<float>(i);
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    put<uint16_t>(i % 16, i / 16 * 2, {static_cast<uint16_t>(bits >> 16)});
  }
  run("pool",
      "TOPK dst=bf16@64[1][17] src=bf16@0[1][2] index=uint32@128[1][17] n=20 "
      "partitions=0..15");
  // Ascending; of the two threes the one with the smaller number is the larger.
  EXPECT_EQ(get<uint32_t>(9, 128, 17),
            (Words{19, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}));
  EXPECT_EQ(*bench_.sbuf<uint16_t>(9, 64), 0x4040);
}

TEST_F(Compute, RandomNumbersHaveAState) {
  put<uint32_t>(0, 0, {42});
  const std::string seed = "SET_RNG_SEED src=uint32@0[1][1] partitions=0..0\n";
  run("dve", seed + "RNG dst=uint32@64[1][64] partitions=0..1");
  const Words first = get<uint32_t>(0, 64, 64);
  EXPECT_NE(first, get<uint32_t>(1, 64, 64));
  run("dve", "RNG dst=uint32@64[1][64] partitions=0..1");
  EXPECT_NE(get<uint32_t>(0, 64, 64), first);
  run("dve", seed + "RNG dst=uint32@64[1][64] partitions=0..1");
  EXPECT_EQ(get<uint32_t>(0, 64, 64), first);
  put<float>(0, 1024, Floats(1000, 1));
  run("dve",
      "DROPOUT dst=fp32@8192[1][1000] src=fp32@1024[1][1000] probability=0.25 "
      "partitions=0..0");
  const Floats kept = get(0, 8192, 1000);
  EXPECT_NEAR(static_cast<double>(std::count(kept.begin(), kept.end(), 0.0F)), 250, 60);
  // GpSimd's state: what is set comes back, and gives the same numbers.
  run("pool",
      "RAND_GET_STATE dst=uint32@64[1][6] partitions=0..0\n"
      "RNG dst=uint32@128[1][8] partitions=0..0\n"
      "RAND_SET_STATE src=uint32@64[1][6] partitions=0..0\n"
      "RNG dst=uint32@256[1][8] partitions=0..0");
  EXPECT_EQ(get<uint32_t>(0, 128, 8), get<uint32_t>(0, 256, 8));
}

TEST_F(ComputeV4, RandomFloatsStayBelowTheMaximum) {
  run("dve", "RAND2 dst=fp32@0[1][4096] minimum=-1 maximum=3 partitions=0..0");
  const Floats values = get(0, 0, 4096);
  EXPECT_GE(*std::min_element(values.begin(), values.end()), -1);
  EXPECT_LT(*std::max_element(values.begin(), values.end()), 3);
  double sum = 0;
  for (const float v : values) sum += v;
  EXPECT_NEAR(sum / 4096, 1, 0.1);
}

TEST_F(ComputeV4, ExponentialsAndTheSecondActivate) {
  put<float>(0, 0, {1, 2, -kInf});
  run("dve",
      "EXPONENTIAL reduce_cmd=LOAD_REDUCE dst=fp32@64[1][3] src=fp32@0[1][3] maximum=2 "
      "initial=10 partitions=0..0\n"
      "READ_ACCUMULATOR dst=fp32@76[1][1] partitions=0..0");
  const float e = std::exp(-1.0F);
  EXPECT_EQ(get(0, 64, 4), (Floats{e, 1, 0, 10 + e + 1}));
  run("act",
      "ACTIVATE2 function=RELU op0=MULTIPLY op1=SUBTRACT dst=fp32@64[1][2] src=fp32@0[1][2] "
      "operand0=3 operand1=4 reduce_op=MAX reduce_cmd=RESET_REDUCE partitions=0..0\n"
      "READ_ACCUMULATOR dst=fp32@72[1][1] partitions=0..0");
  EXPECT_EQ(get(0, 64, 3), (Floats{0, 2, 2}));
}

TEST_F(Compute, RegistersAndMemory) {
  put<int16_t>(33, 8, {-5});
  run("sp", "REGISTER_LOAD dst=r4 src=int16@8[1][1] partitions=32..32");
  EXPECT_EQ(bench_.get(contract::kSp, contract::engine::kRegister + 16), 0u);
  put<int16_t>(32, 8, {-5});
  run("sp",
      "REGISTER_LOAD dst=r4 src=int16@8[1][1] partitions=32..32\n"
      "REGISTER_ALU op=ADD dst=r5 a=r4 b=12\n"
      "REGISTER_STORE dst=int32@16+r5[1][1] src=r4 partitions=0..0");
  EXPECT_EQ(get<int32_t>(0, 23, 1), std::vector<int32_t>{-5});
  put<uint16_t>(0, 8, {0x3F80, 0xFFFF});
  run("sp",
      "REGISTER_LOAD dst=r4 src=bf16@8[1][1] partitions=0..0\n"
      "REGISTER_LOAD dst=r6 src=fp8e5@9[1][1] partitions=0..0");
  EXPECT_EQ(bench_.get(contract::kSp, contract::engine::kRegister + 4 * 4), 0x3F80u);
  EXPECT_EQ(bench_.get(contract::kSp, contract::engine::kRegister + 6 * 4), 0x3Fu);
}

TEST_F(ComputeV2, WhatOlderGenerationsLack) {
  refuse("dve",
         "RANGE_SELECT op0=LESS op1=LESS dst=fp32@64[1][4] src=fp32@0[1][4] bound0=1 "
         "bound1=3 fill=0 partitions=0..0");
  refuse("act", "TENSOR_COPY dst=fp32@64[1][4] src=fp32@0[1][4] partitions=0..0");
  refuse("dve",
         "TENSOR_TENSOR op=ABS_MAX dst=fp32@64[1][4] src0=fp32@0[1][4] src1=fp32@0[1][4] "
         "partitions=0..0");
  refuse("dve", "EXPONENTIAL dst=fp32@64[1][3] src=fp32@0[1][3] maximum=2 partitions=0..0");
  refuse("pool", "TENSOR_COPY dst=fp32@64[1][4] src=fp32@psum:0[1][4] partitions=0..0");
}

}  // namespace
