// `soma vfio-user`: a machine whose devices a virtual machine monitor attaches over the vfio-user
// protocol. It serves until SIGINT or SIGTERM; clients come and go meanwhile.
#include <fmt/core.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "driver/qemu/client_memory.h"
#include "driver/qemu/vfio_user_server.h"
#include "sim/attached_machine.h"
#include "sim/trace_perfetto.h"
#include "tools/soma/options.h"
#include "tools/soma/session.h"

namespace soma {
namespace {

using driver::qemu::FrontEnd;
using driver::qemu::VfioUserServer;
using driver::qemu::vfio::ClientMemory;

int fail(const base::Error& error) {
  complain(error.message());
  return error.fault == base::Fault::kConfig ? kExitUsage : exit_code(error.fault);
}

// Ends the loop of the machine at SIGINT and SIGTERM.
class Signals final : public FrontEnd {
 public:
  Signals() {
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGINT);
    ::sigaddset(&signals, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    fd_.reset(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  void stops(sim::AttachedMachine& machine) { machine_ = &machine; }
  int poll_fd() const override { return fd_.get(); }
  base::Result<bool> serve() override {
    machine_->stop();
    return true;
  }

 private:
  base::UniqueFd fd_;
  sim::AttachedMachine* machine_ = nullptr;
};

// Every range of guest memory holds a descriptor.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// The machine with a memory and a socket for each device that is served.
class Attached {
 public:
  base::Status build(const VfioUserOptions& options);
  base::Status serve() {
    std::vector<FrontEnd*> hosts{&signals_};
    for (const auto& server : servers_) hosts.push_back(server.get());
    return machine_->serve(hosts);
  }
  sim::Report take_report() { return machine_->take_report(); }
  base::Status finish_trace() { return trace_ ? trace_->close() : base::Status(); }
  const std::string& ready() const { return ready_; }

 private:
  base::Status listen(const VfioUserOptions& options, size_t chips);
  base::Status listen_at(const std::string& path, size_t chip);

  Signals signals_;
  base::Logger logger_;
  std::unique_ptr<sim::PerfettoTrace> trace_;
  std::vector<std::unique_ptr<ClientMemory>> memories_;  // by chip
  std::unique_ptr<sim::AttachedMachine> machine_;
  std::vector<std::unique_ptr<VfioUserServer>> servers_;
  std::string ready_;
};

base::Status Attached::build(const VfioUserOptions& options) {
  auto configuration = load_configuration(options.machine);
  if (!configuration) return configuration.error();
  const size_t chips = configuration->platform.chips.size();
  if (options.device && *options.device >= chips) {
    return base::Error{base::Fault::kConfig, 0, "--device",
                       fmt::format("{} has devices 0 to {}", options.machine.platform, chips - 1)};
  }
  if (!options.machine.log.empty()) {
    base::Status configured = logger_.configure(options.machine.log);
    if (!configured) return configured;
  }
  if (!options.machine.trace.empty()) {
    auto trace = sim::PerfettoTrace::create(options.machine.trace, options.machine.trace_limit);
    if (!trace) return trace.error();
    trace_ = std::move(*trace);
  }
  sim::AttachedMachine::Params params{std::move(configuration->platform),
                                      std::move(configuration->timing)};
  params.revision = static_cast<uint8_t>(options.revision);
  params.timing_only = options.machine.timing_only;
  params.trace = trace_.get();
  params.logger = &logger_;
  for (size_t chip = 0; chip < chips; ++chip) {
    params.host_memory.push_back(memories_.emplace_back(std::make_unique<ClientMemory>()).get());
  }
  auto machine = sim::AttachedMachine::create(std::move(params));
  if (!machine) return machine.error();
  machine_ = std::move(*machine);
  signals_.stops(*machine_);
  return listen(options, chips);
}

base::Status Attached::listen(const VfioUserOptions& options, size_t chips) {
  if (options.device || chips == 1) {
    ready_ = fmt::format("{} ready at {}", options.machine.platform, options.socket);
    return listen_at(options.socket, options.device.value_or(0));
  }
  for (size_t chip = 0; chip < chips; ++chip) {
    base::Status status = listen_at(fmt::format("{}.{}", options.socket, chip), chip);
    if (!status) return status;
  }
  ready_ = fmt::format("{} ready at {}.0 to {}.{}", options.machine.platform, options.socket,
                       options.socket, chips - 1);
  return {};
}

base::Status Attached::listen_at(const std::string& path, size_t chip) {
  auto server = VfioUserServer::listen(
      {path, machine_->device(chip), *memories_[chip], [path](const base::Error& error) {
         complain(fmt::format("{}: {}", path, error.message()));
       }});
  if (!server) return server.error();
  servers_.push_back(std::move(*server));
  return {};
}

}  // namespace

int vfio_user(const VfioUserOptions& options) {
  raise_descriptor_limit();
  Attached attached;
  if (base::Status built = attached.build(options); !built) return fail(built.error());
  fmt::print("{}\n", attached.ready());
  std::fflush(stdout);
  const base::Status served = attached.serve();
  sim::Report report = attached.take_report();
  int code = 0;
  if (!served) {
    report.set_failure(served.error());
    code = fail(served.error());
  }
  print_warnings(report);
  for (const base::Status& written :
       {options.report.empty() ? base::Status() : report.write(options.report),
        attached.finish_trace()}) {
    if (!written) {
      complain(written.error().message());
      if (code == 0) code = exit_code(written.error().fault);
    }
  }
  return code;
}

}  // namespace soma
