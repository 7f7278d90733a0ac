#include "tools/soma/session.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "driver/node/client_launch.h"
#include "sim/main_loop.h"

namespace soma {
namespace {

namespace fs = std::filesystem;

constexpr const char* kShim = "libsoma-shim.so";

}  // namespace

base::Result<std::unique_ptr<Session>> Session::create(const MachineOptions& options,
                                                       RuntimeDir directory) {
  auto configuration = load_configuration(options);
  if (!configuration) return configuration.error();
  std::unique_ptr<Session> session(new Session(std::move(directory)));
  if (!options.log.empty()) {
    base::Status configured = session->logger_.configure(options.log);
    if (!configured) return configured.error();
  }
  if (!options.trace.empty()) {
    auto trace = sim::PerfettoTrace::create(options.trace, options.trace_limit);
    if (!trace) return trace.error();
    session->trace_ = std::move(*trace);
  }
  sim::MachineParams params{std::move(configuration->platform),
                            std::move(configuration->timing),
                            options.timing_only,
                            options.policy == "epoch" ? sim::Policy::kEpoch : sim::Policy::kOverlap,
                            session->directory() + "/server",
                            session->trace_.get(),
                            &session->logger_};
  auto machine = sim::Machine::create(std::move(params));
  if (!machine) return machine.error();
  session->machine_ = std::move(*machine);
  return session;
}

base::Status Session::finish_trace() {
  if (!trace_) return {};
  if (trace_->dropped_events() > 0) {
    complain("the trace reached its limit; " + std::to_string(trace_->dropped_events()) +
             " events are missing (--trace-limit)");
  }
  return trace_->close();
}

base::Result<std::vector<std::string>> client_environment(const std::string& socket_path,
                                                          const std::string& clock, uint32_t node) {
  std::error_code error;
  const fs::path bin = fs::read_symlink("/proc/self/exe", error).parent_path();
  driver::ClientLaunch launch;
  for (const char* place : {"lib", "lib/soma"}) {
    const fs::path library = bin.parent_path() / place;
    if (launch.shim_path.empty() && fs::exists(library / kShim, error)) {
      launch.shim_path = (library / kShim).string();
      launch.library_dirs = {library.string()};
    }
  }
  if (launch.shim_path.empty()) {
    return base::Error{base::Fault::kConfig, 0, bin.string(),
                       std::string(kShim) + " is not in ../lib; the installation is incomplete"};
  }
  launch.socket_path = socket_path;
  launch.clock = clock == "host" ? driver::ClientClock::kHost : driver::ClientClock::kVirtual;
  launch.node = node;
  std::vector<std::string> environment = driver::client_environment(launch);
  for (std::string& variable : environment) {
    if (variable.rfind("PATH=", 0) == 0) variable.insert(5, bin.string() + ":");
  }
  return environment;
}

void print_warnings(const sim::Report& report) {
  for (const std::string& line : report.warnings()) complain("warning: " + line);
}

}  // namespace soma
