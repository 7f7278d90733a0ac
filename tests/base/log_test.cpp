#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace base {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LogTest : public ::testing::Test {
 protected:
  std::vector<std::string> lines_;
  Logger logger_{[this](std::string_view line) { lines_.emplace_back(line); }};
};

TEST_F(LogTest, PrefixIsLevelTimeInstance) {
  Ps now = 12345678;
  const Log log(logger_, "m0.d0.dma2");
  log.warn("{} bytes", 3);
  logger_.set_clock([&] { return now; });
  log.error("late");
  EXPECT_THAT(lines_,
              ElementsAre("warn  m0.d0.dma2: 3 bytes", "error 12.345678 us m0.d0.dma2: late"));
}

TEST_F(LogTest, BracesInMessagesAreHarmless) {
  Log(logger_, "x").error("{}", "{} %v");
  EXPECT_THAT(lines_, ElementsAre("error x: {} %v"));
}

TEST_F(LogTest, LastMatchingPatternWins) {
  ASSERT_TRUE(logger_.configure("error,m0.*.dma*=debug,m0.d1.*=info").ok());
  EXPECT_EQ(logger_.level_of("m1"), LogLevel::kError);
  EXPECT_EQ(logger_.level_of("m0.d0.dma3"), LogLevel::kDebug);
  EXPECT_EQ(logger_.level_of("m0.d0.dma3.q1"), LogLevel::kDebug);
  EXPECT_EQ(logger_.level_of("m0.d1.dma3"), LogLevel::kInfo);
  EXPECT_EQ(logger_.level_of("m0.d1"), LogLevel::kError);
}

TEST_F(LogTest, DisabledLevelsAreNotFormatted) {
  const Log log(logger_, "x");
  EXPECT_TRUE(log.enabled(LogLevel::kWarn));
  EXPECT_FALSE(log.enabled(LogLevel::kInfo));
  log.info("no");
  log.debug("no");
  EXPECT_TRUE(lines_.empty());
  EXPECT_FALSE(Log().enabled(LogLevel::kError));
  Log().error("nowhere");
}

TEST_F(LogTest, BadPatterns) {
  for (const char* bad : {"", "loud", "m0=loud", "=info", "info,", "m0="}) {
    const Status status = logger_.configure(bad);
    ASSERT_FALSE(status.ok()) << bad;
    EXPECT_THAT(status.error().what, HasSubstr("error warn info debug trace"));
  }
}

}  // namespace
}  // namespace base
