// The maps of a ScheduleView: text of SVG elements, the upper left corner at 0, 0.
#pragma once

#include "tools/soma/schedule_layout.h"

namespace soma {

struct LegendRow {
  std::string colour;  // empty: only text
  std::string text;
};

struct MapDrawing {
  std::string below;  // the boxes
  std::string above;
  std::vector<LegendRow> legend;
};

// What all maps share: links without what they carry, which lie below, and chips and switches,
// which lie above.
std::string wires(const ScheduleView& view, const Layout& layout);
std::string boxes(const ScheduleView& view, const Layout& layout);
MapDrawing order_map(const ScheduleView& view, const Layout& layout);
MapDrawing load_map(const ScheduleView& view, const Layout& layout);
MapDrawing way_map(const ScheduleView& view, const Layout& layout);

std::string text_at(double x, double y, const char* attributes, const std::string& text);

}  // namespace soma
