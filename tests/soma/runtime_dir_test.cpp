#include "tools/soma/runtime_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace soma {
namespace {

using ::testing::HasSubstr;

class RuntimeDirTest : public ::testing::Test {
 protected:
  RuntimeDirTest() {
    ::mkdtemp(base_.data());
    ::setenv("XDG_RUNTIME_DIR", base_.c_str(), 1);
  }
  ~RuntimeDirTest() override {
    std::filesystem::remove_all(base_);
    ::unsetenv("XDG_RUNTIME_DIR");
  }

  std::string base_ = "/tmp/rtdXXXXXX";
};

TEST_F(RuntimeDirTest, IsPrivateAndGoesAway) {
  std::string path;
  {
    const auto directory = RuntimeDir::create();
    ASSERT_TRUE(directory.ok()) << directory.error().message();
    path = directory->path();
    EXPECT_EQ(path.find(base_ + "/soma-" + std::to_string(::getuid()) + "-"), 0u);
    struct stat info = {};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777u, 0700u);
    std::ofstream(path + "/file") << "x";
    std::filesystem::create_directories(path + "/sub/sub");
    EXPECT_TRUE(RuntimeDir::held(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(RuntimeDir::held(path));
}

TEST_F(RuntimeDirTest, TwoMachinesDoNotClash) {
  const auto a = RuntimeDir::create();
  const auto b = RuntimeDir::create();
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_NE(a->path(), b->path());
}

TEST_F(RuntimeDirTest, OneMachineOfAName) {
  {
    const auto first = RuntimeDir::create_named("a");
    ASSERT_TRUE(first.ok()) << first.error().message();
    const auto second = RuntimeDir::create_named("a");
    ASSERT_FALSE(second.ok());
    EXPECT_THAT(second.error().what, HasSubstr("soma down --name a"));
    EXPECT_TRUE(RuntimeDir::create_named("b").ok());
  }
  EXPECT_TRUE(RuntimeDir::create_named("a").ok());
}

TEST_F(RuntimeDirTest, RemovesWhatAKilledMachineLeft) {
  const std::string stale = RuntimeDir::path_of("dead").value();
  std::filesystem::create_directory(stale);
  ::chmod(stale.c_str(), 0700);
  std::ofstream(stale + "/lock") << "";
  const std::string starting = RuntimeDir::path_of("starting").value();
  std::filesystem::create_directory(starting);
  ::chmod(starting.c_str(), 0700);
  EXPECT_TRUE(RuntimeDir::create().ok());
  EXPECT_FALSE(std::filesystem::exists(stale));
  EXPECT_TRUE(std::filesystem::exists(starting));
}

TEST_F(RuntimeDirTest, NamesArePlainWords) {
  for (const char* bad : {"", "a/b", "..", "a b", "a.b", "123456789012345678901234567890123"}) {
    EXPECT_FALSE(RuntimeDir::path_of(bad).ok()) << bad;
  }
  EXPECT_TRUE(RuntimeDir::path_of("CI-job_7").ok());
}

TEST_F(RuntimeDirTest, UnusableRuntimeDirectoryFallsBackToMemory) {
  ::setenv("XDG_RUNTIME_DIR", "/nonexistent", 1);
  const auto directory = RuntimeDir::create();
  ASSERT_TRUE(directory.ok());
  EXPECT_EQ(directory->path().rfind("/dev/shm/soma-", 0), 0u);
}

}  // namespace
}  // namespace soma
