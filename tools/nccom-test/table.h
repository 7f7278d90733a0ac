// The result table and the JSON and CSV reports (spec/tools.md 2.6 to 2.8).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "options.h"

namespace nccom {

// Measured device durations of one size, over all ranks and iterations.
struct Measurement {
  uint64_t size = 0;
  std::vector<uint64_t> durations_ps;
  std::string algorithm;
};

struct Row {
  uint64_t size = 0;
  uint64_t count = 0;
  uint64_t input = 0;
  uint64_t output = 0;
  std::vector<double> times_us;  // as printed, one per requested statistic
  double algbw = 0;
  double busbw = 0;
  std::string algorithm;
};

// Average to two decimals, percentiles (nearest rank) to whole microseconds; bandwidths follow from
// the printed average.
Row evaluate(const Options& options, const Measurement& measurement);

double bus_factor(Operation operation, uint32_t ranks);

// "10.0", "6.25": one or two decimals.
std::string format_time(double microseconds);

class Table {
 public:
  Table(const Options& options, const std::vector<uint64_t>& sizes);

  std::string header() const;
  std::string line(const Row& row) const;
  // The size columns, then a text in place of the others.
  std::string failure(uint64_t size, const std::string& text) const;
  static std::string average(const std::vector<Row>& rows);

 private:
  std::string join(const std::vector<std::string>& cells) const;
  std::vector<std::string> size_cells(uint64_t size) const;

  Options options_;
  std::vector<std::string> headers_;
  std::vector<size_t> widths_;
};

// `rows[s]`: lines of stream s; one entry per line, stream after stream.
std::string json_report(const std::vector<Options>& streams,
                        const std::vector<std::vector<Row>>& rows);
std::string csv_report(const std::vector<Options>& streams,
                       const std::vector<std::vector<Row>>& rows);

}  // namespace nccom
