#include "driver/qemu/guest_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

namespace driver::qemu {
namespace {

constexpr uint64_t kMaxOffset = std::numeric_limits<int64_t>::max();

std::string range_text(uint64_t base, uint64_t size) {
  char text[64];
  std::snprintf(text, sizeof text, "guest memory 0x%llx + 0x%llx",
                static_cast<unsigned long long>(base), static_cast<unsigned long long>(size));
  return text;
}

// All of it, or false.
bool read_file(int fd, uint64_t offset, uint8_t* to, uint64_t size) {
  while (size != 0) {
    const ssize_t n = ::pread(fd, to, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += n;
    offset += static_cast<uint64_t>(n);
    size -= static_cast<uint64_t>(n);
  }
  return true;
}

bool write_file(int fd, uint64_t offset, const uint8_t* from, uint64_t size) {
  while (size != 0) {
    const ssize_t n = ::pwrite(fd, from, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    from += n;
    offset += static_cast<uint64_t>(n);
    size -= static_cast<uint64_t>(n);
  }
  return true;
}

}  // namespace

struct GuestMemory::Open {
  uint64_t base = 0;
  uint64_t size = 0;
  uint64_t fd_offset = 0;
  bool writable = true;
  base::UniqueFd fd;
  base::Mapping mapping;  // of whole pages around the region; empty: system calls
  uint8_t* data = nullptr;

  uint64_t end() const { return base + size; }
};

GuestMemory::GuestMemory() = default;
GuestMemory::~GuestMemory() = default;

base::Result<std::unique_ptr<GuestMemory::Open>> GuestMemory::open(Region region) {
  const auto refuse = [&](base::Fault fault, const char* why) {
    return base::Error{fault, 0, range_text(region.base, region.size), why};
  };
  if (region.size == 0) return refuse(base::Fault::kUsage, "an empty region");
  if (region.size > ~0ull - region.base) {
    return refuse(base::Fault::kUsage, "the region wraps around");
  }
  if (region.fd_offset > kMaxOffset || region.size > kMaxOffset - region.fd_offset) {
    return refuse(base::Fault::kUsage, "the place in the file wraps around");
  }
  struct stat info = {};
  struct statfs system = {};
  if (::fstat(region.fd.get(), &info) != 0 || ::fstatfs(region.fd.get(), &system) != 0) {
    return refuse(base::Fault::kIo, "its file descriptor is not usable");
  }
  if (!S_ISREG(info.st_mode)) return refuse(base::Fault::kUsage, "its file is not a memory file");
  if (system.f_type == HUGETLBFS_MAGIC) {
    return refuse(base::Fault::kUnsupported,
                  "memory in huge pages is not supported; use a memory backend without hugetlb");
  }
  if (info.st_size < 0 || region.fd_offset + region.size > static_cast<uint64_t>(info.st_size)) {
    return refuse(base::Fault::kUsage, "the region is larger than its file");
  }
  auto result = std::make_unique<Open>();
  result->base = region.base;
  result->size = region.size;
  result->fd_offset = region.fd_offset;
  result->writable = region.writable;
  // Sealed first, measured afterwards: from then on the size above cannot become smaller.
  const int seals = ::fcntl(region.fd.get(), F_GET_SEALS);
  const bool sealed = seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
  if (sealed && region.writable && ::fstat(region.fd.get(), &info) == 0 &&
      region.fd_offset + region.size <= static_cast<uint64_t>(info.st_size)) {
    const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    const uint64_t lead = region.fd_offset % page;
    auto mapping = base::Mapping::map_shared(region.fd.get(), region.fd_offset - lead,
                                             region.size + lead, true);
    if (mapping) {  // else it is too large, or open for reading only: system calls do as well
      result->mapping = std::move(*mapping);
      result->data = result->mapping.data() + lead;
    }
  }
  result->fd = std::move(region.fd);
  return result;
}

base::Status GuestMemory::insert(Table& table, std::unique_ptr<Open> region) {
  const auto refuse = [&](base::Fault fault, const char* why) {
    return base::Error{fault, 0, range_text(region->base, region->size), why};
  };
  if (table.size() >= kMaxRegions) return refuse(base::Fault::kResource, "too many regions");
  const auto after =
      std::upper_bound(table.begin(), table.end(), region->base,
                       [](uint64_t base, const auto& each) { return base < each->base; });
  const bool overlaps = (after != table.end() && (*after)->base < region->end()) ||
                        (after != table.begin() && (*std::prev(after))->end() > region->base);
  if (overlaps) return refuse(base::Fault::kUsage, "the region overlaps another");
  table.insert(after, std::move(region));
  return {};
}

base::Status GuestMemory::replace(std::vector<Region> regions) {
  Table table;
  for (Region& each : regions) {
    auto opened = open(std::move(each));
    if (!opened) return opened.error();
    base::Status inserted = insert(table, std::move(*opened));
    if (!inserted) return inserted;
  }
  regions_ = std::move(table);
  return {};
}

base::Status GuestMemory::add(Region region) {
  auto opened = open(std::move(region));
  if (!opened) return opened.error();
  return insert(regions_, std::move(*opened));
}

bool GuestMemory::remove(uint64_t base, uint64_t size) {
  for (auto it = regions_.begin(); it != regions_.end(); ++it) {
    if ((*it)->base != base || (*it)->size != size) continue;
    regions_.erase(it);
    return true;
  }
  return false;
}

void GuestMemory::clear() {
  regions_.clear();
}

const GuestMemory::Open* GuestMemory::find(uint64_t phys) const {
  if (last_ < regions_.size() && phys - regions_[last_]->base < regions_[last_]->size) {
    return regions_[last_].get();
  }
  const auto after =
      std::upper_bound(regions_.begin(), regions_.end(), phys,
                       [](uint64_t at, const auto& each) { return at < each->base; });
  if (after == regions_.begin()) return nullptr;
  const auto found = std::prev(after);
  if (phys - (*found)->base >= (*found)->size) return nullptr;
  last_ = static_cast<size_t>(found - regions_.begin());
  return found->get();
}

bool GuestMemory::mapped(uint64_t phys) const {
  const Open* region = find(phys);
  return region != nullptr && region->data != nullptr;
}

uint8_t* GuestMemory::direct(uint64_t phys, uint64_t length) {
  const Open* region = length == 0 ? nullptr : find(phys);
  if (region == nullptr || region->data == nullptr) return nullptr;
  const uint64_t offset = phys - region->base;
  return length <= region->size - offset ? region->data + offset : nullptr;
}

// Neighbouring regions form one run of memory.
bool GuestMemory::covered(uint64_t phys, uint64_t length, bool write) const {
  while (length != 0) {
    const Open* region = find(phys);
    if (region == nullptr || (write && !region->writable)) return false;
    const uint64_t n = std::min(length, region->end() - phys);
    phys += n;
    length -= n;
  }
  return true;
}

template <typename Move>
bool GuestMemory::transfer(uint64_t phys, uint64_t length, bool write, const Move& move) {
  if (!covered(phys, length, write)) return false;
  for (uint64_t done = 0; done < length;) {
    const Open& region = *find(phys + done);
    const uint64_t offset = phys + done - region.base;
    const uint64_t n = std::min(length - done, region.size - offset);
    if (!move(region, offset, done, n)) return false;
    done += n;
  }
  return true;
}

bool GuestMemory::read(uint64_t phys, base::ByteSpan to) {
  return transfer(
      phys, to.size(), false, [&](const Open& region, uint64_t offset, uint64_t done, uint64_t n) {
        if (region.data == nullptr) {
          return read_file(region.fd.get(), region.fd_offset + offset, to.data() + done, n);
        }
        std::memcpy(to.data() + done, region.data + offset, n);
        return true;
      });
}

bool GuestMemory::write(uint64_t phys, base::ConstByteSpan from) {
  return transfer(
      phys, from.size(), true, [&](const Open& region, uint64_t offset, uint64_t done, uint64_t n) {
        if (region.data == nullptr) {
          return write_file(region.fd.get(), region.fd_offset + offset, from.data() + done, n);
        }
        std::memcpy(region.data + offset, from.data() + done, n);
        return true;
      });
}

}  // namespace driver::qemu
