#include "sim/main_loop.h"

#include <algorithm>
#include <utility>

#include "driver/node/request_queue.h"
#include "driver/node/status_page.h"

namespace sim {
namespace {

using std::chrono::milliseconds;

constexpr base::Ps kOverlapStep = base::us(10);
// How much simulated time passes between looks at stop(); a few milliseconds of wall time at worst.
constexpr base::Ps kEpochStep = base::ms(1);
constexpr milliseconds kPoll{500};
constexpr milliseconds kLook{500};  // between looks for progress
constexpr milliseconds kStuckAfter{3000};

}  // namespace

base::Status MainLoop::run() {
  while (!stopping_.exchange(false)) {
    serve_one(kPoll);
    if (const auto failure = params_.hardware->failure()) return *failure;
  }
  return {};
}

bool MainLoop::drain(const std::function<bool()>& done, milliseconds patience) {
  constexpr milliseconds kStep{2};
  give_up_ = Clock::now() + patience;
  bool finished = false;
  while (!(finished = params_.requests->pending() == 0 && done()) && Clock::now() < give_up_ &&
         !params_.hardware->failure()) {
    serve_one(kStep);
  }
  give_up_ = Clock::time_point::max();
  return finished;
}

void MainLoop::stop() {
  stopping_ = true;
  params_.requests->interrupt();
}

void MainLoop::post(std::function<void(bool)> task) {
  {
    const std::lock_guard<std::mutex> guard(posted_lock_);
    posted_.push_back(std::move(task));
    any_posted_ = true;
  }
  params_.requests->interrupt();
}

// True if there was something to run.
bool MainLoop::run_posted(bool at_rest) {
  if (!any_posted_) return false;
  std::vector<std::function<void(bool)>> tasks;
  {
    const std::lock_guard<std::mutex> guard(posted_lock_);
    tasks.swap(posted_);
    any_posted_ = false;
  }
  for (const auto& task : tasks) task(at_rest);
  return true;
}

void MainLoop::serve_one(milliseconds patience) {
  const auto wait = std::chrono::ceil<milliseconds>(until_next_timer(patience));
  const bool request = params_.requests->wait_for_request(wait);
  const bool posted = run_posted(true);
  if (request || posted || expire_timers()) activity();
  look_for_progress();
}

// A client that waits asks for states all the time, so requests alone are no progress.
void MainLoop::look_for_progress() {
  const auto now = Clock::now();
  if (now - looked_at_ < kLook) return;
  looked_at_ = now;
  const uint64_t progress = params_.hardware->progress();
  if (progress != progress_) {
    progress_ = progress;
    progress_at_ = now;
    told_stuck_ = false;
  } else if (!told_stuck_ && params_.stuck && now - progress_at_ > kStuckAfter) {
    told_stuck_ = true;
    params_.stuck();
  }
}

// From one rest of the machine to the next.
void MainLoop::activity() {
  Hardware& hardware = *params_.hardware;
  params_.status->machine_busy();
  const base::Ps begin = hardware.now();
  base::Ps shown = begin;
  const bool overlap = params_.policy == Policy::kOverlap;
  const base::Ps step = overlap ? kOverlapStep : std::min(kEpochStep, params_.slice);
  base::Ps slice_end = begin + params_.slice;
  bool late = false;  // a slice has passed without rest
  if (overlap) {
    params_.requests->admit_all();
  } else {
    params_.requests->admit_one();
  }
  while (!hardware.run(step) && !hardware.failure()) {
    expire_timers();
    run_posted(false);
    params_.status->machine_progress(hardware.now() - shown);
    shown = hardware.now();
    if (stopping_ || Clock::now() >= give_up_) break;
    if (overlap) {
      params_.requests->admit_all();
      continue;
    }
    if (hardware.now() >= slice_end) {
      ++slices_;
      slice_end = hardware.now() + params_.slice;
      late = true;
    }
    // One request per slice would keep a client from its own time limit for as many slices.
    if (late) params_.requests->admit_all();
  }
  params_.status->machine_idle(hardware.now() - shown, params_.requests->pending() > 0);
  count(hardware.now() - begin);
}

void MainLoop::count(base::Ps duration) {
  activities_.active += duration;
  for (const base::Ps released : params_.hardware->take_released()) {
    activities_.releases.add(released);
    duration -= std::min(duration, released);
  }
  if (duration > 0) activities_.requests.add(duration);
}

bool MainLoop::client_wait(const void* channel, uint64_t host_us) {
  const auto timer =
      timers_.insert(timers_.end(), {channel, Clock::now() + std::chrono::microseconds(host_us)});
  params_.hardware->executor().wait(channel, pcie::HostExecutor::kForever);
  const bool woken = !timer->expired;
  timers_.erase(timer);
  return woken;
}

// Wakes the tasks whose wall time is over; true if there was one.
bool MainLoop::expire_timers() {
  bool any = false;
  const auto now = Clock::now();
  for (Timer& timer : timers_) {
    if (timer.expired || timer.deadline > now) continue;
    timer.expired = any = true;
    params_.hardware->executor().wake(timer.channel);
  }
  return any;
}

MainLoop::Clock::duration MainLoop::until_next_timer(Clock::duration at_most) const {
  const auto now = Clock::now();
  for (const Timer& timer : timers_) {
    if (!timer.expired) at_most = std::min(at_most, std::max(timer.deadline - now, {}));
  }
  return at_most;
}

}  // namespace sim
