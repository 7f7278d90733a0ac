// Threads of one process that wait for notifications of different cores: one of them looks at the
// memory of all, the others sleep. A thousand polling threads would leave no processor for those
// that still have something to do.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>

namespace nrt {

class PollGroup {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static PollGroup& instance();

  // Returns when `ready` holds or `deadline` has come. `ready` only reads memory; another waiting
  // thread may call it.
  void wait(const std::function<bool()>& ready, Time deadline);

 private:
  struct Waiter {
    const std::function<bool()>* ready;
    bool woken = false;
    std::condition_variable changed;
  };
  using Lock = std::unique_lock<std::mutex>;

  void lead(const Waiter& own, Time deadline, Lock* lock);
  bool wake_others(const Waiter& own);

  std::mutex mutex_;
  std::list<Waiter*> waiters_;
  bool led_ = false;
};

}  // namespace nrt
