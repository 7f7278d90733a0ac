#include "hw/machine/management.h"

#include <cstring>

namespace hw {

Management::Management(const Params& params, EventQueue& queue, Fabric& fabric,
                       ResetBlocks reset_blocks)
    : params_(params),
      queue_(queue),
      fabric_(fabric),
      reset_blocks_(std::move(reset_blocks)),
      ram_(contract::kMiscRamBytes / 4),
      firmware_(params.firmware, ram_.data()) {
  firmware_.power_on();
}

void Management::power_on() {
  queue_.cancel(reset_event_);
  reset_event_ = 0;
  firmware_ = firmware::mgmt::Controller(params_.firmware, ram_.data());
  firmware_.power_on();
}

bool Management::access(uint64_t offset, uint8_t* data, size_t size, bool write, bool debug) {
  if (offset + size <= contract::kMiscRamBytes) {
    return access_ram(offset, data, size, write, debug);
  }
  if (!write) std::memset(data, 0, size);
  if (offset == kQemuReset && size == 4) {
    if (write) {
      if (!debug) perform(firmware_.qemu_write(base::load<uint32_t>(data)));
    } else {
      base::store<uint32_t>(data, firmware_.qemu_read());
    }
  }
  return true;  // PE counters read zero and ignore writes
}

// Plain RAM for reads and writes of whole words, peers' included; stores are seen by the firmware.
bool Management::access_ram(uint64_t offset, uint8_t* data, size_t size, bool write, bool debug) {
  if (offset % 4 != 0 || size % 4 != 0) return false;
  uint8_t* at = reinterpret_cast<uint8_t*>(ram_.data()) + offset;
  if (!write) {
    std::memcpy(data, at, size);
    return true;
  }
  std::memcpy(at, data, size);
  for (size_t k = 0; k < size && !debug; k += 4) {
    perform(firmware_.stored(static_cast<uint32_t>(offset + k), *this));
  }
  return true;
}

void Management::perform(const firmware::mgmt::Action& action) {
  if (!action.reset) return;
  reset_blocks_(action.scope);
  const base::Ps end = queue_.now() + (params_.reset_time == 0 ? 1 : params_.reset_time);
  reset_event_ = queue_.schedule({end, params_.component, Phase::kEffect}, *this, 0);
}

void Management::on_event(const EventKey& /*key*/, uint32_t /*tag*/, uint64_t /*argument*/) {
  reset_event_ = 0;
  perform(firmware_.reset_done());
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

}  // namespace hw
