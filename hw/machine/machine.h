// A machine: chips, the queue of events, the executor of driver tasks, and the loop that runs them.
// One per process (SystemC elaborates once). Build it, then call run_to_quiescence() whenever
// there is something to do; everything happens on the calling thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arch/pcie/pcie.h"
#include "base/error.h"
#include "base/units.h"
#include "hw/machine/params.h"
#include "hw/stats.h"

namespace hw {

namespace check {
class Checker;
}  // namespace check
class BarrierHub;
class Chip;
class ChipPort;
class EventQueue;
class Links;
class TargetPort;

enum class RunOutcome {
  kQuiescent,     // nothing happens any more without a new request
  kSliceExpired,  // the slice is over and the machine is still busy
  kError,         // an emulator error; error() has it, the machine must not run any more
};

class Machine {
 public:
  // Throws std::exception when the machine cannot be built. Elaborates, unless it is free running.
  explicit Machine(MachineParams params);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  const MachineParams& params() const;
  uint32_t chips() const;
  Chip& chip(uint32_t number);
  pcie::Device& device(uint32_t number);   // the chip's PCIe function
  TargetPort& host_port(uint32_t number);  // with host_sockets: to be bound
  pcie::HostExecutor& executor();
  EventQueue& queue();
  // Replaces the ways between chips, which are those of the parameters' links and windows. With
  // neither, a peer address is a bus error.
  void set_port(ChipPort* port);
  Links* links();  // null when there is nothing between the chips

  // Runs until the machine is at rest: nothing of it is at work, as all that works counts itself
  // (hw/time/activity.h). At most `slice` of simulated time (time has advanced by it when the slice
  // expires). Whenever everything rests, complete barriers open together.
  RunOutcome run_to_quiescence(base::Ps slice);
  bool at_rest() const;
  // Makes every part that else comes into being on first touch, so that all have their names in
  // SystemC's hierarchy (hw/machine/named.h).
  void touch_all();
  // Writes signals to a VCD file from now on (hw/machine/watch.h). Throws std::invalid_argument.
  void watch(const std::string& file, const std::vector<std::string>& patterns);
  base::Ps now() const;
  const std::optional<base::Error>& error() const;
  // Does `what` once, `after` the next time that barriers open.
  void after_release(base::Ps after, std::function<void()> what);
  // Records the first error and stops the simulation.
  void fail(base::Error error);

  // Who waits on what, for reports of hangs: one line per waiting engine, CC-core and DMA
  // queue, and per direction of a link that is down. Tasks are not listed: a driver always has some
  // that wait for work.
  std::vector<std::string> who_waits();
  Counters& counters();
  AccessLog& access_log();
  check::Checker* checker();  // null: nothing is checked
  uint64_t barrier_releases() const;
  // Times from each release of barriers to the rest after it, since the last call.
  std::vector<base::Ps> take_released();

 private:
  void advance(base::Ps limit, bool to_limit);
  bool run_until(base::Ps at_most, const std::function<bool()>& done);
  bool go_to_grid();
  void name_links();

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hw
