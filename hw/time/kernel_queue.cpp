#include "hw/time/kernel_queue.h"

#include <algorithm>
#include <exception>

namespace hw {

namespace {
// The time resolution is SystemC's default, one picosecond; the constructor checks it.
base::Ps kernel_now() {
  return sc_core::sc_time_stamp().value();
}
}  // namespace

KernelQueue::KernelQueue(const sc_core::sc_module_name& name, Failed failed)
    : sc_module(name), failed_(std::move(failed)) {
  if (sc_core::sc_get_time_resolution() != sc_core::sc_time(1, sc_core::SC_PS)) {
    SC_REPORT_FATAL("time", "the time resolution must be 1 ps");
  }
  SC_METHOD(run);
  sensitive << wake_;
  dont_initialize();
}

base::Ps KernelQueue::now() const {
  return running_ ? EventQueue::now() : kernel_now();
}

void KernelQueue::notify(sc_core::sc_event& event, base::Ps time) {
  event.notify(sc_core::sc_time::from_value(time - kernel_now()));
  if (running_) stop_before(time);
}

bool KernelQueue::settled() const {
  return at_rest() && EventQueue::now() <= kernel_now();
}

void KernelQueue::wake_at(base::Ps time) {
  const base::Ps now = kernel_now();
  wake_.notify(sc_core::sc_time::from_value(time > now ? time - now : 0));
}

void KernelQueue::next_time_changed() {
  if (running_) return;  // run() notifies once at its end
  wake_.cancel();
  if (next_time() != kForever) wake_at(next_time());
}

// The last time before anything else happens in the kernel.
base::Ps KernelQueue::ahead() const {
  const base::Ps now = kernel_now();
  if (probe_) return now;
  const base::Ps until = sc_core::sc_time_to_pending_activity().value();
  const base::Ps quiet = until == 0 || until > kForever - now ? until : now + until - 1;
  return std::max(now, std::min(horizon_, quiet));
}

void KernelQueue::run_events() {
  if (!failed_) return run_until(ahead());
  try {
    run_until(ahead());
  } catch (const std::exception& e) {
    failed_({base::Fault::kInternal, 0, name(), e.what()});
  }
}

void KernelQueue::run() {
  running_ = true;
  run_events();
  running_ = false;
  if (probe_) probe_();
  if (EventQueue::now() > kernel_now()) return wake_at(EventQueue::now());
  next_time_changed();
  if (when_settled_ && at_rest()) when_settled_();
}

}  // namespace hw
