// The page of `soma report --html`: what bounds all programs, and each in bars and a table.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "tools/soma/execution_parts.h"
#include "tools/soma/execution_view.h"
#include "tools/soma/text.h"

namespace soma {
namespace {

constexpr double kWidth = 900;
constexpr double kHeight = 380;
constexpr double kLeft = 70;
constexpr double kBottom = 40;
constexpr double kTop = 12;
constexpr double kRight = 20;

// Decades of a logarithmic axis around all values.
struct Axis {
  double low = 0;  // powers of ten
  double high = 1;
  double from = 0;  // of the drawing
  double to = 1;
  double at(double value) const {
    return from + (to - from) * (std::log10(value) - low) / (high - low);
  }
};

Axis axis(const std::vector<double>& values, double from, double to) {
  Axis result;
  result.from = from;
  result.to = to;
  result.low = std::floor(std::log10(*std::min_element(values.begin(), values.end())));
  result.high = std::ceil(std::log10(*std::max_element(values.begin(), values.end())));
  if (result.low == result.high) result.high += 1;
  return result;
}

std::string grid(const Axis& x, const Axis& y) {
  std::string out;
  for (double decade = x.low; decade <= x.high; ++decade) {
    const double at = x.at(std::pow(10, decade));
    out += fmt::format(
        "<path d='M{0:.1f} {1:.1f}V{2:.1f}' stroke='#ddd'/><text x='{0:.1f}' y='{3:.1f}' "
        "text-anchor='middle'>{4:g}</text>\n",
        at, kTop, kHeight - kBottom, kHeight - kBottom + 16, std::pow(10, decade));
  }
  for (double decade = y.low; decade <= y.high; ++decade) {
    const double at = y.at(std::pow(10, decade));
    out += fmt::format(
        "<path d='M{0:.1f} {1:.1f}H{2:.1f}' stroke='#ddd'/><text x='{3:.1f}' y='{4:.1f}' "
        "text-anchor='end'>{5:g}</text>\n",
        kLeft, at, kWidth - kRight, kLeft - 6, at + 4, std::pow(10, decade));
  }
  out += fmt::format(
      "<text x='{:.0f}' y='{:.0f}' text-anchor='middle'>operations per byte of HBM</text>\n"
      "<text transform='translate(14 {:.0f}) rotate(-90)' text-anchor='middle'>TFLOP/s</text>\n",
      (kLeft + kWidth - kRight) / 2, kHeight - 6, (kTop + kHeight - kBottom) / 2);
  return out;
}

// Programs that multiply, under the roof of their core; empty if there are none.
std::string roofline(const std::vector<ExecutionView>& executions) {
  std::vector<const ExecutionView*> shown;
  std::vector<double> intensities;
  std::vector<double> rates;
  for (const ExecutionView& e : executions) {
    if (e.operations == 0 || e.hbm_bytes == 0) continue;
    const double ridge = e.peak_operations / e.peak_hbm_bytes;
    shown.push_back(&e);
    intensities.insert(intensities.end(), {e.intensity(), ridge / 10, ridge * 10});
    rates.insert(rates.end(), {e.operations_rate(), e.peak_operations});
  }
  if (shown.empty()) return {};
  const Axis x = axis(intensities, kLeft, kWidth - kRight);
  rates.push_back(std::pow(10, x.low) * shown.front()->peak_hbm_bytes);
  const Axis y = axis(rates, kHeight - kBottom, kTop);
  std::string out = grid(x, y);
  const ExecutionView& first = *shown.front();
  const double ridge = first.peak_operations / first.peak_hbm_bytes;
  out += fmt::format(
      "<path d='M{:.1f} {:.1f}L{:.1f} {:.1f}H{:.1f}' fill='none' stroke='#333' "
      "stroke-width='2'/>\n",
      x.from, y.at(std::pow(10, x.low) * first.peak_hbm_bytes), x.at(ridge),
      y.at(first.peak_operations), x.to);
  for (size_t i = 0; i < shown.size(); ++i) {
    const ExecutionView& e = *shown[i];
    out += fmt::format(
        "<circle cx='{0:.1f}' cy='{1:.1f}' r='5' fill='{2}'><title>{3}</title></circle>"
        "<text x='{4:.1f}' y='{5:.1f}'>{6}</text>\n",
        x.at(e.intensity()), y.at(e.operations_rate()), kBusyColour, escape(title_of(e)),
        x.at(e.intensity()) + 8, y.at(e.operations_rate()) + 4, escape(title_of(e)));
  }
  return fmt::format(
      "<h2>Roofline</h2>\n<p>Of 16-bit products and the core's HBM stack.\n"
      "<svg viewBox='0 0 {:.0f} {:.0f}' font-size='12'>\n{}</svg>\n",
      kWidth, kHeight, out);
}

std::string bars(const ExecutionView& e) {
  constexpr double kNames = 60;
  constexpr double kRow = 26;
  std::string out;
  double y = 4;
  for (const EngineView& engine : e.engines) {
    out += fmt::format("<text x='{}' y='{:.0f}' text-anchor='end'>{}</text>\n", kNames - 8, y + 14,
                       escape(engine.name));
    double x = kNames;
    const auto bar = [&](double value, const char* colour, const char* title) {
      const double width = (kWidth - kNames) * value / e.total;
      if (width <= 0) return;
      out += fmt::format(
          "<rect x='{:.2f}' y='{:.0f}' width='{:.2f}' height='18' fill='{}'><title>{}, {}: {}, "
          "{:.1f} %</title></rect>\n",
          x, y, width, colour, escape(engine.name), title, duration_text(value),
          percent(value, e.total));
      x += width;
    };
    bar(engine.busy, kBusyColour, "busy");
    for (const StallCause& cause : kStallCauses) {
      bar(stalled(engine, cause), cause.colour, cause.explanation);
    }
    bar(idle(engine, e.total), "#e8e8e8", "nothing to do");
    y += kRow;
  }
  return fmt::format("<svg viewBox='0 0 {} {:.0f}' font-size='13'>\n{}</svg>\n", kWidth, y, out);
}

std::string legend() {
  const auto entry = [](const char* colour, const char* text) {
    return fmt::format("<span style='border-left:1em solid {};padding:0 1em 0 .4em'>{}</span>\n",
                       colour, text);
  };
  std::string out = "<p>" + entry(kBusyColour, "busy");
  for (const StallCause& cause : kStallCauses) out += entry(cause.colour, cause.explanation);
  return out + entry("#e8e8e8", "nothing to do");
}

std::string table(const ExecutionView& e) {
  std::string out = "<table><tr><th>engine<th>instructions<th>busy";
  for (const StallCause& cause : kStallCauses) out += fmt::format("<th>{}", cause.title);
  out += "<th>idle<th>bytes\n";
  for (const EngineView& engine : e.engines) {
    out += fmt::format("<tr><td>{}<td>{}<td>{:.1f} %", escape(engine.name), engine.instructions,
                       percent(engine.busy, e.total));
    for (const StallCause& cause : kStallCauses) {
      out += fmt::format("<td>{:.1f} %", percent(stalled(engine, cause), e.total));
    }
    out += fmt::format("<td>{:.1f} %<td>{}\n", percent(idle(engine, e.total), e.total),
                       escape(bytes_text(engine)));
  }
  return out + "</table>\n";
}

constexpr const char* kStyle =
    "body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:960px;padding:0 1em}"
    "svg{width:100%;height:auto}table{border-collapse:collapse;font-size:12px}"
    "td,th{border:1px solid #ccc;padding:2px 8px;text-align:right}";

}  // namespace

std::string executions_page(const std::string& title,
                            const std::vector<ExecutionView>& executions) {
  std::string out = fmt::format(
      "<!doctype html><html lang=en><meta charset=utf-8><title>{0}</title><style>{1}</style>\n"
      "<h1>{0}</h1>\n<p>Simulated times are approximate.\n",
      escape(title), kStyle);
  if (executions.empty()) return out + "<p>No program was executed on a NeuronCore.\n";
  out += roofline(executions);
  for (const ExecutionView& e : executions) {
    out += fmt::format("<h2>{}</h2>\n<p>{}.\n", escape(title_of(e)), escape(times_of(e)));
    for (const std::string& line : rates_of(e)) out += "<br>" + escape(line) + ".\n";
    out += "<p>Critical path: " + escape(critical_text(e)) + ".\n" + bars(e) + legend() + table(e);
  }
  return out;
}

}  // namespace soma
