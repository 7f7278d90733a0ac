// Non-owning views of bytes, and little-endian loads and stores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace base {

template <typename Byte>
class BasicSpan {
 public:
  constexpr BasicSpan() = default;
  constexpr BasicSpan(Byte* data, size_t size) : data_(data), size_(size) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  BasicSpan(std::vector<uint8_t>& bytes) : data_(bytes.data()), size_(bytes.size()) {}
  template <typename B = Byte, typename = std::enable_if_t<std::is_const_v<B>>>
  // NOLINTNEXTLINE(google-explicit-constructor)
  BasicSpan(const std::vector<uint8_t>& bytes) : data_(bytes.data()), size_(bytes.size()) {}
  template <typename B = Byte, typename = std::enable_if_t<std::is_const_v<B>>>
  // NOLINTNEXTLINE(google-explicit-constructor)
  BasicSpan(const BasicSpan<uint8_t>& other) : data_(other.data()), size_(other.size()) {}

  constexpr Byte* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr Byte* begin() const { return data_; }
  constexpr Byte* end() const { return data_ + size_; }
  constexpr Byte& operator[](size_t i) const { return data_[i]; }
  // The caller has checked that offset + size lies inside.
  constexpr BasicSpan sub(size_t offset, size_t size) const { return {data_ + offset, size}; }

 private:
  Byte* data_ = nullptr;
  size_t size_ = 0;
};

using ByteSpan = BasicSpan<uint8_t>;
using ConstByteSpan = BasicSpan<const uint8_t>;

// Host and device are both little-endian; memcpy keeps unaligned access defined.
template <typename T>
T load(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
void store(void* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

}  // namespace base
