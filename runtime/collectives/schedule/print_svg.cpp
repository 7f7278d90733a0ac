// Schedules as pictures: a band per rank, a line per channel in it, steps from left to right in the
// order in which waits allow them. Columns are no time: every step is one column wide, and steps of
// one channel stand side by side though several may be in flight.
#include <algorithm>
#include <array>
#include <deque>

#include "runtime/collectives/schedule/print_step.h"
#include "runtime/collectives/schedule/verify.h"
#include "runtime/collectives/schedule/verify_program.h"

namespace ccl {
namespace {

constexpr uint32_t kLeft = 70;
constexpr uint32_t kTop = 60;
constexpr uint32_t kMinWidth = 600;  // of the legend
constexpr uint32_t kColumn = 40;
constexpr uint32_t kBox = 26;   // width
constexpr uint32_t kLine = 18;  // height of a channel
constexpr uint32_t kGap = 10;   // between ranks

// Channels by colour, darkest first when printed without colours.
constexpr std::array<const char*, 8> kColours = {"#1f5fa8", "#c0561b", "#2c7d3f", "#8a3d9c",
                                                 "#a08010", "#b03050", "#20808a", "#606060"};

std::string number(uint64_t n) {
  return std::to_string(n);
}

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return out;
}

struct Arrow {
  uint32_t from = 0;  // numbers of steps
  uint32_t to = 0;
};

// Columns of the steps, by running the waits.
class Timeline {
 public:
  explicit Timeline(const Program& program)
      : p_(program),
        column(program.refs.size()),
        next_(program.tracks.size()),
        free_(program.tracks.size()),
        came_(program.uses.size()) {
    for (bool moved = true; moved;) {
      moved = false;
      for (uint32_t t = 0; t < p_.tracks.size(); ++t) {
        while (next_[t] < p_.tracks[t].size() && start(t, p_.tracks[t][next_[t]])) moved = true;
      }
    }
  }

 private:
  const Program& p_;

 public:
  std::vector<uint32_t> column;  // from 1; 0: never starts
  std::vector<Arrow> signals;    // as they are taken
  uint32_t columns = 0;

 private:
  bool start(uint32_t track, uint32_t id) {
    const Step& step = p_.step(id);
    const size_t first = p_.refs[id].rank * p_.shape.events.size();
    for (const Wait& wait : step.waits) {
      if (came_[first + wait.event].size() < wait.signals) return false;
    }
    uint32_t at = free_[track];
    for (const Wait& wait : step.waits) {
      std::deque<uint32_t>& queue = came_[first + wait.event];
      for (uint32_t k = 0; k < wait.signals && !queue.empty(); ++k) {
        at = std::max(at, column[queue.front()]);
        signals.push_back({queue.front(), id});
        queue.pop_front();
      }
    }
    column[id] = at + 1;
    free_[track] = at + 1;
    columns = std::max(columns, at + 1);
    ++next_[track];
    for (const Signal& s : step.signals) {
      came_[s.rank * p_.shape.events.size() + s.event].push_back(id);
    }
    return true;
  }

  std::vector<uint32_t> next_;              // per track
  std::vector<uint32_t> free_;              // per track: column of the last step
  std::vector<std::deque<uint32_t>> came_;  // per rank and event: steps that signalled
};

class Picture {
 public:
  explicit Picture(const Program& program) : p_(program), time_(program) {}

  std::string draw() {
    const uint32_t width = std::max(kMinWidth, kLeft + (time_.columns + 1) * kColumn);
    const uint32_t height = kTop + p_.shape.ranks * band() + 10;
    out_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(width) + "\" height=\"" +
           number(height) + "\" font-family=\"sans-serif\" font-size=\"11\">\n";
    style();
    text(8, 18, print_title(p_.shape), "");
    legend();
    for (uint32_t r = 0; r < p_.shape.ranks; ++r) rank(r, width);
    for (const Arrow& arrow : time_.signals) signal(arrow);
    for (uint32_t id = 0; id < p_.refs.size(); ++id) moves(id);
    for (uint32_t id = 0; id < p_.refs.size(); ++id) box(id);
    return out_ + "</svg>\n";
  }

 private:
  uint32_t band() const { return p_.shape.channels * kLine + kGap; }
  uint32_t x(uint32_t id) const { return kLeft + (time_.column[id] - 1) * kColumn; }
  uint32_t middle(uint32_t rank, uint32_t channel) const {
    return kTop + rank * band() + kGap / 2 + channel * kLine + kLine / 2;
  }
  uint32_t y(uint32_t id) const { return middle(p_.refs[id].rank, p_.step(id).channel); }
  static std::string colour(uint32_t channel) { return "c" + number(channel % kColours.size()); }

  void style() {
    out_ +=
        "<style>rect,path,circle{stroke-width:1}path{fill:none}.s{stroke:#999;"
        "stroke-dasharray:3 2}.h{fill:#fff;stroke:#555}.t{fill:#fff;text-anchor:middle}";
    for (size_t c = 0; c < kColours.size(); ++c) {
      const std::string name = colour(static_cast<uint32_t>(c));
      out_ += "rect." + name + "{fill:" + kColours[c] + "}path." + name + "{stroke:" + kColours[c] +
              "}#m" + name + " path{fill:" + kColours[c] + "}";
    }
    out_ += "</style>\n<defs>";
    for (size_t c = 0; c < kColours.size(); ++c) {
      out_ += "<marker id=\"m" + colour(static_cast<uint32_t>(c)) +
              "\" viewBox=\"0 0 6 6\" refX=\"6\" refY=\"3\" markerWidth=\"6\" markerHeight=\"6\" "
              "orient=\"auto\"><path d=\"M0 0L6 3L0 6z\"/></marker>";
    }
    out_ += "</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
  }

  void text(uint32_t at_x, uint32_t at_y, const std::string& what, const std::string& attributes) {
    out_ += "<text x=\"" + number(at_x) + "\" y=\"" + number(at_y) + "\"" + attributes + ">" +
            escape(what) + "</text>\n";
  }

  void legend() {
    text(8, 36,
         "box: transfer (+ folds, x writes several); arrow: bytes to or from another rank; "
         "circle: handshake; dashed: signal",
         " fill=\"#555\"");
    uint32_t at = 8;
    for (uint32_t c = 0; c < p_.shape.channels; ++c, at += 80) {
      out_ += "<rect class=\"" + colour(c) + "\" x=\"" + number(at) +
              "\" y=\"44\" width=\"10\" height=\"10\"/>";
      text(at + 14, 53, "channel " + number(c), "");
    }
  }

  void rank(uint32_t r, uint32_t width) {
    const uint32_t top = kTop + r * band();
    out_ += "<rect x=\"0\" y=\"" + number(top + 2) + "\" width=\"" + number(width) +
            "\" height=\"" + number(band() - 4) + "\" fill=\"" + (r % 2 == 0 ? "#f4f6f8" : "#fff") +
            "\"/>\n";
    text(8, top + band() / 2 + 4, "rank " + number(r), "");
  }

  void path(const std::string& classes, const std::string& marker, uint32_t x1, uint32_t y1,
            uint32_t x2, uint32_t y2) {
    out_ += "<path class=\"" + classes + "\" d=\"M" + number(x1) + " " + number(y1) + "L" +
            number(x2) + " " + number(y2) + "\"" +
            (marker.empty() ? "" : " marker-end=\"url(#m" + marker + ")\"") + "/>\n";
  }

  // Between ranks only, and not where an arrow of bytes says it.
  void signal(const Arrow& arrow) {
    const StepRef& to = p_.refs[arrow.to];
    const Step& step = p_.step(arrow.from);
    if (p_.refs[arrow.from].rank == to.rank) return;
    const auto goes = [&](const Range& range) { return range.rank == to.rank; };
    if (step.bytes != 0 && std::any_of(step.destinations.begin(), step.destinations.end(), goes)) {
      return;
    }
    path("s", "", x(arrow.from) + kBox / 2, y(arrow.from), x(arrow.to), y(arrow.to));
  }

  void moves(uint32_t id) {
    const Step& step = p_.step(id);
    if (time_.column[id] == 0 || step.bytes == 0) return;
    const uint32_t rank = p_.refs[id].rank;
    const std::string name = colour(step.channel);
    for (const Range& from : step.sources) {
      if (from.rank == rank) continue;
      path(name, name, x(id) - (kColumn - kBox), middle(from.rank, step.channel), x(id), y(id));
    }
    for (const Range& to : step.destinations) {
      if (to.rank == rank) continue;
      path(name, name, x(id) + kBox, y(id), x(id) + kColumn, middle(to.rank, step.channel));
    }
  }

  void box(uint32_t id) {
    if (time_.column[id] == 0) return;
    const Step& step = p_.step(id);
    const StepRef& ref = p_.refs[id];
    const std::string title = "<title>rank " + number(ref.rank) + " step " + number(ref.step) +
                              ": " + escape(print_step(step, ref.rank)) + "</title>";
    if (step.bytes == 0) {
      out_ += "<circle class=\"h\" cx=\"" + number(x(id) + kBox / 2) + "\" cy=\"" + number(y(id)) +
              "\" r=\"4\">" + title + "</circle>\n";
      return;
    }
    out_ += "<rect class=\"" + colour(step.channel) + "\" x=\"" + number(x(id)) + "\" y=\"" +
            number(y(id) - kLine / 2 + 2) + "\" width=\"" + number(kBox) + "\" height=\"" +
            number(kLine - 4) + "\" rx=\"2\">" + title + "</rect>\n";
    std::string label;
    if (step.sources.size() > 1) label += "+" + number(step.sources.size());
    if (step.destinations.size() > 1) label += "x" + number(step.destinations.size());
    if (!label.empty()) text(x(id) + kBox / 2, y(id) + 4, label, " class=\"t\" font-size=\"9\"");
  }

  const Program& p_;
  Timeline time_;
  std::string out_;
};

}  // namespace

std::string to_svg(const Schedule& schedule) {
  const base::Result<Program> program = make_program(schedule);
  if (!program) {
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"900\" height=\"40\"><text x=\"8\" "
           "y=\"24\">" +
           escape(program.error().message()) + "</text></svg>\n";
  }
  return Picture(*program).draw();
}

}  // namespace ccl
