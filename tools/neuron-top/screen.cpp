#include "tools/neuron-top/screen.h"

#include <cmath>
#include <cstdio>

#include "tools/neuron-top/line.h"
#include "tools/neuron_host/fatal.h"

namespace neuron_top {
namespace {

using Lines = std::vector<std::string>;

constexpr size_t kName = 5;       // "ND12 "
constexpr size_t kLeastTree = 3;  // rows
constexpr size_t kComfortableCell = 18;

std::string formatted(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

const char* colour_of(double percent) {
  constexpr double kMiddle = 50;
  constexpr double kHigh = 85;
  return percent < kMiddle ? style::kLow : percent < kHigh ? style::kMiddle : style::kHigh;
}

void add_bar(Line& line, double percent, size_t width) {
  const auto filled = static_cast<size_t>(std::lround(percent / 100 * static_cast<double>(width)));
  line.repeat("\u25A0", '|', std::min(filled, width), colour_of(percent));
  line.repeat("\u25A0", '.', width - std::min(filled, width), style::kFaint);
}

// The part of `count` rows that is shown where `room` fit, such that `wanted` is among them.
size_t first_shown(size_t count, size_t room, size_t wanted) {
  if (count <= room) return 0;
  return std::min(wanted - std::min(wanted, room / 2), count - room);
}

class Grid {
 public:
  Grid(const Picture& picture, const Look& look) : picture_(picture), look_(look) {
    for (const auto& device : picture.devices.all) {
      cores_ = std::max<size_t>(cores_, picture.devices.logical_cores(device));
    }
  }

  // As many devices beside one another as are needed for all of them to fit, and have room.
  void fit(size_t room) {
    constexpr size_t kNarrowCell = 8;
    const size_t least = kName + cores_ * kNarrowCell;
    const size_t most = std::max<size_t>(1, look_.columns / least);
    room = std::max<size_t>(1, room);
    const size_t needed = (picture_.devices.all.size() + room - 1) / room;
    beside_ = std::min(std::max<size_t>(1, needed), most);
    rows_ = (picture_.devices.all.size() + beside_ - 1) / beside_;
    const size_t group = look_.columns / beside_;
    cell_ = std::max<size_t>(4, (group - std::min(group, kName + 1)) / std::max<size_t>(1, cores_));
  }
  size_t rows() const { return rows_; }

  void draw(Lines& lines, size_t room) const {
    Line header(look_);
    for (size_t b = 0; b < beside_; ++b) {
      header.blanks(b == 0 ? kName : kName + 1);
      for (size_t c = 0; c < cores_; ++c)
        header.left("NC" + std::to_string(c), cell_, style::kFaint);
    }
    lines.push_back(header.text());
    const size_t shown = std::min(rows_, room);
    const size_t first = first_shown(rows_, shown, wanted_row());
    for (size_t row = first; row < first + shown; ++row) {
      Line line(look_);
      for (size_t b = 0; b < beside_; ++b) {
        const size_t place = b * rows_ + row;
        if (b > 0) line.blanks(1);
        if (place < picture_.devices.all.size()) add_device(line, picture_.devices.all[place]);
      }
      lines.push_back(line.text());
    }
  }

 private:
  size_t wanted_row() const {
    if (picture_.rows.empty()) return 0;
    const int wanted = picture_.rows[selected_row(picture_.state, picture_.rows)].device_index;
    for (size_t i = 0; i < picture_.devices.all.size(); ++i) {
      if (picture_.devices.all[i].index == wanted) return i % rows_;
    }
    return 0;
  }

  void add_device(Line& line, const neuron_host::Device& device) const {
    line.left("ND" + std::to_string(device.index), kName);
    for (uint32_t c = 0; c < picture_.devices.logical_cores(device); ++c) {
      const auto core = picture_.figures.cores.find(picture_.devices.first_core(device) + c);
      add_cell(line, core == picture_.figures.cores.end() ? Core() : core->second);
    }
  }

  void add_cell(Line& line, const Core& core) const {
    constexpr size_t kWideCell = 12;
    const bool wide = cell_ >= kWideCell;
    const bool tflops = picture_.state.tflops;
    std::string number = tflops ? formatted(wide ? "[%7.2f]" : "[%4.0f]", core.tflops)
                                : formatted(wide ? "[%6.2f%%]" : "[%3.0f%%]", core.utilization);
    const size_t room = cell_ - 1;
    if (number.size() > room) {
      number = formatted("%3.0f", tflops ? core.tflops : core.utilization).substr(0, room);
    }
    add_bar(line, core.utilization, room - number.size());
    line.add(number).blanks(1);
  }

  const Picture& picture_;
  const Look& look_;
  size_t cores_ = 1;
  size_t beside_ = 1;
  size_t rows_ = 1;
  size_t cell_ = kComfortableCell;
};

std::string title_of(const Picture& picture) {
  const neuron_host::Instance& instance = picture.instance;
  return std::string("neuron-top ") + neuron_host::kToolsVersion + " running on " +
         (instance.id.empty() ? "an unknown instance" : instance.id) + " (" +
         (instance.type.empty() ? "unknown type" : instance.type) + ")";
}

void draw_title(const Picture& picture, const Look& look, Lines& lines) {
  const std::string title = title_of(picture);
  Line line(look);
  line.add(" " + title + std::string(look.columns, ' '), style::kTitle);
  lines.push_back(line.text());
}

void draw_heading(const Look& look, const std::string& text, Lines& lines) {
  Line line(look);
  line.add(text + " ", style::kHeading);
  line.repeat("\u2500", '-', line.room(), style::kFaint);
  lines.push_back(line.text());
}

void draw_cores(const Picture& picture, const Look& look, const Grid& grid, size_t room,
                Lines& lines) {
  double sum = 0;
  size_t count = 0;
  for (const auto& [number, core] : picture.figures.cores) {
    sum += picture.state.tflops ? core.tflops : core.utilization;
  }
  for (const auto& device : picture.devices.all) count += picture.devices.logical_cores(device);
  const std::string name = "NeuronCore " + neuron_monitor::core_version(picture.devices);
  const std::string value =
      picture.state.tflops
          ? " TFLOPS: " + formatted("%.2f", sum)
          : " Utilization: " +
                formatted("%.2f%%", sum / static_cast<double>(std::max<size_t>(1, count)));
  draw_heading(look, name + value, lines);
  grid.draw(lines, room);
}

void draw_cpu(const Picture& picture, const Look& look, Lines& lines) {
  draw_heading(look, "vCPU Utilization", lines);
  Line line(look);
  const size_t half = look.columns / 2;
  const auto add = [&](const char* name, const Usage& usage) {
    const std::string values =
        formatted("[%6.2f%% user,", usage.user) + formatted(" %6.2f%% sys]", usage.system);
    const std::string label = std::string(name) + " ";
    const size_t used = label.size() + values.size() + 2;
    line.add(label);
    add_bar(line, std::min(100.0, usage.user + usage.system), half - std::min(half, used));
    line.add(" " + values + " ");
  };
  add("System", picture.figures.system_cpu);
  add("Runtime", picture.figures.runtime_cpu);
  lines.push_back(line.text());
}

uint64_t value_of(const std::map<std::string, uint64_t>& values, const char* name) {
  const auto found = values.find(name);
  return found == values.end() ? 0 : found->second;
}

void draw_summary(const Picture& picture, const Look& look, Lines& lines) {
  const Figures& figures = picture.figures;
  struct Entry {
    const char* host;
    uint64_t host_bytes;
    const char* device;
    uint64_t device_bytes;
  };
  const Entry entries[] = {
      {"Total", figures.host_total, "Total", figures.device_total},
      {"Tensors", value_of(figures.host, "tensors"), "Tensors",
       value_of(figures.device, "tensors")},
      {"Constants", value_of(figures.host, "constants"), "Constants",
       value_of(figures.device, "constants")},
      {"DMA Buffers", value_of(figures.host, "dma_buffers"), "Model Code",
       value_of(figures.device, "model_code")},
      {"App. Memory", value_of(figures.host, "application_memory"), "Runtime Memory",
       value_of(figures.device, "runtime_memory")},
      {nullptr, 0, "Model Scratchpad", value_of(figures.device, "model_shared_scratchpad")},
  };
  draw_heading(look, "Memory Usage Summary", lines);
  constexpr size_t kValue = 12;
  const size_t half = look.columns / 2;
  const size_t label = half - std::min(half, kValue + 2);
  Line titles(look);
  titles.left("Host Used Memory", half, style::kFaint).add("Device Used Memory", style::kFaint);
  lines.push_back(titles.text());
  for (const Entry& entry : entries) {
    Line line(look);
    if (entry.host == nullptr) {
      line.blanks(label + kValue);
    } else {
      line.left(std::string("  ") + entry.host, label).right(human(entry.host_bytes), kValue);
    }
    line.blanks(half - std::min(half, label + kValue));
    line.left(std::string("  ") + entry.device, label).right(human(entry.device_bytes), kValue);
    lines.push_back(line.text());
  }
}

std::string marker(const MemoryRow& row) {
  return std::string(static_cast<size_t>(row.depth) * 2, ' ') + (!row.has_children ? "  "
                                                                 : row.expanded    ? "- "
                                                                                   : "+ ");
}

void draw_tree(const Picture& picture, const Look& look, size_t room, Lines& lines) {
  draw_heading(look, "Memory Usage Details", lines);
  constexpr size_t kValue = 16;
  const size_t label = look.columns - std::min(look.columns, 2 * kValue + 1);
  Line titles(look);
  titles.left("  Model ID", label, style::kFaint);
  titles.right("Host Memory", kValue, style::kFaint).right("Device Memory", kValue, style::kFaint);
  lines.push_back(titles.text());
  if (picture.rows.empty()) {
    lines.push_back(Line(look).add("  No process uses a core.", style::kFaint).text());
    return;
  }
  const size_t selected = selected_row(picture.state, picture.rows);
  const size_t shown = std::min(room, picture.rows.size());
  const size_t first = first_shown(picture.rows.size(), shown, selected);
  for (size_t i = first; i < first + shown; ++i) {
    const MemoryRow& row = picture.rows[i];
    const std::string host = row.host ? human(*row.host) : "-";
    const auto padded = [](const std::string& text) {
      return text.size() < kValue ? std::string(kValue - text.size(), ' ') + text : text;
    };
    std::string text = marker(row) + row.label;
    text.resize(std::max(label, text.size()), ' ');
    Line line(look);
    if (!look.colour && i == selected) text[0] = '>';
    line.add(text + padded(host) + padded(human(row.device)),
             i == selected ? style::kSelected : style::kPlain);
    lines.push_back(line.text());
  }
}

std::string tabs_line(const Picture& picture, const Look& look) {
  Line line(look);
  line.add("Neuron Apps ", style::kHeading);
  const size_t current = current_tab(picture.state, picture.tabs);
  for (size_t i = 0; i < picture.tabs.size(); ++i) {
    const std::string name = "[" + std::to_string(i + 1) + "]:" + picture.tabs[i].name;
    if (i == current) {
      line.add(">" + name + "<", style::kCurrent).blanks(1);
    } else {
      line.add(" " + name + " ").blanks(1);
    }
  }
  return line.text();
}

std::string keys_line(const Look& look) {
  Line line(look);
  const char* const keys[][2] = {
      {"q", "quit"}, {"arrows, Enter", "tree"}, {"a/d, 1-9", "tab"}, {"x", "all"}, {"f", "TFLOPS"}};
  for (const auto& [key, meaning] : keys) {
    line.add(key, style::kCurrent).add(" ").add(meaning, style::kFaint).blanks(3);
  }
  return line.text();
}

}  // namespace

std::vector<std::string> draw(const Picture& picture, const Look& look) {
  // Headings and the parts that have one size, the tabs, and the line about keys.
  constexpr size_t kFixed = 1 + 2 + 2 + 8 + 2 + 2;
  const size_t room = look.rows > kFixed ? look.rows - kFixed : 1;
  Grid grid(picture, look);
  grid.fit(room > kLeastTree ? room - kLeastTree : 1);
  const size_t devices = std::min(grid.rows(), room > kLeastTree ? room - kLeastTree : 1);
  Lines lines;
  draw_title(picture, look, lines);
  draw_cores(picture, look, grid, devices, lines);
  draw_cpu(picture, look, lines);
  draw_summary(picture, look, lines);
  draw_tree(picture, look, room > devices ? room - devices : 1, lines);
  const size_t bottom = look.rows > 2 ? look.rows - 2 : 0;
  lines.resize(bottom);
  lines.push_back(tabs_line(picture, look));
  lines.push_back(keys_line(look));
  lines.resize(std::min(lines.size(), look.rows));
  return lines;
}

}  // namespace neuron_top
