// The course of an execution: a lane for each engine and DMA engine. High bars: work; low ones: a
// wait, in the colour of the engine that was waited for.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tools/soma/execution_parts.h"
#include "tools/soma/text.h"

namespace soma {
namespace {

constexpr double kTimeWidth = 1180;
constexpr double kTimeLeft = 64;
constexpr double kTimeRight = 30;   // half a number of the axis
constexpr double kTimeLegend = 44;  // height
constexpr double kTimeTop = kTimeLegend + 22;
constexpr double kTimeLane = 26;
constexpr double kTimeBar = 18;
constexpr double kTimeWait = 6;
constexpr double kTimeDmaLane = 8;
constexpr double kTimeLetter = 5.3;  // width at 9 px
constexpr double kTimeNarrowest = 0.4;

struct Colour {
  const char* kind;
  const char* colour;
  const char* title;
};
constexpr Colour kColours[] = {{"pe", "#2f6fab", "pe (Tensor)"},
                               {"act", "#d0762e", "act (Scalar)"},
                               {"pool", "#8a5fb0", "pool (GpSimd)"},
                               {"dve", "#3f8f5f", "dve (Vector)"},
                               {"sp", "#6f7785", "sp (Sync)"},
                               {"dma", "#b03a4a", "DMA"},
                               {"dependency", "#c9a227", "own result"},
                               {"memory", "#3fa7a7", "SBUF"},
                               {"psum", "#7f4f2f", "PSUM"},
                               {"throttle", "#c05fa0", "throttle"},
                               {"issue", "#aaaaaa", "issue"}};

const Colour& colour_of(const std::string& kind) {
  for (const Colour& each : kColours) {
    if (kind == each.kind) return each;
  }
  return kColours[std::size(kColours) - 1];
}

bool is_dma(const LaneView& lane) {
  return lane.name.rfind("dma", 0) == 0;
}

// "attention.cpp:90 (matmul)" becomes "matmul"; without a line, the instruction stays.
std::string short_label(const std::string& name) {
  const size_t open = name.rfind('(');
  const size_t close = name.rfind(')');
  if (open != std::string::npos && close != std::string::npos && open < close) {
    return name.substr(open + 1, close - open - 1);
  }
  return name.substr(0, name.find(' '));
}

// "90" of "MATMUL attention.cpp:90 (matmul)".
std::string line_number(const std::string& name) {
  const size_t colon = name.rfind(':');
  const size_t end = name.find(' ', colon == std::string::npos ? 0 : colon);
  return colon == std::string::npos || end == std::string::npos
             ? std::string()
             : name.substr(colon + 1, end - colon - 1);
}

class Picture {
 public:
  Picture(const TimelineView& timeline, const Window& window)
      : timeline_(timeline),
        window_(window),
        scale_((kTimeWidth - kTimeLeft - kTimeRight) / (window.to - window.from)) {}

  std::string draw() {
    double y = kTimeTop + 6;
    size_t dma = 0;
    for (const LaneView& lane : timeline_.lanes) {
      if (is_dma(lane) && !seen(lane)) continue;
      const double height = is_dma(lane) ? kTimeDmaLane : kTimeLane;
      dma += is_dma(lane) ? 1 : 0;
      // Names of the narrow lanes would touch: the first of every four.
      if (!is_dma(lane) || dma % 4 == 1) {
        labels_ +=
            fmt::format("<text x='{:.0f}' y='{:.1f}' text-anchor='end' fill='{}'{}>{}</text>\n",
                        kTimeLeft - 6, y + (is_dma(lane) ? kTimeDmaLane : kTimeBar - 4),
                        colour_of(is_dma(lane) ? "dma" : lane.name).colour,
                        is_dma(lane) ? " font-size='9'" : " font-weight='bold'", escape(lane.name));
      }
      for (const SpanView& span : lane.spans) add(lane, span, y);
      y += height;
    }
    const double bottom = y + 4;
    return fmt::format(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0:.0f} {1:.0f}' font-size='11' "
        "font-family='DejaVu Sans, sans-serif' data-left='{2:.0f}' data-width='{3:.0f}' "
        "data-top='{4:.0f}' data-bottom='{5:.0f}' data-total='{6:.0f}'>\n"
        "<rect width='100%' height='100%' fill='#fff'/>\n{7}<g class='ticks'>\n{8}</g>\n{9}"
        "<g class='bars'>\n{10}</g>\n<g class='texts' pointer-events='none'>\n{11}</g>\n</svg>\n",
        kTimeWidth, bottom + 8, kTimeLeft, kTimeWidth - kTimeLeft - kTimeRight, kTimeTop, bottom,
        timeline_.total, legend(), ticks(bottom), labels_, bars_, texts_);
  }

 private:
  bool seen(const LaneView& lane) const {
    return std::any_of(lane.spans.begin(), lane.spans.end(), [&](const SpanView& span) {
      return span.end > window_.from && span.begin < window_.to;
    });
  }

  void add(const LaneView& lane, const SpanView& span, double y) {
    const double begin = std::max(span.begin, window_.from);
    const double end = std::min(span.end, window_.to);
    if (begin >= end) return;
    const std::string& kind = timeline_.kinds[span.what];
    const std::string& name = timeline_.names[span.name];
    const bool busy = span.what == 0;
    const double x = kTimeLeft + (begin - window_.from) * scale_;
    const double width = std::max((end - begin) * scale_, kTimeNarrowest);
    const double height = is_dma(lane) ? kTimeDmaLane - 1 : busy ? kTimeBar : kTimeWait;
    const double top = busy ? y : y + (kTimeBar - kTimeWait) / 2;
    std::string text = busy ? name : name + " waits for " + colour_of(kind).title;
    text += ", " + duration_text(span.end - span.begin) + " from " + duration_text(span.begin);
    if (span.count > 1) text += fmt::format("; the longest of {}", span.count);
    const std::string label = busy && !is_dma(lane) ? label_of(name) : "";
    // Lines of source in turns of three shades, so that neighbours can be told apart.
    constexpr const char* kShades[] = {"", " fill-opacity='0.85'", " fill-opacity='0.7'"};
    bars_ += fmt::format(
        "<rect data-b='{:.0f}' data-e='{:.0f}'{} x='{:.2f}' y='{:.1f}' width='{:.2f}' "
        "height='{:.0f}' fill='{}'{}{}><title>{}</title></rect>\n",
        span.begin, span.end, label.empty() ? "" : " data-l=\"" + escape(label) + "\"", x, top,
        width, height,
        colour_of(is_dma(lane) ? "dma"
                  : busy       ? lane.name
                               : kind)
            .colour,
        busy && !is_dma(lane) ? kShades[span.name % std::size(kShades)] : "",
        width > 3 && busy ? " stroke='#fff' stroke-width='0.6'" : "", escape(text));
    const std::string shown = fitting(label, name, width);
    if (!shown.empty()) {
      texts_ += fmt::format(
          "<text x='{:.1f}' y='{:.1f}' text-anchor='middle' font-size='9' fill='#fff'>{}</text>\n",
          x + width / 2, top + kTimeBar - 5, escape(shown));
    }
  }

  static std::string label_of(const std::string& name) {
    const std::string line = line_number(name);
    return short_label(name) + (line.empty() ? "" : " :" + line);
  }

  // As much of the label as a bar has room for: call and line, or the line.
  static std::string fitting(const std::string& label, const std::string& name, double width) {
    if (label.empty()) return {};
    const std::string line = line_number(name);
    for (const std::string& text : {label, line.empty() ? line : ":" + line}) {
      if (!text.empty() && static_cast<double>(text.size()) * kTimeLetter + 4 < width) return text;
    }
    return {};
  }

  std::string ticks(double bottom) const {
    const double span = window_.to - window_.from;
    double step = std::pow(10, std::floor(std::log10(span)));
    for (const double part : {0.5, 0.4, 0.5}) {  // 1, 0.5, 0.2, 0.1 of it
      if (span / step < 8) step *= part;
    }
    std::string out;
    for (double t = std::ceil(window_.from / step) * step; t <= window_.to; t += step) {
      const double x = kTimeLeft + (t - window_.from) * scale_;
      out += fmt::format(
          "<path d='M{0:.1f} {1:.0f}V{2:.0f}' stroke='#ddd'/><text x='{0:.1f}' y='{3:.0f}' "
          "text-anchor='middle'>{4:g} us</text>\n",
          x, kTimeTop, bottom, kTimeTop - 5, t / 1e6);
    }
    return out;
  }

  // Work in two rows of colours, of which only those that occur.
  std::string legend() const {
    std::string out;
    double x = 12;
    const auto entry = [&](double y, double height, const char* colour, const std::string& text) {
      out += fmt::format(
          "<rect x='{:.0f}' y='{:.1f}' width='14' height='{:.0f}' fill='{}'/><text x='{:.0f}' "
          "y='{:.0f}'>{}</text>\n",
          x, y - height / 2, height, colour, x + 19, y + 4, escape(text));
      x += 34 + 6.6 * static_cast<double>(text.size());
    };
    const auto heading = [&](double y, const char* text) {
      x = 12;
      out +=
          fmt::format("<text x='{:.0f}' y='{:.0f}' font-weight='bold'>{}</text>\n", x, y + 4, text);
      x += 70;
    };
    heading(12, "Works");
    for (const Colour& each : kColours) {
      const bool lane =
          std::any_of(timeline_.lanes.begin(), timeline_.lanes.end(), [&](const LaneView& l) {
            return !l.spans.empty() && (is_dma(l) ? "dma" : l.name) == std::string(each.kind);
          });
      if (lane) entry(12, 14, each.colour, each.title);
    }
    heading(32, "Waits for");
    for (const Colour& each : kColours) {
      const auto kind = std::find(timeline_.kinds.begin(), timeline_.kinds.end(), each.kind);
      const auto number = static_cast<uint32_t>(kind - timeline_.kinds.begin());
      const bool used =
          std::any_of(timeline_.lanes.begin(), timeline_.lanes.end(), [&](const LaneView& l) {
            return std::any_of(l.spans.begin(), l.spans.end(),
                               [&](const SpanView& s) { return s.what == number; });
          });
      if (used) entry(32, kTimeWait, each.colour, each.title);
    }
    return out;
  }

  const TimelineView& timeline_;
  Window window_;
  double scale_;
  std::string labels_;
  std::string bars_;
  std::string texts_;
};

}  // namespace

std::string timeline_svg(const ExecutionView& e, const Window& window) {
  return Picture(*e.timeline, window).draw();
}

std::string timeline_notes(const TimelineView& timeline) {
  std::string merged;
  for (const LaneView& lane : timeline.lanes) {
    if (lane.grain == 0) continue;
    merged += fmt::format("{}{} (within {})", merged.empty() ? "" : ", ", lane.name,
                          duration_text(lane.grain));
  }
  std::string out = "High bars are work, low ones waits, in the colour of who was waited for.";
  if (!merged.empty()) {
    out +=
        " There were too many spans: short neighbours are drawn as one, with the name of the "
        "longest, on " +
        merged + ".";
  }
  return out;
}

base::Result<std::string> timeline_picture(const std::vector<ExecutionView>& executions,
                                           const std::optional<Window>& window) {
  for (const ExecutionView& e : executions) {
    if (!e.timeline) continue;
    Window shown = window.value_or(Window{0, e.timeline->total});
    shown.to = std::min(shown.to, e.timeline->total);
    if (shown.from >= shown.to) {
      return base::Error{
          base::Fault::kUsage, 0, "timeline",
          "the part to draw is empty; the execution takes " + duration_text(e.timeline->total)};
    }
    return timeline_svg(e, shown);
  }
  return base::Error{base::Fault::kUsage, 0, "timeline",
                     "the report has none; it comes with `soma run --profile --report FILE`"};
}

}  // namespace soma
