// A list of plain values of which the first few live inside the owner. What grows beyond moves to
// the heap until the list is cleared; that memory is kept.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <vector>

namespace hw {

template <typename T, size_t N>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  SmallVector() = default;
  SmallVector(const SmallVector&) = delete;
  SmallVector& operator=(const SmallVector&) = delete;

  size_t size() const { return size_; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T* begin() { return data_; }
  const T* begin() const { return data_; }
  T* end() { return data_ + size_; }
  const T* end() const { return data_ + size_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }

  T& push_back(const T& value) {
    if (size_ == capacity_) grow();
    data_[size_] = value;
    return data_[size_++];
  }
  // Room for a further value, with whatever was there; extend() makes it a part of the list.
  T& spare() {
    if (size_ == capacity_) grow();
    return data_[size_];
  }
  void extend() { ++size_; }
  // To at most the present size.
  void truncate(size_t size) { size_ = size; }
  void drop_front(size_t n) {
    size_ -= n;
    std::memmove(data_, data_ + n, size_ * sizeof(T));
  }
  void clear() {
    size_ = 0;
    data_ = inside_.data();
    capacity_ = N;
  }

 private:
  void grow() {
    if (outside_.size() < 2 * capacity_) outside_.resize(2 * capacity_);
    if (data_ == inside_.data()) std::memcpy(outside_.data(), data_, size_ * sizeof(T));
    data_ = outside_.data();
    capacity_ = outside_.size();
  }

  T* data_ = inside_.data();
  size_t size_ = 0;
  size_t capacity_ = N;
  std::vector<T> outside_;
  std::array<T, N> inside_;
};

}  // namespace hw
