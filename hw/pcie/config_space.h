// PCI configuration space of one function: type 0 header, BARs, PCI Express capability.
// Source of truth: spec/hw-registers.md 1. Class code, subsystem ids and capabilities are
// unspecified there; class 0x12 (processing accelerator) and a plain endpoint capability are our
// choice.
#pragma once

#include <array>
#include <cstdint>

#include "arch/pcie/pcie.h"

namespace hw {

class ConfigSpace {
 public:
  // `prefetchable`: bit per BAR.
  ConfigSpace(const pcie::Identity& identity, pcie::BarLayout layout, uint32_t prefetchable);

  uint32_t read(uint32_t offset, unsigned size) const;
  void write(uint32_t offset, unsigned size, uint32_t value);
  bool memory_enabled() const { return (bytes_[kCommand] & kMemory) != 0; }
  bool bus_master() const { return (bytes_[kCommand] & kMaster) != 0; }

 private:
  static constexpr uint32_t kBytes = 256;
  static constexpr uint32_t kCommand = 0x04;
  static constexpr uint8_t kMemory = 1u << 1;
  static constexpr uint8_t kMaster = 1u << 2;

  void set(uint32_t offset, unsigned size, uint32_t value, uint32_t writable = 0);

  std::array<uint8_t, kBytes> bytes_{};
  std::array<uint8_t, kBytes> writable_{};
};

}  // namespace hw
