#include "neff_loader/archive.h"

#include <gtest/gtest.h>

#include "neff_loader/status.h"
#include "tests/neff_loader/fixtures.h"

namespace neff {
namespace {

using test::gzip;
using test::operator+;
using test::tar_entry;
using Bytes = std::vector<uint8_t>;

const Bytes kEnd(1024);

base::Result<Archive> read(const Bytes& payload, const Limits& limits = {}) {
  const bool is_gzip = payload.size() > 1 && payload[0] == 0x1f && payload[1] == 0x8b;
  return read_archive(payload, is_gzip, limits);
}

void expect_refused(const Bytes& payload, const char* rule, int code = status::kInvalid) {
  const auto archive = read(payload);
  ASSERT_FALSE(archive.ok());
  EXPECT_EQ(archive.error().code, code);
  EXPECT_NE(archive.error().what.find(std::string("(") + rule + ")"), std::string::npos)
      << archive.error().message();
}

TEST(Archive, WriteThenRead) {
  const std::vector<Member> members = {
      {"b/x", {1, 2, 3}}, {"a", {}}, {"b/long" + std::string(150, 'n'), Bytes(70000, 5)}};
  for (bool compressed : {false, true}) {
    const auto bytes = write_archive(members, compressed);
    ASSERT_TRUE(bytes.ok());
    EXPECT_EQ(*bytes, *write_archive(members, compressed));
    if (compressed) {
      EXPECT_EQ(Bytes(bytes->begin() + 4, bytes->begin() + 8), Bytes(4));  // no time in the file
    }
    const auto back = read(*bytes);
    ASSERT_TRUE(back.ok()) << back.error().message();
    ASSERT_EQ(back->members.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(back->members[i].name, members[i].name);
      EXPECT_EQ(back->members[i].data, members[i].data);
    }
    EXPECT_NE(back->find("a"), nullptr);
    EXPECT_EQ(back->find("b"), nullptr);
  }
}

TEST(Archive, UnsafeNamesAndTypes) {
  expect_refused(tar_entry("/etc/passwd", '0', "x") + kEnd, "V-11");
  expect_refused(tar_entry("../up", '0', "x") + kEnd, "V-11");
  expect_refused(tar_entry("a/../../up", '0', "x") + kEnd, "V-11");
  expect_refused(tar_entry("link", '2', "", "/etc/passwd") + kEnd, "V-11");
  expect_refused(tar_entry("a", '0', "x") + tar_entry("hard", '1', "", "a") + kEnd, "V-11");
  expect_refused(tar_entry("fifo", '6', "") + kEnd, "V-11");
  expect_refused(tar_entry("device", '3', "") + kEnd, "V-11");
  EXPECT_FALSE(safe_name("a/..").ok());
  EXPECT_FALSE(safe_name("a\\..\\b").ok());
  EXPECT_EQ(*safe_name("./a//b/./c"), "a/b/c");
  EXPECT_EQ(*safe_name("..a/b.."), "..a/b..");
}

TEST(Archive, DirectoriesAndDotSlash) {
  const auto archive = read(tar_entry("./", '5', "") + tar_entry("./sg00/", '5', "") +
                            tar_entry("./sg00/def.json", '0', "{}") + kEnd);
  ASSERT_TRUE(archive.ok()) << archive.error().message();
  ASSERT_EQ(archive->members.size(), 1u);
  EXPECT_EQ(archive->members[0].name, "sg00/def.json");
}

TEST(Archive, LastDuplicateWins) {
  const auto archive = read(tar_entry("a", '0', "old") + tar_entry("b", '0', "b") +
                            tar_entry("./a", '0', "new") + kEnd);
  ASSERT_TRUE(archive.ok());
  ASSERT_EQ(archive->members.size(), 2u);
  EXPECT_EQ(archive->find("a")->data, text_bytes("new"));
  EXPECT_EQ(archive->warnings.size(), 1u);
}

TEST(Archive, GzipVariants) {
  const Bytes tar = tar_entry("a", '0', "hello") + kEnd;
  const Bytes first(tar.begin(), tar.begin() + 300);
  const Bytes second(tar.begin() + 300, tar.end());
  for (const Bytes& payload : {gzip(tar), gzip(first) + gzip(second), gzip(tar) + Bytes(700)}) {
    const auto archive = read(payload);
    ASSERT_TRUE(archive.ok()) << archive.error().message();
    EXPECT_EQ(archive->find("a")->data, text_bytes("hello"));
  }
}

TEST(Archive, BrokenStreams) {
  const Bytes tar = tar_entry("a", '0', std::string(5000, 'q') + "tail") + kEnd;
  Bytes zipped = gzip(tar);
  expect_refused(Bytes(tar.begin(), tar.begin() + 2000), "V-10");
  expect_refused(Bytes(zipped.begin(), zipped.begin() + 30), "V-10");
  zipped[20] ^= 0xFF;
  EXPECT_FALSE(read(zipped).ok());
  expect_refused(Bytes{0x1f, 0x8b}, "V-10");
}

TEST(Archive, BombsStopBeforeTheyAreUnpacked) {
  Limits limits;
  limits.free_bytes = 1 << 20;
  limits.max_ratio = 10;
  const auto bomb = read(gzip(tar_entry("zeros", '0', std::string(4 << 20, '\0')) + kEnd), limits);
  ASSERT_FALSE(bomb.ok());
  EXPECT_EQ(bomb.error().code, status::kResource);
  // An entry that only claims to be large.
  const auto claim = read(gzip(tar_entry("big", '0', "x", "", 0777777777777ull) + kEnd));
  ASSERT_FALSE(claim.ok());
  EXPECT_EQ(claim.error().code, status::kResource);
  // 100 MiB claimed, a few bytes there: refused without 100 MiB of memory.
  const auto hollow = read(gzip(tar_entry("big", '0', "x", "", 100 << 20) + kEnd));
  ASSERT_FALSE(hollow.ok());
  Limits few;
  few.max_members = 2;
  Bytes many = tar_entry("a", '0', "") + tar_entry("b", '0', "") + tar_entry("c/", '5', "");
  EXPECT_EQ(read(many + kEnd, few).error().code, status::kResource);
}

}  // namespace
}  // namespace neff
