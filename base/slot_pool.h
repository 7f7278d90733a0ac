// Values that come and go, each in a place with a number. The place that was left last is taken
// first: what is used lies close together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace base {

template <typename T>
class SlotPool {
 public:
  // A place; its value is what was left there.
  uint32_t add() {
    if (free_.empty()) {
      values_.emplace_back();
      return static_cast<uint32_t>(values_.size() - 1);
    }
    const uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  T& operator[](size_t slot) { return values_[slot]; }
  // The place is free; returns its value.
  T take(size_t slot) {
    free_.push_back(static_cast<uint32_t>(slot));
    return std::move(values_[slot]);
  }

 private:
  std::vector<T> values_;
  std::vector<uint32_t> free_;
};

}  // namespace base
