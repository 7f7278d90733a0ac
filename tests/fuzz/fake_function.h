// A PCIe function that stands in for a chip where a front end is fuzzed: configuration space with
// BARs, two BARs of plain memory, and a DMA that the first one commands, so that untrusted messages
// make it touch whatever memory the front end has accepted.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "arch/pcie/pcie.h"
#include "base/fd.h"

namespace fuzz {

class FakeFunction final : public pcie::Device {
 public:
  static constexpr uint64_t kBar0 = 0x4000;
  static constexpr uint64_t kBar4 = 0x1'0000;
  // BAR0: a store that covers kStart performs {address64, length32, operation32} at 0.
  static constexpr uint64_t kAddress = 0x0;
  static constexpr uint64_t kLength = 0x8;
  static constexpr uint64_t kStart = 0xC;
  enum Operation : uint32_t { kRead = 0, kWrite = 1, kDirect = 2, kReadWrite = 3 };

  explicit FakeFunction(pcie::HostMemory& memory);

  const pcie::Identity& identity() const override { return identity_; }
  uint32_t config_read(uint32_t offset, unsigned size) override;
  void config_write(uint32_t offset, unsigned size, uint32_t value) override;
  void bar_read(int bar, uint64_t offset, base::ByteSpan to) override;
  void bar_write(int bar, uint64_t offset, base::ConstByteSpan from) override;
  void reset() override;
  base::Result<pcie::BarMapping> bar_map(int bar, uint64_t offset, uint64_t length) override;

  // Memory that a DMA could reach.
  uint64_t moved() const { return moved_; }

 private:
  void dma(uint64_t address, uint32_t length, uint32_t operation);

  pcie::HostMemory& memory_;
  pcie::Identity identity_;
  std::array<uint8_t, 256> config_{};
  std::vector<uint8_t> bars_[2];
  base::UniqueFd file_;
  uint64_t moved_ = 0;
};

}  // namespace fuzz
