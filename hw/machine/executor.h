// Runs driver tasks as coroutines of the SystemC kernel, in simulated time. Tasks run on reused
// threads of the kernel, so that a request costs no stack. Order is that of the calls. A task
// counts as activity of the machine, but not while it waits for a channel without a time-out.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <systemc>
#include <vector>

#include "arch/pcie/pcie.h"
#include "base/error.h"
#include "hw/time/activity.h"

namespace hw {

class Executor final : public sc_core::sc_module, public pcie::HostExecutor {
 public:
  // `failed` is told when an exception leaves a task.
  using Failed = std::function<void(base::Error)>;
  Executor(const sc_core::sc_module_name& name, Activity& activity, Failed failed);
  ~Executor() override;

  // From a task or from outside while the simulation stands still.
  void spawn(std::string name, std::function<void()> task) override;
  void wake(const void* channel) override;
  base::Ps now() const override;
  // From a task only.
  void delay(base::Ps time) override;
  bool wait(const void* channel, base::Ps timeout) override;

  size_t active() const;

 private:
  struct Worker;
  void run(Worker& worker);
  Worker& current();

  Activity& activity_;
  Failed failed_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace hw
