// Which bytes of a memory a timing-only run has not computed. Exact to the byte; neighbouring
// ranges merge, so a large tensor is one entry. Empty, and free, when payload moves.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>

namespace hw {

class ElidedRanges {
 public:
  bool empty() const { return ends_.empty(); }

  void add(uint64_t begin, uint64_t length) {
    const uint64_t end = begin + length;
    if (begin >= known_begin_ && end <= known_end_) return;
    auto it = ends_.upper_bound(begin);
    if (it == ends_.begin() || std::prev(it)->second < begin) {
      it = ends_.emplace_hint(it, begin, end);
    } else {
      --it;
      if (it->second < end) it->second = end;
    }
    // Swallows what it has grown into.
    for (auto next = std::next(it); next != ends_.end() && next->first <= it->second;) {
      if (next->second > it->second) it->second = next->second;
      next = ends_.erase(next);
    }
    known_begin_ = it->first;
    known_end_ = it->second;
  }

  // Real bytes were written.
  void remove(uint64_t begin, uint64_t length) {
    if (ends_.empty()) return;
    known_begin_ = known_end_ = 0;
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
    if (ends_.empty()) return false;
    auto it = ends_.lower_bound(begin + length);  // the first that starts behind the range
    return it != ends_.begin() && std::prev(it)->second > begin;
  }

 private:
  std::map<uint64_t, uint64_t> ends_;  // begin -> end, disjoint and not adjacent
  // One of them, or a part of it: the same buffers are written again and again.
  uint64_t known_begin_ = 0;
  uint64_t known_end_ = 0;
};

}  // namespace hw
