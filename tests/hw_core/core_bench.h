// A v2 chip's fabric and event queue without blocks, for tests of single blocks.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "hw/mem/fabric.h"
#include "hw/stats.h"
#include "hw/time/event_queue.h"

namespace hw_test {

class HostPages final : public pcie::HostMemory {
 public:
  uint8_t* direct(uint64_t phys, uint64_t length) override {
    return phys + length <= bytes.size() ? bytes.data() + phys : nullptr;
  }
  bool read(uint64_t phys, base::ByteSpan to) override {
    if (phys + to.size() > bytes.size()) return false;
    std::memcpy(to.data(), bytes.data() + phys, to.size());
    return true;
  }
  bool write(uint64_t phys, base::ConstByteSpan from) override {
    if (phys + from.size() > bytes.size()) return false;
    std::memcpy(bytes.data() + phys, from.data(), from.size());
    return true;
  }
  std::vector<uint8_t> bytes = std::vector<uint8_t>(0x10000);
};

struct CoreBench {
  explicit CoreBench(contract::Gen gen = contract::Gen::kV2)
      : fabric({"d0", contract::AddressMap{gen}, 0}, timing, log) {
    fabric.set_host(&host);
  }
  const contract::AddressMap& map() const { return fabric.address_map(); }
  uint64_t host_address(uint64_t phys) const { return map().host_window() | phys; }

  hw::TimingParams timing;
  hw::AccessLog log;
  hw::Counters counters;
  hw::EventQueue queue;
  HostPages host;
  hw::Fabric fabric;
};

inline uint32_t read32(hw::BusTarget& block, uint64_t offset) {
  uint8_t bytes[4] = {0xFF, 0xFF, 0xFF, 0xFF};
  EXPECT_TRUE(block.access(offset, bytes, 4, false, false));
  return base::load<uint32_t>(bytes);
}
inline void write32(hw::BusTarget& block, uint64_t offset, uint32_t value) {
  uint8_t bytes[4];
  base::store(bytes, value);
  EXPECT_TRUE(block.access(offset, bytes, 4, true, false));
}

}  // namespace hw_test
