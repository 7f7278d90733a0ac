#include "tools/soma/execution_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace soma {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// 10 us twice: 1.6 TFLOP per second of 91.75, 100 bytes per nanosecond of 360.
std::string report(const std::string& executions) {
  return R"({"schema": "report/1", "executions": [)" + executions + "]}";
}
const char* const kMatmul = R"({"core": "d0.nc0", "program": 0, "count": 2,
    "total_ps": 20000000, "min_ps": 10000000, "max_ps": 10000000, "hbm_bytes": 2000000,
    "operations": 32000000, "peak_operations_per_us": 91750400, "peak_hbm_bytes_per_us": 360000,
    "critical_path_ps": {"pe": 5000000, "dma": 15000000},
    "engines": [{"name": "pe", "instructions": 7, "busy_ps": 5000000,
                 "stalled_ps": {"dma": 14000000}, "bytes": {"sbuf_read": 1048576}}]})";

TEST(Executions, TextSaysWhatBoundsThem) {
  const auto executions = parse_executions(report(kMatmul));
  ASSERT_TRUE(executions.ok()) << executions.error().message();
  const std::string text = executions_text(*executions);
  EXPECT_THAT(text, HasSubstr("d0.nc0, program 0: 2 executions, 10.000 us each"));
  EXPECT_THAT(text, HasSubstr("Tensor engine 1.60 of 91.75 TFLOP/s (1.7 %), "
                              "HBM 100.0 of 360.0 GB/s (27.8 %)"));
  EXPECT_THAT(text, HasSubstr("16.0 operations per byte of HBM: bound by memory; 27.8 % of what"));
  EXPECT_THAT(text, HasSubstr("critical path: dma 75.0 %, pe 25.0 %"));
  EXPECT_THAT(text, HasSubstr("25.0%"));  // busy
  EXPECT_THAT(text, HasSubstr("70.0%"));  // waits for DMA
  EXPECT_THAT(text, HasSubstr("5.0%   sbuf read 1 MiB"));
}

TEST(Executions, PageHasBarsAndRoofline) {
  const auto executions = parse_executions(report(kMatmul));
  ASSERT_TRUE(executions.ok());
  const std::string page = executions_page("a <b>", *executions);
  EXPECT_THAT(page, HasSubstr("a &lt;b"));
  EXPECT_THAT(page, HasSubstr("<h2>Roofline</h2>"));
  EXPECT_THAT(page, HasSubstr("pe, waits for DMA or the host: 14.000 us, 70.0 %"));
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  EXPECT_THAT(page, Not(HasSubstr("inf")));
}

TEST(Executions, NothingExecuted) {
  const auto executions = parse_executions(report(""));
  ASSERT_TRUE(executions.ok());
  EXPECT_THAT(executions_text(*executions), HasSubstr("No program was executed"));
  EXPECT_THAT(executions_page("t", *executions), HasSubstr("No program was executed"));
}

TEST(Executions, WhatIsNoReportIsRefused) {
  for (const char* text :
       {"", "{", "[]", "{}", R"({"schema": "report/2", "executions": []})",
        R"({"schema": "report/1"})", R"({"schema": "report/1", "executions": [{"core": 3}]})"}) {
    EXPECT_FALSE(parse_executions(text).ok()) << text;
  }
}

}  // namespace
}  // namespace soma
