// Requests of clients on their way from the I/O thread to the machine's kernel thread. Admission is
// the caller's: under policy epoch the machine's main loop admits one when the machine is
// quiescent.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>

#include "base/fd.h"

namespace pcie {
class HostExecutor;
}

namespace driver {

class RequestQueue {
 public:
  using Task = std::function<void()>;

  explicit RequestQueue(pcie::HostExecutor& executor);

  // I/O thread.
  void push(std::string name, Task task);

  // Kernel thread. True when a request is pending, false after `timeout`.
  bool wait_for_request(std::chrono::milliseconds timeout);
  // Starts the oldest pending request as a driver task; false when none is pending.
  bool admit_one();
  // Starts all that are pending; their number.
  size_t admit_all();

  // Any thread.
  size_t pending() const;
  // Readable while a request is pending, for a main loop that polls other descriptors too.
  int event_fd();
  // Wakes wait_for_request without a request.
  void interrupt();

 private:
  struct Entry {
    std::string name;
    Task task;
  };

  void signal_event();

  pcie::HostExecutor& executor_;
  base::UniqueFd event_;
  mutable std::mutex lock_;
  std::condition_variable arrived_;
  std::deque<Entry> entries_;
  bool interrupted_ = false;
  bool event_used_ = false;  // nobody pays for a descriptor that nobody watches
};

}  // namespace driver
