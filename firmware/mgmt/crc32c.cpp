#include "firmware/mgmt/crc32c.h"

namespace firmware::mgmt {

namespace {

constexpr uint32_t kPolynomial = 0x82F6'3B78;  // reflected

struct Table {
  uint32_t entry[256] = {};
  constexpr Table() {
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int bit = 0; bit < 8; ++bit) c = (c & 1) != 0 ? (c >> 1) ^ kPolynomial : c >> 1;
      entry[i] = c;
    }
  }
};
constexpr Table kTable;

}  // namespace

void Crc32c::add(const void* data, size_t bytes) {
  const auto* p = static_cast<const uint8_t*>(data);
  for (size_t i = 0; i < bytes; ++i) {
    state_ = kTable.entry[(state_ ^ p[i]) & 0xFF] ^ (state_ >> 8);
  }
}

}  // namespace firmware::mgmt
