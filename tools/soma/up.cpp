// `soma up`, `exec`, `down`: a machine in the background that serves several commands.
//
// Its private directory holds the server's socket, the control socket, `log` and `info` (place.h).
// It lives until `down` or SIGTERM.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>

#include "base/file.h"
#include "sim/report.h"
#include "tools/soma/conclude.h"
#include "tools/soma/control.h"
#include "tools/soma/options.h"
#include "tools/soma/session.h"
#include "tools/soma/supervisor.h"
#include "tools/soma/watchdog.h"

namespace soma {
namespace {

constexpr const char* kLog = "/log";
constexpr const char* kReady = "ready";
// `down` waits for 5 s; a machine that has not ended by then is killed before.
constexpr std::chrono::milliseconds kEndPatience{4000};

// Serves commands until `down`; the first failure of the machine.
base::Status serve(Session& session, ControlServer& control) {
  for (;;) {
    base::Status served = session.machine().serve();
    if (!served) return served;
    while (auto request = control.take()) {
      if (request->word == "down") {
        ControlServer::answer(*request, "ok");
        return {};
      }
      if (request->word == "reset") {
        (void)session.machine().take_report();
        ControlServer::answer(*request, "ok");
      } else if (request->word == "report") {
        ControlServer::answer(*request, session.machine().take_report().to_json());
      } else {
        ControlServer::answer(*request, "unknown request");
      }
    }
  }
}

// The background process; tells `parent` (a pipe) when it is ready or why it is not.
int background(const UpOptions& options, base::UniqueFd parent) {
  raise_file_limit();
  const auto tell = [&](const std::string& text) {
    [[maybe_unused]] const ssize_t n = ::write(parent.get(), text.data(), text.size());
    parent.reset();
  };
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const auto refuse = [&](const base::Error& error) {
    tell(error.message());
    return start_code(error.fault);
  };

  base::Result<RuntimeDir> directory = RuntimeDir::create_named(options.name);
  if (!directory) return refuse(directory.error());
  Watchdog watchdog([path = directory->path()] {
    complain("the machine does not come to an end; killed");
    RuntimeDir::remove_at(path);
    ::_exit(exit_code(base::Fault::kInternal));
  });
  auto session = Session::create(options.machine, std::move(*directory));
  if (!session) return refuse(session.error());
  sim::Machine& machine = (*session)->machine();
  ControlServer::Handlers handlers;
  handlers.direct = [&](const auto& request) { return serve_link(machine, request); };
  handlers.queued = [&](const std::string& word) {
    if (word == "down") watchdog.arm(kEndPatience);
    machine.stop();
  };
  auto control = ControlServer::start((*session)->directory(), true, std::move(handlers));
  if (!control) return refuse(control.error());
  write_info({(*session)->directory(), machine.socket_path(), options.machine.clock,
              machine.host_names()});

  // Whoever started us may wait for the end of our output.
  const base::UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const base::UniqueFd log(::open(((*session)->directory() + kLog).c_str(),
                                  O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, S_IRUSR | S_IWUSR));
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO}) ::dup2(null.get(), standard);
  ::dup2(log.get(), STDERR_FILENO);
  tell(kReady);
  const base::Status served = serve(**session, **control);
  if (!served) return fail(served.error());
  const base::Status traced = (*session)->instruments().finish_trace();
  return traced ? 0 : fail(traced.error());
}

// The machine that the command names, else the one around this process, else the one without name.
base::Result<Running> machine_for(const std::optional<std::string>& name, bool& enclosing) {
  auto around = name ? std::nullopt : find_enclosing();
  enclosing = around.has_value();
  if (around) return std::move(*around);
  return find_named(name.value_or(kDefaultName));
}

// Inside a command of the machine everything but the node is in place already.
base::Result<std::vector<std::string>> environment_for(const Running& running, uint32_t node,
                                                       bool enclosing) {
  if (!enclosing) return client_environment(running, node);
  std::vector<std::string> environment = own_environment();
  set_variable(environment, "SOMA_NODE", std::to_string(node));
  return environment;
}

}  // namespace

int up(const UpOptions& options) {
  std::array<int, 2> pipe_fds{};
  if (::pipe2(pipe_fds.data(), O_CLOEXEC) != 0) return fail(base::errno_error("up", "pipe"));
  base::UniqueFd from(pipe_fds[0]);
  base::UniqueFd to(pipe_fds[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return fail(base::errno_error("up", "fork"));
  if (pid == 0) {
    from.reset();
    ::setsid();
    return background(options, std::move(to));
  }
  to.reset();
  std::string message;
  std::array<char, 4096> buffer;
  for (ssize_t n; (n = ::read(from.get(), buffer.data(), buffer.size())) > 0;) {
    message.append(buffer.data(), static_cast<size_t>(n));
  }
  if (message == kReady) return 0;
  int status = 0;
  ::waitpid(pid, &status, 0);
  complain(message.empty() ? "the machine ended before it was ready" : message);
  return WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status)
                                                       : exit_code(base::Fault::kInternal);
}

int exec(const ExecOptions& options) {
  Supervisor child;
  bool enclosing = false;
  const auto running = machine_for(options.name, enclosing);
  if (!running) return fail(running.error());
  const uint32_t node = options.node.value_or(enclosing ? own_node() : 0);
  if (node >= running->nodes()) {
    complain("node " + std::to_string(node) + " does not exist; the machine has nodes 0 to " +
             std::to_string(running->nodes() - 1));
    return kExitUsage;
  }
  if (enclosing && !options.report.empty()) {
    complain("--report: inside a command of the machine, what it does belongs to that command");
    return kExitUsage;
  }
  const auto environment = environment_for(*running, node, enclosing);
  if (!environment) return fail(environment.error());
  if (!options.report.empty()) {
    const auto reset = ask(running->directory, "reset");
    if (!reset) return fail(reset.error());
  }
  const base::Status started = child.start(options.command, *environment);
  if (!started) {
    complain(started.error().message());
    return kExitNotFound;
  }
  child.watch([] {});
  const int code = child.wait();
  if (options.report.empty()) return code;
  const auto report = ask(running->directory, "report");
  if (!report) return fail(report.error());
  const base::Status written = base::replace_file(options.report, *report);
  if (written) return code;
  complain(written.error().message());
  return code != 0 ? code : exit_code(base::Fault::kIo);
}

int fault(const FaultOptions& options) {
  bool enclosing = false;
  const auto running = machine_for(options.name, enclosing);
  if (!running) return fail(running.error());
  std::string word = (options.up ? "link up " : "link down ") + options.link;
  if (options.after_us) word += " after " + std::to_string(*options.after_us);
  const auto answer = ask(running->directory, word);
  if (!answer) return fail(answer.error());
  if (*answer == "ok") return 0;
  complain(*answer);
  return kExitUsage;
}

int down(const std::string& name) {
  using std::chrono::milliseconds;
  constexpr milliseconds kPatience{5000};
  constexpr milliseconds kStep{5};
  const auto running = find_named(name);
  if (!running) return fail(running.error());
  const auto answer = ask(running->directory, "down");
  if (!answer) return fail(answer.error());
  for (milliseconds waited{0}; waited < kPatience; waited += kStep) {
    if (!RuntimeDir::held(running->directory)) return 0;
    std::this_thread::sleep_for(kStep);
  }
  complain("the machine did not end within 5 s");
  return exit_code(base::Fault::kInternal);
}

}  // namespace soma
