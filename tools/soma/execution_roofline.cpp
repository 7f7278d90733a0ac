// The roofline of the programs in a report: how fast they multiply for each byte that HBM moves,
// below what the core's HBM stack and its Tensor engine allow.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tools/soma/execution_parts.h"
#include "tools/soma/text.h"

namespace soma {
namespace {

constexpr double kRoofWidth = 900;
constexpr double kRoofHeight = 400;
constexpr double kRoofLeft = 70;
constexpr double kRoofBottom = 44;
constexpr double kRoofTop = 16;
constexpr double kRoofRight = 24;
constexpr const char* kPointColours[] = {"#2f6fab", "#d0662e", "#4f8f6f", "#8a4fb0",
                                         "#b04a6a", "#7f7f2f", "#2f9fa8", "#7a5a3a"};

// A logarithmic axis.
struct Axis {
  double low = 0;  // powers of ten
  double high = 1;
  double from = 0;  // of the drawing
  double to = 1;
  double at(double value) const {
    return from + (to - from) * (std::log10(value) - low) / (high - low);
  }
  // 1, 2 and 5 in each decade, or only 1 in many of them.
  std::vector<double> ticks() const {
    constexpr double kFew = 3.5;
    std::vector<double> list;
    for (double decade = low; decade <= high; ++decade) {
      for (const double part : {1.0, 2.0, 5.0}) {
        const double value = part * std::pow(10, decade);
        if (std::log10(value) <= high + 1e-9 && (part == 1 || high - low <= kFew)) {
          list.push_back(value);
        }
      }
    }
    return list;
  }
};

// From a decade below all values to a little above them.
Axis axis(const std::vector<double>& values, double from, double to) {
  constexpr double kAbove = 0.2;
  Axis result;
  result.from = from;
  result.to = to;
  result.low = std::floor(std::log10(*std::min_element(values.begin(), values.end())));
  result.high = std::log10(*std::max_element(values.begin(), values.end())) + kAbove;
  return result;
}

std::string grid(const Axis& x, const Axis& y) {
  std::string out;
  for (const double value : x.ticks()) {
    out += fmt::format(
        "<path d='M{0:.1f} {1:.1f}V{2:.1f}' stroke='#ddd'/><text x='{0:.1f}' y='{3:.1f}' "
        "text-anchor='middle'>{4:g}</text>\n",
        x.at(value), kRoofTop, kRoofHeight - kRoofBottom, kRoofHeight - kRoofBottom + 16, value);
  }
  for (const double value : y.ticks()) {
    out += fmt::format(
        "<path d='M{0:.1f} {1:.1f}H{2:.1f}' stroke='#ddd'/><text x='{3:.1f}' y='{4:.1f}' "
        "text-anchor='end'>{5:g}</text>\n",
        kRoofLeft, y.at(value), kRoofWidth - kRoofRight, kRoofLeft - 6, y.at(value) + 4, value);
  }
  out += fmt::format(
      "<text x='{:.0f}' y='{:.0f}' text-anchor='middle'>operations per byte of HBM</text>\n"
      "<text transform='translate(16 {:.0f}) rotate(-90)' text-anchor='middle'>TFLOP/s</text>\n",
      (kRoofLeft + kRoofWidth - kRoofRight) / 2, kRoofHeight - 8,
      (kRoofTop + kRoofHeight - kRoofBottom) / 2);
  return out;
}

struct Roof {
  std::string name;
  double peak;
};

// That of 16-bit numbers, and of the other kinds that programs used; highest first.
std::vector<Roof> roofs(const std::vector<const ExecutionView*>& shown) {
  std::vector<Roof> list{{"16-bit", shown.front()->peak_operations}};
  for (const ExecutionView* e : shown) {
    for (const OperationsView& kind : e->by_kind) {
      const bool known = std::any_of(list.begin(), list.end(),
                                     [&](const Roof& roof) { return roof.name == kind.kind; });
      if (!known) list.push_back({kind.kind, kind.peak});
    }
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const Roof& a, const Roof& b) { return a.peak > b.peak; });
  return list;
}

std::string draw_roofs(const std::vector<Roof>& list, double bandwidth, const Axis& x,
                       const Axis& y) {
  const double lowest = std::pow(10, x.low);
  std::string out;
  for (const Roof& roof : list) {
    const double ridge = roof.peak / bandwidth;
    const bool first = &roof == &list.front();
    out += fmt::format(
        "<path d='M{:.1f} {:.1f}H{:.1f}' fill='none' stroke='#333' stroke-width='2'{}/>"
        "<text x='{:.1f}' y='{:.1f}' text-anchor='end' fill='#333'>{}: {:.1f} TFLOP/s</text>\n",
        x.at(ridge), y.at(roof.peak), x.to, first ? "" : " stroke-dasharray='6 3'", x.to - 4,
        y.at(roof.peak) - 6, escape(roof.name), roof.peak);
  }
  const double ridge = list.front().peak / bandwidth;
  const double slope =
      std::atan2(y.at(lowest * bandwidth) - y.at(list.front().peak), x.at(ridge) - x.at(lowest));
  constexpr double kDegrees = 180 / 3.14159265358979;
  const double middle = lowest * std::pow(ridge / lowest, 0.3);  // left of other roofs' ends
  out += fmt::format(
      "<path d='M{:.1f} {:.1f}L{:.1f} {:.1f}' fill='none' stroke='#333' stroke-width='2'/>"
      "<text transform='translate({:.1f} {:.1f}) rotate({:.1f})' text-anchor='middle' "
      "fill='#333'>HBM: {:.1f} GB/s</text>\n",
      x.at(lowest), y.at(lowest * bandwidth), x.at(ridge), y.at(list.front().peak), x.at(middle),
      y.at(middle * bandwidth) - 8, -slope * kDegrees, bandwidth * 1e3);
  return out;
}

// Points, with a key in the free corner below the roof.
std::string draw_points(const std::vector<const ExecutionView*>& shown, const Axis& x,
                        const Axis& y) {
  constexpr double kRow = 18;
  constexpr size_t kMost = 12;  // entries of the key
  const double key =
      kRoofHeight - kRoofBottom - 10 - kRow * static_cast<double>(std::min(shown.size(), kMost));
  std::string out;
  for (size_t i = 0; i < shown.size(); ++i) {
    const ExecutionView& e = *shown[i];
    const char* colour = kPointColours[i % std::size(kPointColours)];
    const std::string text =
        fmt::format("{}: {:.1f} TFLOP/s, {:.0f} % of its roof", title_of(e), e.operations_rate(),
                    percent(e.operations_rate(), e.roof()));
    out += fmt::format(
        "<circle cx='{:.1f}' cy='{:.1f}' r='6' fill='{}' "
        "stroke='#fff'><title>{}</title></circle>\n",
        x.at(e.intensity()), y.at(e.operations_rate()), colour, escape(text));
    if (i >= kMost) continue;
    const double at = key + kRow * static_cast<double>(i) + 12;
    const double right = kRoofWidth - kRoofRight - 12;
    out += fmt::format(
        "<circle cx='{:.1f}' cy='{:.1f}' r='5' fill='{}'/><text x='{:.1f}' y='{:.1f}' "
        "text-anchor='end'>{}</text>\n",
        right, at - 4, colour, right - 10, at, escape(text));
  }
  return out;
}

}  // namespace

std::string roofline_svg(const std::vector<ExecutionView>& executions) {
  std::vector<const ExecutionView*> shown;
  std::vector<double> intensities;
  std::vector<double> rates;
  for (const ExecutionView& e : executions) {
    if (e.operations == 0 || e.hbm_bytes == 0) continue;
    const double ridge = e.peak_operations / e.peak_hbm_bytes;
    shown.push_back(&e);
    intensities.insert(intensities.end(), {e.intensity(), ridge / 10, ridge * 10});
    rates.insert(rates.end(), {e.operations_rate() / 2, e.peak_operations});
    for (const OperationsView& kind : e.by_kind) rates.push_back(kind.peak);
  }
  if (shown.empty()) return {};
  const std::vector<Roof> list = roofs(shown);
  const double bandwidth = shown.front()->peak_hbm_bytes;
  const Axis x = axis(intensities, kRoofLeft, kRoofWidth - kRoofRight);
  rates.push_back(std::pow(10, x.low) * bandwidth);
  const Axis y = axis(rates, kRoofHeight - kRoofBottom, kRoofTop);
  return fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0:.0f} {1:.0f}' font-size='12' "
      "font-family='DejaVu Sans, sans-serif'>\n<rect width='100%' height='100%' fill='#fff'/>\n"
      "{2}{3}{4}</svg>\n",
      kRoofWidth, kRoofHeight, grid(x, y), draw_roofs(list, bandwidth, x, y),
      draw_points(shown, x, y));
}

base::Result<std::string> roofline_picture(const std::vector<ExecutionView>& executions) {
  std::string picture = roofline_svg(executions);
  if (picture.empty()) {
    return base::Error{base::Fault::kUsage, 0, "roofline",
                       "no program used the Tensor engine and HBM"};
  }
  return picture;
}

}  // namespace soma
