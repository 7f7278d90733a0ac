// A queue that is driven correctly, to find out whether an engine works: one copy from guest memory
// to guest memory, both in a piece that nothing else uses.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/fuzz/machine_bench.h"

namespace fuzz {

class QueueDriver {
 public:
  QueueDriver(MachineBench& bench, uint32_t chip, uint32_t engine);

  // Ring, source and descriptors.
  void set_up();
  // Rings the doorbells and compares. What the input has done to the queue's registers or to the
  // piece of memory itself is its own doing: then there is nothing to check.
  void check(const char* what);

 private:
  static constexpr uint64_t kTx = 0x0;
  static constexpr uint64_t kRx = 0x400;
  static constexpr uint64_t kSource = 0x800;
  static constexpr uint64_t kTarget = 0x1000;
  static constexpr uint32_t kBytes = 0x123;
  static constexpr uint32_t kLength = 32;

  void put(uint64_t bar0, uint32_t value);
  // The registers that matter.
  std::vector<uint32_t> state();
  uint8_t* piece() { return bench_.guest().piece(GuestMemory::kChecked); }

  MachineBench& bench_;
  uint32_t chip_;
  uint64_t unit_;
  uint64_t host_;
  std::vector<uint32_t> before_;
};

}  // namespace fuzz
