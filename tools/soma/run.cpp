// `soma run`: a machine for one command. The application's exit code is ours; a failure of the
// machine has a code of its own (options.h).
#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

#include "tools/soma/options.h"
#include "tools/soma/session.h"
#include "tools/soma/supervisor.h"
#include "tools/soma/watchdog.h"

namespace soma {
namespace {

// With the machine after the application's end; its report may have to wait 2 s for connections
// that close.
constexpr std::chrono::milliseconds kPatience{10000};

int fail(const base::Error& error) {
  complain(error.message());
  return error.fault == base::Fault::kConfig ? kExitUsage : exit_code(error.fault);
}

// The process ends here: the simulation thread, which owns everything, does not answer.
[[noreturn]] void give_up(const std::string& directory) {
  complain("the machine does not come to an end; killed, without a report");
  Supervisor::kill_descendants();
  RuntimeDir::remove_at(directory);
  ::_exit(exit_code(base::Fault::kInternal));
}

// Serves until the child ends or the machine fails; the child's exit code.
int serve(Supervisor& child, sim::Machine& machine, Watchdog& watchdog, base::Status& status) {
  child.watch([&] {
    watchdog.arm(kPatience);
    machine.stop();
  });
  status = machine.serve();
  if (!status) child.terminate();
  return child.wait();
}

}  // namespace

int run(const RunOptions& options) {
  Supervisor child;  // before any thread starts
  base::Result<RuntimeDir> directory = RuntimeDir::create();
  if (!directory) return fail(directory.error());
  Watchdog watchdog([path = directory->path()] { give_up(path); });
  auto session = Session::create(options.machine, std::move(*directory));
  if (!session) return fail(session.error());
  sim::Machine& machine = (*session)->machine();

  const auto environment = client_environment(machine.socket_path(), options.machine.clock, 0);
  if (!environment) return fail(environment.error());
  const base::Status started = child.start(options.command, *environment);
  if (!started) {
    complain(started.error().message());
    return kExitNotFound;
  }
  base::Status served;
  int code = serve(child, machine, watchdog, served);

  sim::Report report = machine.take_report();
  if (!served) {
    report.set_failure(served.error());
    code = fail(served.error());
  }
  print_warnings(report);
  for (const base::Status& written :
       {options.report.empty() ? base::Status() : report.write(options.report),
        (*session)->finish_trace()}) {
    if (!written) {
      complain(written.error().message());
      if (code == 0) code = exit_code(written.error().fault);
    }
  }
  return code;
}

}  // namespace soma
