// Owners of kernel objects: file descriptors and memory mappings. Move-only, closed on destruction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/error.h"

namespace base {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

// A mapping made by mmap; unmapped on destruction.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    if (this != &other) {
      reset();
      data_ = std::exchange(other.data_, nullptr);
      size_ = std::exchange(other.size_, 0);
    }
    return *this;
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { reset(); }

  // Maps `size` bytes of `fd` at `offset`, shared; no swap is reserved (demand-backed memory).
  static Result<Mapping> map_shared(int fd, uint64_t offset, size_t size, bool writable);

  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  void reset();

 private:
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

// A memfd of `size` bytes whose pages appear on first touch; sealed against growing and shrinking.
Result<UniqueFd> make_memfd(const char* name, uint64_t size);

// Error with Fault::kIo, errno as code and its text appended.
Error errno_error(const char* where, const char* what);

}  // namespace base
