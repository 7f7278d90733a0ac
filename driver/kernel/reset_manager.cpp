#include "driver/kernel/reset_manager.h"

#include <algorithm>

#include "contract/regs/misc.h"
#include "driver/kernel/neuron_device.h"

namespace driver {

namespace misc = contract::misc;

namespace {

constexpr uint32_t kTypeDevice = 1;
constexpr uint32_t kTypeNc = 2;
constexpr base::Ps kAckPoll = base::ms(100);             // spec/hw-registers.md 8.2 step 1
constexpr base::Ps kReissueDevice = 30 * base::kPsPerS;  // step 2
constexpr base::Ps kReissueNc = 10 * base::kPsPerS;
constexpr int kStatusReads = 5;                    // step 5; 1.2 has the revisions
constexpr base::Ps kQemuPoll = 2 * base::kPsPerS;  // 8.5

}  // namespace

uint32_t ResetManager::selected(uint32_t nc_map) const {
  return nc_map & device_.active_nc_map();
}

bool ResetManager::pending(uint32_t id) const {
  return std::any_of(requests_.begin(), requests_.end(),
                     [id](const Request& request) { return request.id == id; });
}

// The check for a pending request comes first, unlike in release 2.26, which has freed the rings by
// then and leaves the cores without any (spec/driver-ioctl.md 3.12).
int ResetManager::request(uint32_t nc_map, uint32_t id) {
  if (pending(id)) return 1;
  const uint32_t cores = selected(nc_map);
  for (uint32_t n = 0; n < device_.dhal().map.ncs(); ++n) {
    if ((cores >> n & 1) != 0) device_.free_core_rings(n);
  }
  enqueue(nc_map, cores, id);
  return 0;
}

void ResetManager::request_full() {
  device_.state = DeviceState::kReset;
  enqueue(uapi::kResetWholeDevice, device_.active_nc_map(), kInternalId);
}

// Takes down what the cores held, which may wait, and hands the request to the reset task.
void ResetManager::enqueue(uint32_t nc_map, uint32_t cores, uint32_t id) {
  requests_.push_back({id, nc_map, Status::kPreparing});
  Request& request = requests_.back();
  for (uint32_t n = 0; n < device_.dhal().map.ncs(); ++n) {
    if ((cores >> n & 1) == 0) continue;
    device_.core_init().invalidate(n);
    device_.notifications().destroy(n);
    device_.reset_requests[n].add(1);
  }
  request.status = Status::kQueued;
  device_.context().executor.wake(this);
}

int ResetManager::collect(uint32_t id) {
  for (;;) {
    const auto it = std::find_if(requests_.begin(), requests_.end(),
                                 [id](const Request& request) { return request.id == id; });
    if (it == requests_.end()) return 1;
    if (it->status == Status::kDone || it->status == Status::kFailed) {
      const int result = it->status == Status::kDone ? 0 : 1;
      requests_.erase(it);
      return result;
    }
    if (stop_) return 1;
    device_.context().executor.wait(&requests_, pcie::HostExecutor::kForever);
  }
}

void ResetManager::stop() {
  stop_ = true;
  device_.context().executor.wake(this);
}

void ResetManager::wait_stopped() {
  while (!stopped_) device_.context().executor.wait(&stopped_, pcie::HostExecutor::kForever);
}

void ResetManager::run() {
  pcie::HostExecutor& executor = device_.context().executor;
  while (!stop_) {
    const auto queued = [](const Request& r) { return r.status == Status::kQueued; };
    auto first = std::find_if(requests_.begin(), requests_.end(), queued);
    if (first == requests_.end()) {
      executor.wait(this, pcie::HostExecutor::kForever);
      continue;
    }
    const bool internal = first->id == kInternalId;
    uint32_t map = 0;
    for (auto it = first; it != requests_.end(); ++it) {
      if (!queued(*it) || (it->id == kInternalId) != internal) continue;
      it->status = Status::kRunning;
      map |= it->nc_map;
      if (internal) break;  // a full reset of the driver is never merged
    }
    serve(map, internal);
  }
  stopped_ = true;
  executor.wake(&requests_);
  executor.wake(&stopped_);
}

void ResetManager::serve(uint32_t nc_map, bool internal) {
  bool ok = device_.skips_reset() || reset_hardware(nc_map);
  const uint32_t cores = device_.skips_reset() ? device_.active_nc_map() : selected(nc_map);
  for (uint32_t n = 0; ok && n < device_.dhal().map.ncs(); ++n) {
    if ((cores >> n & 1) != 0) ok = device_.init_core_dma(n, cores) == 0;
  }
  if (!ok) {
    for (FoldedCounter& counter : device_.reset_failures) counter.add(1);
  }
  const bool whole = nc_map == uapi::kResetWholeDevice;
  if (whole && device_.after_device_reset) device_.after_device_reset(ok);
  if (internal) {
    device_.state = ok ? DeviceState::kReady : DeviceState::kInvalid;
    requests_.erase(std::remove_if(requests_.begin(), requests_.end(),
                                   [](const Request& r) {
                                     return r.id == kInternalId && r.status == Status::kRunning;
                                   }),
                    requests_.end());
  } else if (device_.skips_reset()) {
    device_.state = DeviceState::kReady;  // spec/driver-ioctl.md 3.12
  }
  for (Request& request : requests_) {
    if (request.status == Status::kRunning) request.status = ok ? Status::kDone : Status::kFailed;
  }
  for (uint32_t n = 0; n < device_.dhal().map.ncs(); ++n) {
    if ((cores >> n & 1) != 0) device_.end_core_reset(n);
  }
  device_.context().executor.wake(&requests_);
  device_.context().executor.wake(&device_.state);
}

bool ResetManager::reset_hardware(uint32_t nc_map) {
  if (!device_.qemu()) return reset_by_mailbox(nc_map) && wait_idle();
  const Dhal& dhal = device_.dhal();
  const bool whole = nc_map == uapi::kResetWholeDevice;
  device_.registers().write(dhal.map.qemu_reset().bar0,
                            dhal.qemu_reset_value(whole, dhal.reset_units(nc_map)));  // 8.5
  if (dhal.qemu_reset_uses_mailbox && !reset_by_mailbox(nc_map)) return false;
  return wait_qemu_register();
}

// spec/hw-registers.md 8.1 and 8.2 steps 1 to 3.
bool ResetManager::reset_by_mailbox(uint32_t nc_map) {
  const bool whole = nc_map == uapi::kResetWholeDevice;
  FirmwareIo& firmware = device_.firmware();
  pcie::HostExecutor& executor = device_.context().executor;
  const base::Ps reissue = whole ? kReissueDevice : kReissueNc;
  const base::Ps give_up = base::Ps{device_.dhal().reset_give_up_s} * base::kPsPerS;
  const base::Ps start = executor.now();
  while (!stop_) {
    if (!whole) firmware.write(misc::kResetMap, device_.dhal().reset_units(selected(nc_map)));
    firmware.write(misc::kResetRequest, whole ? kTypeDevice : kTypeNc);
    firmware.write(misc::kTrigger, 1);
    const base::Ps issued = executor.now();
    while (executor.now() - issued < reissue) {
      executor.delay(kAckPoll);
      const auto request = firmware.read_ready(misc::kResetRequest);
      if (!request) return false;
      if (*request == 0) return true;
      if (executor.now() - start >= give_up || stop_) return false;
    }
  }
  return false;
}

// spec/hw-registers.md 8.2 step 5.
bool ResetManager::wait_idle() {
  const int reads = device_.emulator() ? device_.dhal().emulator_status_reads : kStatusReads;
  for (int read = 0; read < reads && !stop_; ++read) {
    if (read > 0) device_.context().executor.delay(base::ms(100) * static_cast<uint64_t>(read));
    const auto status = device_.firmware().read_ready(misc::kStatus);
    if (!status) return false;
    if (misc::kStatusBusy.get(*status) == 0) return true;
  }
  return false;
}

bool ResetManager::wait_qemu_register() {
  const Dhal& dhal = device_.dhal();
  for (int read = 0; read < dhal.qemu_reset_reads && !stop_; ++read) {
    const uint32_t value = device_.registers().read(dhal.map.qemu_reset().bar0);
    device_.context().executor.delay(kQemuPoll);
    if (value == 0) return true;
    if (dhal.qemu_reset_backs_off) {
      device_.context().executor.delay(base::ms(100) * static_cast<uint64_t>(read));
    }
  }
  return false;
}

}  // namespace driver
