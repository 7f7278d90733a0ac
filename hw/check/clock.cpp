#include "hw/check/clock.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace hw::check {

namespace {

constexpr size_t kMostAbove = 64;
constexpr size_t kMostRemembered = 32;  // the youngest ones are asked for most

}  // namespace

bool Clock::Base::covers(uint64_t other) const {
  return number == other || std::find(below.begin(), below.end(), other) != below.end();
}

void Clock::Base::remember(uint64_t other) const {
  if (below.size() < kMostRemembered) return below.push_back(other);
  const auto oldest = std::min_element(below.begin(), below.end());
  *oldest = std::max(*oldest, other);
}

Clock::Clock(const std::vector<uint32_t>& epochs, uint64_t& made) {
  auto base = std::make_shared<Base>();
  base->number = ++made;
  base->epochs = epochs;
  base_ = std::move(base);
}

std::vector<Clock::Entry>::const_iterator Clock::find(uint32_t agent) const {
  return std::lower_bound(above_.begin(), above_.end(), agent,
                          [](const Entry& e, uint32_t a) { return e.agent < a; });
}

uint32_t Clock::entry(uint32_t agent) const {
  const auto at = find(agent);
  if (at != above_.end() && at->agent == agent) return at->epoch;
  return base_ == nullptr ? 0 : base_->of(agent);
}

bool Clock::reaches(uint32_t agent, uint32_t epoch) const {
  if (base_ != nullptr && base_->of(agent) >= epoch) return true;
  return entry(agent) >= epoch;
}

void Clock::raise(uint32_t agent, uint32_t epoch) {
  if (entry(agent) >= epoch) return;
  const auto at = above_.begin() + (find(agent) - above_.begin());
  if (at != above_.end() && at->agent == agent) {
    at->epoch = epoch;
  } else {
    above_.insert(at, {agent, epoch});
  }
}

void Clock::adopt(std::shared_ptr<const Base> base) {
  base_ = std::move(base);
  above_.erase(std::remove_if(above_.begin(), above_.end(),
                              [&](const Entry& e) { return base_->of(e.agent) >= e.epoch; }),
               above_.end());
}

void Clock::settle(uint64_t& made) {
  auto base = std::make_shared<Base>();
  base->number = ++made;
  if (base_ != nullptr) {
    base->epochs = base_->epochs;
    base->below = base_->below;
    base->remember(base_->number);
  }
  if (!above_.empty() && base->epochs.size() <= above_.back().agent) {
    base->epochs.resize(above_.back().agent + 1);
  }
  for (const Entry& e : above_) base->epochs[e.agent] = e.epoch;
  base_ = std::move(base);
  above_.clear();
}

void Clock::limit(uint64_t& made) {
  if (above_.size() > kMostAbove) settle(made);
}

void Clock::settle_for_many(uint64_t& made) {
  if (above_.size() > kMostAbove / 2) settle(made);
}

void Clock::join_base(const std::shared_ptr<const Base>& theirs, uint64_t& made) {
  if (theirs == nullptr || theirs == base_) return;
  if (base_ == nullptr || theirs->covers(base_->number)) return adopt(theirs);
  if (base_->covers(theirs->number)) return;
  const bool longer = base_->epochs.size() > theirs->epochs.size();
  const std::vector<uint32_t>& most = longer ? base_->epochs : theirs->epochs;
  const std::vector<uint32_t>& least = longer ? theirs->epochs : base_->epochs;
  uint32_t most_ahead = 0;
  uint32_t least_ahead = 0;
  for (size_t i = 0; i < least.size(); ++i) {
    most_ahead |= most[i] > least[i] ? 1 : 0;
    least_ahead |= most[i] < least[i] ? 1 : 0;
  }
  for (size_t i = least.size(); i < most.size(); ++i) most_ahead |= most[i];
  const bool i_know_more = (longer ? most_ahead : least_ahead) != 0;
  const bool they_know_more = (longer ? least_ahead : most_ahead) != 0;
  if (!they_know_more) return base_->remember(theirs->number);
  if (!i_know_more) {
    theirs->remember(base_->number);
    return adopt(theirs);
  }
  auto base = std::make_shared<Base>();
  base->number = ++made;
  base->epochs = most;
  for (size_t i = 0; i < least.size(); ++i) {
    base->epochs[i] = std::max(base->epochs[i], least[i]);
  }
  std::vector<uint64_t>& below = base->below;
  below = base_->below;
  below.insert(below.end(), theirs->below.begin(), theirs->below.end());
  below.push_back(base_->number);
  below.push_back(theirs->number);
  std::sort(below.begin(), below.end(), std::greater<>());
  below.erase(std::unique(below.begin(), below.end()), below.end());
  below.resize(std::min(below.size(), kMostRemembered));
  adopt(std::move(base));
}

void Clock::join(const Clock& from, uint64_t& made) {
  join_base(from.base_, made);
  const auto is_news = [&](const Entry& e) { return !reaches(e.agent, e.epoch); };
  if (std::none_of(from.above_.begin(), from.above_.end(), is_news)) return;
  std::vector<Entry> merged;
  merged.reserve(above_.size() + from.above_.size());
  auto mine = above_.cbegin();
  for (const Entry& e : from.above_) {
    while (mine != above_.cend() && mine->agent < e.agent) merged.push_back(*mine++);
    if (mine != above_.cend() && mine->agent == e.agent) {
      merged.push_back({e.agent, std::max(e.epoch, (mine++)->epoch)});
    } else if (base_ == nullptr || base_->of(e.agent) < e.epoch) {
      merged.push_back(e);
    }
  }
  merged.insert(merged.end(), mine, above_.cend());
  above_ = std::move(merged);
  limit(made);
}

size_t Clock::bytes() const {
  const size_t base = base_ == nullptr ? 0 : base_->epochs.size();
  return base * sizeof(uint32_t) + above_.size() * sizeof(Entry);
}

}  // namespace hw::check
