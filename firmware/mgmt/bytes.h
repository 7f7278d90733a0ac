// Little-endian bytes, without a library.
#pragma once

#include <cstdint>

namespace firmware::mgmt {

inline uint32_t load32(const uint8_t* p) {
  return p[0] | static_cast<uint32_t>(p[1]) << 8 | static_cast<uint32_t>(p[2]) << 16 |
         static_cast<uint32_t>(p[3]) << 24;
}
inline uint64_t load64(const uint8_t* p) {
  return load32(p) | static_cast<uint64_t>(load32(p + 4)) << 32;
}
inline void store32(uint8_t* p, uint32_t v) {
  for (int i = 0; i < 4; ++i) p[i] = static_cast<uint8_t>(v >> (8 * i));
}

}  // namespace firmware::mgmt
