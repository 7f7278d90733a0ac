// Names and tables of `soma sweep`, as Markdown that a terminal shows as well.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "tools/soma/sweep_data.h"
#include "tools/soma/text.h"

namespace soma {
namespace {

constexpr std::array<const char*, 4> kColumns{"us", "GB/s", "algorithm", "busiest"};
constexpr size_t kSideBySide = 3;  // series; more do not fit a screen

// What tells combinations apart, in the order of their names; the same length for all of a sweep.
std::vector<std::string> parts_of(const SweepSeries& s) {
  std::vector<std::string> parts{s.platform, fmt::format("{} ranks", s.ranks),
                                 s.lnc > 1 ? fmt::format("LNC={}", s.lnc) : "", s.datatype,
                                 s.algorithm};
  parts.insert(parts.end(), s.sets.begin(), s.sets.end());
  return parts;
}

void append(const std::string& part, std::string* text) {
  if (!part.empty()) *text += (text->empty() ? "" : ", ") + part;
}

// "link 85 %": the class of the busiest resource and its share.
std::string busy_text(const SweepRow& row) {
  constexpr double kHardlyAtWork = 10;
  const auto most = std::max_element(row.busy.begin(), row.busy.end());
  if (*most < kHardlyAtWork) return "latency";
  return fmt::format("{} {:.0f} %", kBusyClasses.at(static_cast<size_t>(most - row.busy.begin())),
                     *most);
}

// Time, bandwidth, algorithm and busiest resource; and how much faster than the first series.
std::vector<std::string> cells_of(const SweepSection& section, size_t index, uint64_t bytes) {
  std::vector<std::string> cells(kColumns.size());
  const SweepRow* row = find_row(*section.series[index], bytes);
  if (row != nullptr && row->measured()) {
    const std::string checked = row->error.empty() ? "" : " (failed)";
    cells = {fmt::format("{:.2f}", row->time_us) + checked, fmt::format("{:.2f}", row->busbw),
             row->algorithm, busy_text(*row)};
  } else if (row != nullptr && !row->error.empty()) {
    cells.front() = "failed";
  }
  if (index == 0) return cells;
  const double ratio = speed_up(section, index, bytes);
  cells.push_back(ratio > 0 ? fmt::format("{:.2f}", ratio) : "");
  return cells;
}

std::vector<uint64_t> sizes_of(const SweepSection& section) {
  std::vector<uint64_t> sizes;
  for (const SweepSeries* s : section.series) {
    for (const SweepRow& r : s->rows) sizes.push_back(r.bytes);
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

using Cells = std::vector<std::vector<std::string>>;

// A line per size, with the series side by side.
Cells wide_table(const SweepSection& section) {
  Cells rows{{"size"}};
  for (size_t i = 0; i < section.series.size(); ++i) {
    rows.front().insert(rows.front().end(), kColumns.begin(), kColumns.end());
    if (section.series.size() > 1)
      rows.front().at(rows.front().size() - kColumns.size()) = fmt::format("[{}] us", i + 1);
    if (i > 0) rows.front().push_back(fmt::format("[1] / [{}]", i + 1));
  }
  for (const uint64_t bytes : sizes_of(section)) {
    rows.push_back({size_text(static_cast<double>(bytes))});
    for (size_t i = 0; i < section.series.size(); ++i) {
      const auto cells = cells_of(section, i, bytes);
      rows.back().insert(rows.back().end(), cells.begin(), cells.end());
    }
  }
  return rows;
}

// A line per size and series.
Cells long_table(const SweepSection& section) {
  Cells rows{{"size", "series"}};
  rows.front().insert(rows.front().end(), kColumns.begin(), kColumns.end());
  rows.front().emplace_back("times faster");
  for (const uint64_t bytes : sizes_of(section)) {
    for (size_t i = 0; i < section.series.size(); ++i) {
      rows.push_back({size_text(static_cast<double>(bytes)), fmt::format("[{}]", i + 1)});
      const auto cells = cells_of(section, i, bytes);
      rows.back().insert(rows.back().end(), cells.begin(), cells.end());
      rows.back().resize(rows.front().size());
    }
  }
  return rows;
}

std::string aligned(const Cells& rows) {
  std::vector<size_t> widths(rows.front().size(), 3);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t i = 0; i < widths.size(); ++i)
      out += fmt::format("| {:>{}} ", rows[r][i], widths[i]);
    out += "|\n";
    if (r > 0) continue;
    for (const size_t width : widths) out += "|" + std::string(width + 1, '-') + ":";
    out += "|\n";
  }
  return out;
}

}  // namespace

std::vector<std::vector<std::string>> section_table(const SweepSection& section) {
  return section.series.size() <= kSideBySide ? wide_table(section) : long_table(section);
}

std::vector<std::string> section_failures(const SweepSection& section) {
  std::vector<std::string> out;
  for (size_t i = 0; i < section.series.size(); ++i) {
    std::vector<std::pair<std::string, std::string>> found;
    for (const SweepRow& r : section.series[i]->rows) {
      if (r.error.empty()) continue;
      const auto at = std::find_if(found.begin(), found.end(),
                                   [&](const auto& entry) { return entry.first == r.error; });
      const std::string size = size_text(static_cast<double>(r.bytes));
      if (at == found.end()) {
        found.emplace_back(r.error, size);
      } else {
        at->second += ", " + size;
      }
    }
    for (const auto& [error, sizes] : found) {
      out.push_back(fmt::format("{}, {}: {}", section.labels[i], sizes, error));
    }
  }
  return out;
}

std::vector<SweepSection> sweep_sections(const std::vector<SweepSeries>& series) {
  std::vector<SweepSection> sections;
  for (const SweepSeries& s : series) {
    auto at = std::find_if(sections.begin(), sections.end(),
                           [&](const SweepSection& c) { return c.operation == s.operation; });
    if (at == sections.end()) {
      sections.push_back({s.operation, s.operation, {}, {}});
      at = std::prev(sections.end());
    }
    at->series.push_back(&s);
  }
  for (SweepSection& section : sections) {
    std::vector<std::vector<std::string>> parts;
    for (const SweepSeries* of : section.series) parts.push_back(parts_of(*of));
    section.labels.resize(parts.size());
    for (size_t part = 0; part < parts.front().size(); ++part) {
      const bool common = std::all_of(parts.begin(), parts.end(), [&](const auto& of) {
        return of[part] == parts.front()[part];
      });
      if (common) append(parts.front()[part], &section.heading);
      for (size_t i = 0; i < parts.size() && !common; ++i) {
        append(parts[i][part], &section.labels[i]);
      }
    }
    if (section.series.size() == 1) section.labels.front() = section.series.front()->platform;
  }
  return sections;
}

const SweepRow* find_row(const SweepSeries& series, uint64_t bytes) {
  const auto at = std::find_if(series.rows.begin(), series.rows.end(),
                               [&](const SweepRow& r) { return r.bytes == bytes; });
  return at == series.rows.end() ? nullptr : &*at;
}

double speed_up(const SweepSection& section, size_t index, uint64_t bytes) {
  const SweepRow* first = find_row(*section.series.front(), bytes);
  const SweepRow* row = find_row(*section.series[index], bytes);
  if (first == nullptr || row == nullptr || !row->measured()) return 0;
  return first->time_us / row->time_us;
}

double bus_factor(const std::string& operation, uint32_t ranks) {
  const double share = static_cast<double>(ranks - 1) / ranks;
  if (operation == "allr") return 2 * share;
  return operation == "permute" || operation == "sendrecv" ? 1 : share;
}

std::string sweep_tables(const std::vector<SweepSeries>& series) {
  std::string out;
  for (const SweepSection& section : sweep_sections(series)) {
    out += (out.empty() ? "" : "\n") + section.heading + "\n\n";
    if (section.series.size() > 1) {
      for (size_t i = 0; i < section.labels.size(); ++i) {
        out += fmt::format("- [{}] {}\n", i + 1, section.labels[i]);
      }
      out += "\n";
    }
    out += aligned(section_table(section));
    const std::vector<std::string> failures = section_failures(section);
    if (!failures.empty()) out += "\nFailed:\n\n";
    for (const std::string& failure : failures) out += "- " + failure + "\n";
  }
  return out;
}

}  // namespace soma
