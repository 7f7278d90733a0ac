// The picture of `soma sweep`: per operation four drawings over the size, and a legend. Time and
// bus bandwidth have logarithmic axes; how much faster than the first series and the share of the
// busiest resource begin at zero. The form of a point is the algorithm that the library took;
// published measurements of the same sizes are hollow circles. Attributes instead of a style sheet:
// every viewer knows them.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "tools/soma/sweep_data.h"
#include "tools/soma/text.h"

namespace soma {
namespace {

constexpr std::array<const char*, 10> kColours{"#1f6fb2", "#d1561f", "#2b8a4b", "#8455a8",
                                               "#b8860b", "#0f8b8d", "#b2336b", "#5a6b7b",
                                               "#6a8d1f", "#7a4a2b"};
constexpr const char* kNeutral = "#333";  // published, of more than one series
constexpr double kLine = 19;              // of the legend
constexpr double kPanelWidth = 580;
constexpr double kPanelHeight = 340;
constexpr double kLeft = 62;
constexpr double kRight = 30;
constexpr double kTop = 32;
constexpr double kBottom = 46;

// 1, 2 or 5 times a power of ten, at most or at least `value`.
double round_125(double value, bool up) {
  const double power = std::pow(10, std::floor(std::log10(value) + 1e-9));
  const double digit = value / power;
  constexpr std::array<double, 4> kSteps{1, 2, 5, 10};
  double below = 1;
  for (const double step : kSteps) {
    if (up && step >= digit - 1e-9) return step * power;
    if (step <= digit + 1e-9) below = step;
  }
  return below * power;
}

class Axis {
 public:
  static Axis of_sizes(double low, double high) {
    Axis axis(std::exp2(std::floor(std::log2(low))), std::exp2(std::ceil(std::log2(high))), true);
    if (axis.low_ == axis.high_) axis.high_ *= 2;
    const double steps = std::log2(axis.high_ / axis.low_);
    const double stride = std::exp2(std::max(1.0, std::ceil(steps / 6)));
    for (double at = axis.low_; at <= axis.high_ * 1.001; at *= stride) axis.ticks_.push_back(at);
    return axis;
  }
  static Axis logarithmic(double low, double high) {
    Axis axis(round_125(low, false), round_125(high, true), true);
    if (axis.low_ == axis.high_) axis.high_ *= 10;
    const bool wide = axis.high_ / axis.low_ > 2000;
    for (double at = axis.low_; at <= axis.high_ * 1.001; at = round_125(at * 1.5, true)) {
      const bool decade = std::abs(std::log10(at) - std::round(std::log10(at))) < 1e-6;
      if (decade || !wide) axis.ticks_.push_back(at);
    }
    return axis;
  }
  static Axis linear(double high) {
    const double step = round_125(high / 5, true);
    Axis axis(0, std::ceil(high / step - 1e-9) * step, false);
    for (int i = 0; i * step <= axis.high_ * 1.001; ++i) axis.ticks_.push_back(i * step);
    return axis;
  }
  // 0 at the low end, 1 at the high end.
  double place(double value) const {
    if (logarithmic_) return std::log(value / low_) / std::log(high_ / low_);
    return (value - low_) / (high_ - low_);
  }
  const std::vector<double>& ticks() const { return ticks_; }

 private:
  Axis(double low, double high, bool logarithmic)
      : low_(low), high_(high), logarithmic_(logarithmic) {}
  double low_;
  double high_;
  bool logarithmic_;
  std::vector<double> ticks_;
};

std::string text(double x, double y, const char* anchor, const std::string& what,
                 const char* more = "") {
  return fmt::format(
      "<text x='{:.1f}' y='{:.1f}' text-anchor='{}' font-size='11' fill='#222' {}>{}</text>\n", x,
      y, anchor, more, escape(what));
}

std::string line(double x1, double y1, double x2, double y2, const char* colour, double width) {
  return fmt::format(
      "<line x1='{:.1f}' y1='{:.1f}' x2='{:.1f}' y2='{:.1f}' stroke='{}' stroke-width='{}'/>\n", x1,
      y1, x2, y2, colour, width);
}

// Form `shape` of a point, an algorithm's place in the legend.
std::string mark(size_t shape, double x, double y, const char* colour, const std::string& hover) {
  std::string d;
  switch (shape % 4) {
    case 0:
      return fmt::format(
          "<circle cx='{:.1f}' cy='{:.1f}' r='3.2' fill='{}'><title>{}</title></circle>\n", x, y,
          colour, escape(hover));
    case 1:
      d = fmt::format("M{:.1f} {:.1f}h6.4v6.4h-6.4z", x - 3.2, y - 3.2);
      break;
    case 2:
      d = fmt::format("M{:.1f} {:.1f}l4.4 7.8h-8.8z", x, y - 4.8);
      break;
    default:
      d = fmt::format("M{:.1f} {:.1f}l4.5 4.5l-4.5 4.5l-4.5 -4.5z", x, y - 4.5);
  }
  return fmt::format("<path d='{}' fill='{}'><title>{}</title></path>\n", d, colour, escape(hover));
}

struct Point {
  double x = 0;
  double y = 0;
  size_t shape = 0;
  std::string hover;
};

struct Curve {
  const char* colour = kNeutral;
  std::vector<Point> points;
};

struct Panel {
  std::string title;
  bool logarithmic = true;
  double least_high = 0;  // of a linear axis
  std::vector<Curve> curves;
  std::vector<Curve> published;
};

struct Limits {
  double low = std::numeric_limits<double>::max();
  double high = 0;
  void take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

std::string frame(const Panel& panel, const Axis& x, const Axis& y) {
  const double right = kPanelWidth - kRight;
  const double bottom = kPanelHeight - kBottom;
  std::string out;
  for (const double tick : x.ticks()) {
    const double at = kLeft + x.place(tick) * (right - kLeft);
    out += line(at, kTop, at, bottom, "#ddd", 1) + text(at, bottom + 16, "middle", size_text(tick));
  }
  for (const double tick : y.ticks()) {
    const double at = bottom - y.place(tick) * (bottom - kTop);
    out += line(kLeft, at, right, at, "#ddd", 1) +
           text(kLeft - 6, at + 4, "end", fmt::format("{:.6g}", tick));
  }
  out +=
      line(kLeft, bottom, right, bottom, "#888", 1) + line(kLeft, kTop, kLeft, bottom, "#888", 1);
  out += text(kLeft, kTop - 10, "start", panel.title, "font-weight='bold'");
  return out + text((kLeft + right) / 2, bottom + 34, "middle", "size per rank (larger buffer)");
}

std::string draw(const Panel& panel) {
  Limits xs;
  Limits ys;
  for (const std::vector<Curve>* curves : {&panel.curves, &panel.published}) {
    for (const Curve& curve : *curves) {
      for (const Point& p : curve.points) {
        xs.take(p.x);
        ys.take(p.y);
      }
    }
  }
  if (xs.high == 0) return text(kLeft, kTop, "start", panel.title + ": nothing was measured");
  const Axis x = Axis::of_sizes(xs.low, xs.high);
  const Axis y = panel.logarithmic ? Axis::logarithmic(ys.low, ys.high)
                                   : Axis::linear(std::max(panel.least_high, ys.high));
  const auto place_x = [&](const Point& p) {
    return kLeft + x.place(p.x) * (kPanelWidth - kLeft - kRight);
  };
  const auto place_y = [&](const Point& p) {
    return kPanelHeight - kBottom - y.place(p.y) * (kPanelHeight - kTop - kBottom);
  };
  std::string out = frame(panel, x, y);
  for (const Curve& curve : panel.curves) {
    std::string path;
    std::string marks;
    for (const Point& p : curve.points) {
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? 'M' : 'L', place_x(p), place_y(p));
      marks += mark(p.shape, place_x(p), place_y(p), curve.colour, p.hover);
    }
    if (curve.points.empty()) continue;
    out += fmt::format("<path d='{}' fill='none' stroke='{}' stroke-width='1.6'/>\n{}", path,
                       curve.colour, marks);
  }
  for (const Curve& curve : panel.published) {
    for (const Point& p : curve.points) {
      out += fmt::format(
          "<circle cx='{:.1f}' cy='{:.1f}' r='5.5' fill='none' stroke='{}' stroke-width='1.3'>"
          "<title>{}</title></circle>\n",
          place_x(p), place_y(p), curve.colour, escape(p.hover));
    }
  }
  return out;
}

bool same_case(const SweepSeries& s, const PublishedSeries& p) {
  return s.platform == p.platform && s.operation == p.operation && s.ranks == p.ranks;
}

class SectionPicture {
 public:
  SectionPicture(const SweepSection& section, const std::vector<PublishedSeries>& published)
      : section_(section) {
    Limits sizes;
    for (const SweepSeries* s : section.series) {
      for (const SweepRow& r : s->rows) {
        if (!r.measured()) continue;
        sizes.take(static_cast<double>(r.bytes));
        if (shape_of(r.algorithm) == algorithms_.size()) algorithms_.push_back(r.algorithm);
      }
    }
    for (const PublishedSeries& p : published) {
      const auto of = [&](const SweepSeries* s) { return same_case(*s, p); };
      if (std::any_of(section.series.begin(), section.series.end(), of)) take(p, sizes);
    }
  }

  Drawing draw_all() const {
    Drawing out = legend();
    std::vector<Panel> panels{time_panel(), bandwidth_panel()};
    if (section_.series.size() > 1) panels.push_back(speed_up_panel());
    panels.push_back(busy_panel());
    for (size_t i = 0; i < panels.size(); ++i) {
      out.text +=
          fmt::format("<g transform='translate({} {})'>\n{}</g>\n",
                      i % 2 == 0 ? 0.0 : kDrawingWidth - kPanelWidth,
                      out.height + static_cast<double>(i / 2) * kPanelHeight, draw(panels[i]));
    }
    out.height += static_cast<double>((panels.size() + 1) / 2) * kPanelHeight;
    return out;
  }

 private:
  // Where there are curves to compare with.
  void take(const PublishedSeries& published, const Limits& sizes) {
    PublishedSeries near = published;
    const auto far = [&](const SweepRow& r) {
      const auto bytes = static_cast<double>(r.bytes);
      return bytes < sizes.low || bytes > sizes.high;
    };
    near.rows.erase(std::remove_if(near.rows.begin(), near.rows.end(), far), near.rows.end());
    if (!near.rows.empty()) published_.push_back(std::move(near));
  }
  static const char* colour(size_t series) { return kColours.at(series % kColours.size()); }
  // That of the series that it belongs to, if it is one only.
  const char* colour(const PublishedSeries& p) const {
    const char* found = nullptr;
    for (size_t i = 0; i < section_.series.size(); ++i) {
      if (!same_case(*section_.series[i], p)) continue;
      if (found != nullptr) return kNeutral;
      found = colour(i);
    }
    return found;
  }
  size_t shape_of(const std::string& algorithm) const {
    return static_cast<size_t>(std::find(algorithms_.begin(), algorithms_.end(), algorithm) -
                               algorithms_.begin());
  }

  Drawing legend() const {
    Drawing out;
    double y = kLine;
    out.text += text(12, y, "start", section_.heading, "font-weight='bold'");
    for (size_t i = 0; i < section_.series.size(); ++i) {
      y += kLine;
      out.text += line(12, y - 4, 42, y - 4, colour(i), 3);
      out.text += text(50, y, "start", section_.labels[i]);
    }
    double x = 12;
    y += kLine;
    for (size_t i = 0; i < algorithms_.size(); ++i) {
      out.text += mark(i, x + 6, y - 4, kNeutral, algorithms_[i]);
      out.text += text(x + 16, y, "start", algorithms_[i]);
      x += 120;
    }
    for (const PublishedSeries& p : published_) {
      y += kLine;
      out.text += fmt::format(
          "<circle cx='18' cy='{:.1f}' r='5.5' fill='none' stroke='{}' stroke-width='1.3'/>\n",
          y - 4, colour(p));
      out.text += text(30, y, "start",
                       fmt::format("published measurement {}: {}, {} ranks, {}", p.id, p.platform,
                                   p.ranks, p.datatype));
    }
    out.height = y + kLine;
    return out;
  }

  // `value` is 0 where there is none.
  Panel panel(const std::string& title,
              const std::function<double(size_t series, const SweepRow&)>& value) const {
    Panel out;
    out.title = title;
    for (size_t i = 0; i < section_.series.size(); ++i) {
      Curve curve{colour(i), {}};
      for (const SweepRow& r : section_.series[i]->rows) {
        const double y = r.measured() ? value(i, r) : 0;
        if (y <= 0) continue;
        const auto x = static_cast<double>(r.bytes);
        curve.points.push_back(
            {x, y, shape_of(r.algorithm),
             fmt::format("{}: {}, {:.2f} us, {:.2f} GB/s, {}, {}", section_.labels[i], size_text(x),
                         r.time_us, r.busbw, r.algorithm, r.busiest)});
      }
      out.curves.push_back(std::move(curve));
    }
    return out;
  }
  void add_published(Panel* panel, const std::function<double(const SweepRow&)>& value) const {
    for (const PublishedSeries& p : published_) {
      Curve curve{colour(p), {}};
      for (const SweepRow& r : p.rows) {
        curve.points.push_back({static_cast<double>(r.bytes), value(r), 0,
                                fmt::format("{} {}: {:g} us", p.id, p.datatype, r.time_us)});
      }
      panel->published.push_back(std::move(curve));
    }
  }
  Panel time_panel() const {
    Panel out = panel("time, us", [](size_t, const SweepRow& r) { return r.time_us; });
    add_published(&out, [](const SweepRow& r) { return r.time_us; });
    return out;
  }
  Panel bandwidth_panel() const {
    Panel out = panel("bus bandwidth, GB/s", [](size_t, const SweepRow& r) { return r.busbw; });
    add_published(&out, [](const SweepRow& r) { return r.busbw; });
    return out;
  }
  Panel speed_up_panel() const {
    Panel out = panel("times faster than " + section_.labels.front(),
                      [&](size_t i, const SweepRow& r) { return speed_up(section_, i, r.bytes); });
    out.logarithmic = false;
    out.least_high = 2;
    return out;
  }
  Panel busy_panel() const {
    Panel out = panel("busiest resource, % of the time", [](size_t, const SweepRow& r) {
      return *std::max_element(r.busy.begin(), r.busy.end());
    });
    out.logarithmic = false;
    out.least_high = 100;
    return out;
  }

  const SweepSection& section_;
  std::vector<PublishedSeries> published_;
  std::vector<std::string> algorithms_;  // in the order of their first appearance
};

}  // namespace

Drawing section_drawing(const SweepSection& section,
                        const std::vector<PublishedSeries>& published) {
  return SectionPicture(section, published).draw_all();
}

std::string sweep_svg(const std::string& title, const std::vector<SweepSeries>& series,
                      const std::vector<PublishedSeries>& published) {
  std::string groups;
  double height = 30;
  for (const SweepSection& section : sweep_sections(series)) {
    const Drawing drawing = section_drawing(section, published);
    groups += fmt::format("<g transform='translate(0 {})'>\n{}</g>\n", height, drawing.text);
    height += drawing.height;
  }
  return fmt::format(
             "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' width='{0}' "
             "height='{1}' font-family='DejaVu Sans, sans-serif'>\n"
             "<rect width='100%' height='100%' fill='#fff'/>\n"
             "<text x='12' y='24' font-size='16'>{2}</text>\n",
             kDrawingWidth, height, escape(title)) +
         groups + "</svg>\n";
}

}  // namespace soma
