#include "hw/machine/machine.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <systemc>
#include <utility>

#include "hw/block/host_port.h"
#include "hw/cc/barrier_hub.h"
#include "hw/check/checker.h"
#include "hw/component_ids.h"
#include "hw/link/links.h"
#include "hw/machine/chip.h"
#include "hw/machine/executor.h"
#include "hw/machine/named.h"
#include "hw/machine/watch.h"
#include "hw/time/activity.h"
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
  p.policy = params.link_policy;
  p.wire = params.timing.link_wire;
  p.route_extra = params.timing.link_route_extra;
  p.switch_time = params.timing.link_switch;
  p.tracer = params.tracer;
  p.events = &events;
  p.repaired = [&chips] {
    for (const auto& chip : chips) chip->look_again();
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
      const EventKey key{events_.now() + task.after, component::kHostTasks, Phase::kEffect};
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
        activity([this] { look_for_rest(); }),
        queue("queue", [&machine](base::Error e) { machine.fail(std::move(e)); }),
        executor("tasks", activity, [&machine](base::Error e) { machine.fail(std::move(e)); }) {
    if (params.free_running) barriers.open_on_arrival();
    if (stops_at_rest()) queue.set_when_settled([this] { look_for_rest(); });
  }

  bool at_rest() const { return !activity.any() && queue.settled(); }
  // Blocks of others may keep the kernel going for ever.
  bool stops_at_rest() const { return !params.blocks.empty() && !params.free_running; }
  void look_for_rest() {
    if (stops_at_rest() && !to_grid && at_rest() &&
        sc_core::sc_get_status() == sc_core::SC_RUNNING) {
      sc_core::sc_pause();
    }
  }

  MachineParams params;
  AccessLog log;
  Counters counters;
  BarrierHub barriers;
  std::unique_ptr<check::Checker> checker;
  Activity activity;
  KernelQueue queue;
  Planned planned{queue};
  Executor executor;
  std::vector<std::unique_ptr<HostPort>> hosts;  // by chip, with host_sockets
  std::vector<std::unique_ptr<Chip>> chips;
  std::unique_ptr<Links> links;
  std::unique_ptr<NamedGroup> link_names, switch_names;
  std::vector<std::unique_ptr<Named>> names;
  std::unique_ptr<Watch> watch;
  std::optional<base::Error> error;
  uint64_t barrier_releases = 0;
  bool to_grid = false;  // at rest, on the way to the next multiple of block_grid
  std::optional<base::Ps> released_at;
  std::vector<base::Ps> released;
};

Machine::Machine(MachineParams params) : state_(std::make_unique<State>(std::move(params), *this)) {
  State& s = *state_;
  // Bursts and single packets only: what a block reads must not lie in a run that is yet to end.
  if (!s.params.blocks.empty()) s.params.coalesce = false;
  // A run counts on the order of the reservations.
  if (s.params.link_policy) s.params.coalesce = false;
  const PortContext ports{s.queue, s.activity, s.log, [this](base::Error e) { fail(std::move(e)); },
                          [this](base::Ps at_most, const std::function<bool()>& done) {
                            return run_until(at_most, done);
                          }};
  if (s.params.check) s.checker = std::make_unique<check::Checker>();
  const ChipContext context{s.queue,  s.barriers, s.counters,     s.log,
                            s.params, ports,      s.checker.get()};
  for (uint32_t c = 0; c < s.params.chips.size(); ++c) {
    const std::string name = "d" + std::to_string(c);
    s.chips.push_back(std::make_unique<Chip>(name.c_str(), c, context));
    if (!s.params.host_sockets) continue;
    s.hosts.push_back(std::make_unique<HostPort>((name + "_host").c_str(), name + ".host", ports));
    s.chips.back()->fabric().set_host(s.hosts.back().get(), &s.hosts.back()->port());
  }
  s.links = make_links(s.params, s.queue, s.chips);
  set_port(s.links.get());
  name_links();
  // Elaborates: from here on the sockets of blocks are bound and tasks start.
  if (!s.params.free_running) sc_core::sc_start(sc_core::SC_ZERO_TIME);
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
TargetPort& Machine::host_port(uint32_t number) {
  return state_->hosts.at(number)->port();
}
bool Machine::at_rest() const {
  return state_->at_rest();
}
void Machine::touch_all() {
  for (auto& chip : state_->chips) chip->touch_all();
}
void Machine::watch(const std::string& file, const std::vector<std::string>& patterns) {
  State& s = *state_;
  std::vector<Chip*> chips;
  for (auto& chip : s.chips) chips.push_back(chip.get());
  s.watch.reset();
  s.watch = std::make_unique<Watch>(file, patterns, s.queue, chips, s.links.get());
}

// "link.d0-d1" below "link", "L1_r0_s0" below "switch": no more dots, which part names.
void Machine::name_links() {
  State& s = *state_;
  if (!s.params.links.empty()) {
    s.link_names = std::make_unique<NamedGroup>("link", "soma_links");
    for (const LinkParams& link : s.params.links) {
      const std::string name =
          s.chips[link.a]->fabric().name() + "-" + s.chips[link.b]->fabric().name();
      s.names.push_back(name_below(*s.link_names, name, "soma_link"));
    }
  }
  if (s.params.switches.empty()) return;
  s.switch_names = std::make_unique<NamedGroup>("switch", "soma_switches");
  for (const SwitchParams& each : s.params.switches) {
    std::string name = each.name;
    std::replace(name.begin(), name.end(), '.', '_');
    s.names.push_back(name_below(*s.switch_names, name, "soma_switch"));
  }
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
check::Checker* Machine::checker() {
  return state_->checker.get();
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
  // What comes out of an event, a process or the kernel is ours only if all of the code is.
  if (error.fault == base::Fault::kInternal && state_->params.has_foreign_code()) {
    error.fault = base::Fault::kProgram;
  }
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

// From outside of the simulation, for an access to a block of others. False if it takes for ever.
bool Machine::run_until(base::Ps at_most, const std::function<bool()>& done) {
  const base::Ps end = now() + at_most;
  for (base::Ps step = base::ns(100); !done() && !state_->error && now() < end; step *= 2) {
    advance(std::min(step, end - now()), true);
  }
  return done();
}

RunOutcome Machine::run_to_quiescence(base::Ps slice) {
  State& s = *state_;
  const base::Ps end = now() + slice;
  while (!s.error) {
    if (s.at_rest()) {
      if (s.released_at) s.released.push_back(now() - *s.released_at);
      s.released_at.reset();
      if (!go_to_grid()) continue;
      if (!s.barriers.release_ready()) return RunOutcome::kQuiescent;
      ++s.barrier_releases;
      s.released_at = now();
      s.planned.start();
      continue;
    }
    const base::Ps left = end - now();
    if (left == 0) return RunOutcome::kSliceExpired;
    // Something waits for what only a request can bring, and nothing else happens.
    const base::Ps until = sc_core::sc_time_to_pending_activity().value();
    if (until == sc_core::sc_max_time().value() - now()) return RunOutcome::kQuiescent;
    // The kernel does not move time towards an event behind the limit unless told to; then the next
    // slice would find it as far away as this one.
    advance(left, until > left);
    if (until > left && !s.at_rest()) return RunOutcome::kSliceExpired;
  }
  return RunOutcome::kError;
}

// With blocks of others, to the next multiple of block_grid. False if something has begun to work.
bool Machine::go_to_grid() {
  State& s = *state_;
  const base::Ps over = s.stops_at_rest() ? now() % s.params.block_grid : 0;
  if (over == 0) return true;
  const base::Ps grid = now() + s.params.block_grid - over;
  s.to_grid = true;
  while (!s.error && now() < grid) advance(grid - now(), true);
  s.to_grid = false;
  return !s.error && s.at_rest();
}

std::vector<std::string> Machine::who_waits() {
  std::vector<std::string> lines;
  if (state_->links != nullptr) state_->links->who_waits(lines);
  for (auto& chip : state_->chips) chip->who_waits(lines);
  return lines;
}

}  // namespace hw
