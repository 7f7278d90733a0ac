// The event queue inside a SystemC simulation: one method, notified for the earliest event only, so
// an idle machine schedules nothing. One per machine, which makes the order of events global.
//
// Events concern only the queue: none of them notifies a process. So while the kernel has nothing
// else to do, the queue executes them on its own, ahead of the kernel's time, and lets that catch
// up at the end: a turn of the kernel per event would cost more than the event.
#pragma once

#include <functional>
#include <systemc>

#include "base/error.h"
#include "hw/time/event_queue.h"

namespace hw {

class KernelQueue : public sc_core::sc_module, public EventQueue {
 public:
  SC_HAS_PROCESS(KernelQueue);
  // `failed` is told when an exception leaves an event; without it the kernel reports it.
  using Failed = std::function<void(base::Error)>;
  explicit KernelQueue(const sc_core::sc_module_name& name, Failed failed = {});

  base::Ps now() const override;
  // How far the queue may run ahead: to where the simulation stops next. 0: not at all.
  void set_horizon(base::Ps time) { horizon_ = time; }

 protected:
  void next_time_changed() override;

 private:
  void run();
  void run_events();
  void wake_at(base::Ps time);
  base::Ps ahead() const;

  Failed failed_;
  sc_core::sc_event wake_;
  base::Ps horizon_ = 0;
  bool running_ = false;
};

}  // namespace hw
