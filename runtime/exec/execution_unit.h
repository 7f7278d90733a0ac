// An execution unit: requests of one kind for one logical core, done one after the other in the
// order of their submission by a thread of the unit's own, which starts with the first request.
// Source of truth: spec/nrt-api.md 11.1 to 11.5. Own: 64 requests may be unfinished; when the
// runtime closes, what is queued is still done. Knows nothing of what a request does.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include <nrt/nrt_status.h>

#include "base/error.h"
#include "base/fd.h"

namespace nrt {

class ExecutionUnit {
 public:
  static constexpr uint64_t kDepth = 64;
  static constexpr unsigned kNumberBits = 48;
  static constexpr uint64_t kNumberMask = (uint64_t{1} << kNumberBits) - 1;

  struct Outcome {
    base::Status status;
    bool fatal = false;  // the unit does nothing any more
  };
  struct Request {
    std::function<Outcome(uint64_t sequence)> run;
    // Called with the result before the request counts as complete. May be empty.
    std::function<void(uint64_t sequence, NRT_STATUS result)> report;
  };

  explicit ExecutionUnit(uint16_t id) : id_(id) {}
  ExecutionUnit(const ExecutionUnit&) = delete;
  ExecutionUnit& operator=(const ExecutionUnit&) = delete;
  ~ExecutionUnit();  // after what is queued

  // Sequence numbers are whole: the unit's id above, the count below. Any thread.
  // NRT_QUEUE_FULL, or NRT_EXEC_UNIT_UNRECOVERABLE after a fatal outcome; never waits.
  base::Result<uint64_t> schedule(Request request);
  // Of the last request that is complete; the count is 0 before the first.
  uint64_t completed() const { return whole(completed_.load(std::memory_order_acquire)); }
  // NRT_INVALID: never issued.
  base::Result<bool> is_complete(uint64_t sequence) const;

  // Does `work` behind what is queued, without a number, and waits for it. False, and nothing done,
  // if the unit is idle.
  bool do_in_turn(const std::function<void()>& work);

  // Adds 1 to an eventfd when the request is complete, at once if it is. Any number of them.
  base::Status add_event(uint64_t sequence, base::UniqueFd event);
  base::Status drop_events(uint64_t sequence);
  // The same for every request that completes from now on. One: replaces the last, none ends it.
  void set_unit_event(base::UniqueFd event);

  // False: nothing has completed for so long although something is queued.
  bool wait_idle(std::chrono::milliseconds patience);

 private:
  struct Item {
    uint64_t number = 0;  // 0: work that is done in turn
    Request request;
  };
  using Lock = std::unique_lock<std::mutex>;

  uint64_t whole(uint64_t number) const { return uint64_t{id_} << kNumberBits | number; }
  base::Status check_issued(uint64_t sequence) const;  // the mutex is held
  bool idle() const { return queue_.empty() && !busy_; }
  void start_thread();
  void serve();
  void finish(uint64_t number, bool fatal);  // the mutex is held

  const uint16_t id_;
  mutable std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable progress_;
  std::deque<Item> queue_;
  bool busy_ = false;
  bool dead_ = false;
  bool ending_ = false;
  uint64_t issued_ = 0;
  std::atomic<uint64_t> completed_{0};
  uint64_t done_ = 0;                               // items of both kinds
  std::multimap<uint64_t, base::UniqueFd> events_;  // by number
  base::UniqueFd unit_event_;
  std::thread thread_;
};

}  // namespace nrt
