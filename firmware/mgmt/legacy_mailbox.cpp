#include "contract/regs/misc.h"
#include "firmware/mgmt/bytes.h"
#include "firmware/mgmt/crc32c.h"
#include "firmware/mgmt/mailbox.h"

namespace firmware::mgmt {

namespace misc = contract::misc;

namespace {

// Request {sequence, command, size16, crc32, payload}; response {sequence, error, size16, payload}.
constexpr uint32_t kRequestHeader = 8;
constexpr uint32_t kResponseHeader = 4;
constexpr uint8_t kCommandRead = 1;
constexpr uint8_t kCommandMetric = 2;
constexpr uint32_t kMetricBytes = 128;
constexpr uint32_t kNothing = ~0u;  // payload bytes of a command that failed

struct Request {
  uint64_t address;
  uint64_t response;
  uint32_t size;
};

bool check_crc(const Request& request, uint32_t expected, Hal& hal) {
  Crc32c crc;
  uint8_t chunk[512];
  for (uint32_t at = 0; at < request.size;) {
    const uint32_t left = request.size - at;
    const uint32_t n = left < sizeof chunk ? left : static_cast<uint32_t>(sizeof chunk);
    if (!hal.read(request.address + at, chunk, n)) return false;
    if (at == 0) store32(chunk + 4, 0);  // the CRC field counts as zero
    crc.add(chunk, n);
    at += n;
  }
  return crc.value() == expected;
}

// READ: 64-bit device addresses in, one 32-bit value each out. What nothing claims reads 0.
uint32_t command_read(const Request& request, Hal& hal) {
  const uint32_t bytes = request.size - kRequestHeader;
  if (bytes % 8 != 0) return kNothing;
  const uint32_t count = bytes / 8;
  for (uint32_t i = 0; i < count; ++i) {
    uint8_t raw[8];
    if (!hal.read(request.address + kRequestHeader + 8 * i, raw, sizeof raw)) return kNothing;
    uint32_t value = 0;
    if (!hal.read32(load64(raw), &value)) value = 0;
    store32(raw, value);
    if (!hal.write(request.response + kResponseHeader + 4 * i, raw, 4)) return kNothing;
  }
  return 4 * count;
}

uint32_t command_metric(const Request& request, uint32_t* ram, Hal& hal) {
  const uint32_t bytes = request.size - kRequestHeader;
  if (bytes > kMetricBytes) return kNothing;
  uint8_t raw[kMetricBytes] = {};
  if (bytes != 0 && !hal.read(request.address + kRequestHeader, raw, bytes)) return kNothing;
  for (uint32_t i = 0; i < bytes; i += 4) ram[(misc::kData + i) / 4] = load32(raw + i);
  return 0;
}

}  // namespace

MailboxResult serve_legacy_mailbox(uint32_t* ram, Hal& hal) {
  const auto pair = [ram](uint32_t high, uint32_t low) {
    return static_cast<uint64_t>(ram[high / 4]) << 32 | ram[low / 4];
  };
  Request request{pair(misc::kRequestHi, misc::kRequestLo),
                  pair(misc::kResponseHi, misc::kResponseLo), 0};
  uint8_t header[kRequestHeader];
  // Address 0 is HBM that belongs to firmware itself: no request has been made.
  if (request.address == 0 || !hal.read(request.address, header, sizeof header)) {
    return MailboxResult::kNoAnswer;
  }
  request.size = header[2] | static_cast<uint32_t>(header[3]) << 8;
  MailboxResult result = MailboxResult::kFailed;
  uint32_t payload = 0;
  if (request.size >= kRequestHeader && check_crc(request, load32(header + 4), hal)) {
    result = MailboxResult::kSuccess;
    if (header[1] == kCommandRead) {
      payload = command_read(request, hal);
    } else if (header[1] == kCommandMetric) {
      payload = command_metric(request, ram, hal);
    } else {
      result = MailboxResult::kUnknownCommand;
    }
    if (payload == kNothing) {
      result = MailboxResult::kFailed;
      payload = 0;
    }
  }
  const uint32_t size = kResponseHeader + payload;
  const uint8_t answer[kResponseHeader] = {header[0], static_cast<uint8_t>(result),
                                           static_cast<uint8_t>(size),
                                           static_cast<uint8_t>(size >> 8)};
  // The sequence number comes last: it is what the driver polls.
  if (!hal.write(request.response + 1, answer + 1, kResponseHeader - 1) ||
      !hal.write(request.response, answer, 1)) {
    return MailboxResult::kNoAnswer;
  }
  return result;
}

}  // namespace firmware::mgmt
