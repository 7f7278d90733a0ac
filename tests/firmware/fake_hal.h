// A chip that is two maps: what firmware tests run against.
#pragma once

#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "firmware/hal/hal.h"

namespace firmware_test {

struct Notification {
  contract::NqType type;
  uint32_t payload;
  uint32_t pc;
  uint32_t info;
};

class FakeHal final : public firmware::Hal {
 public:
  bool read32(uint64_t address, uint32_t* value) override {
    const auto found = registers.find(address);
    if (found == registers.end()) return false;
    *value = found->second;
    return true;
  }
  bool write32(uint64_t address, uint32_t value) override {
    if (address >= unclaimed) return false;
    stores.emplace_back(address, value);
    return true;
  }
  bool read(uint64_t address, void* to, size_t bytes) override {
    if (!inside(address, bytes)) return false;
    std::memcpy(to, memory.data() + (address - base), bytes);
    return true;
  }
  bool write(uint64_t address, const void* from, size_t bytes) override {
    if (!inside(address, bytes)) return false;
    std::memcpy(memory.data() + (address - base), from, bytes);
    if (bytes == 1) ++single_byte_writes;
    return true;
  }
  uint64_t now() override { return time; }
  void notify(contract::NqType type, uint32_t payload, uint32_t pc, uint32_t info) override {
    notifications.push_back({type, payload, pc, info});
  }

  bool inside(uint64_t address, size_t bytes) const {
    const uint64_t at = address - base;
    return bytes <= memory.size() && at <= memory.size() - bytes;
  }

  uint64_t unclaimed = ~0ull;  // stores from here on hit nothing
  uint64_t base = 0x1000'0000'0000;
  std::vector<uint8_t> memory = std::vector<uint8_t>(0x2'0000);
  uint64_t time = 0;
  std::map<uint64_t, uint32_t> registers;
  std::vector<std::pair<uint64_t, uint32_t>> stores;
  std::vector<Notification> notifications;
  int single_byte_writes = 0;
};

}  // namespace firmware_test
