// The kernel thread's loop: admits requests of clients to the machine and runs it.
//
// Policy epoch: a request enters only when the machine is at rest, and the machine runs to rest
// before the next one. So what a request does to simulated time never depends on when it arrived. A
// machine that does not come to rest within time.slice_us (a program that loops) admits the next
// request all the same; that is counted, and such a run is not repeatable. Policy overlap admits
// whatever is there, every 10 us of simulated time.
//
// Wall time appears here only to wait for clients, which live in it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "sim/hardware.h"

namespace driver {
class RequestQueue;
class StatusPage;
}  // namespace driver

namespace sim {

enum class Policy { kEpoch, kOverlap };

class MainLoop {
 public:
  struct Params {
    Hardware* hardware = nullptr;
    driver::RequestQueue* requests = nullptr;
    driver::StatusPage* status = nullptr;
    Policy policy = Policy::kEpoch;
    base::Ps slice = 0;
    // Called once per rest that has lasted a few seconds while blocks or requests wait.
    std::function<void()> stuck;
  };
  explicit MainLoop(Params params) : params_(std::move(params)) {}

  // Kernel thread: serves until stop(), or until the machine fails.
  base::Status run();
  // Kernel thread: serves until `done` holds or `patience` of wall time has passed; true if it
  // holds.
  bool drain(const std::function<bool()>& done, std::chrono::milliseconds patience);
  // Any thread: run() returns soon; it may be called again.
  void stop();

  // From a driver task: waits for `channel`, which another client wakes; false after `host_us` of
  // wall time.
  bool client_wait(const void* channel, uint64_t host_us);

  base::Ps take_active_time() { return std::exchange(active_, 0); }
  uint64_t take_slices() { return std::exchange(slices_, 0); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Timer {
    const void* channel;
    Clock::time_point deadline;
    bool expired = false;
  };

  void serve_one(std::chrono::milliseconds patience);
  void activity();
  bool expire_timers();
  Clock::duration until_next_timer(Clock::duration at_most) const;

  Params params_;
  std::atomic<bool> stopping_{false};
  std::list<Timer> timers_;
  base::Ps active_ = 0;
  uint64_t slices_ = 0;
  Clock::time_point rest_since_ = Clock::now();
  bool told_stuck_ = false;
};

}  // namespace sim
