// The event queue inside a SystemC simulation: one method, notified for the earliest event only, so
// an idle machine schedules nothing. One per machine, which makes the order of events global.
#pragma once

#include <systemc>

#include "hw/time/event_queue.h"

namespace hw {

class KernelQueue : public sc_core::sc_module, public EventQueue {
 public:
  SC_HAS_PROCESS(KernelQueue);
  explicit KernelQueue(const sc_core::sc_module_name& name);

  base::Ps now() const override;

 protected:
  void next_time_changed() override;

 private:
  void run();

  sc_core::sc_event wake_;
  bool running_ = false;
};

}  // namespace hw
