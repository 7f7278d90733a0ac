#include "hw/machine/management.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include "contract/regs/misc.h"

namespace hw {

namespace {

constexpr uint32_t kNotReady = 0xDEAD'BEEF;  // spec/hw-registers.md 7.3
constexpr size_t kWords = contract::kMiscRamBytes / 4;

// Words that the register map names.
const std::array<bool, kWords>& named_words() {
  static const std::array<bool, kWords> named = [] {
    std::array<bool, kWords> words{};
    for (const contract::RegInfo& info : contract::misc::kRegs) {
      for (uint32_t k = 0; k < info.count; ++k) words[(info.offset + k * info.stride) / 4] = true;
    }
    return words;
  }();
  return named;
}

}  // namespace

Management::Management(const Params& params, EventQueue& queue, Fabric& fabric, AccessLog& log,
                       Hooks hooks)
    : params_(params),
      queue_(queue),
      fabric_(fabric),
      log_(log),
      hooks_(std::move(hooks)),
      ram_(kWords),
      firmware_(params.firmware, ram_.data()) {
  firmware_.power_on();
}

void Management::power_on() {
  queue_.cancel(reset_event_);
  reset_event_ = 0;
  firmware_.power_on();
}

bool Management::access(uint64_t offset, uint8_t* data, size_t size, bool write, bool debug) {
  if (offset + size <= contract::kMiscRamBytes) {
    return access_ram(offset, data, size, write, debug);
  }
  if (offset != kQemuReset || size != 4) return false;
  if (!write) {
    base::store<uint32_t>(data, firmware_.qemu_read());
  } else if (!debug) {
    perform(firmware_.qemu_write(base::load<uint32_t>(data)));
  }
  return true;
}

bool Management::access_ram(uint64_t offset, uint8_t* data, size_t size, bool write, bool debug) {
  if (offset % 4 != 0 || size % 4 != 0) return false;
  for (uint64_t at = offset; at < offset + size && !debug; at += 4) {
    if (named_words()[at / 4]) continue;
    char text[12];
    std::snprintf(text, sizeof text, "0x%08x", static_cast<unsigned>(at));
    log_.count("misc", AccessLog::Kind::kUnknown, text, write);
  }
  if (write) {
    write_ram(offset, data, size, debug);
  } else {
    read_ram(offset, data, size);
  }
  return true;
}

void Management::read_ram(uint64_t offset, uint8_t* data, size_t size) {
  using firmware::mgmt::Controller;
  if (params_.unreadable_in_reset && firmware_.resetting_device()) {
    for (size_t k = 0; k < size; k += 4) base::store(data + k, kNotReady);
    return;
  }
  for (size_t k = 0; k < size; k += 4) {
    if (!Controller::is_live(static_cast<uint32_t>(offset + k))) continue;
    firmware_.refresh(*this, *this);
    break;
  }
  std::memcpy(data, reinterpret_cast<const uint8_t*>(ram_.data()) + offset, size);
}

// Word by word: the firmware sees every store, and what it stores itself comes after it.
void Management::write_ram(uint64_t offset, const uint8_t* data, size_t size, bool debug) {
  for (size_t k = 0; k < size; k += 4) {
    std::memcpy(reinterpret_cast<uint8_t*>(ram_.data()) + offset + k, data + k, 4);
    if (!debug) perform(firmware_.stored(static_cast<uint32_t>(offset + k), *this));
  }
}

void Management::perform(const firmware::mgmt::Action& action) {
  if (action.unsupported != nullptr) {
    log_.count("misc", AccessLog::Kind::kUnsupported, action.unsupported, true);
  }
  if (!action.reset) return;
  hooks_.reset(action.scope);
  queue_.cancel(reset_event_);
  const base::Ps end = queue_.now() + std::max<base::Ps>(params_.reset_time, 1);
  reset_event_ = queue_.schedule({end, params_.component, Phase::kEffect}, *this, 0);
}

void Management::on_event(const EventKey& /*key*/, uint32_t /*tag*/, uint64_t /*argument*/) {
  reset_event_ = 0;
  perform(firmware_.reset_done(*this));
}

bool Management::read32(uint64_t address, uint32_t* value) {
  return fabric_.read32(address, *value);
}
bool Management::write32(uint64_t address, uint32_t value) {
  return fabric_.write32(address, value);
}
bool Management::read(uint64_t address, void* to, size_t bytes) {
  return fabric_.read(address, {static_cast<uint8_t*>(to), bytes});
}
bool Management::write(uint64_t address, const void* from, size_t bytes) {
  return fabric_.write(address, {static_cast<const uint8_t*>(from), bytes});
}

void Management::notify(contract::NqType type, uint32_t payload, uint32_t /*pc*/, uint32_t info) {
  if (type == contract::NqType::kThrottle) hooks_.throttled(info, payload);
}

uint32_t Management::utilisation(uint32_t die, uint64_t sample) {
  return hooks_.utilisation(die, sample);
}

}  // namespace hw
