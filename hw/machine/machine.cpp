#include "hw/machine/machine.h"

#include <exception>
#include <functional>
#include <systemc>
#include <utility>

#include "hw/cc/barrier_hub.h"
#include "hw/link/links.h"
#include "hw/machine/chip.h"
#include "hw/machine/executor.h"
#include "hw/time/kernel_queue.h"

// The SystemC library wants this entry point even where main() is ours.
__attribute__((weak, visibility("default"))) int sc_main(int, char**) {
  return 0;
}

namespace hw {

namespace {

// Null when the chips have nothing between them.
std::unique_ptr<Links> make_links(const MachineParams& params, EventQueue& events,
                                  const std::vector<std::unique_ptr<Chip>>& chips) {
  static_assert(kNoNeighbour == ChipPort::kNoChip);
  Links::Params p;
  p.links = params.links;
  p.switches = params.switches;
  p.routes = params.routes;
  p.wire = params.timing.link_wire;
  p.route_extra = params.timing.link_route_extra;
  p.switch_time = params.timing.link_switch;
  p.tracer = params.tracer;
  p.events = &events;
  p.repaired = [&chips] {
    for (const auto& chip : chips) chip->dma().look_again();
  };
  bool any = !p.links.empty() || !p.switches.empty();
  for (const ChipParams& chip : params.chips) {
    p.windows.push_back(chip.neighbours);
    for (const uint32_t other : chip.neighbours) any = any || other != kNoNeighbour;
  }
  if (!any) return nullptr;
  std::vector<Fabric*> fabrics;
  for (const auto& chip : chips) fabrics.push_back(&chip->fabric());
  return std::make_unique<Links>(p, std::move(fabrics));
}

// What is to be done some time after barriers open, each once.
class Planned final : public EventSink {
 public:
  explicit Planned(EventQueue& events) : events_(events) {}

  void add(base::Ps after, std::function<void()> what) {
    waiting_.push_back({after, std::move(what)});
  }
  // Barriers open now.
  void start() {
    for (Task& task : waiting_) {
      // After everything else of that instant, whatever it is.
      const EventKey key{events_.now() + task.after, ~0u, Phase::kEffect};
      events_.schedule(key, *this, 0, started_.size());
      started_.push_back(std::move(task.what));
    }
    waiting_.clear();
  }
  void on_event(const EventKey&, uint32_t, uint64_t number) override {
    std::exchange(started_[number], nullptr)();
  }

 private:
  struct Task {
    base::Ps after = 0;
    std::function<void()> what;
  };
  EventQueue& events_;
  std::vector<Task> waiting_;
  std::vector<std::function<void()>> started_;  // by number; few in the life of a machine
};

}  // namespace

struct Machine::State {
  State(MachineParams p, Machine& machine)
      : params(std::move(p)),
        queue("queue", [&machine](base::Error e) { machine.fail(std::move(e)); }),
        executor("tasks", [&machine](base::Error e) { machine.fail(std::move(e)); }) {}

  MachineParams params;
  AccessLog log;
  Counters counters;
  BarrierHub barriers;
  KernelQueue queue;
  Planned planned{queue};
  Executor executor;
  std::vector<std::unique_ptr<Chip>> chips;
  std::unique_ptr<Links> links;
  std::optional<base::Error> error;
  uint64_t barrier_releases = 0;
  std::optional<base::Ps> released_at;
  std::vector<base::Ps> released;
};

Machine::Machine(MachineParams params) : state_(std::make_unique<State>(std::move(params), *this)) {
  State& s = *state_;
  const ChipContext context{s.queue, s.barriers, s.counters, s.log, s.params};
  for (uint32_t c = 0; c < s.params.chips.size(); ++c) {
    const std::string name = "d" + std::to_string(c);
    s.chips.push_back(std::make_unique<Chip>(name.c_str(), c, context));
  }
  s.links = make_links(s.params, s.queue, s.chips);
  set_port(s.links.get());
  // Elaborates: from here on the sockets are bound and registers answer.
  sc_core::sc_start(sc_core::SC_ZERO_TIME);
}

Machine::~Machine() = default;

const MachineParams& Machine::params() const {
  return state_->params;
}
uint32_t Machine::chips() const {
  return static_cast<uint32_t>(state_->chips.size());
}
Chip& Machine::chip(uint32_t number) {
  return *state_->chips[number];
}
pcie::Device& Machine::device(uint32_t number) {
  return chip(number).device();
}
pcie::HostExecutor& Machine::executor() {
  return state_->executor;
}
EventQueue& Machine::queue() {
  return state_->queue;
}
Counters& Machine::counters() {
  return state_->counters;
}
AccessLog& Machine::access_log() {
  return state_->log;
}
uint64_t Machine::barrier_releases() const {
  return state_->barrier_releases;
}

std::vector<base::Ps> Machine::take_released() {
  return std::exchange(state_->released, {});
}

void Machine::set_port(ChipPort* port) {
  for (auto& chip : state_->chips) chip->fabric().set_port(port);
}

void Machine::after_release(base::Ps after, std::function<void()> what) {
  state_->planned.add(after, std::move(what));
}

Links* Machine::links() {
  return state_->links.get();
}

base::Ps Machine::now() const {
  return sc_core::sc_time_stamp().value();
}

const std::optional<base::Error>& Machine::error() const {
  return state_->error;
}

void Machine::fail(base::Error error) {
  if (!state_->error) state_->error = std::move(error);
  if (sc_core::sc_get_status() == sc_core::SC_RUNNING) sc_core::sc_pause();
}

void Machine::advance(base::Ps limit, bool to_limit) {
  state_->queue.set_horizon(now() + limit);
  try {
    sc_core::sc_start(sc_core::sc_time::from_value(limit),
                      to_limit ? sc_core::SC_RUN_TO_TIME : sc_core::SC_EXIT_ON_STARVATION);
  } catch (const std::exception& e) {
    fail({base::Fault::kInternal, 0, "simulation kernel", e.what()});
  }
}

RunOutcome Machine::run_to_quiescence(base::Ps slice) {
  const base::Ps end = now() + slice;
  while (!state_->error) {
    if (!sc_core::sc_pending_activity()) {
      if (state_->released_at) state_->released.push_back(now() - *state_->released_at);
      state_->released_at.reset();
      if (!state_->barriers.release_ready()) return RunOutcome::kQuiescent;
      ++state_->barrier_releases;
      state_->released_at = now();
      state_->planned.start();
      continue;
    }
    const base::Ps left = end - now();
    const bool beyond = sc_core::sc_time_to_pending_activity().value() > left;
    // The kernel does not move time towards an event behind the limit unless told to; then the next
    // slice would find it as far away as this one.
    if (left != 0) advance(left, beyond);
    if (state_->error) break;
    if (left == 0 || beyond) return RunOutcome::kSliceExpired;
  }
  return RunOutcome::kError;
}

std::vector<std::string> Machine::who_waits() {
  std::vector<std::string> lines;
  if (state_->links != nullptr) state_->links->who_waits(lines);
  for (auto& chip : state_->chips) chip->who_waits(lines);
  return lines;
}

}  // namespace hw
