// Reads an input of a fuzz target as a stream of fields; what is missing at the end reads zero.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace fuzz {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), left_(size) {}

  bool empty() const { return left_ == 0; }
  size_t left() const { return left_; }

  template <typename T>
  T take() {
    T value{};
    const size_t n = std::min(sizeof value, left_);
    if (n != 0) std::memcpy(&value, data_, n);
    skip(n);
    return value;
  }
  uint8_t u8() { return take<uint8_t>(); }
  uint16_t u16() { return take<uint16_t>(); }
  uint32_t u32() { return take<uint32_t>(); }
  uint64_t u64() { return take<uint64_t>(); }
  // Exactly n bytes, in memory of their own: a sanitizer sees every access beyond.
  std::vector<uint8_t> bytes(size_t n) {
    std::vector<uint8_t> out(n);
    out.shrink_to_fit();
    const size_t have = std::min(n, left_);
    if (have != 0) std::memcpy(out.data(), data_, have);
    skip(have);
    return out;
  }

 private:
  void skip(size_t n) {
    data_ += n;
    left_ -= n;
  }

  const uint8_t* data_;
  size_t left_;
};

}  // namespace fuzz
