#define SC_INCLUDE_DYNAMIC_PROCESSES
#include "hw/machine/executor.h"

#include <exception>
#include <stdexcept>

namespace hw {

namespace {

// Driver tasks keep buffers of some ten KiB on their stack.
constexpr int kStackBytes = 512 * 1024;

sc_core::sc_time to_sc(base::Ps time) {
  return sc_core::sc_time::from_value(time);
}

}  // namespace

struct Executor::Worker {
  std::string name;
  std::function<void()> task;  // empty: idle
  sc_core::sc_event start;
  sc_core::sc_event woken_event;
  sc_core::sc_process_handle process;
  const void* channel = nullptr;  // waits for it, if not null
  bool forever = false;
  bool woken = false;
};

Executor::Executor(const sc_core::sc_module_name& name, Activity& activity, Failed failed)
    : sc_module(name), activity_(activity), failed_(std::move(failed)) {}

Executor::~Executor() = default;

void Executor::spawn(std::string name, std::function<void()> task) {
  activity_.begin();
  for (auto& worker : workers_) {
    if (worker->task) continue;
    worker->name = std::move(name);
    worker->task = std::move(task);
    worker->start.notify(sc_core::SC_ZERO_TIME);
    return;
  }
  workers_.push_back(std::make_unique<Worker>());
  Worker* worker = workers_.back().get();
  worker->name = std::move(name);
  worker->task = std::move(task);
  sc_core::sc_spawn_options options;
  options.set_stack_size(kStackBytes);
  const std::string process = "task" + std::to_string(workers_.size() - 1);
  worker->process = sc_core::sc_spawn([this, worker] { run(*worker); }, process.c_str(), &options);
}

void Executor::run(Worker& worker) {
  for (;;) {
    try {
      worker.task();
    } catch (const sc_core::sc_unwind_exception&) {
      throw;  // the kernel ends the process
    } catch (const std::exception& e) {
      failed_({base::Fault::kInternal, 0, "task " + worker.name, e.what()});
    } catch (...) {
      failed_({base::Fault::kInternal, 0, "task " + worker.name, "unknown exception"});
    }
    worker.task = nullptr;
    activity_.end();
    while (!worker.task) sc_core::wait(worker.start);
  }
}

base::Ps Executor::now() const {
  return sc_core::sc_time_stamp().value();
}

Executor::Worker& Executor::current() {
  const sc_core::sc_process_handle self = sc_core::sc_get_current_process_handle();
  for (auto& worker : workers_) {
    if (worker->process == self) return *worker;
  }
  throw std::logic_error("a wait outside a driver task");
}

void Executor::delay(base::Ps time) {
  sc_core::wait(to_sc(time));
}

bool Executor::wait(const void* channel, base::Ps timeout) {
  Worker& worker = current();
  worker.channel = channel;
  worker.forever = timeout == kForever;
  worker.woken = false;
  if (worker.forever) {
    activity_.end();
    while (!worker.woken) sc_core::wait(worker.woken_event);
  } else {
    const base::Ps end = now() + timeout;
    while (!worker.woken && now() < end) sc_core::wait(to_sc(end - now()), worker.woken_event);
  }
  worker.channel = nullptr;
  return worker.woken;
}

void Executor::wake(const void* channel) {
  for (auto& worker : workers_) {
    if (worker->channel != channel || worker->woken) continue;
    worker->woken = true;
    if (worker->forever) activity_.begin();
    worker->woken_event.notify(sc_core::SC_ZERO_TIME);
  }
}

size_t Executor::active() const {
  size_t n = 0;
  for (const auto& worker : workers_) n += worker->task ? 1 : 0;
  return n;
}

}  // namespace hw
