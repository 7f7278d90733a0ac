#include "runtime/collectives/schedule/verify_clock.h"

#include <algorithm>

namespace ccl {

void Clock::close(Known* known) {
  while ((known->more & 1) != 0) {
    known->more >>= 1;
    ++known->ended;
  }
}

void Clock::merge(const Clock& other) {
  for (size_t t = 0; t < tracks_.size(); ++t) {
    Known& mine = tracks_[t];
    const Known& theirs = other.tracks_[t];
    // Whoever knows of fewer starts knows of no more ends.
    if (theirs.started == 0) continue;
    mine.started = std::max(mine.started, theirs.started);
    uint32_t more = theirs.more;
    if (theirs.ended > mine.ended) {
      const uint32_t ahead = theirs.ended - mine.ended;
      mine.more = ahead < kMostInFlight ? mine.more >> ahead : 0;
      mine.ended = theirs.ended;
    } else {
      const uint32_t behind = mine.ended - theirs.ended;
      more = behind < kMostInFlight ? more >> behind : 0;
    }
    mine.more |= more;
    close(&mine);
  }
  const auto join = [](std::vector<uint64_t>* to, const std::vector<uint64_t>& from) {
    for (size_t i = 0; i < from.size(); ++i) (*to)[i] |= from[i];
  };
  join(&started_ranks_, other.started_ranks_);
  join(&fan_outs_, other.fan_outs_);
}

void Clock::end(const StepRef& step) {
  if (step.fan_out) {
    set(&fan_outs_, step.number);
    return;
  }
  Known& known = tracks_[step.track];
  if (step.number < known.ended) return;
  // Less than the window, which has ended all steps before.
  known.more |= 1u << (step.number - known.ended);
  close(&known);
}

bool Clock::ended(const StepRef& step) const {
  if (step.fan_out) return test(fan_outs_, step.number);
  const Known& known = tracks_[step.track];
  if (step.number < known.ended) return true;
  const uint32_t after = step.number - known.ended;
  return after < kMostInFlight && ((known.more >> after) & 1) != 0;
}

}  // namespace ccl
