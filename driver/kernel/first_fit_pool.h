// First-fit address pool: lowest address that fits wins. Used for host physical memory and for the
// pools of device memory (spec/driver-ioctl.md 5.1). Holds addresses only, never the memory itself.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace driver {

class FirstFitPool {
 public:
  FirstFitPool() = default;
  FirstFitPool(uint64_t base, uint64_t size) : base_(base), end_(base + size) {
    if (size != 0) free_.emplace(base, size);
  }

  uint64_t base() const { return base_; }
  uint64_t end() const { return end_; }
  bool contains(uint64_t address) const { return address >= base_ && address < end_; }

  // `align` is a power of two; size 0 never fits.
  std::optional<uint64_t> allocate(uint64_t size, uint64_t align);
  // Exactly [address, address + size); false when any byte of it is taken.
  bool allocate_at(uint64_t address, uint64_t size);
  // The range was allocated and is free of overlap with free ranges.
  void free(uint64_t address, uint64_t size);
  uint64_t free_bytes() const;

 private:
  using Ranges = std::map<uint64_t, uint64_t>;
  void carve(Ranges::iterator range, uint64_t address, uint64_t size);

  uint64_t base_ = 0;
  uint64_t end_ = 0;
  Ranges free_;  // start -> length, never adjacent
};

}  // namespace driver
