// The event queue inside a SystemC simulation: one method, notified for the earliest event only, so
// an idle machine schedules nothing. One per machine, which makes the order of events global.
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

 protected:
  void next_time_changed() override;

 private:
  void run();
  void run_events();

  Failed failed_;
  sc_core::sc_event wake_;
  bool running_ = false;
};

}  // namespace hw
