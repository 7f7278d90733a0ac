#include "hw/check/semaphore_checks.h"

#include <algorithm>
#include <utility>

#include "arch/contract/semaphore.h"

namespace hw::check {

using contract::isa::WaitCond;

namespace {

// How far back a wait may lie behind the updates, within so many bytes; one that lies further back
// is ordered behind more than it needed.
constexpr size_t kHistoryBytes = 128 << 10;
constexpr size_t kLeastHistory = 4;
constexpr size_t kMostHistory = 256;

bool is_event(WaitCond cond) {
  return cond == WaitCond::kEventSet || cond == WaitCond::kEventClear;
}

}  // namespace

void SemaphoreChecks::updated(bool event, uint32_t id, uint32_t value, Update how) {
  Signal& s = signal(event, id);
  s.site = checker_.acting_site();
  s.value = value;
  // The host clears them all before it starts engines, which is what orders those.
  if (value == 0 && how == Update::kSet && checker_.host_acts()) return s.history.clear();
  Snapshot known;
  if (how == Update::kAdd && !s.history.empty()) {
    auto both = std::make_shared<Clock>(*s.history.back().known);
    checker_.release_into(*both);
    known = std::move(both);
  } else {
    known = checker_.released();
  }
  if (!exact_ || (how == Update::kSet && !event)) s.history.clear();
  const size_t bytes = std::max<size_t>(known->bytes(), 1);
  s.history.push_back({value, std::move(known)});
  const size_t most = std::clamp(kHistoryBytes / bytes, kLeastHistory, kMostHistory);
  while (s.history.size() > most) s.history.pop_front();
  if (ended_ && !event && value != 0) left(id, s);
}

void SemaphoreChecks::acquire(WaitCond cond, uint32_t id, uint32_t value, Clock& to) const {
  const auto& at = signals_[id + (is_event(cond) ? kCount : 0)];
  if (at == nullptr) return;
  const Entry* first = nullptr;
  for (auto e = at->history.rbegin(); e != at->history.rend(); ++e) {
    if (!contract::meets(cond, e->value, value)) break;
    first = &*e;
  }
  if (first != nullptr) checker_.join(to, *first->known);
}

Snapshot SemaphoreChecks::latest(uint32_t id) const {
  if (signals_[id] == nullptr || signals_[id]->history.empty()) return nullptr;
  return signals_[id]->history.back().known;
}

void SemaphoreChecks::reset() {
  for (auto& s : signals_) s.reset();
  ended_ = false;
}

void SemaphoreChecks::program_ended() {
  ended_ = true;
  for (uint32_t id = 0; id < kCount; ++id) {
    if (signals_[id] != nullptr && signals_[id]->value != 0) left(id, *signals_[id]);
  }
}

// What the host or a CC-core has left is theirs.
void SemaphoreChecks::left(uint32_t id, const Signal& signal) {
  if (!checker_.site(signal.site).instruction()) return;
  checker_.add(Kind::kSemaphore, name_ + " " + std::to_string(id), signal.site, Checker::kNone,
               {0, 1, signal.value, signal.value});
}

}  // namespace hw::check
