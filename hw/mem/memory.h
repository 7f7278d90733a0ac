// Demand-backed memory: an HBM stack (in a memfd, so that other processes can map it), SBUF or PSUM
// (anonymous). Nothing is reserved before the first touch; untouched pages are holes that read
// zero.
//
// A stack is one mapping made on first touch: its size costs address space only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/fd.h"
#include "hw/mem/elided.h"

namespace hw {

// A memfd in which one memory or several lie, made on first use. Its size costs nothing.
class MemoryFile {
 public:
  MemoryFile(std::string name, uint64_t size) : name_(std::move(name)), size_(size) {}
  base::Result<int> fd();
  int number() const { return fd_.get(); }  // -1: not made yet
  uint64_t size() const { return size_; }

 private:
  std::string name_;
  uint64_t size_;
  base::UniqueFd fd_;
};

// Where a memory lies in a file: its first `split` bytes at `first`, what is left at `rest`.
struct FilePlace {
  uint64_t first = 0;
  uint64_t split = ~uint64_t{0};
  uint64_t rest = 0;
};

class Memory {
 public:
  enum class Backing : uint8_t { kShared, kPrivate };

  // `pitch`: distance of the partitions of SBUF and PSUM, 0 for others.
  Memory(std::string name, uint64_t size, Backing backing, uint64_t pitch = 0)
      : Memory(std::make_shared<MemoryFile>(name, size), {}, name, size, backing, pitch) {}
  // A shared one that others share a file with. All multiples of a page.
  Memory(std::shared_ptr<MemoryFile> file, const FilePlace& place, std::string name, uint64_t size)
      : Memory(std::move(file), place, std::move(name), size, Backing::kShared, 0) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  const std::string& name() const { return name_; }
  uint64_t size() const { return size_; }
  bool touched() const { return data_ != nullptr; }

  // [offset, offset + length) as one range; null outside the memory or when the host refuses (then
  // status() has the reason).
  uint8_t* at(uint64_t offset, uint64_t length) {
    if (length > size_ || offset > size_ - length) return nullptr;
    if (data_ == nullptr && !open()) return nullptr;
    return data_ + offset;
  }
  // A memfd, for mapping into clients; made on first use. A private memory becomes a shared one.
  base::Result<int> fd();
  // Where `offset` is in it, and how many bytes from there on follow in the file as well.
  struct InFile {
    uint64_t offset = 0;
    uint64_t length = 0;
  };
  InFile in_file(uint64_t offset) const;
  const base::Status& status() const { return status_; }

  // No page of the range has ever been written (as far as the host can tell): it reads zero.
  bool is_hole(uint64_t offset, uint64_t length) const;
  // The pages become holes again.
  void discard(uint64_t offset, uint64_t length);

  // What a timing-only run left out.
  Elided& elided() { return elided_; }

 private:
  Memory(std::shared_ptr<MemoryFile> file, const FilePlace& place, std::string name, uint64_t size,
         Backing backing, uint64_t pitch)
      : name_(std::move(name)),
        size_(size),
        backing_(backing),
        file_(std::move(file)),
        place_(place),
        elided_(pitch) {}
  bool open();
  bool open_fd();
  bool map_file(uint8_t* at);
  bool move_to_file();

  std::string name_;
  uint64_t size_;
  Backing backing_;
  std::shared_ptr<MemoryFile> file_;
  FilePlace place_;
  uint8_t* data_ = nullptr;
  base::Status status_;
  Elided elided_;
};

// Copies without making pages: holes of the source stay holes, and pages of zeros are not written
// over holes. A null memory means that nothing is known about that side (host memory).
struct SparseRange {
  uint8_t* data = nullptr;
  Memory* memory = nullptr;
  uint64_t offset = 0;  // in memory
};
void copy_sparse(const SparseRange& to, const SparseRange& from, uint64_t length);

}  // namespace hw
