// The page of `soma sweep`: per operation two drawings (time and bus bandwidth over size, both axes
// logarithmic) and a table. Published measurements are hollow circles of the colour of the curve of
// the same platform and number of ranks.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "tools/soma/sweep.h"

namespace soma {
namespace {

constexpr std::array<const char*, 10> kColours{"#1f6fb2", "#c8502b", "#2b8a4b", "#8455a8",
                                               "#b8860b", "#0f8b8d", "#b2336b", "#5a6b7b",
                                               "#6a8d1f", "#a0522d"};
constexpr double kWidth = 560;
constexpr double kHeight = 360;
constexpr double kLeft = 64;
constexpr double kRight = 12;
constexpr double kTop = 12;
constexpr double kBottom = 44;

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string size_text(double bytes) {
  constexpr std::array<const char*, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{:g} {}", bytes, kUnits[unit]);
}

std::string label(const SweepSeries& s) {
  std::string text = fmt::format("{}, {} ranks, {}", s.platform, s.ranks, s.datatype);
  if (!s.algorithm.empty()) text += ", " + s.algorithm;
  for (const std::string& set : s.sets) text += ", " + set;
  return text;
}

// f of the bus bandwidth (collectives.md 1.1).
double bus_factor(const std::string& operation, uint32_t ranks) {
  const double share = static_cast<double>(ranks - 1) / ranks;
  if (operation == "allr") return 2 * share;
  return operation == "permute" || operation == "sendrecv" ? 1 : share;
}

// Limits of the drawing and the way from values to places.
struct Axes {
  double x0 = std::numeric_limits<double>::max();
  double x1 = 0;
  double y0 = std::numeric_limits<double>::max();
  double y1 = 0;

  void take(double x, double y) {
    if (x <= 0 || y <= 0) return;
    x0 = std::min(x0, x);
    x1 = std::max(x1, x);
    y0 = std::min(y0, y);
    y1 = std::max(y1, y);
  }
  bool empty() const { return x1 == 0; }
  void round_out() {
    x0 = std::exp2(std::floor(std::log2(x0)));
    x1 = std::exp2(std::ceil(std::log2(x1)));
    if (x0 == x1) x1 = 2 * x0;
    y0 = std::pow(10, std::floor(std::log10(y0)));
    y1 = std::pow(10, std::ceil(std::log10(y1)));
    if (y0 == y1) y1 = 10 * y0;
  }
  double x(double value) const {
    return kLeft + std::log(value / x0) / std::log(x1 / x0) * (kWidth - kLeft - kRight);
  }
  double y(double value) const {
    return kHeight - kBottom -
           std::log(value / y0) / std::log(y1 / y0) * (kHeight - kTop - kBottom);
  }
};

std::string grid(const Axes& axes, const std::string& title) {
  std::string out;
  const double bottom = kHeight - kBottom;
  const double steps = std::log2(axes.x1 / axes.x0);
  const double stride = std::exp2(std::max(1.0, std::ceil(steps / 7)));
  for (double x = axes.x0; x <= axes.x1 * 1.001; x *= stride) {
    out += fmt::format(
        "<line class=g x1='{0:.1f}' x2='{0:.1f}' y1='{1}' y2='{2}'/>"
        "<text x='{0:.1f}' y='{3}' text-anchor=middle>{4}</text>",
        axes.x(x), kTop, bottom, bottom + 16, size_text(x));
  }
  for (double y = axes.y0; y <= axes.y1 * 1.001; y *= 10) {
    out += fmt::format(
        "<line class=g x1='{0}' x2='{1}' y1='{2:.1f}' y2='{2:.1f}'/>"
        "<text x='{3}' y='{4:.1f}' text-anchor=end>{5:g}</text>",
        kLeft, kWidth - kRight, axes.y(y), kLeft - 6, axes.y(y) + 4, y);
  }
  out += fmt::format("<text x='{}' y='{}' text-anchor=middle>size per rank</text>",
                     (kLeft + kWidth) / 2, kHeight - 8);
  out += fmt::format("<text transform='translate(14 {}) rotate(-90)' text-anchor=middle>{}</text>",
                     bottom / 2, title);
  return out;
}

struct Curve {
  const SweepSeries* series;
  const char* colour;
};

bool same_case(const SweepSeries& s, const PublishedSeries& p) {
  return s.platform == p.platform && s.operation == p.operation && s.ranks == p.ranks;
}

std::string drawing(const std::vector<Curve>& curves,
                    const std::vector<const PublishedSeries*>& published, const std::string& title,
                    const std::function<double(const SweepRow&, uint32_t ranks)>& value) {
  Axes axes;
  for (const Curve& c : curves) {
    for (const SweepRow& r : c.series->rows) {
      axes.take(static_cast<double>(r.bytes), value(r, c.series->ranks));
    }
  }
  if (axes.empty()) return "<p>No size was measured.</p>\n";
  for (const PublishedSeries* p : published) {
    for (const SweepRow& r : p->rows) axes.take(static_cast<double>(r.bytes), value(r, p->ranks));
  }
  axes.round_out();
  std::string out = fmt::format("<svg viewBox='0 0 {} {}'>{}", kWidth, kHeight, grid(axes, title));
  for (const PublishedSeries* p : published) {
    const auto of = std::find_if(curves.begin(), curves.end(),
                                 [&](const Curve& c) { return same_case(*c.series, *p); });
    for (const SweepRow& r : p->rows) {
      out += fmt::format(
          "<circle cx='{:.1f}' cy='{:.1f}' r=4.5 fill=none stroke='{}'><title>{} {}: {:g} us"
          "</title></circle>",
          axes.x(static_cast<double>(r.bytes)), axes.y(value(r, p->ranks)),
          of == curves.end() ? "#888" : of->colour, p->id, p->datatype, r.time_us);
    }
  }
  for (const Curve& c : curves) {
    std::string points;
    std::string dots;
    for (const SweepRow& r : c.series->rows) {
      const double v = value(r, c.series->ranks);
      if (v <= 0) continue;
      const double x = axes.x(static_cast<double>(r.bytes));
      points += fmt::format("{:.1f},{:.1f} ", x, axes.y(v));
      dots += fmt::format(
          "<circle cx='{:.1f}' cy='{:.1f}' r=2 fill='{}'><title>{}: {} {:g} us {:.2f} GB/s {}"
          "</title></circle>",
          x, axes.y(v), c.colour, escape(label(*c.series)), size_text(static_cast<double>(r.bytes)),
          r.time_us, r.busbw, escape(r.algorithm));
    }
    out += fmt::format("<polyline fill=none stroke='{}' stroke-width=1.6 points='{}'/>{}", c.colour,
                       points, dots);
  }
  return out + "</svg>\n";
}

std::string table(const std::vector<Curve>& curves) {
  std::string out = "<table><tr><th>size";
  std::vector<uint64_t> sizes;
  for (const Curve& c : curves) {
    out += "<th>" + escape(label(*c.series));
    for (const SweepRow& r : c.series->rows) sizes.push_back(r.bytes);
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  for (const uint64_t size : sizes) {
    out += "\n<tr><td>" + size_text(static_cast<double>(size));
    for (const Curve& c : curves) {
      const auto& rows = c.series->rows;
      const auto at = std::find_if(rows.begin(), rows.end(),
                                   [&](const SweepRow& r) { return r.bytes == size; });
      out += at == rows.end() ? "<td>"
                              : fmt::format("<td>{:.2f} us, {:.2f} GB/s <i>{}</i>", at->time_us,
                                            at->busbw, escape(at->algorithm));
    }
  }
  return out + "</table>\n";
}

std::string section(const std::string& operation, const std::vector<SweepSeries>& series,
                    const std::vector<PublishedSeries>& published) {
  std::vector<Curve> curves;
  for (const SweepSeries& s : series) {
    if (s.operation == operation) {
      curves.push_back({&s, kColours[curves.size() % kColours.size()]});
    }
  }
  std::vector<const PublishedSeries*> points;
  for (const PublishedSeries& p : published) {
    const bool wanted = std::any_of(curves.begin(), curves.end(),
                                    [&](const Curve& c) { return same_case(*c.series, p); });
    if (wanted) points.push_back(&p);
  }
  std::string out = "<h2>" + escape(operation) + "</h2>\n<ul>";
  for (const Curve& c : curves) {
    out +=
        fmt::format("<li><b style='color:{}'>&#9644;</b> {}", c.colour, escape(label(*c.series)));
    if (!c.series->error.empty()) out += " <em>" + escape(c.series->error) + "</em>";
  }
  for (const PublishedSeries* p : points) {
    out += fmt::format("<li>&#9675; published: {} ({}, {} ranks, {})", p->id, escape(p->platform),
                       p->ranks, p->datatype);
  }
  out += "</ul>\n<div class=two>\n";
  out += drawing(curves, points, "time, us", [](const SweepRow& r, uint32_t) { return r.time_us; });
  out += drawing(curves, points, "bus bandwidth, GB/s", [&](const SweepRow& r, uint32_t ranks) {
    if (r.time_us <= 0) return 0.0;
    return static_cast<double>(r.bytes) / r.time_us / 1e3 * bus_factor(operation, ranks);
  });
  return out + "</div>\n" + table(curves);
}

constexpr const char* kStyle =
    "body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1180px;padding:0 1em}"
    "svg{width:100%;height:auto;font:11px system-ui,sans-serif}"
    ".two{display:grid;grid-template-columns:1fr 1fr;gap:1em}.g{stroke:#ddd}"
    "table{border-collapse:collapse;font-size:12px}td,th{border:1px solid #ccc;padding:2px 8px;"
    "text-align:right}i{color:#777}em{color:#b00}ul{list-style:none;padding:0}";

}  // namespace

std::string sweep_page(const std::string& title, const std::vector<SweepSeries>& series,
                       const std::vector<PublishedSeries>& published) {
  std::string out = fmt::format(
      "<!doctype html><html lang=en><meta charset=utf-8><title>{0}</title><style>{1}</style>"
      "<h1>{0}</h1>\n<p>Simulated times of collectives; hollow circles are published "
      "measurements.</p>\n",
      escape(title), kStyle);
  std::vector<std::string> operations;
  for (const SweepSeries& s : series) {
    if (std::find(operations.begin(), operations.end(), s.operation) == operations.end()) {
      operations.push_back(s.operation);
    }
  }
  for (const std::string& operation : operations) out += section(operation, series, published);
  return out + "</html>\n";
}

}  // namespace soma
