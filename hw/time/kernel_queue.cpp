#include "hw/time/kernel_queue.h"

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
  return kernel_now();
}

void KernelQueue::next_time_changed() {
  if (running_) return;  // run() notifies once at its end
  wake_.cancel();
  const base::Ps next = next_time();
  if (next == kForever) return;
  const base::Ps now = kernel_now();
  wake_.notify(sc_core::sc_time::from_value(next > now ? next - now : 0));
}

void KernelQueue::run_events() {
  if (!failed_) return run_until(kernel_now());
  try {
    run_until(kernel_now());
  } catch (const std::exception& e) {
    failed_({base::Fault::kInternal, 0, name(), e.what()});
  }
}

void KernelQueue::run() {
  running_ = true;
  run_events();
  running_ = false;
  next_time_changed();
}

}  // namespace hw
