#include "runtime/exec/execution_unit.h"

#include <unistd.h>

#include <cstdint>
#include <new>
#include <string>
#include <utility>

#include "runtime/nrt/status.h"

namespace nrt {
namespace {

// An eventfd that nobody reads for 2^64 - 2 completions; a full one is as readable as before.
void signal_event(const base::UniqueFd& event) {
  const uint64_t one = 1;
  if (event.valid()) (void)!::write(event.get(), &one, sizeof one);
}

ExecutionUnit::Outcome run_guarded(const ExecutionUnit::Request& request, uint64_t sequence) {
  try {
    return request.run(sequence);
  } catch (const std::bad_alloc&) {
    return {error(NRT_RESOURCE, "Out of host memory", base::Fault::kResource)};
  } catch (...) {
    return {error(NRT_FAILURE, "Unexpected failure", base::Fault::kInternal)};
  }
}

}  // namespace

ExecutionUnit::~ExecutionUnit() {
  {
    const Lock lock(mutex_);
    ending_ = true;
  }
  work_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ExecutionUnit::start_thread() {
  if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
}

base::Result<uint64_t> ExecutionUnit::schedule(Request request) {
  const Lock lock(mutex_);
  if (dead_) {
    return error(NRT_EXEC_UNIT_UNRECOVERABLE,
                 "The execution unit is in an undefined state after an earlier error");
  }
  if (issued_ - completed_ >= kDepth) {
    return error(NRT_QUEUE_FULL,
                 std::to_string(kDepth) + " requests of the execution unit are unfinished");
  }
  start_thread();
  queue_.push_back({issued_ + 1, std::move(request)});
  ++issued_;
  work_.notify_one();
  return whole(issued_);
}

bool ExecutionUnit::do_in_turn(const std::function<void()>& work) {
  Lock lock(mutex_);
  if (idle()) return false;
  bool done = false;
  Request request;
  request.run = [&](uint64_t) -> Outcome {
    work();
    return {};
  };
  request.report = [&](uint64_t, NRT_STATUS) {
    const Lock inner(mutex_);
    done = true;
  };
  queue_.push_back({0, std::move(request)});
  work_.notify_one();
  progress_.wait(lock, [&] { return done; });
  return true;
}

base::Status ExecutionUnit::check_issued(uint64_t sequence) const {
  const uint64_t number = sequence & kNumberMask;
  if (sequence >> kNumberBits == id_ && number != 0 && number <= issued_) return {};
  return error(NRT_INVALID, "No request has the number " + std::to_string(number) +
                                " of execution unit " + std::to_string(id_));
}

base::Result<bool> ExecutionUnit::is_complete(uint64_t sequence) const {
  const Lock lock(mutex_);
  if (base::Status s = check_issued(sequence); !s.ok()) return s.error();
  return (sequence & kNumberMask) <= completed_;
}

base::Status ExecutionUnit::add_event(uint64_t sequence, base::UniqueFd event) {
  const Lock lock(mutex_);
  if (base::Status s = check_issued(sequence); !s.ok()) return s;
  const uint64_t number = sequence & kNumberMask;
  if (number <= completed_) {
    signal_event(event);
  } else {
    events_.emplace(number, std::move(event));
  }
  return {};
}

base::Status ExecutionUnit::drop_events(uint64_t sequence) {
  const Lock lock(mutex_);
  if (base::Status s = check_issued(sequence); !s.ok()) return s;
  events_.erase(sequence & kNumberMask);
  return {};
}

void ExecutionUnit::set_unit_event(base::UniqueFd event) {
  const Lock lock(mutex_);
  unit_event_ = std::move(event);
}

bool ExecutionUnit::wait_idle(std::chrono::milliseconds patience) {
  Lock lock(mutex_);
  while (!idle()) {
    const uint64_t before = done_;
    const bool moved =
        progress_.wait_for(lock, patience, [&] { return idle() || done_ != before; });
    if (!moved) return false;
  }
  return true;
}

void ExecutionUnit::serve() {
  Lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return !queue_.empty() || ending_; });
    if (queue_.empty()) return;
    Item item = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    const bool dead = dead_ && item.number != 0;
    lock.unlock();
    const uint64_t sequence = whole(item.number);
    const Outcome outcome =
        dead ? Outcome{error(NRT_EXEC_UNIT_UNRECOVERABLE,
                             "An earlier request of the execution unit has failed for good")}
             : run_guarded(item.request, sequence);
    if (item.request.report) {
      item.request.report(sequence,
                          outcome.status.ok() ? NRT_SUCCESS : status_of(outcome.status.error()));
    }
    item.request = {};  // what it held is free once it counts as complete
    lock.lock();
    finish(item.number, outcome.fatal);
  }
}

// Whoever learns from an event that a request is complete sees its number in completed().
void ExecutionUnit::finish(uint64_t number, bool fatal) {
  busy_ = false;
  dead_ = dead_ || fatal;
  ++done_;
  if (number != 0) {
    completed_.store(number, std::memory_order_release);
    const auto [first, last] = events_.equal_range(number);
    for (auto at = first; at != last; ++at) signal_event(at->second);
    events_.erase(first, last);
    signal_event(unit_event_);
  }
  progress_.notify_all();
}

}  // namespace nrt
