// The kernel thread's loop: admits requests of clients to the machine and runs it.
//
// Policy epoch: a request enters only when the machine is at rest, and the machine runs to rest
// before the next one. So what a request does to simulated time never depends on when it arrived. A
// machine that does not come to rest within time.slice_us (a program that loops) admits requests
// all the same, every 1 ms of simulated time from then on; that is counted, and such a run is not
// repeatable. Policy overlap admits whatever is there, every 10 us of simulated time.
//
// Wall time appears here only to wait for clients, which live in it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "sim/hardware.h"
#include "sim/report.h"

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
    // Called once when the machine has done nothing for a few seconds (of wall time), whatever
    // requests asked about its state; blocks or requests may wait.
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

  // Any thread: `task` runs on the kernel thread between two steps of the machine, and is told
  // whether the machine is at rest. The machine then runs on.
  void post(std::function<void(bool at_rest)> task);

  // From a driver task: waits for `channel`, which another client wakes; false after `host_us` of
  // wall time.
  bool client_wait(const void* channel, uint64_t host_us);

  // What happened since the last call. A request's duration ends at the machine's rest, or where
  // barriers that it completed open: what they release is counted apart, since any of the members
  // may have been the last to arrive. Requests that took no simulated time are left out.
  struct Activities {
    base::Ps active = 0;
    Durations requests;
    Durations releases;
  };
  Activities take_activities() { return std::exchange(activities_, {}); }
  uint64_t take_slices() { return std::exchange(slices_, 0); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Timer {
    const void* channel;
    Clock::time_point deadline;
    bool expired = false;
  };

  void look_for_progress();
  bool run_posted(bool at_rest);
  void serve_one(std::chrono::milliseconds patience);
  void activity();
  void count(base::Ps duration);
  bool expire_timers();
  Clock::duration until_next_timer(Clock::duration at_most) const;

  Params params_;
  std::atomic<bool> stopping_{false};
  std::mutex posted_lock_;
  std::vector<std::function<void(bool)>> posted_;
  std::atomic<bool> any_posted_{false};
  std::list<Timer> timers_;
  Activities activities_;
  uint64_t slices_ = 0;
  Clock::time_point progress_at_ = Clock::now();  // when progress_ was seen to change
  Clock::time_point looked_at_ = Clock::now();
  uint64_t progress_ = 0;
  bool told_stuck_ = false;
  Clock::time_point give_up_ = Clock::time_point::max();  // while draining
};

}  // namespace sim
