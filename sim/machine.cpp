#include "sim/machine.h"

#include <charconv>
#include <chrono>
#include <cstdio>
#include <utility>
#include <vector>

#include "base/log.h"
#include "driver/kernel/host_arena.h"
#include "driver/kernel/kernel_driver.h"
#include "driver/node/node_server.h"
#include "driver/uapi/requests.h"
#include "sim/hardware.h"
#include "sim/identity.h"
#include "sim/main_loop.h"
#include "sim/timing_params.h"

namespace sim {
namespace {

// How long ended clients may take to go: their sockets close, their resources are released.
constexpr std::chrono::milliseconds kPartingTime{2000};

// More simulated time than any driver gives a device to come up.
constexpr base::Ps kBootTime = 1000 * base::kPsPerS;

// "0000:10:1c.0"; platforms without published addresses get made-up ones that do not collide.
driver::PciLocation location_of(const config::Chip& chip) {
  constexpr int kHex = 16;
  constexpr uint32_t kPerBus = 16;
  constexpr uint32_t kFirstBus = 0x10;
  driver::PciLocation location;
  location.numa_node = chip.numa_node < 0 ? 0 : chip.numa_node;
  if (chip.pci_bdf.empty()) {
    location.bus = kFirstBus + chip.local_id / kPerBus;
    location.slot = static_cast<uint8_t>(kPerBus + chip.local_id % kPerBus);
    return location;
  }
  const char* text = chip.pci_bdf.data();  // the schema has checked its form
  std::from_chars(text, text + 4, location.domain, kHex);
  std::from_chars(text + 5, text + 7, location.bus, kHex);
  std::from_chars(text + 8, text + 10, location.slot, kHex);
  std::from_chars(text + 11, text + 12, location.function, kHex);
  return location;
}

}  // namespace

struct Machine::Parts {
  explicit Parts(MachineParams given) : params(std::move(given)) {}

  MachineParams params;
  base::Log log;
  std::vector<std::unique_ptr<driver::HostArena>> arenas;  // per node
  std::unique_ptr<Hardware> hardware;
  std::vector<std::unique_ptr<driver::KernelDriver>> drivers;  // per node
  std::unique_ptr<driver::NodeServer> server;
  std::unique_ptr<MainLoop> loop;
  base::Ps slice = 0;
  uint64_t late_faults = 0;  // while the machine was at work

  ~Parts() {
    // A driver task that still waits keeps references to all of this. The process is about to
    // end; the directory of the socket is removed by its owner.
    if (server && !server->in_flight().empty()) {
      (void)server.release();
      for (auto& each : drivers) (void)each.release();
      (void)hardware.release();
      for (auto& each : arenas) (void)each.release();
    }
  }

  base::Status build();
  base::Status build_drivers();
  base::Status boot();
  base::Status open_server();
  void tell_stuck() const;
};

base::Status Machine::Parts::build() {
  const base::Status numbered = check_devices(params.platform);
  if (!numbered) return numbered;
  if (params.logger != nullptr) log = base::Log(*params.logger, "machine");
  std::vector<pcie::HostMemory*> host_memory;
  for (size_t node = 0; node < params.platform.nodes.size(); ++node) {
    auto arena = driver::HostArena::create();
    if (!arena) return arena.error();
    arenas.push_back(std::move(*arena));
    host_memory.push_back(arenas.back().get());
  }
  try {
    HardwareParams wanted{params.platform,    params.timing, std::move(host_memory),
                          params.timing_only, params.trace,  params.logger};
    wanted.vcd = params.vcd;
    wanted.watch = params.watch;
    wanted.inspect = params.inspect;
    wanted.profile = params.profile;
    wanted.check = params.check;
    auto built = build_hardware(wanted);
    if (!built) return built.error();
    hardware = std::move(*built);
  } catch (const config::TimingError& error) {
    return base::Error{base::Fault::kConfig, 0, params.timing.name(), error.what()};
  }
  base::Status status = build_drivers();
  if (!status) return status;
  slice = params.timing.ps("time.slice_us");
  status = lock_timing(params.timing);
  if (!status) return status;
  if (params.logger != nullptr) {
    params.logger->set_clock([this] { return hardware->now(); });
  }
  return {};
}

base::Status Machine::Parts::build_drivers() {
  for (size_t node = 0; node < params.platform.nodes.size(); ++node) {
    std::vector<driver::DevicePlace> places;
    for (const config::Chip& chip : params.platform.chips) {
      if (chip.node == node) places.push_back({&hardware->device(chip.id), location_of(chip)});
    }
    driver::Params driver_params;
    driver_params.product_name = product_name(params.platform.nodes[node]);
    driver_params.copy_poll_period = params.timing.ps("driver.poll_ns");
    driver_params.client_wait = [this](const void* channel, uint64_t host_us) {
      return loop->client_wait(channel, host_us);
    };
    driver_params.log = [this](const std::string& line) { log.info("{}", line); };
    drivers.push_back(std::make_unique<driver::KernelDriver>(
        std::move(places), *arenas[node], hardware->executor(), std::move(driver_params)));
  }
  return {};
}

// Resets every device; no client can see it yet.
base::Status Machine::Parts::boot() {
  for (auto& each : drivers) each->start();
  hardware->run(kBootTime);
  if (const auto failure = hardware->failure()) return *failure;
  for (const auto& each : drivers) {
    if (!each->probed() || !each->probe_errors().empty()) {
      return base::Error{base::Fault::kInternal, 0, "boot",
                         each->probe_errors().empty() ? "the driver did not finish its probe"
                                                      : each->probe_errors().front()};
    }
  }
  return {};
}

// Opens the socket; the drivers' nodes and files are complete by now.
base::Status Machine::Parts::open_server() {
  driver::NodeServer::Params server_params;
  for (auto& each : drivers) server_params.nodes.push_back(each.get());
  for (const config::Node& node : params.platform.nodes) {
    server_params.identities.push_back({host_name(params.platform, node), product_name(node)});
  }
  server_params.executor = &hardware->executor();
  server_params.directory = params.directory;
  auto started = driver::NodeServer::start(std::move(server_params));
  if (!started) return started.error();
  server = std::move(*started);
  MainLoop::Params loop_params;
  loop_params.hardware = hardware.get();
  loop_params.requests = &server->requests();
  loop_params.status = &server->status();
  loop_params.policy = params.policy;
  loop_params.slice = slice;
  loop_params.stuck = [this] { tell_stuck(); };
  loop = std::make_unique<MainLoop>(std::move(loop_params));
  return {};
}

// A machine at rest, clients that wait: says who waits on what. The driver's own tasks wait for
// work most of the time; that is worth a line only if a request is among what they could be busy
// with.
void Machine::Parts::tell_stuck() const {
  constexpr const char* kTask = "driver task ";
  const auto requests = server->in_flight();
  for (const std::string& line : hardware->waiting()) {
    if (!requests.empty() || line.rfind(kTask, 0) != 0) log.warn("at rest, waiting: {}", line);
  }
  for (const std::string& line : requests) log.warn("unanswered request: {}", line);
}

Machine::Machine(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Machine::~Machine() = default;

base::Result<std::unique_ptr<Machine>> Machine::create(MachineParams params) {
  std::unique_ptr<Machine> machine(new Machine(std::make_unique<Parts>(std::move(params))));
  base::Status built = machine->parts_->build();
  if (!built) return built.error();
  base::Status booted = machine->parts_->boot();
  if (!booted) return booted.error();
  base::Status opened = machine->parts_->open_server();
  if (!opened) return opened.error();
  (void)machine->take_report();  // what booting counted belongs to no command
  return machine;
}

const std::string& Machine::socket_path() const {
  return parts_->server->socket_path();
}
std::vector<std::string> Machine::host_names() const {
  std::vector<std::string> names;
  const config::Platform& platform = parts_->params.platform;
  for (const config::Node& node : platform.nodes) names.push_back(host_name(platform, node));
  return names;
}
base::Status Machine::serve() {
  return parts_->loop->run();
}
void Machine::stop() {
  parts_->loop->stop();
}

void Machine::set_link(std::string link, bool up, std::optional<base::Ps> after,
                       std::function<void(const base::Status&)> done) {
  Parts* parts = parts_.get();
  parts->loop->post([=, done = std::move(done)](bool at_rest) {
    const base::Status status =
        after ? parts->hardware->plan_link(link, up, *after) : parts->hardware->set_link(link, up);
    if (status) {
      parts->log.info("link {} is {}{}", link, up ? "up" : "down",
                      after ? " after the next barrier" : "");
      if (!at_rest) ++parts->late_faults;
    }
    done(status);
  });
}

Report Machine::take_report() {
  Parts& parts = *parts_;
  const MachineParams& params = parts.params;
  parts.loop->drain(
      [&] { return parts.server->connections() == 0 && parts.server->open_files() == 0; },
      kPartingTime);
  Report report(params.platform, params.timing,
                params.policy == Policy::kEpoch ? "epoch" : "overlap",
                params.policy == Policy::kEpoch, params.timing_only);
  const MainLoop::Activities activities = parts.loop->take_activities();
  report.add_active_time(activities.active);
  report.add_activities("request", activities.requests);
  report.add_activities("barrier release", activities.releases);
  report.add_slices(parts.loop->take_slices());
  report.add_late_faults(std::exchange(parts.late_faults, 0));
  parts.hardware->collect(report);
  for (auto& each : parts.drivers) {
    driver::Counters& counters = each->mutable_counters();
    for (const auto& [request, count] : counters.unknown_ioctls) {
      char name[64];
      std::snprintf(name, sizeof name, "ioctl 0x%08x (number %u): EINVAL, no such request", request,
                    driver::uapi::request_number(request));
      report.add_unsupported(name, count);
    }
    for (const auto& [feature, count] : counters.unsupported) {
      report.add_unsupported(feature, count);
    }
    counters = {};
  }
  return report;
}

}  // namespace sim
