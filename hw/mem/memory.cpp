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

base::Result<int> MemoryFile::fd() {
  if (!fd_.valid()) {
    auto made = base::make_memfd(name_.c_str(), size_);
    if (!made) return made.error();
    fd_ = std::move(*made);
  }
  return fd_.get();
}

bool Memory::open_fd() {
  const auto fd = file_->fd();
  if (!fd) status_ = fd.error();
  return fd.ok();
}

Memory::InFile Memory::in_file(uint64_t offset) const {
  if (offset < place_.split) {
    return {place_.first + offset, std::min(place_.split, size_) - offset};
  }
  return {place_.rest + (offset - place_.split), size_ - offset};
}

// In place of whatever is mapped at [at, at + size).
bool Memory::map_file(uint8_t* at) {
  for (uint64_t done = 0; done < size_;) {
    const InFile piece = in_file(done);
    if (::mmap(at + done, piece.length, PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file_->number(),
               static_cast<off_t>(piece.offset)) == MAP_FAILED) {
      return false;
    }
    done += piece.length;
  }
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
  uint8_t* at = static_cast<uint8_t*>(room) + kGuard;
  const bool mapped = backing_ == Backing::kShared
                          ? map_file(at)
                          : ::mprotect(at, size_, PROT_READ | PROT_WRITE) == 0;
  if (!mapped) {
    refuse();
    ::munmap(room, size_ + 2 * kGuard);
    return false;
  }
  data_ = at;
  return true;
}

base::Result<int> Memory::fd() {
  if (!open_fd()) return status_.error();
  if (backing_ == Backing::kPrivate && data_ != nullptr && !move_to_file()) return status_.error();
  backing_ = Backing::kShared;
  return file_->number();
}

// Stays where it is, for others hold pointers into it.
bool Memory::move_to_file() {
  for (uint64_t at = 0; at < size_; at += kPage) {
    const uint64_t n = std::min(kPage, size_ - at);
    if (all_zero(data_ + at, n)) continue;
    const auto in = static_cast<off_t>(in_file(at).offset);
    if (::pwrite(file_->number(), data_ + at, n, in) != static_cast<ssize_t>(n)) {
      status_ = base::errno_error(name_.c_str(), "cannot share device memory");
      return false;
    }
  }
  if (map_file(data_)) return true;
  status_ = base::errno_error(name_.c_str(), "cannot map device memory");
  return false;
}

bool Memory::is_hole(uint64_t offset, uint64_t length) const {
  if (backing_ == Backing::kPrivate) return data_ == nullptr;
  if (file_->number() < 0) return true;
  for (uint64_t done = 0; done < length;) {
    const InFile piece = in_file(offset + done);
    const uint64_t n = std::min(piece.length, length - done);
    const off_t data = ::lseek(file_->number(), static_cast<off_t>(piece.offset), SEEK_DATA);
    // ENXIO: no data from here to the end of the file.
    const bool hole = data < 0 ? errno == ENXIO : static_cast<uint64_t>(data) >= piece.offset + n;
    if (!hole) return false;
    done += n;
  }
  return true;
}

void Memory::discard(uint64_t offset, uint64_t length) {
  if (backing_ == Backing::kShared) {
    if (file_->number() < 0) return;
    for (uint64_t done = 0; done < length;) {
      const InFile piece = in_file(offset + done);
      const uint64_t n = std::min(piece.length, length - done);
      ::fallocate(file_->number(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(piece.offset), static_cast<off_t>(n));
      done += n;
    }
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
