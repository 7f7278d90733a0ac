// The image of a rank's resources, ring lengths, loops and barrier programs.
#include <gtest/gtest.h>

#include <random>

#include "base/span.h"
#include "runtime/collectives/ccl.h"

namespace ccl {
namespace {

using contract::cc_program::Op;
using contract::cc_program::Record;

RankResources sample(contract::Gen gen) {
  RankResources r;
  r.gen = gen;
  r.global_rank = 1;
  r.lnc = gen == contract::Gen::kV2 ? 1 : 2;
  r.nc = r.lnc;
  const uint32_t first = r.nc * r.map().topsps_per_nc();
  r.cc_count = gen == contract::Gen::kV2 ? 2 : 4;
  r.signals = 20;
  for (uint32_t i = 0; i < r.cc_count; ++i) r.cc[i] = {first + i, 40 + i, 0};
  r.src = 0x10'0100'0000;
  r.second = 0x10'0180'0000;
  r.dst = 0x10'0200'0000;
  r.channel_buffer = 0x10'0300'0000;
  r.channel_bytes = 0x1000;
  return r;
}

TEST(Resources, SurviveTheExchange) {
  for (const contract::Gen gen : {contract::Gen::kV2, contract::Gen::kV3, contract::Gen::kV4}) {
    const RankResources r = sample(gen);
    const std::vector<uint8_t> image = serialize(r);
    const auto back = deserialize(image.data(), image.size());
    ASSERT_TRUE(back) << back.error().message();
    EXPECT_EQ(serialize(*back), image);
    EXPECT_EQ(back->cc_window(1), r.cc_window(1));
    EXPECT_EQ(back->cc[1].signal_base, 41u);
    EXPECT_EQ(back->engines(), 16u * r.lnc);
  }
  RankResources v2 = sample(contract::Gen::kV2);
  EXPECT_EQ(v2.cc_window(0), 0x0FFF'D000'0000u + 3 * 0x40'0000u);
  EXPECT_EQ(v2.udma(0), 0x0FFF'F070'0000u);
}

TEST(Resources, EveryFieldFromAPeerIsChecked) {
  for (const contract::Gen gen : {contract::Gen::kV2, contract::Gen::kV3}) {
    const std::vector<uint8_t> good = serialize(sample(gen));
    EXPECT_FALSE(deserialize(good.data(), good.size() - 1));
    EXPECT_FALSE(deserialize(nullptr, 0));
    // Every field is 64 bits wide, and its top byte is never in use.
    for (size_t field = 0; field < good.size() / 8; ++field) {
      std::vector<uint8_t> image = good;
      image[field * 8 + 7] ^= 0x40;
      EXPECT_FALSE(deserialize(image.data(), image.size())) << field;
    }
  }
}

TEST(Resources, PositionsThatDoNotExist) {
  const auto refused = [](const RankResources& r) {
    const std::vector<uint8_t> image = serialize(r);
    return !deserialize(image.data(), image.size());
  };
  RankResources r = sample(contract::Gen::kV3);
  EXPECT_FALSE(refused(r));
  r.cc[2].index = r.cc[1].index;  // twice
  EXPECT_TRUE(refused(r));
  r = sample(contract::Gen::kV3);
  r.cc[3].index = 0;  // of another NeuronCore
  EXPECT_TRUE(refused(r));
  r = sample(contract::Gen::kV3);
  r.cc_count = 0;
  EXPECT_TRUE(refused(r));
  r = sample(contract::Gen::kV3);
  r.nc = 1;  // a logical core begins at an even one
  EXPECT_TRUE(refused(r));
  r = sample(contract::Gen::kV3);
  r.cc[0].signal_base = 250;  // the block ends at 256
  EXPECT_TRUE(refused(r));
  r = sample(contract::Gen::kV2);
  r.src = 1ull << 44;  // host memory
  EXPECT_TRUE(refused(r));
  r = sample(contract::Gen::kV3);
  r.dst = 1ull << 46;
  EXPECT_TRUE(refused(r));
}

// Whatever a peer sends is refused or gives positions within the chip.
TEST(Resources, RandomImages) {
  std::mt19937 random(7);
  const std::vector<uint8_t> good = serialize(sample(contract::Gen::kV3));
  for (int i = 0; i < 20000; ++i) {
    std::vector<uint8_t> image = good;
    for (int k = 0; k < 3; ++k) image[random() % image.size()] = static_cast<uint8_t>(random());
    const auto r = deserialize(image.data(), image.size());
    if (!r) continue;
    ASSERT_LE(r->nc + r->lnc, r->map().ncs());
    for (uint32_t slot = 0; slot < r->cc_count; ++slot) {
      ASSERT_LT(r->cc[slot].index, r->map().topsps());
      ASSERT_LE(r->cc[slot].signal_base + r->signals, kSemaphores);
    }
  }
}

TEST(Resources, RingsAreRepeatedToALegalLength) {
  EXPECT_EQ(ring_copies(0), 0u);
  for (uint64_t n = 1; n < 200; ++n) {
    const uint64_t length = n * ring_copies(n);
    EXPECT_EQ(length % 16, 0u) << n;
    EXPECT_GE(length, 32u);
    EXPECT_GE(ring_copies(n), 2u);
  }
  EXPECT_EQ(ring_copies(16), 2u);
  EXPECT_EQ(ring_copies(4096), 2u);
}

TEST(Resources, RelocationMovesBranchesOnly) {
  CcProgram program(3);
  program[0] = {static_cast<uint8_t>(Op::kLoop), 0, 0, 0, 1, 0};
  program[1] = {static_cast<uint8_t>(Op::kSemWait), 0, 0, 0, 1, 0};
  program[2] = {static_cast<uint8_t>(Op::kBranch), 0, 0, 0, 0, 0};
  relocate(&program, 100);
  EXPECT_EQ(program[0].imm, 101u);
  EXPECT_EQ(program[1].imm, 1u);
  EXPECT_EQ(program[2].imm, 100u);
}

// What a CC-core would execute, MOV and LOOP aside.
std::vector<uint32_t> expand(const CcProgram& program) {
  std::vector<uint32_t> out;
  uint32_t reg[2] = {};
  for (uint32_t pc = 0; pc < program.size(); ++pc) {
    const Record& r = program[pc];
    if (static_cast<Op>(r.op) == Op::kMov) {
      reg[r.a] = r.imm;
    } else if (static_cast<Op>(r.op) == Op::kLoop) {
      if (--reg[r.a] != 0) pc = r.imm - 1;
    } else {
      out.push_back(r.imm);
    }
  }
  return out;
}

CcProgram stores(const std::vector<uint32_t>& values) {
  CcProgram program;
  for (const uint32_t v : values) {
    program.push_back({static_cast<uint8_t>(Op::kSemAdd), 0, 0, 0, v, 0x1000});
  }
  return program;
}

TEST(Loops, RandomProgramsKeepTheirMeaning) {
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    std::vector<uint32_t> values;
    while (values.size() < 200 + random() % 200) {
      std::vector<uint32_t> block(1 + random() % 40);
      for (uint32_t& v : block)
        v = static_cast<uint32_t>(random() % 3);  // few values: repeats within repeats
      for (uint64_t times = 1 + random() % 6; times > 0; --times) {
        values.insert(values.end(), block.begin(), block.end());
      }
    }
    const CcProgram rolled = roll_loops(stores(values));
    ASSERT_EQ(expand(rolled), values) << i;
    ASSERT_LE(rolled.size(), values.size());
  }
}

TEST(Loops, ALongRegularProgramBecomesShort) {
  std::vector<uint32_t> values = {7, 8, 9};
  for (int round = 0; round < 500; ++round) {
    for (const uint32_t v : {1, 1, 2, 1, 1, 3, 4, 4}) values.push_back(v);
  }
  values.push_back(10);
  const CcProgram rolled = roll_loops(stores(values));
  EXPECT_EQ(expand(rolled), values);
  EXPECT_EQ(rolled.size(), 3u + 8u + 2u + 1u);

  values.clear();
  for (int round = 0; round < 10; ++round) {
    values.push_back(5);
    for (int i = 0; i < 50; ++i) values.insert(values.end(), {1, 2});
  }
  const CcProgram nested = roll_loops(stores(values));
  EXPECT_EQ(expand(nested), values);
  EXPECT_EQ(nested.size(), 2u + 1u + 2u + 2u);
}

TEST(Loops, NothingToSaveNothingChanged) {
  const std::vector<uint32_t> values = {1, 1, 2, 3, 2, 3, 4};
  EXPECT_EQ(roll_loops(stores(values)).size(), values.size());
  EXPECT_TRUE(roll_loops({}).empty());
}

TEST(Barrier, ArrivesThenSignals) {
  const auto program = barrier_program(0x1000, 2, {0x2000, 5});
  ASSERT_EQ(program.size(), 2u);
  EXPECT_EQ(program[0].op, static_cast<uint8_t>(Op::kBarrier));
  EXPECT_EQ(program[0].imm, 2u);
  EXPECT_EQ(program[0].address, 0x1000u);
  EXPECT_EQ(program[1].op, static_cast<uint8_t>(Op::kDone));
  EXPECT_EQ(program[1].imm, 5u);
  EXPECT_EQ(program[1].address, 0x2000u);
}

}  // namespace
}  // namespace ccl
