// `soma sweep`: times collectives over a grid of platforms, operations, ranks and timing values.
// Every combination is one `soma run ... nccom-test` over all sizes; results go to a CSV file and
// to a page with curves next to the published measurements of the same platform (calibration.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace soma {

struct SweepOptions {
  std::vector<std::string> platforms{"trn1.2xlarge"};
  std::vector<std::string> operations{"allr"};
  std::vector<std::string> datatypes{"bf16"};
  std::vector<uint32_t> ranks;          // empty: all of the platform
  std::vector<std::string> algorithms;  // empty: the library chooses
  std::vector<std::string> sets;        // name=value[,value...]: one axis of the grid each
  std::string sizes = "1kb:64mb:4";     // first : last : factor
  uint32_t lnc = 0;                     // 0: the platform's default
  uint32_t iterations = 1;
  uint32_t warmup = 1;
  bool data = false;  // move payload and check it
  std::string csv;
  std::string html;
  std::string title = "Collectives";
  uint32_t jobs = 0;  // at once; 0: one per processor
};

// One line of a curve.
struct SweepRow {
  uint64_t bytes = 0;
  double time_us = 0;
  double algbw = 0;  // 10^9 bytes per second
  double busbw = 0;
  std::string algorithm;
};

// A combination, and what came out of it.
struct SweepSeries {
  std::string platform;
  std::string operation;  // short name
  std::string datatype;
  uint32_t ranks = 0;
  uint32_t nodes = 1;
  std::string algorithm;          // forced, or empty
  std::vector<std::string> sets;  // name=value
  std::vector<SweepRow> rows;
  std::string error;  // empty: all sizes were measured
};

// Published measurements of one platform, rank count, operation and type.
struct PublishedSeries {
  std::string id;  // "N23"
  std::string platform;
  std::string operation;
  std::string datatype;
  uint32_t ranks = 0;
  std::vector<SweepRow> rows;  // time only
};

base::Result<std::vector<PublishedSeries>> parse_published(const std::string& csv);
std::string sweep_csv(const std::vector<SweepSeries>& series);
// A page that needs nothing else: drawings, tables, no scripts.
std::string sweep_page(const std::string& title, const std::vector<SweepSeries>& series,
                       const std::vector<PublishedSeries>& published);
// "a=1,2" and "b=3": {{a=1, b=3}, {a=2, b=3}}.
base::Result<std::vector<std::vector<std::string>>> expand_sets(
    const std::vector<std::string>& sets);

int sweep(const SweepOptions& options);

}  // namespace soma
