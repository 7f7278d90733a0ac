#include "runtime/exec/poll_group.h"

#include <algorithm>
#include <ctime>

namespace nrt {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

constexpr nanoseconds kFirstSleep{20'000};
constexpr nanoseconds kLongestSleep{1'000'000};

void sleep_for(nanoseconds time) {
  constexpr int64_t kNsPerSecond = 1'000'000'000;
  const timespec duration{static_cast<time_t>(time.count() / kNsPerSecond),
                          static_cast<long>(time.count() % kNsPerSecond)};
  nanosleep(&duration, nullptr);
}

}  // namespace

PollGroup& PollGroup::instance() {
  // Never destroyed: threads may wait while the process exits.
  static auto* group = new PollGroup;
  return *group;
}

void PollGroup::wait(const std::function<bool()>& ready, Time deadline) {
  Waiter own;
  own.ready = &ready;
  Lock lock(mutex_);
  const auto at = waiters_.insert(waiters_.end(), &own);
  while (!own.woken && !ready() && Clock::now() < deadline) {
    if (led_) {
      own.changed.wait_until(lock, deadline);
    } else {
      lead(own, deadline, &lock);
    }
  }
  waiters_.erase(at);
  if (!led_ && !waiters_.empty()) waiters_.front()->changed.notify_one();
}

void PollGroup::lead(const Waiter& own, Time deadline, Lock* lock) {
  led_ = true;
  nanoseconds pause = kFirstSleep;
  while (!(*own.ready)()) {
    if (wake_others(own)) pause = kFirstSleep;
    const nanoseconds left = deadline - Clock::now();
    if (left.count() <= 0) break;
    lock->unlock();
    sleep_for(std::min(pause, left));
    lock->lock();
    pause = std::min(2 * pause, kLongestSleep);
  }
  led_ = false;
}

bool PollGroup::wake_others(const Waiter& own) {
  bool any = false;
  for (Waiter* waiter : waiters_) {
    if (waiter == &own || waiter->woken || !(*waiter->ready)()) continue;
    waiter->woken = any = true;
    waiter->changed.notify_one();
  }
  return any;
}

}  // namespace nrt
