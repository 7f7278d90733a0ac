// The two mailbox protocols (spec/hw-registers.md 7.5, 7.6): each call serves the one request that
// the words of the misc RAM describe, and leaves the response where its protocol wants it.
// Exact: framing, CRC, order of writes, error codes. Ours: which profiles exist, what a request
// with more payload than its command needs means (the excess is ignored), see
// docs/decisions/firmware.md.
#pragma once

#include <cstdint>

#include "firmware/hal/hal.h"
#include "firmware/mgmt/config.h"

namespace firmware::mgmt {

enum class MailboxResult : uint8_t {
  kSuccess = 0,
  kFailed = 1,
  kUnknownCommand = 2,
  kNoAnswer = 3,  // never sent: request not readable, or response not writable
};

// Buffers in memory, named by words 0x1F0 to 0x1FC. All generations.
MailboxResult serve_legacy_mailbox(uint32_t* ram, Hal& hal);

// Words only. Keeps what the commands set.
class RegisterMailbox {
 public:
  static constexpr uint32_t kProfiles = 16;  // power profiles 0 to 15
  struct Power {
    uint8_t profile = 0;
    uint8_t voltage_margin = 0;
    uint8_t frequency = 0;
  };

  MailboxResult serve(const Config& config, uint32_t* ram);
  const Power& power() const { return power_; }
  uint8_t features() const { return features_; }
  bool throttling_notifications() const { return (features_ & 1) != 0; }

 private:
  struct Answer;
  void execute(const Config& config, uint8_t command, const uint8_t* payload, uint32_t bytes,
               Answer& answer);
  void get_data(const Config& config, const uint8_t* payload, uint32_t bytes, Answer& answer) const;

  Power power_;
  uint8_t features_ = 0;
};

}  // namespace firmware::mgmt
