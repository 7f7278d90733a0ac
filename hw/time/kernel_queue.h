// The event queue inside a SystemC simulation: one method, notified for the earliest event only, so
// an idle machine schedules nothing. One per machine, which makes the order of events global.
//
// Most events concern only the queue. So while the kernel has nothing else to do, the queue
// executes them on its own, ahead of the kernel's time, and lets that catch up at the end: a turn
// of the kernel per event would cost more than the event. It never gets as far as the next thing
// that the kernel has to do, and what an event notifies itself (notify) counts as that at once. So
// a process that runs at time T finds everything done that lies before T, nothing that lies behind
// it, and now() is T: for the queue, for the kernel, for whomever it calls.
//
// What happens at one picosecond: first the events that were scheduled before it began, then the
// processes, by the rules of the kernel; so events that a process causes lie at least 1 ps later.
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
  // Notifies a process of the kernel at `time`, not before now(). From events and processes.
  void notify(sc_core::sc_event& event, base::Ps time);
  // Nothing but background is left to do, and the kernel's time has caught up.
  bool settled() const;
  // Called at the end of a turn that leaves the queue settled.
  void set_when_settled(std::function<void()> what) { when_settled_ = std::move(what); }
  // Called when all events of a time have been executed, at that time of the kernel: the queue does
  // not run ahead any more.
  void set_probe(std::function<void()> probe) { probe_ = std::move(probe); }

 protected:
  void next_time_changed() override;

 private:
  void run();
  void run_events();
  void wake_at(base::Ps time);
  base::Ps ahead() const;

  Failed failed_;
  std::function<void()> when_settled_;
  std::function<void()> probe_;
  sc_core::sc_event wake_;
  base::Ps horizon_ = 0;
  bool running_ = false;
};

}  // namespace hw
