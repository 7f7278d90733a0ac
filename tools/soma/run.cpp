// `soma run`: a machine for one command. The application's exit code is ours; a failure of the
// machine has a code of its own (options.h).
#include <unistd.h>

#include <string>
#include <vector>

#include "tools/soma/conclude.h"
#include "tools/soma/control.h"
#include "tools/soma/options.h"
#include "tools/soma/place.h"
#include "tools/soma/session.h"
#include "tools/soma/supervisor.h"
#include "tools/soma/watchdog.h"

namespace soma {
namespace {

// The process ends here: the simulation thread, which owns everything, does not answer.
[[noreturn]] void give_up(const std::string& directory) {
  complain("the machine does not come to an end; killed, without a report");
  Supervisor::kill_descendants();
  RuntimeDir::remove_at(directory);
  ::_exit(exit_code(base::Fault::kInternal));
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

  const Running running{(*session)->directory(), machine.socket_path(), options.machine.clock,
                        machine.host_names()};
  write_info(running);
  const auto environment = client_environment(running, 0);
  if (!environment) return fail(environment.error());
  // Its children may take links down.
  ControlServer::Handlers handlers;
  handlers.direct = [&](const auto& request) {
    if (!serve_link(machine, request)) ControlServer::answer(*request, "unknown request");
    return true;
  };
  auto control = ControlServer::start((*session)->directory(), false, std::move(handlers));
  if (!control) return fail(control.error());
  const base::Status started = child.start(options.command, *environment);
  if (!started) {
    complain(started.error().message());
    return kExitNotFound;
  }
  base::Status served;
  const int code = serve_child(
      child, watchdog, [&] { return machine.serve(); }, [&] { machine.stop(); }, served);
  return conclude(machine.take_report(), served, code, options.report, (*session)->instruments(),
                  options.machine.check == "on");
}

}  // namespace soma
