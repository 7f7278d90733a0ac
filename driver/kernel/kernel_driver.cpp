#include "driver/kernel/kernel_driver.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "contract/regs/misc.h"
#include "driver/kernel/reset_manager.h"
#include "driver/kernel/sysfs_tree.h"

namespace driver {
namespace {

constexpr uint32_t kPciRevision = 8;
constexpr uint32_t kRoutingLimit = 64;  // spec/hw-registers.md 1.5

PlatformType platform_of(const Params& params) {
  const PlatformType type = platform_type(params.product_name);
  return type == PlatformType::kStandard && params.force_userver ? PlatformType::kUltraServer
                                                                 : type;
}

base::Error errno_of(int code, std::string where, std::string what) {
  return {base::Fault::kUsage, code, std::move(where), std::move(what)};
}

std::string node_name(int minor) {
  return "/dev/neuron" + std::to_string(minor);
}

}  // namespace

KernelDriver::KernelDriver(std::vector<DevicePlace> places, HostArena& arena,
                           pcie::HostExecutor& executor, Params params)
    : places_(std::move(places)),
      params_(std::move(params)),
      context_{arena, executor, params_, counters_},
      platform_(platform_of(params_)),
      election_(std::make_unique<Election>(*this)) {}

KernelDriver::~KernelDriver() = default;

void KernelDriver::start() {
  context_.executor.spawn("driver.probe", [this] { probe_all(); });
}

void KernelDriver::probe_all() {
  for (const DevicePlace& place : places_) {
    std::string error = probe_one(place);
    if (error.empty()) continue;
    context_.log(error);
    probe_errors_.push_back(std::move(error));
  }
  probed_ = true;
  context_.executor.wake(&probed_);
}

// spec/hw-registers.md 10.1; empty on success.
std::string KernelDriver::probe_one(const DevicePlace& place) {
  pcie::Device& pci = *place.device;
  const pcie::Identity& identity = pci.identity();
  const std::string where = "pci " + std::to_string(place.location.bus);
  const Product* product = find_product(identity.device);
  if (identity.vendor != kVendorId || product == nullptr) return where + ": not a Neuron device";
  const bool first = product_ == nullptr;
  if (first) product_ = product;
  if (product->dhal != product_->dhal) return where + ": mixed architectures on one host";
  uint32_t command = pci.config_read(pcie::kCommand, 2);
  pci.config_write(pcie::kCommand, 2, command | pcie::kCommandMemory);
  command = pci.config_read(pcie::kCommand, 2);
  pci.config_write(pcie::kCommand, 2, command | pcie::kCommandMaster);
  const auto revision = static_cast<uint8_t>(pci.config_read(kPciRevision, 1));
  if (first) revision_ = revision;
  auto device = std::make_unique<NeuronDevice>(context_, pci, place.location, *product, revision);
  if (device->registers().size() == 0) return where + ": the register BAR is absent";
  // Counted devices do not look at their routing id (spec/hw-registers.md 1.5).
  const bool counted = platform() == PlatformType::kMax && product->dhal->counted_on_max;
  if (!device->probe(!counted)) return where + ": firmware does not publish a routing id";
  if (!assign_index(*device)) {
    return where + ": routing id " + std::to_string(device->routing_id()) +
           " is out of range or taken";
  }
  const int minor = static_cast<int>(device->index());
  NeuronDevice& added = *devices_.emplace(minor, std::move(device)).first->second;
  added.after_device_reset = [this, &added](bool ok) { election_->device_reset(added, ok); };
  context_.executor.spawn("driver.reset" + std::to_string(minor),
                          [&added] { added.resets().run(); });
  added.resets().request_full();
  return {};
}

// spec/hw-registers.md 1.5; spec/driver-ioctl.md 1.2.
bool KernelDriver::assign_index(NeuronDevice& device) const {
  const uint32_t id = device.routing_id();
  const Product& product = device.product();
  const PlatformType type = platform();
  uint32_t index = id;
  if (type == PlatformType::kMax && product.dhal->counted_on_max) {
    index = device_count() % Election::kDevicesMax;
  } else if (type == PlatformType::kPds || type == PlatformType::kMax) {
    constexpr uint32_t kServerValid = 1u << 15;
    const auto server = device.firmware().read_ready(contract::misc::kServerRack);
    if (id >= 2 * kRoutingLimit || !server || (*server & kServerValid) == 0) return false;
    index = id % (type == PlatformType::kPds ? Election::kDevices : Election::kDevicesMax);
  } else {
    if (id >= kRoutingLimit) return false;
    if (product.routing != nullptr) {
      index = (*product.routing)[id % 16] + (product.routing_blocks ? id / 16 * 16 : 0);
    }
  }
  device.set_index(index);
  return devices_.count(static_cast<int>(index)) == 0;
}

// The first device tells whether the host's product name counts (spec/hw-registers.md 1.2).
PlatformType KernelDriver::platform() const {
  if (product_ == nullptr) return platform_;
  const bool simulated = revision_ == kRevisionQemu || revision_ == kRevisionEmulator;
  const bool standard =
      !product_->dhal->pods || (simulated && product_->dhal->simulated_is_standard);
  return standard ? PlatformType::kStandard : platform_;
}

void KernelDriver::wait_ready() {
  while (!probed_) context_.executor.wait(&probed_, pcie::HostExecutor::kForever);
  for (const auto& entry : devices_) {
    const NeuronDevice& device = *entry.second;
    while (device.state == DeviceState::kReset) {
      context_.executor.wait(&device.state, pcie::HostExecutor::kForever);
    }
  }
}

void KernelDriver::remove() {
  for (const auto& entry : devices_) entry.second->resets().stop();
  election_->stop();
  for (const auto& entry : devices_) {
    entry.second->resets().wait_stopped();
    entry.second->remove();
  }
}

NeuronDevice* KernelDriver::device(int minor) const {
  const auto it = devices_.find(minor);
  return it == devices_.end() ? nullptr : it->second.get();
}

std::vector<int> KernelDriver::minors() const {
  std::vector<int> all;
  for (const auto& entry : devices_) all.push_back(entry.first);
  return all;
}

std::vector<uint32_t> KernelDriver::neighbours(const NeuronDevice& device) const {
  const uint32_t count = device_count();
  const uint32_t d = device.index();
  std::vector<uint32_t> found;
  const NeighbourTable* table = device.product().neighbours;
  if (table == nullptr) {
    if (count == 12) {
      found = {(d + 11) % 12, (d + 1) % 12};
    } else if (count == 6) {
      if (d > 0) found.push_back(d - 1);
      if (d < 5) found.push_back(d + 1);
    }
    return found;
  }
  if (count == 0 || count % 16 != 0) return found;
  for (const uint8_t id : (*table)[d % 16]) found.push_back(id | (0x10 & d));
  return found;
}

// Any chunk tracked by a device that the process is attached to (spec/driver-ioctl.md 3.5.4). The
// order of the search has no visible effect.
bool KernelDriver::is_host_chunk(uint64_t pa, int32_t tgid) const {
  for (const auto& entry : devices_) {
    NeuronDevice& device = *entry.second;
    if (device.process(tgid) == nullptr) continue;
    const Chunk* chunk = device.memory().containing(pa);
    if (chunk != nullptr && chunk->host) return true;
  }
  return false;
}

// spec/driver-ioctl.md 1.3.
base::Result<int> KernelDriver::open(int minor, int flags, const Caller& caller) {
  while (!probed_) context_.executor.wait(&probed_, pcie::HostExecutor::kForever);
  NeuronDevice* found = device(minor);
  if (found == nullptr) return errno_of(ENODEV, node_name(minor), "no such device");
  OpenFile file{minor, flags, (flags & O_WRONLY) != 0};
  if (!file.free_access) {
    TaskLock lock(found->node_mutex, context_.executor);
    ++found->open_count;
    while (found->state == DeviceState::kReset) {
      context_.executor.wait(&found->state, pcie::HostExecutor::kForever);
    }
    int error = found->state == DeviceState::kInvalid ? -EINVAL : await_pod_configuration();
    if (error == 0) error = found->attach(caller.tgid);
    if (error != 0) {
      --found->open_count;
      return errno_of(-error, node_name(minor),
                      error == -EBUSY ? "the pod is not configured, or 16 processes are attached"
                                      : "the device did not come out of its reset");
    }
  }
  const int id = next_file_++;
  files_.emplace(id, file);
  return id;
}

// Devices of PDS and MAX platforms open when the pod is known, which takes the reset of all of them
// (spec/hw-registers.md 9.6, 10.4); without it, for one of them failed, they stay busy.
int KernelDriver::await_pod_configuration() const {
  if (platform() != PlatformType::kPds && platform() != PlatformType::kMax) return 0;
  for (const auto& entry : devices_) {
    const DeviceState& state = entry.second->state;
    while (state == DeviceState::kReset) {
      context_.executor.wait(&state, pcie::HostExecutor::kForever);
    }
  }
  return election_->settled() ? 0 : -EBUSY;
}

void KernelDriver::flush(int file, const Caller& caller) {
  const auto it = files_.find(file);
  if (it == files_.end()) return;
  if (it->second.free_access) {
    range_marks_.release_process(caller.tgid);
    if (!range_marks_.any()) election_->no_core_marked();
    return;
  }
  NeuronDevice& found = *device(it->second.minor);
  TaskLock lock(found.node_mutex, context_.executor);
  found.detach(caller.tgid);
}

void KernelDriver::release(int file) {
  const auto it = files_.find(file);
  if (it == files_.end()) return;
  const OpenFile closed = it->second;
  files_.erase(it);
  if (closed.free_access) return;
  NeuronDevice& found = *device(closed.minor);
  TaskLock lock(found.node_mutex, context_.executor);
  if (--found.open_count == 0) found.last_close();
}

SysfsTree* KernelDriver::sysfs() const {
  if (probed_ && sysfs_ == nullptr) sysfs_ = std::make_unique<SysfsTree>(*this, params_);
  return sysfs_.get();
}

std::vector<SysfsFile> KernelDriver::sysfs_files(int minor) const {
  SysfsTree* tree = sysfs();
  return tree == nullptr ? std::vector<SysfsFile>{} : tree->files(minor);
}

base::Result<std::string> KernelDriver::sysfs_read(const std::string& path) {
  SysfsTree* tree = sysfs();
  if (tree == nullptr) return errno_of(ENOENT, path, "the driver is still probing");
  return tree->read(path);
}

base::Status KernelDriver::sysfs_write(const std::string& path, const std::string& text) {
  SysfsTree* tree = sysfs();
  if (tree == nullptr) return errno_of(ENOENT, path, "the driver is still probing");
  return tree->write(path, text);
}

SysfsEvents KernelDriver::sysfs_events(const std::string& path) {
  SysfsTree* tree = sysfs();
  return tree == nullptr ? SysfsEvents{} : tree->events(path);
}

}  // namespace driver
