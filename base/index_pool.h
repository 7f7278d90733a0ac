// Values that come and go, each in a place with a number. The place that was left last is taken
// first: what is used lies close together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace base {

template <typename T>
class IndexPool {
 public:
  // A place; its value is what was left there.
  uint32_t add() {
    if (free_.empty()) {
      values_.emplace_back();
      return static_cast<uint32_t>(values_.size() - 1);
    }
    const uint32_t index = free_.back();
    free_.pop_back();
    return index;
  }
  T& operator[](size_t index) { return values_[index]; }
  // The place is free; returns its value.
  T take(size_t index) {
    free_.push_back(static_cast<uint32_t>(index));
    return std::move(values_[index]);
  }

 private:
  std::vector<T> values_;
  std::vector<uint32_t> free_;
};

}  // namespace base
