#include "hw/pcie/config_space.h"

namespace hw {

namespace {

// Offsets of the PCI Local Bus and PCI Express base specifications.
constexpr uint32_t kVendor = 0x00;
constexpr uint32_t kDevice = 0x02;
constexpr uint32_t kStatus = 0x06;
constexpr uint32_t kRevision = 0x08;
constexpr uint32_t kClass = 0x09;
constexpr uint32_t kCacheLine = 0x0C;
constexpr uint32_t kBar = 0x10;
constexpr uint32_t kSubsystemVendor = 0x2C;
constexpr uint32_t kSubsystem = 0x2E;
constexpr uint32_t kCapabilities = 0x34;
constexpr uint32_t kInterruptLine = 0x3C;
constexpr uint32_t kExpress = 0x40;  // our place for the capability

constexpr uint32_t kCommandWritable = 0x0546;  // memory, master, parity, SERR, INTx disable
constexpr uint32_t kStatusHasList = 1u << 4;
constexpr uint32_t kAccelerator = 0x12'0000;
constexpr uint32_t kBar64 = 0x4;
constexpr uint32_t kBarPrefetchable = 0x8;
constexpr uint32_t kExpressId = 0x10;
constexpr uint32_t kExpressVersion2 = 0x0002;           // endpoint, version 2
constexpr uint32_t kDeviceControlWritable = 0x7FFF;     // all but function-level reset
constexpr uint32_t kFunctionLevelResetAbsent = 0x8000;  // role-based error reporting, no FLR

}  // namespace

ConfigSpace::ConfigSpace(const pcie::Identity& identity, pcie::BarLayout layout,
                         uint32_t prefetchable) {
  const bool wide = layout == pcie::BarLayout::kFull;
  set(kVendor, 2, identity.vendor);
  set(kDevice, 2, identity.device);
  set(kCommand, 2, 0, kCommandWritable);
  set(kStatus, 2, kStatusHasList);
  set(kRevision, 1, identity.revision);
  set(kClass, 1, kAccelerator & 0xFF);
  set(kClass + 1, 2, kAccelerator >> 8);
  set(kCacheLine, 1, 0, 0xFF);
  for (uint32_t b = 0; b < 6; b += 2) {
    const uint64_t size = identity.bar_size[b];
    if (size == 0) continue;
    const uint64_t mask = ~(size - 1);
    const uint32_t flags =
        (wide ? kBar64 : 0) | (((prefetchable >> b) & 1) != 0 ? kBarPrefetchable : 0);
    set(kBar + 4 * b, 4, flags, static_cast<uint32_t>(mask) & ~0xFu);
    if (wide) set(kBar + 4 * b + 4, 4, 0, static_cast<uint32_t>(mask >> 32));
  }
  set(kSubsystemVendor, 2, identity.vendor);
  set(kSubsystem, 2, identity.device);
  set(kCapabilities, 1, kExpress);
  set(kInterruptLine, 1, 0, 0xFF);
  set(kExpress, 1, kExpressId);
  set(kExpress + 2, 2, kExpressVersion2);
  set(kExpress + 4, 4, kFunctionLevelResetAbsent);
  set(kExpress + 8, 2, 0, kDeviceControlWritable);
}

void ConfigSpace::set(uint32_t offset, unsigned size, uint32_t value, uint32_t writable) {
  for (unsigned i = 0; i < size; ++i) {
    bytes_[offset + i] = static_cast<uint8_t>(value >> (8 * i));
    writable_[offset + i] = static_cast<uint8_t>(writable >> (8 * i));
  }
}

uint32_t ConfigSpace::read(uint32_t offset, unsigned size) const {
  uint32_t value = 0;
  for (unsigned i = 0; i < sizeof value && i < size && uint64_t{offset} + i < kBytes; ++i) {
    value |= static_cast<uint32_t>(bytes_[offset + i]) << (8 * i);
  }
  return value;
}

void ConfigSpace::write(uint32_t offset, unsigned size, uint32_t value) {
  for (unsigned i = 0; i < sizeof value && i < size && uint64_t{offset} + i < kBytes; ++i) {
    const uint8_t mask = writable_[offset + i];
    uint8_t& byte = bytes_[offset + i];
    byte = static_cast<uint8_t>((byte & ~mask) | (static_cast<uint8_t>(value >> (8 * i)) & mask));
  }
}

}  // namespace hw
