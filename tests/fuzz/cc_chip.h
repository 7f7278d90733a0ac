// What a CC-core sees of its chip, for fuzz_cc: 64 KiB of memory, its semaphores, and the queue
// registers of 16 DMA engines in a row, whose rings lie in the memory.
#pragma once

#include <array>
#include <vector>

#include "arch/contract/descriptor.h"
#include "contract/regs/udma.h"
#include "firmware/hal/hal.h"

namespace fuzz {

class CcChip final : public firmware::Hal, public firmware::SemaphoreBank {
 public:
  static constexpr uint64_t kMemory = 0x1000'0000'0000;
  static constexpr uint64_t kMemoryBytes = 0x1'0000;
  static constexpr uint64_t kRings = kMemory + 0x8000;  // kRingBytes each, M2S and S2M in turn
  static constexpr uint64_t kRingBytes = 0x400;
  static constexpr uint64_t kQueues = 0x40'0000;  // M2S of engine e at + e << 12
  static constexpr uint64_t kIncrement = 0x30'0000;
  static constexpr uint32_t kEngines = 16;
  static constexpr uint32_t kSemaphores = 256;

  struct Store {
    uint64_t address;
    uint32_t value;
  };
  bool read32(uint64_t address, uint32_t* value) override;
  bool write32(uint64_t address, uint32_t value) override;
  bool read(uint64_t address, void* to, size_t bytes) override;
  bool write(uint64_t address, const void* from, size_t bytes) override;
  uint64_t now() override { return 0; }
  void notify(contract::NqType type, uint32_t payload, uint32_t pc, uint32_t info) override;
  uint32_t value(uint32_t semaphore) const override;
  void subtract(uint32_t semaphore, uint32_t value) override;

  // Begins a new record of what the firmware does.
  void forget();

  std::vector<uint8_t> memory = std::vector<uint8_t>(kMemoryBytes);
  std::array<uint32_t, kSemaphores> semaphores{};
  uint32_t ring_length = 64;
  uint32_t tail = 0;           // as the register has it
  uint32_t errors = 0;         // ERROR notifications
  uint32_t out_of_bounds = 0;  // NOTIFY entries that say so
  // The record: accesses, 32-bit stores, and descriptors by ring (M2S and S2M of the engines in
  // turn).
  uint64_t accesses = 0;
  std::vector<Store> stores;
  std::array<std::vector<contract::Descriptor>, 2 * kEngines> made;

 private:
  bool inside(uint64_t address, size_t bytes) const;
};

}  // namespace fuzz
