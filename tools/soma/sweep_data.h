// What a sweep measures, and its forms on paper: CSV, tables, a picture, a page. No processes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace soma {

// Classes of resources whose busiest one is kept, by their names in reports (docs/report.md): links
// and switch ports; crossings between the dies, and between the cores, of a chip; all DMA of a
// chip; HBM stacks; DMA engines of the cores.
constexpr std::array<const char*, 6> kBusyClasses{"link", "die", "cross", "fabric", "hbm", "dma"};

// One point of a curve. Numbers are rounded as the CSV file has them.
struct SweepRow {
  uint64_t bytes = 0;
  double time_us = 0;  // 0: not measured
  double algbw = 0;    // 10^9 bytes per second
  double busbw = 0;
  std::string algorithm;
  std::array<double, kBusyClasses.size()> busy{};  // per cent of the time of the operations
  std::string busiest;                             // "link.d0-d16"; of all classes
  std::string error;

  bool measured() const { return time_us > 0; }
};

// A combination, and what came out of it.
struct SweepSeries {
  std::string platform;
  std::string operation;  // short name
  std::string datatype;
  uint32_t ranks = 0;
  uint32_t nodes = 1;
  uint32_t lnc = 1;
  std::string algorithm;          // forced, or empty
  std::vector<std::string> sets;  // name=value
  bool validated = true;          // the platform's times are compared with published ones
  std::vector<SweepRow> rows;     // one per size, in their order
};

// Published measurements of one platform, rank count, operation and type.
struct PublishedSeries {
  std::string id;  // "N23"
  std::string platform;
  std::string operation;
  std::string datatype;
  uint32_t ranks = 0;
  std::vector<SweepRow> rows;  // time and bus bandwidth
};
base::Result<std::vector<PublishedSeries>> parse_published(const std::string& csv);

// "a=1,2" and "b=3": {{a=1, b=3}, {a=2, b=3}}.
base::Result<std::vector<std::vector<std::string>>> expand_sets(
    const std::vector<std::string>& sets);

// From the report of a run (docs/report.md): how busy the busiest resource of each class was while
// operations ran. Engines of a chip from number `dma_engines` on are the host's.
base::Status read_busy(const std::string& report, uint32_t dma_engines, SweepRow* row);

// Why a run failed, from what it printed; without times and process numbers.
std::string cause_of(const std::string& log);

std::string sweep_csv(const std::vector<SweepSeries>& series);
// Fills the points that `csv`, an earlier result, has measured; returns how many.
base::Result<size_t> take_measured(const std::string& csv, std::vector<SweepSeries>* series);

// The combinations of one operation: what they have in common, and what tells them apart.
struct SweepSection {
  std::string operation;
  std::string heading;
  std::vector<const SweepSeries*> series;
  std::vector<std::string> labels;  // of each series
};
std::vector<SweepSection> sweep_sections(const std::vector<SweepSeries>& series);
// Times of the first series by those of series `index`; 0 where one of them is missing.
double speed_up(const SweepSection& section, size_t index, uint64_t bytes);
// A header, and a line per size or per size and series; each failure once, with the sizes that it
// stopped.
std::vector<std::vector<std::string>> section_table(const SweepSection& section);
std::vector<std::string> section_failures(const SweepSection& section);
const SweepRow* find_row(const SweepSeries& series, uint64_t bytes);
// f of the bus bandwidth (spec/collectives.md 1.1).
double bus_factor(const std::string& operation, uint32_t ranks);

// Tables for people and for Markdown.
std::string sweep_tables(const std::vector<SweepSeries>& series);
// Curves and their legend, one group of drawings per operation.
std::string sweep_svg(const std::string& title, const std::vector<SweepSeries>& series,
                      const std::vector<PublishedSeries>& published);
struct Drawing {
  std::string text;  // inside of an <svg>
  double height = 0;
};
constexpr double kDrawingWidth = 1180;
Drawing section_drawing(const SweepSection& section, const std::vector<PublishedSeries>& published);
// A page that needs nothing else: drawings, tables, no scripts.
std::string sweep_page(const std::string& title, const std::string& command_line,
                       const std::vector<SweepSeries>& series,
                       const std::vector<PublishedSeries>& published);

}  // namespace soma
