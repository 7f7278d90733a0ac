// Vocabulary of the generated register maps.
#pragma once

#include <cstdint>

namespace contract {

enum class Access : uint8_t { kReadWrite, kReadOnly, kWriteOnly };

// Bits [lsb, lsb + width) of a 32-bit register.
struct Field {
  uint8_t lsb;
  uint8_t width;

  constexpr uint32_t mask() const {
    return (width == 32 ? 0xFFFFFFFFu : ((1u << width) - 1u)) << lsb;
  }
  constexpr uint32_t get(uint32_t word) const { return (word & mask()) >> lsb; }
  constexpr uint32_t set(uint32_t word, uint32_t value) const {
    return (word & ~mask()) | ((value << lsb) & mask());
  }
};

// One known register, or an array of them (count > 1).
struct RegInfo {
  const char* name;
  uint32_t offset;
  uint32_t stride;
  uint32_t count;
  Access access;
  uint32_t reset;
  bool supported;  // false: accepted as plain storage, its effect is not modelled
};

}  // namespace contract
