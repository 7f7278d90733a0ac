// The page of `soma sweep`: how to repeat it, and per operation the drawings and a table.
#include <fmt/core.h>

#include <algorithm>

#include "tools/soma/sweep_data.h"
#include "tools/soma/text.h"

namespace soma {
namespace {

std::string table(const SweepSection& section) {
  std::string out = "<table>\n";
  bool header = true;
  for (const std::vector<std::string>& row : section_table(section)) {
    out += "<tr>";
    for (const std::string& cell : row) out += (header ? "<th>" : "<td>") + escape(cell);
    out += "\n";
    header = false;
  }
  return out + "</table>\n";
}

std::string part(const SweepSection& section, const std::vector<PublishedSeries>& published) {
  const Drawing drawing = section_drawing(section, published);
  std::string out = fmt::format(
      "<h2>{}</h2>\n<svg viewBox='0 0 {} {}' font-family='system-ui, sans-serif'>\n{}</svg>\n",
      escape(section.operation), kDrawingWidth, drawing.height, drawing.text);
  if (section.series.size() > 1) {
    out += "<ol>";
    for (const std::string& label : section.labels) out += "<li>" + escape(label);
    out += "</ol>\n";
  }
  out += table(section);
  for (const std::string& failure : section_failures(section)) {
    out += "<p><em>Failed:</em> " + escape(failure) + "\n";
  }
  return out;
}

// What the times are worth.
std::string caveat(const std::vector<SweepSeries>& series, size_t missing) {
  std::vector<std::string> unvalidated;
  for (const SweepSeries& s : series) {
    if (!s.validated && std::count(unvalidated.begin(), unvalidated.end(), s.platform) == 0) {
      unvalidated.push_back(s.platform);
    }
  }
  std::string out = "<p>Simulated times are approximate.";
  for (const std::string& platform : unvalidated) {
    out += " Those of " + escape(platform) + " are unvalidated: nothing is published.";
  }
  if (missing != 0) out += fmt::format(" <em>{} points were not measured.</em>", missing);
  return out + "\n";
}

constexpr const char* kNotes =
    "<p>GB/s is bus bandwidth. Busiest: the class of the resource that had work at hand for the "
    "largest share of the time (link: a link or switch port; die, cross: the crossing between two "
    "dies, "
    "two cores of a chip; fabric: all DMA of a chip; hbm: an HBM stack; dma: a DMA engine). "
    "Latency: none had for a tenth of it.\n";

constexpr const char* kStyle =
    "body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1180px;padding:0 1em}"
    "svg{width:100%;height:auto}pre{background:#f4f4f4;padding:.6em;white-space:pre-wrap}"
    "table{border-collapse:collapse;font-size:12px}td,th{border:1px solid #ccc;padding:2px 8px;"
    "text-align:right}em{color:#b00}";

}  // namespace

std::string sweep_page(const std::string& title, const std::string& command_line,
                       const std::vector<SweepSeries>& series,
                       const std::vector<PublishedSeries>& published) {
  size_t missing = 0;
  for (const SweepSeries& s : series) {
    for (const SweepRow& r : s.rows) missing += !r.measured() && r.error.empty() ? 1 : 0;
  }
  std::string out = fmt::format(
      "<!doctype html><html lang=en><meta charset=utf-8><title>{0}</title><style>{1}</style>"
      "<h1>{0}</h1>\n<pre>{2}</pre>\n",
      escape(title), kStyle, escape(command_line));
  out += caveat(series, missing) + kNotes;
  for (const SweepSection& section : sweep_sections(series)) out += part(section, published);
  return out + "</html>\n";
}

}  // namespace soma
