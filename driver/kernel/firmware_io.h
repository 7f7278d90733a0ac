// Misc RAM and the two firmware mailboxes (spec/hw-registers.md 7.3, 7.5, 7.6), 2.26.5.0 behaviour.
// Exact: access order, attempts, sequence numbers, CRC. Missing: nothing of that release; periodic
// metric posts (spec/hw-registers.md 7.4) are not made, because no driver timer may drive simulated
// time forward.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/span.h"
#include "driver/kernel/context.h"
#include "driver/kernel/dhal.h"
#include "driver/kernel/registers.h"

namespace driver {

uint32_t crc32c(base::ConstByteSpan bytes, uint32_t crc = 0);

class FirmwareIo {
 public:
  static constexpr uint32_t kMaxCounters = 8190;  // what fits the request buffer
  static constexpr uint32_t kMaxMetricBytes = 128;

  FirmwareIo(const Context& context, const Dhal& dhal, const Registers& registers);
  ~FirmwareIo();
  FirmwareIo(const FirmwareIo&) = delete;
  FirmwareIo& operator=(const FirmwareIo&) = delete;

  bool allocate_mailbox();  // false: out of host memory

  // Non-operational read: waits while firmware answers "not ready"; nothing after the last attempt.
  std::optional<uint32_t> read_ready(uint32_t word);
  uint32_t read(uint32_t word) const { return registers_.read(base_ + word); }
  void write(uint32_t word, uint32_t value) const { registers_.write(base_ + word, value); }

  // Legacy mailbox. 0 or -EPERM.
  int read_counters(const std::vector<uint64_t>& addresses, std::vector<uint32_t>& values);
  int post_metric(base::ConstByteSpan blob);
  // New mailbox: 0, -EPERM or raw 524 (not supported by the firmware).
  int set_power_profile(uint8_t profile);
  int set_features(uint8_t bitmap);

  static constexpr uint32_t kNotReady = 0xDEADBEEF;
  static constexpr int kNotSupported = 524;  // ENOTSUPP of the kernel, spec/driver-ioctl.md 0.3

 private:
  int legacy_request(uint8_t command, base::ConstByteSpan payload, base::ByteSpan response);
  int new_request(uint8_t command, base::ConstByteSpan payload);
  uint8_t next_sequence();

  const Context& context_;
  const Dhal& dhal_;
  Registers registers_;
  uint64_t base_;
  uint64_t request_ = 0;   // host physical
  uint64_t response_ = 0;  // host physical
  uint8_t sequence_ = 1;
  TaskMutex mutex_;
};

}  // namespace driver
