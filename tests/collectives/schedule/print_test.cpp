#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/collectives/schedule/verify.h"
#include "tests/collectives/schedule/samples.h"

namespace ccl {
namespace {

using testing::HasSubstr;

TEST(Print, ALinePerStep) {
  const std::string text = print(mesh_all_gather(2, 64).schedule());
  EXPECT_EQ(text,
            "rank 0\n"
            "  0  ch0  signal r1.e0\n"
            "  1  ch0  64 B  in[0] -> out[0]\n"
            "  2  ch0  64 B  in[0] -> r1.out[0]  wait e0  signal r1.e1  fan-out\n"
            "  3  ch0  wait e1\n"
            "rank 1\n"
            "  0  ch0  signal r0.e0\n"
            "  1  ch0  64 B  in[0] -> out[64]\n"
            "  2  ch0  64 B  in[0] -> r0.out[64]  wait e0  signal r0.e1  fan-out\n"
            "  3  ch0  wait e1\n");
}

TEST(Print, ASummaryJoinsEqualRanks) {
  const std::string text = print_summary(ring_all_reduce(3, 64, 2).schedule());
  EXPECT_THAT(text, HasSubstr("ring all_reduce, 3 ranks, 192 bytes in, 192 bytes out\n"));
  EXPECT_THAT(text, HasSubstr("1 channels, 2 fifos, 0 gathers, channel buffer 128 bytes"));
  // Three folds of which the last is written twice, and one copy.
  EXPECT_THAT(text, HasSubstr("  ranks 0-2: 4 steps, 2 handshakes, 704 bytes read and written, 256 "
                              "to others, 0 from others\n"));
}

TEST(Print, CountsBytesBetweenRanksAndOnLinks) {
  const Schedule ring = ring_all_reduce(4, 64, 2).schedule();
  EXPECT_EQ(bytes_between(ring, 1, 2), 6 * 64u);
  EXPECT_EQ(bytes_between(ring, 2, 1), 0u);
  EXPECT_EQ(bytes_between(ring, 1, 1), 0u);
  Group group;
  for (uint32_t r = 0; r < 4; ++r) {
    Position p;
    p.chip = r / 2;
    group.members.push_back(p);
  }
  const auto direct = [](uint32_t from, uint32_t to) { return std::vector<ChipLink>{{from, to}}; };
  const std::map<ChipLink, uint64_t> want{{{0, 1}, 6 * 64}, {{1, 0}, 6 * 64}};
  EXPECT_EQ(link_loads(ring, group, direct), want);
}

}  // namespace
}  // namespace ccl
