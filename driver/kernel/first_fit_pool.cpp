#include "driver/kernel/first_fit_pool.h"

#include <iterator>

namespace driver {

std::optional<uint64_t> FirstFitPool::allocate(uint64_t size, uint64_t align) {
  if (size == 0 || align == 0) return std::nullopt;
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const uint64_t start = (it->first + align - 1) & ~(align - 1);
    const uint64_t end = it->first + it->second;
    if (start < it->first || start >= end || end - start < size) continue;
    carve(it, start, size);
    return start;
  }
  return std::nullopt;
}

bool FirstFitPool::allocate_at(uint64_t address, uint64_t size) {
  if (size == 0) return false;
  auto it = free_.upper_bound(address);
  if (it == free_.begin()) return false;
  --it;
  const uint64_t end = it->first + it->second;
  if (address >= end || end - address < size) return false;
  carve(it, address, size);
  return true;
}

void FirstFitPool::carve(Ranges::iterator range, uint64_t address, uint64_t size) {
  const uint64_t start = range->first;
  const uint64_t end = start + range->second;
  free_.erase(range);
  if (address > start) free_.emplace(start, address - start);
  if (address + size < end) free_.emplace(address + size, end - address - size);
}

void FirstFitPool::free(uint64_t address, uint64_t size) {
  if (size == 0) return;
  auto next = free_.lower_bound(address);
  if (next != free_.end() && address + size == next->first) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == address) {
      before->second += size;
      return;
    }
  }
  free_.emplace(address, size);
}

uint64_t FirstFitPool::free_bytes() const {
  uint64_t sum = 0;
  for (const auto& range : free_) sum += range.second;
  return sum;
}

}  // namespace driver
