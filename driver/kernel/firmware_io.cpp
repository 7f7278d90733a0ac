#include "driver/kernel/firmware_io.h"

#include <cerrno>
#include <cstring>

#include "contract/regs/misc.h"

namespace driver {
namespace {

constexpr uint32_t kBufferBytes = 65535;  // spec/hw-registers.md 7.5
constexpr uint32_t kRequestHeader = 8;
constexpr uint32_t kResponseHeader = 4;
constexpr int kAttempts = 30;           // 7.3, 7.5: 30 since 2.26.5.0
constexpr int kPollsPerAttempt = 1000;  // 1 ms apart
constexpr int kNewAttempts = 3;         // 7.6
constexpr int kNewPolls = 60'000;       // 60 s, commands 3 and 5 of 2.26.5.0
constexpr uint32_t kNewApiVersion = 7;  // 7.6, gate of 2.26.5.0 on every architecture

constexpr uint8_t kCommandRead = 1;
constexpr uint8_t kCommandPostMetric = 2;
constexpr uint8_t kCommandSetPowerProfile = 3;
constexpr uint8_t kCommandSetFeature = 5;
constexpr uint8_t kErrorUnknownCommand = 2;

}  // namespace

uint32_t crc32c(base::ConstByteSpan bytes, uint32_t crc) {
  constexpr uint32_t kPolynomial = 0x82F63B78;  // 7.5, reflected
  crc = ~crc;
  for (const uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? kPolynomial : 0);
  }
  return ~crc;
}

FirmwareIo::FirmwareIo(const Context& context, const Dhal& dhal, const Registers& registers)
    : context_(context), dhal_(dhal), registers_(registers), base_(dhal.map.misc_ram().bar0) {}

FirmwareIo::~FirmwareIo() {
  context_.arena.free(request_);
  context_.arena.free(response_);
}

bool FirmwareIo::allocate_mailbox() {
  request_ = context_.arena.allocate(64 * base::kKiB).value_or(0);
  response_ = context_.arena.allocate(64 * base::kKiB).value_or(0);
  return request_ != 0 && response_ != 0;
}

std::optional<uint32_t> FirmwareIo::read_ready(uint32_t word) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    for (int poll = 0; poll < kPollsPerAttempt; ++poll) {
      const uint32_t value = read(word);
      if (value != kNotReady) return value;
      context_.executor.delay(base::ms(1));
    }
  }
  return std::nullopt;
}

uint8_t FirmwareIo::next_sequence() {
  sequence_ = sequence_ == 255 ? 1 : static_cast<uint8_t>(sequence_ + 1);
  return sequence_;
}

int FirmwareIo::legacy_request(uint8_t command, base::ConstByteSpan payload,
                               base::ByteSpan response) {
  namespace misc = contract::misc;
  const auto total = static_cast<uint32_t>(kRequestHeader + payload.size());
  if (total > kBufferBytes) return -EINVAL;
  if (request_ == 0 || response_ == 0) return -EPERM;
  TaskLock lock(mutex_, context_.executor);
  const uint64_t window = dhal_.map.host_window();
  uint8_t* const to = context_.arena.at(request_);
  const uint8_t* const from = context_.arena.at(response_);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const uint64_t request = request_ | window;
    const uint64_t answer = response_ | window;
    write(misc::kRequestLo, static_cast<uint32_t>(request));
    write(misc::kRequestHi, static_cast<uint32_t>(request >> 32));
    write(misc::kResponseLo, static_cast<uint32_t>(answer));
    write(misc::kResponseHi, static_cast<uint32_t>(answer >> 32));
    const uint8_t sequence = next_sequence();
    to[0] = sequence;
    to[1] = command;
    base::store<uint16_t>(to + 2, static_cast<uint16_t>(total));
    base::store<uint32_t>(to + 4, 0);
    if (!payload.empty()) std::memcpy(to + kRequestHeader, payload.data(), payload.size());
    base::store(to + 4, crc32c({to, total}));
    context_.arena.at(response_)[0] = 0;
    write(misc::kTrigger, 1);
    for (int poll = 0; poll < kPollsPerAttempt; ++poll) {
      if (from[0] == sequence) break;
      context_.executor.delay(base::ms(1));
    }
    if (from[0] != sequence) continue;
    if (from[1] == kErrorUnknownCommand) return -EPERM;
    if (from[1] != 0) continue;
    const uint32_t size = base::load<uint16_t>(from + 2);
    if (size < kResponseHeader || size - kResponseHeader > response.size()) return -EPERM;
    if (size > kResponseHeader) {
      std::memcpy(response.data(), from + kResponseHeader, size - kResponseHeader);
    }
    return 0;
  }
  return -EPERM;
}

int FirmwareIo::read_counters(const std::vector<uint64_t>& addresses,
                              std::vector<uint32_t>& values) {
  if (addresses.size() > kMaxCounters) return -EINVAL;
  values.assign(addresses.size(), 0);
  return legacy_request(
      kCommandRead,
      {reinterpret_cast<const uint8_t*>(addresses.data()), addresses.size() * sizeof(uint64_t)},
      {reinterpret_cast<uint8_t*>(values.data()), values.size() * sizeof(uint32_t)});
}

int FirmwareIo::post_metric(base::ConstByteSpan blob) {
  if (blob.size() > kMaxMetricBytes) return -E2BIG;
  uint8_t padded[kMaxMetricBytes] = {};
  if (!blob.empty()) std::memcpy(padded, blob.data(), blob.size());
  for (uint32_t at = 0; at < blob.size(); at += 4) {
    write(contract::misc::kData + at, base::load<uint32_t>(padded + at));
  }
  uint8_t response[kMaxMetricBytes];
  return legacy_request(kCommandPostMetric, blob, {response, sizeof response});
}

int FirmwareIo::new_request(uint8_t command, base::ConstByteSpan payload) {
  namespace misc = contract::misc;
  TaskLock lock(mutex_, context_.executor);
  const auto api = read_ready(misc::kFwApiVersion);
  if (!api || *api < kNewApiVersion) return -kNotSupported;
  const auto total = static_cast<uint32_t>(kRequestHeader + payload.size());
  for (int attempt = 0; attempt < kNewAttempts; ++attempt) {
    uint8_t message[kRequestHeader + kMaxMetricBytes] = {};
    message[0] = next_sequence();
    message[1] = command;
    base::store<uint16_t>(message + 2, static_cast<uint16_t>(total));
    std::memcpy(message + kRequestHeader, payload.data(), payload.size());
    for (uint32_t at = 0; at < payload.size(); at += 4) {
      write(misc::kData + at, base::load<uint32_t>(message + kRequestHeader + at));
    }
    write(misc::kRequestHi, base::load<uint32_t>(message));
    write(misc::kRequestLo, crc32c({message, total}));
    write(misc::kResponseHi, 0);
    write(misc::kResponseLo, 0);
    write(misc::kAck, 1);
    write(misc::kTrigger, 1);
    int polls = 0;
    while (polls < kNewPolls && read(misc::kTrigger) != 0) {
      context_.executor.delay(base::ms(1));
      ++polls;
    }
    if (polls == kNewPolls) continue;
    const uint32_t header = read(misc::kRequestHi);
    if ((header & 0xff) != message[0]) continue;
    const uint32_t error = header >> 8 & 0xff;
    if (error == kErrorUnknownCommand) return -EPERM;
    if (error == 0) return 0;
  }
  return 0;  // spec/driver-ioctl.md 3.17: 2.26 loses the failure of the last attempt
}

int FirmwareIo::set_power_profile(uint8_t profile) {
  const uint8_t payload[8] = {0, 0, 0, 0, profile, 0, 0, 0};
  return new_request(kCommandSetPowerProfile, {payload, sizeof payload});
}

int FirmwareIo::set_features(uint8_t bitmap) {
  return new_request(kCommandSetFeature, {&bitmap, 1});
}

}  // namespace driver
