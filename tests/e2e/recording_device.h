// A PCIe function that keeps a log of what a driver does to another.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/pcie/pcie.h"
#include "base/span.h"
#include "tests/driver_kernel/fake_device.h"

namespace e2e {

// Passes everything on to a device and keeps what went through the register BAR.
class RecordingDevice final : public pcie::Device {
 public:
  explicit RecordingDevice(pcie::Device& device) : device_(device) {}

  const pcie::Identity& identity() const override { return device_.identity(); }
  uint32_t config_read(uint32_t offset, unsigned size) override {
    return device_.config_read(offset, size);
  }
  void config_write(uint32_t offset, unsigned size, uint32_t value) override {
    device_.config_write(offset, size, value);
  }
  void bar_read(int bar, uint64_t offset, base::ByteSpan to) override {
    device_.bar_read(bar, offset, to);
    if (bar != register_bar() || to.size() != 4) {
      ++other;
    } else {
      log.push_back({false, offset, base::load<uint32_t>(to.data())});
    }
  }
  void bar_write(int bar, uint64_t offset, base::ConstByteSpan from) override {
    device_.bar_write(bar, offset, from);
    if (bar != register_bar() || from.size() != 4) {
      ++other;
    } else {
      log.push_back({true, offset, base::load<uint32_t>(from.data())});
    }
  }
  void reset() override { device_.reset(); }
  base::Result<pcie::BarMapping> bar_map(int bar, uint64_t offset, uint64_t length) override {
    return device_.bar_map(bar, offset, length);
  }

  std::vector<driver_test::LoggedAccess> log;
  uint64_t other = 0;  // accesses of other sizes or BARs

 private:
  // spec/hw-registers.md 1.2: BAR 2 for v2 under QEMU, else BAR 0.
  int register_bar() const { return device_.identity().bar_size[0] != 0 ? 0 : 2; }
  pcie::Device& device_;
};

}  // namespace e2e
