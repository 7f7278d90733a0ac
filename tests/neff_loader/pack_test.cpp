#include "neff_loader/pack.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "neff_loader/neff.h"
#include "tests/neff_loader/fixtures.h"

namespace neff {
namespace {

using test::example;
using test::packed;

TEST(Pack, IsDeterministicAndIndependentOfMemberOrder) {
  std::vector<Member> members = example("vector_add");
  const auto file = packed(members);
  std::reverse(members.begin(), members.end());
  EXPECT_EQ(packed(members), file);
  PackOptions named;
  named.name = "other";
  const auto other = packed(members, named);
  EXPECT_NE(other, file);
  EXPECT_EQ(std::vector<uint8_t>(other.begin() + 1024, other.end()),
            std::vector<uint8_t>(file.begin() + 1024, file.end()));
}

TEST(Pack, HeaderAndOrderOfMembers) {
  PackOptions options;
  options.name = std::string(300, 'n');
  std::vector<Member> members = example("vector_add");
  members.push_back({"zz.txt", {1}});
  const auto file = packed(members, options);
  const auto unpacked = unpack(file);
  ASSERT_TRUE(unpacked.ok());
  EXPECT_EQ(unpacked->header.name, std::string(255, 'n'));
  EXPECT_EQ(unpacked->header.feature_bits, 1ull << 62);
  EXPECT_EQ(unpacked->header.uuid[6] >> 4, 4);
  EXPECT_EQ(unpacked->header.uuid[8] >> 6, 2);
  std::vector<std::string> names;
  for (const Member& m : unpacked->archive.members) names.push_back(m.name);
  EXPECT_EQ(names, (std::vector<std::string>{"neff.json", "kelf-0.json", "info.json", "zz.txt",
                                             "sg00/def.json", "sg00/dve.bin", "sg00/dve.json",
                                             "sg00/sp.bin", "sg00/sp.json"}));
  LoadOptions verify;
  verify.verify_hash = true;
  EXPECT_TRUE(load(file, verify).ok());
}

TEST(Pack, WritesWhatIsMissing) {
  std::vector<Member> members;
  for (const Member& m : example("allreduce_two_ranks")) {
    if (m.name.rfind("sg00/", 0) == 0) members.push_back(m);
  }
  PackOptions plain;
  plain.gzip = false;
  plain.pkg_version = 1;
  const auto file = packed(members, plain);
  const auto neff = load(file);
  ASSERT_TRUE(neff.ok()) << neff.error().message();
  EXPECT_TRUE(neff->warnings.empty());
  EXPECT_EQ(neff->tensors.size(), 2u);
  EXPECT_NE(neff->archive->find("info.json"), nullptr);
}

TEST(Pack, Errors) {
  EXPECT_FALSE(pack({{"../x", {}}}, {}).ok());
  EXPECT_FALSE(pack({{"a", {}}, {"./a", {}}}, {}).ok());
  EXPECT_FALSE(pack({{"sg00/def.json", text_bytes("[")}}, {}).ok());
  std::vector<Member> members = example("vector_add");
  members.push_back({"sg00/sp.bin", {}});
  EXPECT_FALSE(pack(members, {}).ok());
  members = example("vector_add");
  test::replace(members, "sg00/sp.s", "HALT", "HALLT");
  const auto bad = pack(members, {});
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().message(), "sg00/sp.s line 8: unknown instruction 'HALLT'");
  members = example("vector_add");
  test::replace(members, "sg00/sp.s", ".arch trn1", ".arch trn3");
  EXPECT_FALSE(pack(members, {}).ok());
  PackOptions version;
  version.pkg_version = 3;
  EXPECT_FALSE(pack(example("vector_add"), version).ok());
}

}  // namespace
}  // namespace neff
