// Collectives on tensors in SBUF: shapes that the loader takes, and rules C-16 and C-17.
#include <gtest/gtest.h>

#include "neff_loader/neff.h"
#include "neff_loader/pack.h"
#include "tests/neff_loader/fixtures.h"

namespace neff {
namespace {

constexpr char kPool[] = "sg00/pool.s";

// The example with this operation, between two tensors of a state buffer (variable 9) unless the
// operands name others.
base::Result<Neff> with(const std::string& kind, const std::string& source,
                        const std::string& destination) {
  std::vector<Member> members = test::example("allreduce_two_ranks");
  test::replace(members, "sg00/def.json", "\"var\": {",
                "\"var\": { \"SB\": { \"type\": \"state-buffer\", \"var_id\": 9 },");
  test::replace(members, kPool, "ctype=ALL_REDUCE op=ADD dtype=float32 cc_dim=0", kind.c_str());
  test::replace(members, kPool, "src0_var_id=3 src0_var_offset=0",
                source.substr(0, source.find(';')).c_str());
  test::replace(members, kPool, "src0_pattern=[1][1024]",
                ("src0_pattern=" + source.substr(source.find(';') + 1)).c_str());
  test::replace(members, kPool, "dst_var_id=4 dst_var_offset=0",
                destination.substr(0, destination.find(';')).c_str());
  test::replace(members, kPool, "dst_pattern=[1][1024]",
                ("dst_pattern=" + destination.substr(destination.find(';') + 1)).c_str());
  auto file = pack(members, {});
  if (!file) return file.error();
  return load(*file);
}

std::string source(const std::string& pattern, uint64_t offset = 0) {
  return "src0_var_id=9 src0_var_offset=" + std::to_string(offset) + ";" + pattern;
}
std::string destination(const std::string& pattern, uint64_t offset = 4096) {
  return "dst_var_id=9 dst_var_offset=" + std::to_string(offset) + ";" + pattern;
}

constexpr char kReduce[] = "ctype=ALL_REDUCE op=ADD dtype=float32 cc_dim=0";
constexpr char kGather[] = "ctype=ALL_GATHER dtype=float32 cc_dim=0";
constexpr char kGatherSideways[] = "ctype=ALL_GATHER dtype=float32 cc_dim=1";

TEST(SbufCollectives, RowsPartitionsAndSteps) {
  const auto neff = with(kReduce, source("[1,2][8,64]", kPartitionPitch),
                         destination("[1][512]", 128 * kPartitionPitch - kPartitionPitch));
  ASSERT_TRUE(neff) << neff.error().message();
  const CollectiveOp& op = neff->subgraphs[0].collectives[0];
  ASSERT_TRUE(op.source_sbuf && op.destination_sbuf);
  EXPECT_EQ(op.source_sbuf->row_bytes, 32u);
  EXPECT_EQ(op.source_sbuf->partitions, 64u);
  EXPECT_EQ(op.source_sbuf->step, 2u);
  EXPECT_EQ(op.source_bytes, 2048u);
  EXPECT_EQ(op.destination_sbuf->row_bytes, 2048u);
  EXPECT_EQ(op.destination_sbuf->partitions, 1u);
  EXPECT_TRUE(check_context(*neff, {true, 1, 2}));
}

TEST(SbufCollectives, Concatenation) {
  EXPECT_TRUE(with(kGather, source("[1,1][8,64]"), destination("[1,1][8,128]")));
  EXPECT_TRUE(with(kGather, source("[1,1][8,64]"), destination("[1,1][16,64]")));
  EXPECT_TRUE(with(kGatherSideways, source("[1,1][8,64]"), destination("[1,1][16,64]")));
}

struct Refusal {
  const char* rule;
  const char* kind;
  std::string source;
  std::string destination;
};

TEST(SbufCollectives, Refusals) {
  const std::string wide = "[1,1][8,64]";
  const Refusal refusals[] = {
      {"C-16", kReduce, source("[1,1][8,129]"), destination(wide)},
      {"C-16", kReduce, source("[1,2][8,65]"), destination(wide)},
      {"C-16", kReduce, source(wide, 65 * kPartitionPitch), destination(wide)},
      {"C-16", kReduce, source("[1,1][49153,1]"), destination(wide)},
      {"C-16", kReduce, source("[2,1][8,64]"), destination(wide)},
      {"C-16", kReduce, source("[1,-1][8,64]"), destination(wide)},
      {"C-16", kGatherSideways, source(wide), destination("[1,1][8,128]")},
      {"C-16", kGather, source("[1,1][24,64]"), destination("[1,1][32,96]")},
      {"C-16", "ctype=REDUCE_SCATTER op=ADD dtype=float32 cc_dim=1", source("[1,1][8,128]"),
       destination(wide)},
      {"C-16", kGatherSideways, "src0_var_id=3 src0_var_offset=0;[1][512]",
       "dst_var_id=4 dst_var_offset=0;[1][1024]"},
      {"C-17", kReduce, source("[1][1024]"), "dst_var_id=4 dst_var_offset=0;[1][1024]"},
      {"C-17", kReduce, "src0_var_id=3 src0_var_offset=0;[1][1024]", destination("[1][1024]")},
      {"C-17", "ctype=ALL_TO_ALL dtype=float32 cc_dim=0", source(wide), destination(wide)},
  };
  for (const Refusal& r : refusals) {
    const auto neff = with(r.kind, r.source, r.destination);
    ASSERT_FALSE(neff) << r.kind << " " << r.source << " " << r.destination;
    EXPECT_EQ(neff.error().code, 2);
    EXPECT_NE(neff.error().what.find(std::string("(") + r.rule + ")"), std::string::npos)
        << neff.error().message();
  }
}

}  // namespace
}  // namespace neff
