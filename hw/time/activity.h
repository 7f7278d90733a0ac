// What is at work in a machine, counted by those who do it. "At rest" is a count of zero: what else
// the simulation kernel has to do (a free-running clock, a tenant's traffic) neither stops nor
// delays anything that waits for rest.
#pragma once

#include <cstdint>
#include <functional>

namespace hw {

class Activity {
 public:
  // `ended`: after the last one has ended.
  explicit Activity(std::function<void()> ended = {}) : ended_(std::move(ended)) {}
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  void begin() { ++count_; }
  void end() {
    if (--count_ == 0 && ended_) ended_();
  }
  bool any() const { return count_ != 0; }

 private:
  uint64_t count_ = 0;
  std::function<void()> ended_;
};

}  // namespace hw
