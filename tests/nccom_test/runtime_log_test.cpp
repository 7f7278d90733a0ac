// The runtime's log kept back: written by name as the runtime does, read once.
#include "tools/nccom-test/runtime_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace nccom {
namespace {

constexpr const char* kPlace = "NEURON_RT_LOG_LOCATION_NRT";

void write_line(const std::string& text) {
  const char* place = ::getenv(kPlace);
  ASSERT_NE(place, nullptr);
  const base::UniqueFd fd(::open(place, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  ASSERT_TRUE(fd.valid()) << place;
  ASSERT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

class RuntimeLogTest : public testing::Test {
 protected:
  void TearDown() override {
    for (const char* component : {"TDRV", "NMGR", "NRT", "HAL"}) {
      ::unsetenv((std::string("NEURON_RT_LOG_LOCATION_") + component).c_str());
    }
    ::unsetenv("NEURON_RT_LOG_LEVEL");
  }
};

TEST_F(RuntimeLogTest, IsReadOnce) {
  auto log = RuntimeLog::open();
  ASSERT_TRUE(log.ok());
  EXPECT_EQ(log->take(), "");
  write_line("one\n");
  write_line("two\n");
  EXPECT_EQ(log->take(), "one\ntwo\n");
  EXPECT_EQ(log->take(), "");
  write_line(std::string(10000, 'x'));
  EXPECT_EQ(log->take(), std::string(10000, 'x'));
}

TEST_F(RuntimeLogTest, LeavesTheUsersChoice) {
  ::setenv("NEURON_RT_LOG_LEVEL", "INFO", 1);
  auto log = RuntimeLog::open();
  ASSERT_TRUE(log.ok());
  EXPECT_EQ(::getenv(kPlace), nullptr);
  EXPECT_EQ(log->take(), "");
}

TEST(Refusal, IsTheFirstReason) {
  const std::string log =
      "2026-Nov-22 22:20:02.088369 17281:17363 ERROR   NRT:nrt_execute                             "
      "Unsupported: collectives: hier: needs several nodes (status 2 NRT_INVALID)\n"
      "2026-Nov-22 22:20:02.088458 17281:17363 ERROR   NRT:nrt_execute_repeat                      "
      "Failed to execute model m with status 2\n";
  EXPECT_EQ(refusal_in(log), "hier: needs several nodes");
  EXPECT_EQ(refusal_in(log.substr(log.find('\n') + 1)), "");
  EXPECT_EQ(refusal_in(""), "");
}

}  // namespace
}  // namespace nccom
