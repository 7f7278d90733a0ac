// How long something worked in each period of simulated time. Costs nothing while nothing happens;
// the present and the previous period are remembered.
#pragma once

#include <algorithm>

#include "base/units.h"

namespace hw {

class ActivityMeter {
 public:
  explicit ActivityMeter(base::Ps period) : period_(period) {}

  // Works in [begin, end), which may lie in the future. Intervals come in order; what overlaps the
  // one before counts once.
  void add(base::Ps begin, base::Ps end) {
    if (period_ == 0) return;
    begin = std::max(begin, last_end_);
    if (begin >= end) return;
    settle(begin / period_);
    last_begin_ = begin;
    last_end_ = end;
  }
  // Nothing works from `now` on.
  void stop(base::Ps now) { last_end_ = std::max(last_begin_, std::min(last_end_, now)); }
  // Time at work in period number `period`: the one of the last interval's begin, the one before,
  // or a later one.
  base::Ps busy_in(uint64_t period) const {
    const base::Ps known = period == period_now_ ? busy_ : period + 1 == period_now_ ? before_ : 0;
    return known + overlap(period);
  }

 private:
  base::Ps overlap(uint64_t period) const {
    const base::Ps begin = std::max(last_begin_, period * period_);
    const base::Ps end = std::min(last_end_, (period + 1) * period_);
    return begin < end ? end - begin : 0;
  }
  // Counts the last interval, which is over, and makes `period` the present one.
  void settle(uint64_t period) {
    const base::Ps before = period == 0 ? 0 : busy_in(period - 1);
    busy_ = busy_in(period);
    before_ = before;
    period_now_ = period;
    last_begin_ = last_end_;
  }

  base::Ps period_;
  uint64_t period_now_ = 0;
  base::Ps busy_ = 0;    // in the present period, without the last interval
  base::Ps before_ = 0;  // in the one before, likewise
  base::Ps last_begin_ = 0;
  base::Ps last_end_ = 0;
};

}  // namespace hw
