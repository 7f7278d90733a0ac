#include "contract/regs/misc.h"
#include "firmware/mgmt/bytes.h"
#include "firmware/mgmt/crc32c.h"
#include "firmware/mgmt/mailbox.h"

namespace firmware::mgmt {

namespace misc = contract::misc;

namespace {

// Request and response are {sequence, command or error, size16} in 0x1F0, CRC in 0x1F4, payload
// from 0x100; the size counts both header words.
constexpr uint32_t kHeader = 8;
constexpr uint32_t kDataBytes = 4 * misc::kDataCount;

enum Command : uint8_t { kSetPowerProfile = 3, kGetData = 4, kSetFeature = 5 };
enum DataType : uint8_t { kPowerProfile = 0x01, kProfileList = 0x02, kFabricWindows = 0x10 };
constexpr uint32_t kProfileBytes = 8;
constexpr uint32_t kListBytes = 33;  // count, then 256 bits
constexpr uint32_t kWindowBytes = 8;
constexpr uint32_t kMaxWindows = kDataBytes / kWindowBytes;
constexpr uint32_t kAllFeatures = 0;

uint32_t crc_of(uint32_t header, const uint8_t* payload, uint32_t bytes) {
  uint8_t words[kHeader] = {};  // the CRC field counts as zero
  store32(words, header);
  Crc32c crc;
  crc.add(words, sizeof words);
  crc.add(payload, bytes);
  return crc.value();
}

}  // namespace

struct RegisterMailbox::Answer {
  MailboxResult result = MailboxResult::kFailed;
  uint8_t payload[kDataBytes] = {};
  uint32_t bytes = 0;

  void succeed(uint32_t payload_bytes = 0) {
    result = MailboxResult::kSuccess;
    bytes = payload_bytes;
  }
};

MailboxResult RegisterMailbox::serve(const Config& config, uint32_t* ram) {
  const uint32_t request = ram[misc::kRequestHi / 4];
  const uint32_t size = request >> 16;
  Answer answer;
  if (size >= kHeader && size - kHeader <= kDataBytes) {
    const uint32_t bytes = size - kHeader;
    uint8_t payload[kDataBytes];
    for (uint32_t i = 0; i < kDataBytes; i += 4) store32(payload + i, ram[(misc::kData + i) / 4]);
    if (crc_of(request, payload, bytes) == ram[misc::kRequestLo / 4]) {
      execute(config, static_cast<uint8_t>(request >> 8), payload, bytes, answer);
    }
  }
  for (uint32_t i = 0; i < answer.bytes; i += 4) {
    ram[(misc::kData + i) / 4] = load32(answer.payload + i);
  }
  const uint32_t response =
      (request & 0xFF) | static_cast<uint32_t>(answer.result) << 8 | (kHeader + answer.bytes) << 16;
  ram[misc::kRequestHi / 4] = response;
  ram[misc::kRequestLo / 4] = crc_of(response, answer.payload, answer.bytes);
  return answer.result;
}

void RegisterMailbox::execute(const Config& config, uint8_t command, const uint8_t* payload,
                              uint32_t bytes, Answer& answer) {
  switch (command) {
    case kSetPowerProfile:
      if (bytes < kProfileBytes || payload[4] >= kProfiles) return;
      power_ = {payload[4], payload[5], payload[6]};
      return answer.succeed();
    case kGetData:
      return get_data(config, payload, bytes, answer);
    case kSetFeature:
      if (bytes < 1) return;
      features_ = payload[0];
      return answer.succeed();
    default:
      answer.result = MailboxResult::kUnknownCommand;
  }
}

void RegisterMailbox::get_data(const Config& config, const uint8_t* payload, uint32_t bytes,
                               Answer& answer) const {
  if (bytes < 1) return;
  uint8_t* to = answer.payload;
  if (payload[0] == kPowerProfile) {
    to[4] = power_.profile;
    to[5] = power_.voltage_margin;
    to[6] = power_.frequency;
    return answer.succeed(kProfileBytes);
  }
  if (payload[0] == kProfileList && bytes >= 3) {
    const uint32_t feature = payload[1] | static_cast<uint32_t>(payload[2]) << 8;
    if (feature == kAllFeatures) {  // no profile has a particular feature
      to[0] = kProfiles;
      for (uint32_t p = 0; p < kProfiles; ++p) {
        to[1 + p / 8] = static_cast<uint8_t>(to[1 + p / 8] | 1u << (p % 8));
      }
    }
    return answer.succeed(kListBytes);
  }
  if (payload[0] == kFabricWindows && bytes >= 2 && (payload[1] == 1 || payload[1] == 2)) {
    const uint32_t query = payload[1] - 1u;
    uint32_t count = config.window_count[query];
    if (count > kMaxWindows) count = kMaxWindows;
    for (uint32_t i = 0; i < count; ++i) {
      to[i * kWindowBytes] = config.windows[query][i].type;
      store32(to + i * kWindowBytes + 4, config.windows[query][i].address_high);
    }
    // A list that does not fill the buffer ends with an entry of type 0.
    return answer.succeed((count == kMaxWindows ? count : count + 1) * kWindowBytes);
  }
}

}  // namespace firmware::mgmt
