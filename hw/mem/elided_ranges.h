// Which bytes of a memory a timing-only run has not computed. Exact to the byte; neighbouring
// ranges merge, so a large tensor is one entry. Empty, and free, when payload moves.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <vector>

namespace hw {

class ElidedRanges {
 public:
  bool empty() const { return ends_.empty() && recent_.empty(); }

  void add(uint64_t begin, uint64_t length) {
    const uint64_t end = begin + length;
    for (const Range& known : known_) {
      if (begin >= known.begin && end <= known.end) return;
    }
    if (begin < (clean_page_ + 1) * kPage && end > clean_page_ * kPage) clean_page_ = kNoPage;
    around_.begin = recent_.empty() ? begin : std::min(around_.begin, begin);
    around_.end = recent_.empty() ? end : std::max(around_.end, end);
    recent_.push_back({begin, end});
    if (recent_.size() == kRecent) settle();
  }

  // Real bytes were written.
  void remove(uint64_t begin, uint64_t length) {
    if (empty()) return;
    settle();
    known_ = {};
    const uint64_t end = begin + length;
    auto it = ends_.upper_bound(begin);
    if (it != ends_.begin() && std::prev(it)->second > begin) --it;
    while (it != ends_.end() && it->first < end) {
      const uint64_t first = it->first;
      const uint64_t last = it->second;
      it = ends_.erase(it);
      if (first < begin) ends_.emplace(first, begin);
      if (last > end) it = ends_.emplace(end, last).first;
    }
  }

  bool overlaps(uint64_t begin, uint64_t length) const {
    if (empty()) return false;
    const uint64_t end = begin + length;
    const uint64_t page = begin / kPage;
    if (end > (page + 1) * kPage) return any(begin, end);
    if (page == clean_page_) return false;
    if (any(begin, end)) return true;
    if (!any(page * kPage, (page + 1) * kPage)) clean_page_ = page;
    return false;
  }

 private:
  struct Range {
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  // The words that signals are made of are read all the time.
  static constexpr uint64_t kPage = 4096;
  static constexpr uint64_t kNoPage = ~uint64_t{0} / kPage - 1;
  // Additions come from many engines in turn: sorted, most of them touch.
  static constexpr size_t kRecent = 256;

  bool any(uint64_t begin, uint64_t end) const {
    if (!recent_.empty() && around_.begin < end && around_.end > begin) {
      for (const Range& r : recent_) {
        if (r.begin < end && r.end > begin) return true;
      }
    }
    auto it = ends_.lower_bound(end);  // the first that starts behind the range
    return it != ends_.begin() && std::prev(it)->second > begin;
  }
  void settle() {
    std::sort(recent_.begin(), recent_.end(),
              [](const Range& a, const Range& b) { return a.begin < b.begin; });
    for (size_t i = 0; i < recent_.size();) {
      Range whole = recent_[i++];
      for (; i < recent_.size() && recent_[i].begin <= whole.end; ++i) {
        whole.end = std::max(whole.end, recent_[i].end);
      }
      merge(whole);
    }
    recent_.clear();
  }
  void merge(const Range& range) {
    auto it = ends_.upper_bound(range.begin);
    if (it == ends_.begin() || std::prev(it)->second < range.begin) {
      it = ends_.emplace_hint(it, range.begin, range.end);
    } else {
      --it;
      it->second = std::max(it->second, range.end);
    }
    // Swallows what it has grown into.
    for (auto next = std::next(it); next != ends_.end() && next->first <= it->second;) {
      it->second = std::max(it->second, next->second);
      next = ends_.erase(next);
    }
    known_[next_known_++ % known_.size()] = {it->first, it->second};
  }

  std::map<uint64_t, uint64_t> ends_;  // begin -> end, disjoint and not adjacent
  std::vector<Range> recent_;          // not in it yet
  Range around_;                       // all of them
  // Some of the ranges: the same buffers are written again and again.
  std::array<Range, 4> known_{};
  size_t next_known_ = 0;
  mutable uint64_t clean_page_ = kNoPage;  // has nothing of the ranges
};

}  // namespace hw
