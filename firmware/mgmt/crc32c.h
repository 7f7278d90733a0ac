// CRC-32C (Castagnoli) of mailbox messages: spec/hw-registers.md 7.5.
#pragma once

#include <cstddef>
#include <cstdint>

namespace firmware::mgmt {

class Crc32c {
 public:
  void add(const void* data, size_t bytes);
  uint32_t value() const { return ~state_; }

 private:
  uint32_t state_ = 0xFFFF'FFFF;
};

}  // namespace firmware::mgmt
