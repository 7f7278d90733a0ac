#include "tools/soma/supervisor.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace soma {
namespace {

const std::vector<std::string> kEnvironment{"PATH=/usr/bin:/bin", "COLOUR=red"};

int run_shell(Supervisor& supervisor, const std::string& script) {
  const base::Status started = supervisor.start({"sh", "-c", script}, kEnvironment);
  EXPECT_TRUE(started.ok()) << started.error().message();
  supervisor.watch([] {});
  return supervisor.wait();
}

TEST(Supervisor, ExitCodesAreThoseOfAShell) {
  Supervisor supervisor;
  EXPECT_EQ(run_shell(supervisor, "exit 0"), 0);
  EXPECT_EQ(run_shell(supervisor, "exit 77"), 77);
  EXPECT_EQ(run_shell(supervisor, "kill -9 $$"), 137);
  EXPECT_EQ(run_shell(supervisor, "test $COLOUR = red && test -z $HOME"), 0);
}

TEST(Supervisor, MissingCommands) {
  Supervisor supervisor;
  const base::Status missing = supervisor.start({"no-such-command"}, kEnvironment);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ENOENT);
  const base::Status directory = supervisor.start({"/tmp"}, kEnvironment);
  ASSERT_FALSE(directory.ok());
  EXPECT_EQ(directory.error().code, EACCES);
  EXPECT_TRUE(find_program("sh", {}).ok());
  EXPECT_FALSE(find_program("sh", {"PATH="}).ok());
}

TEST(Supervisor, KillsAChildThatIgnoresTheWishToEnd) {
  Supervisor supervisor;
  const std::string ready = ::testing::TempDir() + "deaf";
  ASSERT_TRUE(supervisor
                  .start({"sh", "-c", "trap '' TERM; touch $READY; while :; do sleep 0.01; done"},
                         {"PATH=/usr/bin:/bin", "READY=" + ready})
                  .ok());
  supervisor.watch([] {});
  while (::access(ready.c_str(), F_OK) != 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ::unlink(ready.c_str());
  ::kill(::getpid(), SIGTERM);
  EXPECT_EQ(supervisor.wait(), 137);
}

TEST(Supervisor, ForwardsSignalsThatAreSentToItAlone) {
  Supervisor supervisor;
  ASSERT_TRUE(supervisor
                  .start({"sh", "-c",
                          "trap 'exit 9' TERM; trap 'exit 8' USR1; touch $READY;"
                          "while :; do sleep 0.01; done"},
                         {"PATH=/usr/bin:/bin", "READY=" + ::testing::TempDir() + "ready"})
                  .ok());
  supervisor.watch([] {});
  while (::access((::testing::TempDir() + "ready").c_str(), F_OK) != 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ::kill(::getpid(), SIGUSR1);
  EXPECT_EQ(supervisor.wait(), 8);
  ::unlink((::testing::TempDir() + "ready").c_str());
}

TEST(Supervisor, TellsWhenTheChildEnds) {
  Supervisor supervisor;
  ASSERT_TRUE(supervisor.start({"true"}, kEnvironment).ok());
  int calls = 0;
  supervisor.watch([&] { ++calls; });
  EXPECT_EQ(supervisor.wait(), 0);
  EXPECT_EQ(calls, 1);
}

TEST(Supervisor, TerminateEndsTheChild) {
  Supervisor supervisor;
  ASSERT_TRUE(supervisor.start({"sleep", "100"}, kEnvironment).ok());
  supervisor.watch([] {});
  supervisor.terminate();
  EXPECT_EQ(supervisor.wait(), 128 + SIGTERM);
}

TEST(Supervisor, EndsWhatTheChildLeftBehind) {
  const std::string file = ::testing::TempDir() + "orphan_" + std::to_string(::getpid());
  Supervisor supervisor;
  // An orphan that ignores polite requests, in a session of its own.
  EXPECT_EQ(run_shell(supervisor, "setsid sh -c 'trap \"\" TERM HUP; echo $$ > " + file +
                                      "; while :; do sleep 0.01; done' & while ! test -s " + file +
                                      "; do sleep 0.01; done"),
            0);
  pid_t orphan = 0;
  std::ifstream(file) >> orphan;
  ::unlink(file.c_str());
  ASSERT_GT(orphan, 0);
  EXPECT_NE(::kill(orphan, 0), 0);
  EXPECT_EQ(errno, ESRCH);
}

}  // namespace
}  // namespace soma
