// Vocabulary of the generated register maps.
#pragma once

#include <cstdint>

namespace contract {

enum class Access : uint8_t {
  kReadWrite,
  kReadOnly,
  kWriteOnly,    // reads 0
  kReadClear,    // reading clears it; writes are ignored
  kWrite0Clear,  // writing 0 to a bit clears it, writing 1 leaves it
};

enum class RegKind : uint8_t {
  kFunction,     // what it does is modelled
  kStorage,      // holds what is written, and that is all there is to it
  kUnsupported,  // accepted as storage, its effect is not modelled
};

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
  uint32_t writable;  // bits that hold what is written; the others read as after reset
  uint8_t gens;       // bit g: generation g (contract::Gen) has it
  RegKind kind;
  const char* doc;

  constexpr bool supported() const { return kind != RegKind::kUnsupported; }
  constexpr bool in(uint8_t gen) const { return ((gens >> gen) & 1) != 0; }
};

}  // namespace contract
