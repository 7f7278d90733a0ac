#include "tools/soma/checks_view.h"

#include <gtest/gtest.h>

namespace soma {
namespace {

const char* const kFinding = R"({"kind": "semaphore left non-zero", "where": "d0.nc0.semaphores 9",
    "count": 1, "instructions": [{"who": "d0.nc0.dve", "operation": "NOP", "record": 4}]})";
const char* const kRace = R"x({"kind": "read not ordered behind a write", "where": "d0.nc0.sbuf",
    "partitions": [3, 3], "bytes": [0, 31], "count": 7, "instructions": [
      {"who": "d0.nc0.sp", "dma": "d0.dma1 queue 2", "operation": "WRITE", "record": 1,
       "line": "a.cpp:3 (load)"},
      {"who": "d0.cc0", "operation": "operation 1", "record": 2}]})x";

std::string report(const std::string& findings, int more) {
  return R"({"checks": {"findings": [)" + findings + R"(], "more": )" + std::to_string(more) + "}}";
}

TEST(ChecksView, SaysWhatTheWarningsSaid) {
  const auto text = checks_text(report(std::string(kFinding) + "," + kRace, 2));
  ASSERT_TRUE(text.ok()) << text.error().message();
  EXPECT_EQ(*text,
            "semaphore left non-zero: d0.nc0.semaphores 9\n"
            "    d0.nc0.dve NOP at record 4\n"
            "read not ordered behind a write: d0.nc0.sbuf partition 3 bytes 0-31, 7 times\n"
            "    DMA (d0.dma1 queue 2) of d0.nc0.sp WRITE at record 1, a.cpp:3 (load)\n"
            "    d0.cc0 operation 1 at record 2\n"
            "2 more findings\n");
}

TEST(ChecksView, NothingFoundAndNothingChecked) {
  EXPECT_EQ(*checks_text(report("", 0)), "The checks found nothing.\n");
  EXPECT_EQ(*checks_text("{}"), "");
}

TEST(ChecksView, WhatIsNoFindingIsRefused) {
  for (const char* finding : {"{}", "3", R"({"kind": 1})", R"({"kind": "a", "where": "b"})"}) {
    EXPECT_FALSE(checks_text(report(finding, 0)).ok()) << finding;
  }
  EXPECT_FALSE(checks_text(R"({"checks": 3})").ok());
  EXPECT_FALSE(checks_text("{").ok());
}

}  // namespace
}  // namespace soma
