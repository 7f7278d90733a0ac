// The last resort against a machine that does not end: its simulation thread sees a wish to stop
// only between steps, and a defect may keep it from ever getting there.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace soma {

// With a machine that is asked to end: a DMA, or a report, may wait 2 s for a client that is gone.
constexpr std::chrono::milliseconds kMachinePatience{10000};

class Watchdog {
 public:
  // `expired` runs on a thread of its own when the time is over.
  explicit Watchdog(std::function<void()> expired) : expired_(std::move(expired)) {}
  // What was to end has ended.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Any thread; only the first call counts.
  void arm(std::chrono::milliseconds patience);

 private:
  std::function<void()> expired_;
  std::mutex lock_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace soma
