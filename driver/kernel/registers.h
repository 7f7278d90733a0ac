// 32-bit access to the register BAR of one device (spec/hw-registers.md 1.3, 0.2 rule 2).
#pragma once

#include <cstdint>

#include "arch/pcie/pcie.h"

namespace driver {

class Registers {
 public:
  Registers(pcie::Device& device, int bar) : device_(device), bar_(bar) {}

  uint32_t read(uint64_t offset) const { return device_.read32(bar_, offset); }
  void write(uint64_t offset, uint32_t value) const { device_.write32(bar_, offset, value); }
  uint64_t size() const { return device_.identity().bar_size[bar_]; }
  pcie::Device& device() const { return device_; }
  int bar() const { return bar_; }

 private:
  pcie::Device& device_;
  int bar_;
};

}  // namespace driver
