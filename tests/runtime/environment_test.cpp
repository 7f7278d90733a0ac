#include "runtime/nrt/environment.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "runtime/nrt/log.h"
#include "runtime/nrt/status.h"

namespace {

class Environment : public testing::Test {
 protected:
  void TearDown() override {
    for (const char* name :
         {"NEURON_RT_VISIBLE_CORES", "NEURON_RT_NUM_CORES", "NEURON_LOGICAL_NC_CONFIG",
          "NEURON_RT_VIRTUAL_CORE_SIZE", "NEURON_RT_EXEC_TIMEOUT"}) {
      unsetenv(name);
    }
  }
};

TEST_F(Environment, CoreListsAreAscendingWithoutGaps) {
  EXPECT_EQ(nrt::parse_core_list("0,1,2,3")->count, 4u);
  EXPECT_EQ(nrt::parse_core_list("3-5,6")->first, 3u);
  EXPECT_EQ(nrt::parse_core_list("3-5,6")->count, 4u);
  EXPECT_EQ(nrt::parse_core_list(" 7 ")->first, 7u);
  for (const char* bad : {"", ",", "1,", "3,5,6", "2-1", "1,1", "2,1", "a", "1-", "-1", "1;2"}) {
    EXPECT_FALSE(nrt::parse_core_list(bad)) << bad;
  }
}

TEST_F(Environment, VisibleCoresWinOverTheirNumber) {
  setenv("NEURON_RT_VISIBLE_CORES", "1", 1);
  setenv("NEURON_RT_NUM_CORES", "2", 1);
  const auto selection = nrt::read_core_selection(2);
  ASSERT_TRUE(selection.ok());
  EXPECT_EQ(selection->fixed->first, 1u);
  EXPECT_EQ(selection->count, 1u);
}

TEST_F(Environment, MoreCoresThanExist) {
  setenv("NEURON_RT_VISIBLE_CORES", "1-2", 1);
  EXPECT_EQ(nrt::status_of(nrt::read_core_selection(2).error()), NRT_INVALID);
  unsetenv("NEURON_RT_VISIBLE_CORES");
  setenv("NEURON_RT_NUM_CORES", "3", 1);
  const auto selection = nrt::read_core_selection(2);
  EXPECT_EQ(nrt::status_of(selection.error()), NRT_FAILURE);
  EXPECT_NE(selection.error().what.find("Requested:3 Available:2"), std::string::npos);
}

TEST_F(Environment, LogicalCoreSizeFromEitherNameButNotBoth) {
  EXPECT_EQ(*nrt::read_logical_core_size(2, ""), 2u);
  setenv("NEURON_RT_VIRTUAL_CORE_SIZE", "1", 1);
  EXPECT_EQ(*nrt::read_logical_core_size(2, ""), 1u);
  setenv("NEURON_LOGICAL_NC_CONFIG", "2", 1);
  EXPECT_FALSE(nrt::read_logical_core_size(2, "").ok());
  setenv("NEURON_LOGICAL_NC_CONFIG", "3", 1);
  EXPECT_FALSE(nrt::read_logical_core_size(2, "").ok());
}

TEST_F(Environment, LogicalCoreSizeFromTheFileUnlessAVariableSaysSo) {
  const std::string path = testing::TempDir() + "logical_nc_config";
  std::ofstream(path) << "# made by the image\nNEURON_LOGICAL_NC_CONFIG=1\n";
  EXPECT_EQ(*nrt::read_logical_core_size(2, path.c_str()), 1u);
  setenv("NEURON_LOGICAL_NC_CONFIG", "2", 1);
  EXPECT_EQ(*nrt::read_logical_core_size(2, path.c_str()), 2u);
  EXPECT_EQ(nrt::status_of(nrt::read_logical_core_size(1, path.c_str()).error()), NRT_INVALID);
  unsetenv("NEURON_LOGICAL_NC_CONFIG");
  std::ofstream(path) << "NEURON_LOGICAL_NC_CONFIG=4\n";
  EXPECT_FALSE(nrt::read_logical_core_size(2, path.c_str()).ok());
  std::remove(path.c_str());
}

TEST_F(Environment, TimeoutIsTolerant) {
  EXPECT_EQ(nrt::read_execution_timeout(), 30u);
  setenv("NEURON_RT_EXEC_TIMEOUT", "0", 1);
  EXPECT_EQ(nrt::read_execution_timeout(), 0u);
  setenv("NEURON_RT_EXEC_TIMEOUT", "12x", 1);
  EXPECT_EQ(nrt::read_execution_timeout(), 30u);
}

TEST_F(Environment, MalformedLogVariablesAreNamedTogether) {
  const std::string file = testing::TempDir() + "soma_log_" + std::to_string(getpid());
  setenv("NEURON_RT_LOG_LEVEL", "LOUD", 1);
  setenv("NEURON_RT_LOG_LOCATION", "nowhere", 1);
  setenv("NEURON_RT_LOG_LEVEL_NRT", "WARN", 1);
  setenv("NEURON_RT_LOG_LOCATION_NRT", file.c_str(), 1);
  setenv("NEURON_RT_LOG_LEVEL_HAL", "quite", 1);
  nrt::configure_log();
  std::string line;
  std::getline(std::ifstream(file), line);
  EXPECT_NE(line.find("Ignoring malformed variables: NEURON_RT_LOG_LEVEL NEURON_RT_LOG_LOCATION "
                      "NEURON_RT_LOG_LEVEL_HAL"),
            std::string::npos)
      << line;
  for (const char* name :
       {"NEURON_RT_LOG_LEVEL", "NEURON_RT_LOG_LOCATION", "NEURON_RT_LOG_LEVEL_NRT",
        "NEURON_RT_LOG_LOCATION_NRT", "NEURON_RT_LOG_LEVEL_HAL"}) {
    unsetenv(name);
  }
  nrt::configure_log();
  std::remove(file.c_str());
}

TEST_F(Environment, LogLinesHaveThePublishedShape) {
  setenv("TZ", "UTC", 1);
  const std::string line =
      nrt::format_log_line(nrt::LogLevel::kError, nrt::Component::kTdrv, "exec_wait_round_robin",
                           "[ND 0][NC 0] text", 1758308240, 782962, 4444, 4444);
  EXPECT_EQ(line,
            "2025-Sep-19 18:57:20.782962  4444:4444  ERROR  TDRV:exec_wait_round_robin            "
            "       [ND 0][NC 0] text");
}

}  // namespace
