// Files that are replaced whole, and what is no plain file.
#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/fd.h"

namespace base {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class ReplaceFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "fileXXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
    path_ = directory_ / "f";
  }
  void TearDown() override { fs::remove_all(directory_); }
  size_t files() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(directory_), fs::directory_iterator()));
  }

  fs::path directory_;
  fs::path path_;
};

TEST_F(ReplaceFile, MakesAndReplaces) {
  ASSERT_TRUE(replace_file(path_, "one").ok());
  fs::permissions(path_, fs::perms::owner_read | fs::perms::owner_write);
  ASSERT_TRUE(replace_file(path_, "").ok());
  EXPECT_EQ(text_of(path_), "");
  ASSERT_TRUE(replace_file(path_, "three").ok());
  EXPECT_EQ(text_of(path_), "three");
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(files(), 1u);
}

TEST_F(ReplaceFile, LinksStay) {
  ASSERT_TRUE(replace_file(path_, "old").ok());
  const fs::path link = directory_ / "link";
  fs::create_symlink(path_, link);
  ASSERT_TRUE(replace_file(link, "new").ok());
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(text_of(path_), "new");
}

TEST_F(ReplaceFile, WhatIsNoFileIsWrittenTo) {
  // A pipe of this test: a device that was replaced by mistake would be gone for the whole system.
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  const int reader = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_TRUE(replace_file(path_, "text").ok());
  char got[8] = {};
  EXPECT_EQ(::read(reader, got, sizeof got), 4);
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo(path_));
}

TEST_F(ReplaceFile, AnOpenFileWithoutANameIsWrittenTo) {
  const UniqueFd fd(::memfd_create("x", MFD_CLOEXEC));
  const std::string path = "/proc/self/fd/" + std::to_string(fd.get());
  for (const char* text : {"longer", "text"}) {
    const Status written = replace_file(path, text);
    ASSERT_TRUE(written.ok()) << written.error().message();
    EXPECT_EQ(text_of(path), text);
  }
}

TEST_F(ReplaceFile, AFullDiskLeavesTheOldText) {
  ASSERT_TRUE(replace_file(path_, "old").ok());
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{16, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  const Status written = replace_file(path_, std::string(100, 'x'));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().fault, Fault::kIo);
  EXPECT_NE(written.error().message().find("File too large"), std::string::npos)
      << written.error().message();
  EXPECT_EQ(text_of(path_), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(ReplaceFile, NoSuchPlace) {
  EXPECT_FALSE(replace_file(directory_ / "no" / "f", "x").ok());
  EXPECT_FALSE(replace_file(directory_, "x").ok());
}

using ReadFile = ReplaceFile;

TEST_F(ReadFile, GivesAllUpToTheLimit) {
  const std::string text(100000, 'x');  // more than one read()
  ASSERT_TRUE(replace_file(path_, text).ok());
  const Result<std::string> all = read_file(path_, text.size());
  ASSERT_TRUE(all.ok()) << all.error().message();
  EXPECT_EQ(*all, text);
  const Result<std::string> less = read_file(path_, text.size() - 1);
  ASSERT_FALSE(less.ok());
  EXPECT_EQ(less.error().message(), path_.string() + ": more than 99999 bytes");
}

TEST_F(ReadFile, SaysWhyItCannot) {
  EXPECT_EQ(read_file(path_).error().message(),
            path_.string() + ": cannot read: No such file or directory");
  EXPECT_EQ(read_file(directory_).error().message(),
            directory_.string() + ": cannot read: Is a directory");
}

}  // namespace
}  // namespace base
