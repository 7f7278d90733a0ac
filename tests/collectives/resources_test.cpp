#include <gtest/gtest.h>

#include "runtime/collectives/ccl.h"

namespace ccl {
namespace {

TEST(Resources, SurviveTheExchange) {
  RankResources r = resources_of(contract::Gen::kV2, 1, 0, 1, 3);
  r.semaphore_base = 40;
  r.one_word = 0x10'0000'1000;
  r.src = 0x10'0100'0000;
  r.dst = 0x10'0200'0000;
  r.channel_buffer = 0x10'0300'0000;
  const std::vector<uint8_t> image = serialize(r);
  const auto back = deserialize(image.data(), image.size());
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(serialize(*back), image);
  EXPECT_EQ(back->cc_window, 0x0FFF'D000'0000u + 3 * 0x40'0000u);
  EXPECT_EQ(back->udma[0], 0x0FFF'F070'0000u);
}

TEST(Resources, EveryFieldFromAPeerIsChecked) {
  const std::vector<uint8_t> good = serialize(resources_of(contract::Gen::kV2, 1, 0, 1, 3));
  EXPECT_FALSE(deserialize(good.data(), good.size() - 1));
  EXPECT_FALSE(deserialize(nullptr, 0));
  // Fields in order: magic, rank, chip, nc, hbm, gen, cc_core, window, semaphore, queue, 16 x udma,
  // broadcast; the top byte of each is never legal.
  for (size_t field = 0; field < 27; ++field) {
    std::vector<uint8_t> image = good;
    image[field * 8 + 7] ^= 0x40;
    EXPECT_FALSE(deserialize(image.data(), image.size())) << field;
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
  using contract::cc_program::Op;
  std::vector<contract::cc_program::Record> program(3);
  program[0] = {static_cast<uint8_t>(Op::kLoop), 0, 0, 0, 1, 0};
  program[1] = {static_cast<uint8_t>(Op::kSemWait), 0, 0, 0, 1, 0};
  program[2] = {static_cast<uint8_t>(Op::kBranch), 0, 0, 0, 0, 0};
  relocate(&program, 100);
  EXPECT_EQ(program[0].imm, 101u);
  EXPECT_EQ(program[1].imm, 1u);
  EXPECT_EQ(program[2].imm, 100u);
}

TEST(Barrier, ArrivesThenSignals) {
  using contract::cc_program::Op;
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
