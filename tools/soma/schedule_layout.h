// Where places and links of a ScheduleView are on a map, in pixels.
#pragma once

#include "tools/soma/schedule_view.h"

namespace soma {

struct Spot {
  double x = 0;
  double y = 0;
};

struct Segment {
  Spot from;
  Spot to;
};

// The bar of a switch in one unit.
struct Bar {
  std::string label;
  double left = 0;
  double right = 0;
  double y = 0;
};

class Layout {
 public:
  Layout(const ScheduleView& view, double width);
  // Its units need the width of the page.
  static bool wide(const ScheduleView& view);

  double height() const { return height_; }
  double box() const { return box_; }  // side of a chip
  bool drawn(uint32_t place) const { return drawn_[place]; }
  Spot at(uint32_t place) const { return spots_[place]; }
  const std::vector<Bar>& bars() const { return bars_; }
  struct Title {
    std::string text;
    Spot at;
  };
  const std::vector<Title>& titles() const { return titles_; }

  // The arrow of a directed link, on the right-hand side of its way; two halves for a link round
  // the outside, a short one for a link to another unit, none if neither end is drawn.
  std::vector<Segment> arrows(const Link& link) const;
  // From the edge of one box to that of another.
  Segment between(uint32_t from, uint32_t to) const;
  // Out of a corner of a box, as links to other units go.
  Segment corner(uint32_t place, size_t number, bool outwards) const;

 private:
  void place_units(double width);
  void place_unit(const Unit& unit, double left, double top, double width);
  void add_bars(const Unit& unit, double y);
  void number_corners();
  size_t corner_of(uint32_t place, uint32_t other) const;
  std::vector<Segment> round_outside(const Link& link) const;
  Segment to_switch(uint32_t chip, uint32_t place, bool up) const;

  const ScheduleView& view_;
  double box_ = 0;
  double pitch_ = 0;
  double height_ = 0;
  std::vector<bool> drawn_;
  std::vector<Spot> spots_;
  std::vector<Bar> bars_;
  std::vector<Title> titles_;
  std::map<uint32_t, std::vector<uint32_t>> outside_;  // neighbours in other units
};

}  // namespace soma
