#include "tools/soma/watchdog.h"

namespace soma {

Watchdog::~Watchdog() {
  {
    const std::lock_guard<std::mutex> guard(lock_);
    ended_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::arm(std::chrono::milliseconds patience) {
  const std::lock_guard<std::mutex> guard(lock_);
  if (ended_ || thread_.joinable()) return;
  thread_ = std::thread([this, patience] {
    std::unique_lock<std::mutex> held(lock_);
    if (!changed_.wait_for(held, patience, [this] { return ended_; })) expired_();
  });
}

}  // namespace soma
