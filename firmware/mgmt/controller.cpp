#include "firmware/mgmt/controller.h"

#include "contract/regs/misc.h"
#include "firmware/mgmt/crc32c.h"

namespace firmware::mgmt {

namespace misc = contract::misc;

namespace {

constexpr uint32_t kBusy = 1u << 3;  // bit 3 of the status word
constexpr uint32_t kNewProtocol = 1;
constexpr uint32_t kResetDevice = 1;

// Legacy mailbox (7.5).
constexpr uint32_t kRequestHeader = 8;
constexpr uint32_t kResponseHeader = 4;
constexpr uint8_t kCommandRead = 1;
constexpr uint8_t kCommandMetric = 2;
constexpr uint8_t kSuccess = 0;
constexpr uint8_t kFailed = 1;
constexpr uint8_t kUnknown = 2;
constexpr uint32_t kMetricBytes = 128;

uint32_t load32(const uint8_t* p) {
  return p[0] | static_cast<uint32_t>(p[1]) << 8 | static_cast<uint32_t>(p[2]) << 16 |
         static_cast<uint32_t>(p[3]) << 24;
}
uint64_t load64(const uint8_t* p) {
  return load32(p) | static_cast<uint64_t>(load32(p + 4)) << 32;
}
void store32(uint8_t* p, uint32_t v) {
  for (int i = 0; i < 4; ++i) p[i] = static_cast<uint8_t>(v >> (8 * i));
}

bool contains(const ResetScope& outer, const ResetScope& inner) {
  return (outer.device || !inner.device) && (inner.ncs & ~outer.ncs) == 0 &&
         (inner.topsps & ~outer.topsps) == 0 && (inner.dma_ncs & ~outer.dma_ncs) == 0 &&
         (inner.host_dma & ~outer.host_dma) == 0;
}

ResetScope merge(const ResetScope& a, const ResetScope& b) {
  ResetScope s = a;
  s.device = a.device || b.device;
  s.ncs |= b.ncs;
  s.topsps |= b.topsps;
  s.dma_ncs |= b.dma_ncs;
  s.host_dma |= b.host_dma;
  return s;
}

}  // namespace

ResetScope decode_reset_map(contract::Gen gen, uint32_t low, uint32_t high) {
  ResetScope s;
  if (gen == contract::Gen::kV2) {
    s.ncs = low & 3;
    s.topsps = (low >> 8) & 0x3F;
    // The v2 map has no DMA bits; both treatments are allowed (6.6). Engines of a reset core stop
    // with it, so that a killed client's transfers end.
    s.dma_ncs = s.ncs;
    return s;
  }
  s.ncs = low & 0xFF;
  s.dma_ncs = (low >> 8) & 0xFF;
  for (uint32_t n = 0; n < 8; ++n) {
    if (((low >> (16 + n)) & 1) != 0) s.topsps |= 3u << (2 * n);
  }
  s.host_dma = high & 0xF;
  return s;
}

ResetScope device_scope(contract::Gen gen) {
  const contract::AddressMap map{gen};
  ResetScope s;
  s.device = true;
  s.ncs = (1u << map.ncs()) - 1;
  s.topsps = (1u << map.topsps()) - 1;
  s.dma_ncs = s.ncs;
  s.host_dma = (1u << map.host_engines()) - 1;
  return s;
}

void Controller::power_on() {
  for (uint32_t i = 0; i < contract::kMiscRamBytes / 4; ++i) ram_[i] = 0;
  word(misc::kRoutingId) = config_.routing_id;
  word(misc::kSerialLo) = static_cast<uint32_t>(config_.serial);
  word(misc::kSerialHi) = static_cast<uint32_t>(config_.serial >> 32);
  word(misc::kServerRack) = config_.server_rack;
}

// 7.6, last paragraph: how a store to the trigger word is told apart.
Action Controller::stored(uint32_t offset, Hal& hal) {
  if (offset != misc::kTrigger || word(misc::kTrigger) != 1) return {};
  if (word(misc::kResetRequest) != 0) return request_reset();
  ++mailbox_requests_;
  if (word(misc::kAck) == kNewProtocol) {
    // {sequence, error, size}: the answer to every command is "unknown command".
    word(misc::kRequestHi) = (word(misc::kRequestHi) & 0xFF) | kUnknown << 8 | kRequestHeader << 16;
    word(misc::kAck) = 0;
  } else {
    legacy_mailbox(hal);
  }
  word(misc::kTrigger) = 0;
  return {};
}

Action Controller::request_reset() {
  word(misc::kTrigger) = 0;
  const bool device = word(misc::kResetRequest) == kResetDevice;
  return start_reset(
      device ? device_scope(config_.gen)
             : decode_reset_map(config_.gen, word(misc::kResetMap), word(misc::kResetMapHi)));
}

Action Controller::qemu_write(uint32_t value) {
  if (!config_.qemu) return {};
  qemu_busy_ = true;
  // v2 writes 1 and then makes the full mailbox request, which resets the device; the register
  // shows when that is over. v3 and v4 write the map; 0 and all ones mean the device.
  if (config_.gen == contract::Gen::kV2) return start_reset(device_scope(config_.gen));
  const bool device = value == 0 || value == 0xFFFF'FFFF;
  return start_reset(device ? device_scope(config_.gen) : decode_reset_map(config_.gen, value, 0));
}

// A repeated request while busy is accepted (8.2): it is part of the running reset, or of one that
// follows at once if it covers more.
Action Controller::start_reset(const ResetScope& scope) {
  word(misc::kStatus) |= kBusy;
  if (!resetting_) {
    resetting_ = true;
    current_ = scope;
    return {true, scope};
  }
  if (!contains(current_, scope)) {
    pending_ = again_ ? merge(pending_, scope) : scope;
    again_ = true;
  }
  return {};
}

Action Controller::reset_done() {
  ++resets_;
  if (again_) {
    again_ = false;
    current_ = pending_;
    return {true, current_};
  }
  resetting_ = false;
  qemu_busy_ = false;
  word(misc::kResetRequest) = 0;
  word(misc::kStatus) &= ~kBusy;
  return {};
}

// Request {sequence, command, size16, crc32, payload}; response {sequence, error, size16, payload}
// with the sequence number written last, which is what the driver polls.
void Controller::legacy_mailbox(Hal& hal) {
  const uint64_t request =
      static_cast<uint64_t>(word(misc::kRequestHi)) << 32 | word(misc::kRequestLo);
  const uint64_t response =
      static_cast<uint64_t>(word(misc::kResponseHi)) << 32 | word(misc::kResponseLo);
  uint8_t header[kRequestHeader];
  if (!hal.read(request, header, sizeof header)) return;  // nobody to answer
  const uint32_t size = header[2] | static_cast<uint32_t>(header[3]) << 8;
  uint8_t answer[kResponseHeader] = {header[0], kFailed, kResponseHeader, 0};
  if (size >= kRequestHeader && check_crc(request, size, load32(header + 4), hal)) {
    uint32_t payload = ~0u;  // failed
    answer[1] = kSuccess;
    if (header[1] == kCommandRead) {
      payload = command_read(request, size, response, hal);
    } else if (header[1] == kCommandMetric) {
      payload = command_metric(request, size, hal);
    } else {
      payload = 0;
      answer[1] = kUnknown;
    }
    if (payload == ~0u) {
      answer[1] = kFailed;
      payload = 0;
    }
    answer[2] = static_cast<uint8_t>(kResponseHeader + payload);
    answer[3] = static_cast<uint8_t>((kResponseHeader + payload) >> 8);
  }
  if (hal.write(response + 1, answer + 1, kResponseHeader - 1)) hal.write(response, answer, 1);
}

bool Controller::check_crc(uint64_t request, uint32_t size, uint32_t expected, Hal& hal) const {
  Crc32c crc;
  uint8_t chunk[512];
  for (uint32_t at = 0; at < size;) {
    const uint32_t n = size - at < sizeof chunk ? size - at : static_cast<uint32_t>(sizeof chunk);
    if (!hal.read(request + at, chunk, n)) return false;
    if (at == 0) store32(chunk + 4, 0);  // the CRC field counts as zero
    crc.add(chunk, n);
    at += n;
  }
  return crc.value() == expected;
}

// READ: 64-bit device addresses in, one 32-bit value each out. Unclaimed addresses read 0.
uint32_t Controller::command_read(uint64_t request, uint32_t size, uint64_t response,
                                  Hal& hal) const {
  const uint32_t bytes = size - kRequestHeader;
  if (bytes % 8 != 0) return ~0u;
  const uint32_t count = bytes / 8;
  for (uint32_t i = 0; i < count; ++i) {
    uint8_t raw[8];
    if (!hal.read(request + kRequestHeader + 8 * i, raw, sizeof raw)) return ~0u;
    uint32_t value = 0;
    if (!hal.read32(load64(raw), &value)) value = 0;
    store32(raw, value);
    if (!hal.write(response + kResponseHeader + 4 * i, raw, 4)) return ~0u;
  }
  return 4 * count;
}

uint32_t Controller::command_metric(uint64_t request, uint32_t size, Hal& hal) {
  const uint32_t bytes = size - kRequestHeader;
  if (bytes > kMetricBytes) return ~0u;
  uint8_t raw[kMetricBytes] = {};
  if (bytes != 0 && !hal.read(request + kRequestHeader, raw, bytes)) return ~0u;
  for (uint32_t i = 0; i < bytes; i += 4) word(misc::kData + i) = load32(raw + i);
  return 0;
}

}  // namespace firmware::mgmt
