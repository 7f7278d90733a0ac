// `soma sweep`: times collectives over a grid of platforms, operations, ranks, timing values and
// sizes. Every point is one `soma run ... nccom-test` on a machine of its own, so its result
// depends on no other point and on no number of jobs; results go to a CSV file, to a picture and to
// a page with curves next to the published measurements of the same platform
// (data/calibration/collectives.csv).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
  std::string svg;
  std::string title = "Collectives";
  uint32_t jobs = 0;         // at once; 0: one per processor
  bool resume = false;       // take what the CSV file already has
  std::string command_line;  // as given, for the page
};

int sweep(const SweepOptions& options);

}  // namespace soma
