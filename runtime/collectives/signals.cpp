// Which ranks wait for which steps, and who touches whose memory.
#include <algorithm>

#include "runtime/collectives/lowering.h"

namespace ccl {

Signals::Signals(const Schedule& schedule)
    : ranks_(schedule.ranks),
      touches_(static_cast<size_t>(schedule.ranks) * schedule.ranks, false),
      last_(static_cast<size_t>(schedule.ranks) * schedule.ranks, 0),
      counts_(static_cast<size_t>(schedule.ranks) * schedule.ranks, 0),
      waiters_(schedule.steps.size()),
      numbers_(schedule.steps.size()) {
  for (const Step& step : schedule.steps) {
    for (const uint32_t id : step.after) {
      const Step& before = schedule.steps[id];
      auto& waiters = waiters_[id];
      if (before.rank != step.rank &&
          std::find(waiters.begin(), waiters.end(), step.rank) == waiters.end()) {
        waiters.push_back(step.rank);
      }
    }
  }
  for (const Step& step : schedule.steps) {
    for (const uint32_t waiter : waiters_[step.id]) {
      numbers_[step.id].push_back(counts_[step.rank * ranks_ + waiter]++);
      touch(step.rank, waiter, step.id);
    }
    touch(step.rank, step.destination.rank, step.id);
    for (const Range& source : step.sources) touch(step.rank, source.rank, step.id);
  }
}

void Signals::touch(uint32_t by, uint32_t of, uint32_t step) {
  if (by == of) return;
  touches_[by * ranks_ + of] = true;
  last_[by * ranks_ + of] = step;
}

uint32_t Signals::number(uint32_t step, uint32_t to) const {
  const auto& waiters = waiters_[step];
  const auto at = std::find(waiters.begin(), waiters.end(), to) - waiters.begin();
  return numbers_[step][static_cast<size_t>(at)];
}

}  // namespace ccl
