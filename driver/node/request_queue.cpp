#include "driver/node/request_queue.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "arch/pcie/pcie.h"

namespace driver {

RequestQueue::RequestQueue(pcie::HostExecutor& executor)
    : executor_(executor), event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void RequestQueue::push(std::string name, Task task) {
  {
    const std::lock_guard<std::mutex> guard(lock_);
    entries_.push_back({std::move(name), std::move(task)});
    if (event_used_) signal_event();
  }
  arrived_.notify_one();
}

void RequestQueue::signal_event() {
  const uint64_t one = 1;
  // A full counter is readable too, so a failing write loses nothing.
  [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof one);
}

int RequestQueue::event_fd() {
  const std::lock_guard<std::mutex> guard(lock_);
  if (!event_used_ && !entries_.empty()) signal_event();
  event_used_ = true;
  return event_.get();
}

bool RequestQueue::wait_for_request(std::chrono::milliseconds timeout) {
  std::unique_lock<std::mutex> guard(lock_);
  arrived_.wait_for(guard, timeout, [this] { return !entries_.empty() || interrupted_; });
  interrupted_ = false;
  return !entries_.empty();
}

bool RequestQueue::admit_one() {
  Entry entry;
  {
    const std::lock_guard<std::mutex> guard(lock_);
    if (entries_.empty()) return false;
    entry = std::move(entries_.front());
    entries_.pop_front();
    if (entries_.empty() && event_used_) {
      uint64_t drained = 0;
      [[maybe_unused]] const ssize_t got = read(event_.get(), &drained, sizeof drained);
    }
  }
  executor_.spawn(std::move(entry.name), std::move(entry.task));
  return true;
}

size_t RequestQueue::admit_all() {
  size_t admitted = 0;
  for (size_t left = pending(); left > 0 && admit_one(); --left) ++admitted;
  return admitted;
}

size_t RequestQueue::pending() const {
  const std::lock_guard<std::mutex> guard(lock_);
  return entries_.size();
}

void RequestQueue::interrupt() {
  {
    const std::lock_guard<std::mutex> guard(lock_);
    interrupted_ = true;
  }
  arrived_.notify_one();
}

}  // namespace driver
