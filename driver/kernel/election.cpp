#include "driver/kernel/election.h"

#include <algorithm>
#include <cerrno>

#include "contract/regs/misc.h"
#include "driver/kernel/kernel_driver.h"

namespace driver {

namespace misc = contract::misc;

namespace {

constexpr uint32_t kStatusInit = 0;
constexpr uint32_t kStatusDataRead = 3;  // "success"
constexpr uint32_t kStatusFailed = 2;
constexpr uint32_t kPrimaryNoNode = 0x00FF'0000;
constexpr uint32_t kBothLinks = kLinkLeft | kLinkRight;
constexpr uint64_t kMaxSecondary = 15;
constexpr base::Ps kRetry = base::ms(50);            // spec/hw-registers.md 9.4
constexpr base::Ps kFallback = 120 * base::kPsPerS;  // least time of a fallback attempt
constexpr const char* kSides[] = {"left", "right"};

bool in(uint32_t links, uint32_t side) {
  return (links >> side & 1) != 0;
}
bool present(uint32_t word) {
  return word != 0 && word != FirmwareIo::kNotReady;
}
uint64_t high_low(uint32_t high, uint32_t low) {
  return uint64_t{high} << 32 | low;
}
// The words 0x180 to 0x18C as a neighbour reads them.
uint64_t left_value(const RemoteReader::Words& words) {
  return high_low(words[0], words[1]);
}
uint64_t right_value(const RemoteReader::Words& words) {
  return high_low(words[2], words[3]);
}

}  // namespace

PlatformType platform_type(const std::string& product_name) {
  struct Row {
    PlatformType type;
    const char* name;
  };
  // 9.1; the names of all releases, none of which means different things in two of them.
  constexpr Row kRows[] = {{PlatformType::kUltraServer, "trn2p.48xlarge"},
                           {PlatformType::kUltraServer, "trn2eu.48xlarge"},
                           {PlatformType::kUltraServer, "trn2u.48xlarge"},
                           {PlatformType::kUltraServer, "trn2u-ac.24xlarge"},
                           {PlatformType::kUltraServer, "trn3p.48xlarge"},
                           {PlatformType::kPds, "trn2es.48xlarge"},
                           {PlatformType::kPds, "trn3.48xlarge"},
                           {PlatformType::kPds, "trn3s.48xlarge"},
                           {PlatformType::kPds, "trn3-dev0.48xlarge"},
                           {PlatformType::kPds, "trn3-dev1.48xlarge"},
                           {PlatformType::kPds, "trn3s-es.48xlarge"},
                           {PlatformType::kPds, "trn3sn.48xlarge"},
                           {PlatformType::kPds, "trn3sn-es.48xlarge"},
                           {PlatformType::kMax, "trn2en.24xlarge"},
                           {PlatformType::kMax, "trn3e.24xlarge"},
                           {PlatformType::kMax, "trn3e-dev0.24xlarge"}};
  for (const Row& row : kRows) {
    if (product_name.rfind(row.name, 0) == 0) return row.type;
  }
  return PlatformType::kStandard;
}

Election::Election(KernelDriver& driver) : driver_(driver), context_(driver.context()) {}

Election::~Election() = default;

bool Election::die_flipped() const {
  return driver_.platform() == PlatformType::kUltraServer && outcome_ == Outcome::kSuccess &&
         (pod_.node == 1 || pod_.node == 3);
}

uint32_t Election::devices_needed() const {
  return driver_.platform() == PlatformType::kMax ? kDevicesMax : kDevices;
}

int Election::status(uint32_t& state) const {
  if (!settled()) {
    state = kInProgress;
    return -EBUSY;
  }
  const bool pod = outcome_ == Outcome::kSuccess && pod_.count > 1 && mode_ != kModeX1;
  state = pod ? kUltraServer : kSingleNode;
  return 0;
}

void Election::device_reset(NeuronDevice& device, bool ok) {
  const PlatformType platform = driver_.platform();
  if (platform == PlatformType::kStandard || removed_) return;
  if (!ok) {
    context_.log("election: the reset of device " + std::to_string(device.index()) + " failed");
    abort_ = running_;
    if (!running_) finish(Outcome::kFailed, {});
    return;
  }
  if (device.index() < kDevices) reset_devices_ |= 1u << device.index();
  if (platform == PlatformType::kUltraServer && device.index() == 0) adopt(device);
  const bool all = reset_devices_ == (1u << devices_needed()) - 1;
  if (!all || outcome_ != Outcome::kNone || running_) return;
  if (platform == PlatformType::kUltraServer) {
    spawn(context_.params.userver_etimeout);
  } else if (NeuronDevice* first = driver_.device(0)) {
    configure(*first);
  }
}

// spec/hw-registers.md 10.2 step 17: an election that ended before the driver was loaded still
// holds.
void Election::adopt(NeuronDevice& device) {
  const uint32_t word = device.firmware().read(misc::kElectionStatus);
  const uint32_t high = device.firmware().read(misc::kPodSerialHi);
  const uint32_t low = device.firmware().read(misc::kPodSerialLo);
  const uint32_t count = word >> 24;
  if (running_ || (word & 0xFF) != kStatusDataRead || count == 0) return;
  finish(Outcome::kSuccess,
         {static_cast<int8_t>(word >> 16), count, high_low(high, low), word >> 8 & kBothLinks});
}

// 9.6.
void Election::configure(NeuronDevice& device) {
  FirmwareIo& firmware = device.firmware();
  (void)firmware.read(misc::kSerialLo);
  (void)firmware.read(misc::kSerialHi);
  const uint32_t sizes = firmware.read(misc::kSizes);
  const uint32_t low = firmware.read(misc::kReservationLo);
  const uint32_t high = firmware.read(misc::kReservationHi);
  const uint32_t server_rack = firmware.read(misc::kServerRack);
  const uint64_t id = high_low(high, low);
  finish(Outcome::kSuccess, configured_pod(driver_.platform(), sizes, server_rack,
                                           id != 0 ? id : context_.params.pds_reservation_id));
}

int Election::start(uint32_t timeout_s, bool cores_marked) {
  if (driver_.platform() != PlatformType::kUltraServer) return 0;
  if (running_) return -EBUSY;
  if (cores_marked || reset_devices_ != (1u << devices_needed()) - 1) return -EAGAIN;
  for (uint32_t d = 0; d < kDevices; ++d) {
    const NeuronDevice* device = driver_.device(static_cast<int>(d));
    if (device == nullptr || device->state != DeviceState::kReady) return -EAGAIN;
  }
  spawn(timeout_s);
  return 0;
}

int Election::kill() {
  if (running_) {
    abort_ = true;
    context_.executor.wake(this);
  } else if (outcome_ == Outcome::kNone) {
    finish(Outcome::kFailed, {});
  }
  return 0;
}

int Election::set_mode(uint32_t mode) {
  if (!settled()) return -EBUSY;
  if (mode_ != kModeUnset && mode_ != mode) return -EEXIST;
  if (mode > kModeX1 || (modes() >> mode & 1) == 0) return -FirmwareIo::kNotSupported;
  mode_ = mode;
  return 0;
}

void Election::stop() {
  removed_ = true;
  abort_ = true;
  context_.executor.wake(this);
  while (running_) context_.executor.wait(&running_, pcie::HostExecutor::kForever);
}

void Election::spawn(uint32_t timeout_s) {
  running_ = true;
  abort_ = false;
  primary_failed_ = false;
  pod_ = {};
  deadline_ = context_.executor.now() + base::Ps{timeout_s} * base::kPsPerS;
  context_.executor.spawn("driver.election", [this] { run(); });
}

void Election::finish(Outcome outcome, const Pod& pod) {
  outcome_ = outcome;
  pod_ = pod;
  if (mode_ != kModeUnset && (modes() >> mode_ & 1) == 0) mode_ = kModeUnset;
}

void Election::run() {
  bool done = false;
  for (const uint32_t links : {kBothLinks, kLinkRight, kLinkLeft}) {
    if (links != kBothLinks) {
      // The first thing an attempt does is to take back what this one's failure told neighbours.
      context_.executor.wait(this, 2 * kRetry);
      deadline_ = std::max(deadline_, context_.executor.now() + kFallback);
    }
    done = !abort_ && attempt(links);
    if (done || abort_) break;
  }
  if (!done) {
    // What an earlier election left must not be taken for a success.
    if (!primary_failed_ && !removed_) fail_primary(*driver_.device(0));
    context_.log("election: failed, this host is a single node");
    finish(Outcome::kFailed, {});
  }
  running_ = false;
  context_.executor.wake(&running_);
}

bool Election::fail(const std::string& why) {
  context_.log("election: device " + std::to_string(device_) + ": " + why);
  return false;
}

// Sleeps before a retry; false when the time is up or the election is to end.
bool Election::pause(bool with_deadline) {
  if (abort_) return false;
  context_.executor.wait(this, kRetry);
  return !abort_ && (!with_deadline || context_.executor.now() < deadline_);
}

RemoteReader* Election::reader(uint32_t index) {
  NeuronDevice* device = driver_.device(static_cast<int>(index));
  if (device == nullptr) return nullptr;
  std::unique_ptr<RemoteReader>& reader = readers_[index];
  if (reader == nullptr) reader = std::make_unique<RemoteReader>(*device);
  return reader->start() ? reader.get() : nullptr;
}

// 9.4: all nodes take the devices in the same order.
bool Election::attempt(uint32_t links) {
  for (uint32_t index = 1; index < kDevices; ++index) {
    if (!secondary(index, links)) return false;
  }
  return primary(links);
}

// Step 2.
bool Election::read_serials(RemoteReader& reader, uint32_t links, Seen& seen) {
  for (uint32_t side = 0; side < 2; ++side) {
    if (!in(links, side)) continue;
    uint64_t serial[2] = {};
    for (;;) {
      bool there = true;
      for (uint32_t k = 0; k < 2; ++k) {
        const auto words = reader.read(2 * side + k, misc::kSerialLo, 2);
        if (!words) return fail(std::string(kSides[side]) + " neighbour does not answer");
        serial[k] = high_low((*words)[1], (*words)[0]);
        there = there && present((*words)[0]);
      }
      if (there) break;
      if (!pause(true)) return fail(std::string(kSides[side]) + " neighbour has no serial number");
    }
    if (serial[0] != serial[1]) {
      return fail(std::string(kSides[side]) + " links lead to two devices");
    }
    seen.serial[side] = serial[0];
  }
  return true;
}

// Step 4.
bool Election::exchange(RemoteReader& reader, uint32_t links, Seen& seen) {
  const uint32_t last = in(links, 1) ? 3 : 1;
  for (uint32_t side = 0; side < 2; ++side) {
    if (!in(links, side)) continue;
    for (;;) {
      const auto words = reader.read(2 * side, misc::kElectionLeftHi, 4);
      if (!words) return fail(std::string(kSides[side]) + " neighbour does not answer");
      seen.data[side] = *words;
      if (present((*words)[last])) break;
      if (!pause(true)) return fail(std::string(kSides[side]) + " neighbour does not take part");
    }
  }
  return true;
}

// Step 7: without a deadline.
bool Election::await_status(RemoteReader& reader, uint32_t links) {
  for (uint32_t side = 0; side < 2; ++side) {
    if (!in(links, side)) continue;
    for (;;) {
      const auto words = reader.read(2 * side, misc::kElectionStatus, 1);
      if (!words) return fail(std::string(kSides[side]) + " neighbour does not answer");
      const uint32_t status = (*words)[0] & 0xFF;
      if (status == kStatusDataRead) break;
      if (status != 0) return fail(std::string(kSides[side]) + " neighbour has failed");
      if (!pause(false)) return fail("ended from outside");
    }
  }
  return true;
}

void Election::clear_data(NeuronDevice& device) {
  for (const uint32_t word : {misc::kElectionRightLo, misc::kElectionRightHi, misc::kElectionLeftLo,
                              misc::kElectionLeftHi}) {
    device.firmware().write(word, 0);
  }
}

bool Election::secondary(uint32_t index, uint32_t links) {
  device_ = index;
  RemoteReader* from = reader(index);
  if (from == nullptr) return fail("no host memory");
  NeuronDevice& device = *driver_.device(static_cast<int>(index));
  FirmwareIo& firmware = device.firmware();
  const auto steps = [&] {
    Seen seen;
    firmware.write(misc::kElectionStatus, kStatusInit);
    if (!read_serials(*from, links, seen)) return false;
    firmware.write(misc::kElectionLeftHi, 0);
    firmware.write(misc::kElectionLeftLo, index);
    firmware.write(misc::kElectionRightHi, 0);
    firmware.write(misc::kElectionRightLo, index);
    if (!exchange(*from, links, seen)) return false;
    for (uint32_t side = 0; side < 2; ++side) {
      if (in(links, side) && left_value(seen.data[side]) != index) {
        return fail(std::string(kSides[side]) + " link leads to another device: mis-wired");
      }
    }
    firmware.write(misc::kElectionStatus, kStatusDataRead);
    return await_status(*from, links);
  };
  const bool ok = steps();
  clear_data(device);
  if (!ok) firmware.write(misc::kElectionStatus, kStatusFailed);
  return ok;
}

// Steps 2 to 7 of the primary; fills `pod`.
bool Election::primary_steps(RemoteReader& from, FirmwareIo& firmware, uint32_t links, uint64_t own,
                             Pod& pod) {
  Seen seen;
  if (!read_serials(from, links, seen)) return false;
  const uint64_t left = seen.serial[0];
  const uint64_t right = seen.serial[1];
  firmware.write(misc::kElectionLeftHi, static_cast<uint32_t>(left >> 32));
  firmware.write(misc::kElectionLeftLo, static_cast<uint32_t>(left));
  firmware.write(misc::kElectionRightHi, static_cast<uint32_t>(right >> 32));
  firmware.write(misc::kElectionRightLo, static_cast<uint32_t>(right));
  if (!exchange(from, links, seen)) return false;
  for (uint32_t side = 0; side < 2; ++side) {
    if (!in(links, side)) continue;
    if (links == kBothLinks && left_value(seen.data[side]) <= kMaxSecondary) {
      return fail(std::string(kSides[side]) + " link leads to a secondary device: mis-wired");
    }
    const uint64_t back = side == 0 ? left_value(seen.data[0]) : right_value(seen.data[1]);
    if (back != own) {
      return fail(std::string(kSides[side]) + " link is not that of the neighbour: mis-wired");
    }
  }
  pod = elect(links, {own, left, right, right_value(seen.data[0])});
  firmware.write(misc::kElectionStatus, kPrimaryNoNode | kStatusDataRead);
  return await_status(from, links);
}

bool Election::primary(uint32_t links) {
  device_ = 0;
  NeuronDevice& device = *driver_.device(0);
  FirmwareIo& firmware = device.firmware();
  const auto routing_id = firmware.read_ready(misc::kRoutingId);
  const auto low = firmware.read_ready(misc::kSerialLo);
  const auto high = firmware.read_ready(misc::kSerialHi);
  if (!routing_id || !low || !high) return fail("the firmware does not answer");
  RemoteReader* from = reader(0);
  if (from == nullptr) return fail("no host memory");
  firmware.write(misc::kElectionStatus, kPrimaryNoNode | kStatusInit);
  Pod pod;
  const bool ok = primary_steps(*from, firmware, links, high_low(*high, *low), pod);
  clear_data(device);
  if (!ok) {
    fail_primary(device);
    return false;
  }
  firmware.write(misc::kElectionStatus, kStatusDataRead | links << 8 |
                                            static_cast<uint32_t>(pod.node) << 16 |
                                            pod.count << 24);
  firmware.write(misc::kPodSerialHi, static_cast<uint32_t>(pod.serial >> 32));
  firmware.write(misc::kPodSerialLo, static_cast<uint32_t>(pod.serial));
  finish(Outcome::kSuccess, pod);
  context_.log("election: node " + std::to_string(pod.node) + " of " + std::to_string(pod.count));
  return true;
}

void Election::fail_primary(NeuronDevice& device) {
  primary_failed_ = true;
  device.firmware().write(misc::kElectionStatus, kPrimaryNoNode | kStatusFailed);
  device.firmware().write(misc::kPodSerialHi, 0);
  device.firmware().write(misc::kPodSerialLo, 0);
}

}  // namespace driver
