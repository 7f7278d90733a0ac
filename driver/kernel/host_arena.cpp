#include "driver/kernel/host_arena.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace driver {
namespace {

// Up to this size clearing in place is cheaper than giving the pages back.
constexpr uint64_t kClearInPlace = 256 * base::kKiB;

}  // namespace

base::Result<std::unique_ptr<HostArena>> HostArena::create(uint64_t size) {
  auto fd = base::make_memfd("host-memory", size);
  if (!fd) return fd.error();
  auto mapping = base::Mapping::map_shared(fd->get(), 0, size, true);
  if (!mapping) return mapping.error();
  return std::unique_ptr<HostArena>(new HostArena(std::move(*fd), std::move(*mapping)));
}

HostArena::HostArena(base::UniqueFd fd, base::Mapping mapping)
    : fd_(std::move(fd)), mapping_(std::move(mapping)), pool_(kPhysBase, mapping_.size()) {}

std::optional<uint64_t> HostArena::allocate(uint64_t size, uint64_t align) {
  if (size == 0 || size > mapping_.size()) return std::nullopt;
  const uint64_t rounded = (size + kPage - 1) & ~(kPage - 1);
  const auto phys = pool_.allocate(rounded, align < kPage ? kPage : align);
  if (!phys) return std::nullopt;
  // Fresh pages stay untouched: a host with many devices allocates much that nobody ever uses.
  if (*phys < fresh_) clear(*phys, std::min(rounded, fresh_ - *phys));
  fresh_ = std::max(fresh_, *phys + rounded);
  live_.emplace(*phys, rounded);
  allocated_ += rounded;
  return phys;
}

void HostArena::free(uint64_t phys) {
  const auto it = live_.find(phys);
  if (it == live_.end()) return;
  if (it->second > kClearInPlace) clear(phys, it->second);  // returns the pages to the system
  pool_.free(phys, it->second);
  allocated_ -= it->second;
  live_.erase(it);
}

void HostArena::clear(uint64_t phys, uint64_t size) {
  if (size > kClearInPlace &&
      ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(fd_offset(phys)), static_cast<off_t>(size)) == 0) {
    return;
  }
  // Much of what was allocated was never written: clearing it would only bring its pages in.
  const auto end = static_cast<off_t>(fd_offset(phys) + size);
  auto from = static_cast<off_t>(fd_offset(phys));
  while (from < end) {
    const off_t data = ::lseek(fd_.get(), from, SEEK_DATA);
    if (data >= end || (data < 0 && errno == ENXIO)) return;
    const off_t start = data < 0 ? from : data;  // a kernel that cannot tell: all of it
    const off_t hole = data < 0 ? end : ::lseek(fd_.get(), start, SEEK_HOLE);
    const off_t stop = hole < 0 ? end : std::min(hole, end);
    std::memset(mapping_.data() + start, 0, static_cast<size_t>(stop - start));
    from = stop;
  }
}

bool HostArena::covers(uint64_t phys, uint64_t length) const {
  auto it = live_.upper_bound(phys);
  if (it == live_.begin()) return false;
  --it;
  // Neighbouring allocations form one run of host memory, as neighbouring frames do.
  for (uint64_t at = phys;;) {
    const uint64_t end = it->first + it->second;
    if (at < it->first || at >= end) return false;
    if (length <= end - at) return true;
    length -= end - at;
    at = end;
    if (++it == live_.end()) return false;
  }
}

uint8_t* HostArena::direct(uint64_t phys, uint64_t length) {
  return length != 0 && covers(phys, length) ? at(phys) : nullptr;
}

bool HostArena::read(uint64_t phys, base::ByteSpan to) {
  if (to.empty()) return true;
  const uint8_t* from = direct(phys, to.size());
  if (from == nullptr) return false;
  std::memcpy(to.data(), from, to.size());
  return true;
}

bool HostArena::write(uint64_t phys, base::ConstByteSpan from) {
  if (from.empty()) return true;
  uint8_t* to = direct(phys, from.size());
  if (to == nullptr) return false;
  std::memcpy(to, from.data(), from.size());
  return true;
}

}  // namespace driver
