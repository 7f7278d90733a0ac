// A guest's physical memory, as regions of files that its virtual machine monitor passes on. What a
// device does to addresses outside the regions is a bus error; the rest of the host's memory is out
// of reach.
//
// Nothing in here trusts the peer. A mapping of a file that becomes shorter kills whoever touches
// it (SIGBUS), so only memory files that are sealed against shrinking are mapped; all others are
// read and written with system calls, where an error is just an error.
//
// Pointers from direct() are valid until the next change of the regions.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "arch/pcie/pcie.h"
#include "base/error.h"
#include "base/fd.h"

namespace driver::qemu {

class GuestMemory final : public pcie::HostMemory {
 public:
  static constexpr size_t kMaxRegions = 4096;  // each holds a descriptor and a mapping

  struct Region {
    uint64_t base = 0;  // guest physical
    uint64_t size = 0;
    base::UniqueFd fd;  // a regular file; memory in huge pages is not supported
    uint64_t fd_offset = 0;
    bool writable = true;
  };

  GuestMemory();
  ~GuestMemory() override;
  GuestMemory(const GuestMemory&) = delete;
  GuestMemory& operator=(const GuestMemory&) = delete;

  // All of the new table or, on an error, all of the old one.
  base::Status replace(std::vector<Region> regions);
  base::Status add(Region region);
  // False if there is no region of exactly this place and size.
  bool remove(uint64_t base, uint64_t size);
  void clear();

  size_t regions() const { return regions_.size(); }
  // True if the region at `phys` can be reached by pointer.
  bool mapped(uint64_t phys) const;

  uint8_t* direct(uint64_t phys, uint64_t length) override;
  bool read(uint64_t phys, base::ByteSpan to) override;
  bool write(uint64_t phys, base::ConstByteSpan from) override;

 private:
  struct Open;
  using Table = std::vector<std::unique_ptr<Open>>;  // by address, disjoint

  static base::Result<std::unique_ptr<Open>> open(Region region);
  static base::Status insert(Table& table, std::unique_ptr<Open> region);
  const Open* find(uint64_t phys) const;
  bool covered(uint64_t phys, uint64_t length, bool write) const;
  template <typename Move>
  bool transfer(uint64_t phys, uint64_t length, bool write, const Move& move);

  Table regions_;
  mutable size_t last_ = 0;  // where the last access was
};

}  // namespace driver::qemu
