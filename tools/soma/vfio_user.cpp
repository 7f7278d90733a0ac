// `soma vfio-user`: a machine whose devices a virtual machine monitor attaches over the vfio-user
// protocol. It serves until SIGINT or SIGTERM; clients come and go meanwhile.
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "driver/qemu/client_memory.h"
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
using driver::qemu::VfioUserServer;
using driver::qemu::vfio::ClientMemory;

// With the machine after a signal; a DMA that waits for a client takes 2 s.
constexpr std::chrono::milliseconds kPatience{10000};

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

// Where each served device listens, by device.
std::map<size_t, std::string> sockets(const VfioUserOptions& options, size_t chips) {
  if (options.device) return {{*options.device, options.socket}};
  if (chips == 1) return {{0, options.socket}};
  std::map<size_t, std::string> all;
  for (size_t chip = 0; chip < chips; ++chip) {
    all[chip] = fmt::format("{}.{}", options.socket, chip);
  }
  return all;
}

std::string ready_line(const std::string& platform, const std::map<size_t, std::string>& sockets) {
  const std::string& first = sockets.begin()->second;
  const std::string& last = sockets.rbegin()->second;
  return fmt::format("{} ready at {}\n", platform,
                     sockets.size() == 1 ? first : first + " to " + last);
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

base::Result<std::vector<std::unique_ptr<VfioUserServer>>> listen(
    const std::map<size_t, std::string>& sockets, sim::AttachedMachine& machine,
    Memories& memories) {
  std::vector<std::unique_ptr<VfioUserServer>> servers;
  for (const auto& [chip, path] : sockets) {
    auto server = VfioUserServer::listen(
        {path, machine.device(chip), memories[chip], [path = path](const base::Error& error) {
           complain(fmt::format("{}: {}", path, error.message()));
         }});
    if (!server) return server.error();
    servers.push_back(std::move(*server));
  }
  return servers;
}

}  // namespace

int vfio_user(const VfioUserOptions& options) {
  Signals signals;
  raise_descriptor_limit();
  auto configuration = load_configuration(options.machine);
  if (!configuration) return fail(configuration.error());
  const size_t chips = configuration->platform.chips.size();
  if (options.device && *options.device >= chips) {
    return fail({base::Fault::kConfig, 0, "--device",
                 fmt::format("{} has devices 0 to {}", options.machine.platform, chips - 1)});
  }
  const auto revision = pci_revision(options.revision);
  if (!revision) return fail(revision.error());
  const auto paths = sockets(options, chips);

  Instruments instruments;
  const base::Status opened = instruments.open(options.machine);
  if (!opened) return fail(opened.error());
  Memories memories(chips);
  sim::AttachedMachine::Params params{std::move(configuration->platform),
                                      std::move(configuration->timing)};
  params.revision = *revision;
  params.host_memory = memories.all();
  params.timing_only = options.machine.timing_only;
  params.trace = instruments.trace();
  params.logger = &instruments.logger();
  auto built = sim::AttachedMachine::create(std::move(params));
  if (!built) return fail(built.error());
  sim::AttachedMachine& machine = **built;
  auto servers = listen(paths, machine, memories);
  if (!servers) return fail(servers.error());
  // The simulation thread, which owns everything, may not answer any more.
  Watchdog watchdog([&paths] {
    complain("the machine does not come to an end; killed, without a report");
    for (const auto& each : paths) ::unlink(each.second.c_str());
    ::_exit(exit_code(base::Fault::kInternal));
  });
  signals.watch([&] {
    watchdog.arm(kPatience);
    machine.stop();
  });

  fmt::print("{}", ready_line(options.machine.platform, paths));
  std::fflush(stdout);
  std::vector<FrontEnd*> hosts;
  for (const auto& server : *servers) hosts.push_back(server.get());
  const base::Status served = machine.serve(hosts);
  signals.end();
  servers->clear();  // nobody may come any more
  return conclude(machine.take_report(), served, 0, options.report, instruments);
}

}  // namespace soma
