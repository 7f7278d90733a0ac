#include "hw/mem/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace hw {

namespace {
constexpr uint64_t kPage = 4096;
// Inaccessible on both sides of a mapping: what leaves a memory faults, and does not reach the one
// that the host has put beside it. Longer than any packet; a huge page keeps the alignment.
constexpr uint64_t kGuard = 2 * 1024 * 1024;

bool all_zero(const uint8_t* data, uint64_t length) {
  return data[0] == 0 && std::memcmp(data, data + 1, length - 1) == 0;
}
// Pages that appear with one call cost a third of those that fault one by one. Kernels before 5.14
// refuse, and they fault.
void fill_hole(uint8_t* to, const uint8_t* from, uint64_t length) {
  if (length == 0) return;
  uint8_t* first = to - reinterpret_cast<uintptr_t>(to) % kPage;
  if (length > kPage)
    ::madvise(first, static_cast<size_t>(to + length - first), MADV_POPULATE_WRITE);
  std::memcpy(to, from, length);
}
}  // namespace

Memory::~Memory() {
  if (data_ != nullptr) ::munmap(data_ - kGuard, size_ + 2 * kGuard);
}

bool Memory::open_fd() {
  if (fd_.valid()) return true;
  auto fd = base::make_memfd(name_.c_str(), size_);
  if (!fd) {
    status_ = fd.error();
    return false;
  }
  fd_ = std::move(*fd);
  return true;
}

bool Memory::open() {
  if (backing_ == Backing::kShared && !open_fd()) return false;
  const auto refuse = [this] {
    status_ = base::errno_error(name_.c_str(), "cannot map device memory");
    return false;
  };
  void* room = ::mmap(nullptr, size_ + 2 * kGuard, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return refuse();
  const int kind = backing_ == Backing::kShared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* at = ::mmap(static_cast<uint8_t*>(room) + kGuard, size_, PROT_READ | PROT_WRITE,
                    kind | MAP_FIXED | MAP_NORESERVE, fd_.get(), 0);
  if (at == MAP_FAILED) {
    refuse();
    ::munmap(room, size_ + 2 * kGuard);
    return false;
  }
  data_ = static_cast<uint8_t*>(at);
  return true;
}

base::Result<int> Memory::fd() {
  if (!open_fd()) return status_.error();
  if (backing_ == Backing::kPrivate && data_ != nullptr && !move_to_file()) return status_.error();
  backing_ = Backing::kShared;
  return fd_.get();
}

// Stays where it is, for others hold pointers into it.
bool Memory::move_to_file() {
  for (uint64_t at = 0; at < size_; at += kPage) {
    const uint64_t n = std::min(kPage, size_ - at);
    if (all_zero(data_ + at, n)) continue;
    if (::pwrite(fd_.get(), data_ + at, n, static_cast<off_t>(at)) != static_cast<ssize_t>(n)) {
      status_ = base::errno_error(name_.c_str(), "cannot share device memory");
      return false;
    }
  }
  void* at = ::mmap(data_, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
                    fd_.get(), 0);
  if (at != MAP_FAILED) return true;
  status_ = base::errno_error(name_.c_str(), "cannot map device memory");
  return false;
}

bool Memory::is_hole(uint64_t offset, uint64_t length) const {
  if (backing_ == Backing::kPrivate) return data_ == nullptr;
  if (!fd_.valid()) return true;
  const off_t data = ::lseek(fd_.get(), static_cast<off_t>(offset), SEEK_DATA);
  // ENXIO: no data from here to the end of the file.
  return data < 0 ? errno == ENXIO : static_cast<uint64_t>(data) >= offset + length;
}

void Memory::discard(uint64_t offset, uint64_t length) {
  if (backing_ == Backing::kShared) {
    if (!fd_.valid()) return;
    ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                static_cast<off_t>(length));
  } else if (data_ != nullptr) {
    ::madvise(data_ + offset, length, MADV_DONTNEED);
  }
}

void copy_sparse(const SparseRange& to, const SparseRange& from, uint64_t length) {
  const bool to_hole = to.memory != nullptr && to.memory->is_hole(to.offset, length);
  if (from.memory != nullptr && from.memory->is_hole(from.offset, length)) {
    if (!to_hole) std::memset(to.data, 0, length);
    return;
  }
  if (!to_hole) {
    std::memmove(to.data, from.data, length);
    return;
  }
  // In stretches between pages of zeros.
  uint64_t begin = 0;
  for (uint64_t done = 0; done < length;) {
    const uint64_t in_page = (to.offset + done) % kPage;
    const uint64_t n = std::min(kPage - in_page, length - done);
    if (all_zero(from.data + done, n)) {
      fill_hole(to.data + begin, from.data + begin, done - begin);
      begin = done + n;
    }
    done += n;
  }
  fill_hole(to.data + begin, from.data + begin, length - begin);
}

}  // namespace hw
