// `soma vfio-user`: a machine whose devices a virtual machine monitor attaches over the vfio-user
// protocol. It serves until SIGINT or SIGTERM; clients come and go meanwhile. With a connected
// socket (--fd) it ends with its client.
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "driver/qemu/client_memory.h"
#include "driver/qemu/vfio_user.h"
#include "driver/qemu/vfio_user_server.h"
#include "sim/attached_machine.h"
#include "tools/soma/conclude.h"
#include "tools/soma/instruments.h"
#include "tools/soma/options.h"
#include "tools/soma/qemu_arguments.h"
#include "tools/soma/watchdog.h"

namespace soma {
namespace {

using driver::qemu::FrontEnd;
using driver::qemu::VfioUser;
using driver::qemu::VfioUserServer;
using driver::qemu::vfio::ClientMemory;

// SIGINT and SIGTERM, seen from a thread of its own: the kernel thread may be anywhere.
class Signals {
 public:
  // Before any other thread starts.
  Signals() : end_(::eventfd(0, EFD_CLOEXEC)) {
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGINT);
    ::sigaddset(&signals, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    signals_.reset(::signalfd(-1, &signals, SFD_CLOEXEC));
  }
  ~Signals() { end(); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // Calls `stop` at the first one.
  void watch(std::function<void()> stop) {
    thread_ = std::thread([this, stop = std::move(stop)] {
      std::array<pollfd, 2> wait{{{signals_.get(), POLLIN, 0}, {end_.get(), POLLIN, 0}}};
      while (::poll(wait.data(), wait.size(), -1) < 0) {
      }
      if (wait[0].revents != 0) stop();
    });
  }
  // `stop` is not called any more.
  void end() {
    if (!thread_.joinable()) return;
    const uint64_t one = 1;
    (void)!::write(end_.get(), &one, sizeof one);
    thread_.join();
  }

 private:
  base::UniqueFd signals_;
  base::UniqueFd end_;
  std::thread thread_;
};

// Every range of guest memory holds a descriptor.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// Where a served device listens or, without a path, the connected socket that it is given.
struct Listener {
  size_t chip = 0;
  std::string path;
  int fd = -1;
};
using Listeners = std::vector<Listener>;

base::Result<Listeners> find_listeners(const VfioUserOptions& options, size_t chips) {
  const auto refuse = [](const char* option, std::string why) {
    return base::Error{base::Fault::kConfig, 0, option, std::move(why)};
  };
  if (options.device && *options.device >= chips) {
    return refuse("--device",
                  fmt::format("{} has devices 0 to {}", options.machine.platform, chips - 1));
  }
  const bool one = options.device || chips == 1;
  if (options.fd) {
    struct stat info {};
    if (!options.socket.empty()) return refuse("--fd", "does not go with --socket");
    if (!one) return refuse("--fd", "one socket, but several devices; choose one with --device");
    if (::fstat(*options.fd, &info) != 0 || !S_ISSOCK(info.st_mode)) {
      return refuse("--fd", fmt::format("descriptor {} is no socket", *options.fd));
    }
    ::fcntl(*options.fd, F_SETFD, FD_CLOEXEC);
  } else if (options.socket.empty()) {
    return refuse("vfio-user", "needs --socket PATH or --fd NUMBER");
  }
  if (one) return Listeners{{options.device.value_or(0), options.socket, options.fd.value_or(-1)}};
  Listeners all;
  for (size_t chip = 0; chip < chips; ++chip) {
    all.push_back({chip, fmt::format("{}.{}", options.socket, chip)});
  }
  return all;
}

std::string ready_line(const std::string& platform, const Listeners& listeners) {
  if (listeners.front().path.empty()) return platform + " ready\n";
  const std::string& first = listeners.front().path;
  return fmt::format("{} ready at {}\n", platform,
                     listeners.size() == 1 ? first : first + " to " + listeners.back().path);
}

// A memory for each device of the machine.
class Memories {
 public:
  explicit Memories(size_t chips) {
    for (size_t i = 0; i < chips; ++i) owned_.push_back(std::make_unique<ClientMemory>());
  }
  ClientMemory& operator[](size_t chip) { return *owned_[chip]; }
  std::vector<pcie::HostMemory*> all() const {
    std::vector<pcie::HostMemory*> result;
    for (const auto& each : owned_) result.push_back(each.get());
    return result;
  }

 private:
  std::vector<std::unique_ptr<ClientMemory>> owned_;
};

base::Result<std::vector<std::unique_ptr<FrontEnd>>> open_front_ends(const Listeners& listeners,
                                                                     sim::AttachedMachine& machine,
                                                                     Memories& memories) {
  std::vector<std::unique_ptr<FrontEnd>> result;
  for (const Listener& listener : listeners) {
    pcie::Device& device = machine.device(listener.chip);
    if (listener.path.empty()) {
      result.push_back(
          std::make_unique<VfioUser>(device, memories[listener.chip], base::UniqueFd(listener.fd)));
      continue;
    }
    const auto tell = [path = listener.path](const base::Error& error) {
      complain(fmt::format("{}: {}", path, error.message()));
    };
    auto server = VfioUserServer::listen({listener.path, device, memories[listener.chip], tell});
    if (!server) return server.error();
    result.push_back(std::move(*server));
  }
  return result;
}

// Serves until a signal, the end of the only client, or a failure.
int serve(sim::AttachedMachine& machine, const VfioUserOptions& options, const Listeners& listeners,
          std::vector<std::unique_ptr<FrontEnd>> front_ends, Instruments& instruments,
          Signals& signals) {
  // The simulation thread, which owns everything, may not answer any more.
  Watchdog watchdog([&listeners] {
    complain("the machine does not come to an end; killed, without a report");
    for (const Listener& listener : listeners) {
      if (!listener.path.empty()) ::unlink(listener.path.c_str());
    }
    ::_exit(exit_code(base::Fault::kInternal));
  });
  signals.watch([&] {
    watchdog.arm(kMachinePatience);
    machine.stop();
  });
  fmt::print("{}", ready_line(options.machine.platform, listeners));
  std::fflush(stdout);
  std::vector<FrontEnd*> hosts;
  for (const auto& each : front_ends) hosts.push_back(each.get());
  const base::Status served = machine.serve(hosts);
  signals.end();
  front_ends.clear();  // nobody may come any more
  return conclude(machine.take_report(), served, 0, options.report, instruments,
                  options.machine.check == "on");
}

}  // namespace

int vfio_user(const VfioUserOptions& options) {
  Signals signals;
  raise_descriptor_limit();
  auto configuration = load_configuration(options.machine);
  if (!configuration) return fail(configuration.error());
  const auto listeners = find_listeners(options, configuration->platform.chips.size());
  if (!listeners) return fail(listeners.error());
  const auto revision = pci_revision(options.revision);
  if (!revision) return fail(revision.error());

  Instruments instruments;
  const base::Status opened = instruments.open(options.machine);
  if (!opened) return fail(opened.error());
  Memories memories(configuration->platform.chips.size());
  sim::AttachedMachine::Params params{std::move(configuration->platform),
                                      std::move(configuration->timing)};
  params.revision = *revision;
  params.product = options.product;
  params.host_memory = memories.all();
  params.timing_only = options.machine.timing_only;
  params.check = options.machine.checks();
  params.trace = instruments.trace();
  params.logger = &instruments.logger();
  auto machine = sim::AttachedMachine::create(std::move(params));
  if (!machine) return fail(machine.error());
  auto front_ends = open_front_ends(*listeners, **machine, memories);
  if (!front_ends) return fail(front_ends.error());
  return serve(**machine, options, *listeners, std::move(*front_ends), instruments, signals);
}

}  // namespace soma
