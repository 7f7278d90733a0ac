#include "sim/attached_machine.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <utility>

#include "base/fd.h"
#include "base/log.h"
#include "driver/kernel/pod.h"
#include "driver/qemu/front_end.h"
#include "sim/hardware.h"
#include "sim/timing_params.h"

namespace sim {
namespace {

using Clock = std::chrono::steady_clock;

// How long a host may have to wait for a register because a slice runs. It does not change what the
// devices do, only how often somebody looks for hosts.
constexpr std::chrono::microseconds kPatience{50};
constexpr base::Ps kShortest = base::us(1);
// How long a machine at rest looks for hosts before it sleeps. A driver comes back within it (polls
// of a register, one copy after the other), and waking a sleeper costs each time 20 to 100 us.
constexpr std::chrono::microseconds kAlert{100};

}  // namespace

using driver::qemu::FrontEnd;

struct AttachedMachine::Parts {
  explicit Parts(Params given) : params(std::move(given)) {}

  base::Status build();
  bool run_slice();
  base::Status serve_ready(std::vector<FrontEnd*>& hosts, bool wait, bool& served);
  base::Status poll_hosts(bool wait);

  Params params;
  base::Log log;
  std::unique_ptr<Hardware> hardware;
  base::UniqueFd stop_event;
  std::vector<pollfd> polled;
  base::Ps slice = 0;       // at most
  base::Ps next_slice = 0;  // as much of it as fits into kPatience
  base::Ps active = 0;
  Clock::time_point last_served;
};

base::Status AttachedMachine::Parts::build() {
  if (params.logger != nullptr) log = base::Log(*params.logger, "machine");
  if (params.bars == pcie::BarLayout::k32Bit &&
      params.platform.generation != config::Generation::kV2) {
    return base::Error{base::Fault::kUnsupported, 0, params.platform.name,
                       "its registers need a BAR of 4 GiB, which no 32-bit BAR can hold"};
  }
  stop_event = base::UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop_event.valid()) return base::errno_error("machine", "eventfd");
  HardwareParams hardware_params{params.platform,    params.timing, {},
                                 params.timing_only, params.trace,  params.logger};
  hardware_params.chip_memory = params.host_memory;
  hardware_params.check = params.check;
  hardware_params.revision = params.revision;
  hardware_params.bars = params.bars;
  const driver::PlatformType type = driver::platform_type(params.product);
  hardware_params.standard_hosts =
      type != driver::PlatformType::kPds && type != driver::PlatformType::kMax;
  hardware_params.coalesce = false;  // a host that reads a register would wait for all of it
  try {
    auto built = build_hardware(hardware_params);
    if (!built) return built.error();
    hardware = std::move(*built);
    slice = next_slice = params.timing.ps("time.attached_slice_us");
  } catch (const config::TimingError& error) {
    return base::Error{base::Fault::kConfig, 0, params.timing.name(), error.what()};
  }
  if (slice == 0) {
    return base::Error{base::Fault::kConfig, 0, "time.attached_slice_us",
                       "a slice of no time; give at least a nanosecond"};
  }
  base::Status status = lock_timing(params.timing);
  if (!status) return status;
  if (params.logger != nullptr) {
    params.logger->set_clock([this] { return hardware->now(); });
  }
  return {};
}

// True if the machine is at rest.
bool AttachedMachine::Parts::run_slice() {
  const base::Ps begin = hardware->now();
  const Clock::time_point started = Clock::now();
  const bool rest = hardware->run(next_slice);
  active += hardware->now() - begin;
  if (Clock::now() - started > kPatience) {
    next_slice = std::max(next_slice / 2, std::min(kShortest, slice));
  } else {
    next_slice = std::min(next_slice * 2, slice);
  }
  return rest;
}

// polled[i].revents. A host that is there at once is found by the first call.
base::Status AttachedMachine::Parts::poll_hosts(bool wait) {
  int timeout = 0;
  for (;;) {
    const int ready = ::poll(polled.data(), polled.size(), timeout);
    if (ready > 0 || (ready == 0 && !wait)) return {};
    if (ready < 0 && errno != EINTR) return base::errno_error("machine", "poll");
    if (wait && Clock::now() - last_served > kAlert) timeout = -1;
  }
}

// Waits for hosts, if asked to, and serves those that sent something; those that are gone leave the
// list.
base::Status AttachedMachine::Parts::serve_ready(std::vector<FrontEnd*>& hosts, bool wait,
                                                 bool& served) {
  served = false;
  polled.assign(1, {stop_event.get(), POLLIN, 0});
  for (const FrontEnd* host : hosts) polled.push_back({host->poll_fd(), POLLIN, 0});
  if (base::Status looked = poll_hosts(wait); !looked) return looked;
  size_t kept = 0;
  for (size_t i = 0; i < hosts.size(); ++i) {
    FrontEnd* host = hosts[i];
    if (polled[i + 1].revents != 0) {
      served = true;
      const auto stays = host->serve();
      if (!stays) return stays.error();
      if (!*stays) continue;
    }
    hosts[kept++] = host;
  }
  if (served) last_served = Clock::now();
  hosts.resize(kept);
  return {};
}

AttachedMachine::AttachedMachine(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

AttachedMachine::~AttachedMachine() {
  if (parts_->params.logger != nullptr) parts_->params.logger->set_clock({});
}

base::Result<std::unique_ptr<AttachedMachine>> AttachedMachine::create(Params params) {
  std::unique_ptr<AttachedMachine> machine(
      new AttachedMachine(std::make_unique<Parts>(std::move(params))));
  base::Status built = machine->parts_->build();
  if (!built) return built.error();
  return machine;
}

size_t AttachedMachine::chips() const {
  return parts_->params.platform.chips.size();
}

pcie::Device& AttachedMachine::device(size_t chip) {
  return parts_->hardware->device(chip);
}

base::Status AttachedMachine::serve(const std::vector<FrontEnd*>& hosts) {
  Parts& parts = *parts_;
  std::vector<FrontEnd*> present = hosts;
  bool rest = false;
  while (!present.empty()) {
    bool served = false;
    base::Status status = parts.serve_ready(present, rest, served);
    if (!status) return status;
    uint64_t stops = 0;
    if (::read(parts.stop_event.get(), &stops, sizeof stops) > 0) return {};
    if (served || !rest) rest = parts.run_slice();
    if (const auto failure = parts.hardware->failure()) return *failure;
  }
  return {};
}

void AttachedMachine::stop() {
  const uint64_t one = 1;
  (void)!::write(parts_->stop_event.get(), &one, sizeof one);
}

Report AttachedMachine::take_report() {
  Parts& parts = *parts_;
  Report report(parts.params.platform, parts.params.timing, "free", false,
                parts.params.timing_only);
  report.add_active_time(std::exchange(parts.active, 0));
  (void)parts.hardware->take_released();
  parts.hardware->collect(report);
  return report;
}

}  // namespace sim
