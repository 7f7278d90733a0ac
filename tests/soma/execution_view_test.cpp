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

// 8 us: half of the operations in float32, which have a quarter of the rate. Its only line waits
// for act; there is a timeline.
const char* const kProfiled = R"j({"core": "d0.nc1", "program": 3, "count": 1,
    "total_ps": 8000000, "min_ps": 8000000, "max_ps": 8000000, "hbm_bytes": 100000,
    "operations": 80000000, "peak_operations_per_us": 80000000,
    "operations_by_kind": [
      {"kind": "16-bit", "operations": 40000000, "peak_per_us": 80000000},
      {"kind": "float32", "operations": 40000000, "peak_per_us": 20000000}],
    "peak_hbm_bytes_per_us": 400000, "critical_path_ps": {"pe": 8000000},
    "engines": [{"name": "dve", "instructions": 2, "busy_ps": 4000000,
                 "stalled_ps": {"semaphore": 2000000, "psum": 800000},
                 "waited_for_ps": {"pe": 400000, "act": 1600000}, "bytes": {}}],
    "profile": {
      "lines": [{"line": "my<k>.cpp:31 (copy)", "engine": "dve", "instructions": ["TENSOR_COPY"],
                 "executed": 2, "busy_ps": 4000000, "waited_ps": {"act": 1600000}}],
      "more_lines": 0,
      "timeline": {"total_ps": 8000000, "kinds": ["busy", "act", "psum"],
                   "names": ["TENSOR_COPY my<k>.cpp:31 (copy)", "copy"],
                   "lanes": [{"name": "dve", "grain_ps": 2000,
                              "spans": ["0 1600000 1 0 1", "2000000 4000000 0 0 7"]},
                             {"name": "dma5", "grain_ps": 0, "bytes": 64,
                              "spans": ["0 1000000 0 1 1"]}]}}})j";

std::vector<ExecutionView> profiled() {
  const auto executions = parse_executions(report(kProfiled));
  EXPECT_TRUE(executions.ok()) << executions.error().message();
  return executions.ok() ? *executions : std::vector<ExecutionView>();
}

TEST(Executions, PeakIsThatOfTheKindsOfNumbers) {
  const auto executions = profiled();
  ASSERT_EQ(executions.size(), 1u);
  // 0.5 us in 16 bits and 2 us in float32 for 80 operations per ps.
  EXPECT_DOUBLE_EQ(executions[0].peak(), 32.0);
  const std::string text = executions_text(executions);
  EXPECT_THAT(text, HasSubstr("Tensor engine 10.00 of 32.00 TFLOP/s with 16-bit (50.0 %) and "
                              "float32 (50.0 %) numbers (31.2 %)"));
  EXPECT_THAT(text,
              HasSubstr("800.0 operations per byte of HBM: bound by the Tensor engine; 31.2"));
}

TEST(Executions, TextNamesLinesAndWhoWasWaitedFor) {
  const std::string text = executions_text(profiled());
  EXPECT_THAT(text, HasSubstr("d0.nc1, program 3 (my<k>.cpp): 1 execution"));
  EXPECT_THAT(text, HasSubstr("   act 20.0 %, pe 5.0 %\n"));
  EXPECT_THAT(text, HasSubstr("10.0%"));  // PSUM
  EXPECT_THAT(text, HasSubstr("busy longest:\n    my<k>.cpp:31 (copy)  "));
  EXPECT_THAT(text, HasSubstr("2 x    50.0% busy, waits for act 20.0 %\n"));
}

TEST(Executions, PageHasTimelineAndLines) {
  const std::string page = executions_page("p", profiled());
  EXPECT_THAT(page, HasSubstr("Timeline of the first execution"));
  EXPECT_THAT(page, HasSubstr("dve (within 2.000 ns)"));  // what was merged
  EXPECT_THAT(page, HasSubstr("TENSOR_COPY my&lt;k&gt;.cpp:31 (copy) waits for act (Scalar), "
                              "1.600 us from 0.000 ns"));
  EXPECT_THAT(page, HasSubstr("4.000 us from 2.000 us; the longest of 7"));
  EXPECT_THAT(page, HasSubstr(">dma5</text>"));
  EXPECT_THAT(page, HasSubstr("<td>my&lt;k&gt;.cpp:31 (copy)<td>dve<td>TENSOR_COPY<td>2"));
  EXPECT_THAT(page, HasSubstr("float32: 20.0 TFLOP/s"));
  for (const char* outside : {"http://", "https://", "src=", "<link", "@import"}) {
    std::string without = page;
    for (size_t at; (at = without.find("http://www.w3.org/2000/svg")) != std::string::npos;) {
      without.erase(at, 26);  // a name, nothing that is fetched
    }
    EXPECT_THAT(without, Not(HasSubstr(outside)));
  }
}

TEST(Executions, PicturesShowAWindow) {
  const auto executions = profiled();
  const auto all = timeline_picture(executions, std::nullopt);
  ASSERT_TRUE(all.ok());
  EXPECT_THAT(*all, HasSubstr("8 us</text>"));
  EXPECT_THAT(*all, HasSubstr(">copy :31</text>"));
  const auto part = timeline_picture(executions, Window{1'500'000, 2'500'000});
  ASSERT_TRUE(part.ok());
  EXPECT_THAT(*part, HasSubstr("data-b='0' data-e='1600000'"));
  EXPECT_THAT(*part, Not(HasSubstr("dma5")));
  EXPECT_FALSE(timeline_picture(executions, Window{8'000'000, 9'000'000}).ok());
  EXPECT_FALSE(timeline_picture(*parse_executions(report(kMatmul)), std::nullopt).ok());
  EXPECT_TRUE(roofline_picture(executions).ok());
  EXPECT_FALSE(roofline_picture({}).ok());
}

TEST(Executions, SpansThatAreNoneAreRefused) {
  const std::string good = kProfiled;
  for (const char* span : {"0 5 0 0", "0 5 3 0 1", "0 5 0 2 1", "x", "0 5 0 0 1 7"}) {
    std::string bad = good;
    const std::string old = "0 1000000 0 1 1";
    bad.replace(bad.find(old), old.size(), span);
    EXPECT_FALSE(parse_executions(report(bad)).ok()) << span;
  }
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
