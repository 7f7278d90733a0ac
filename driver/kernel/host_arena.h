// The host's physical memory as far as drivers allocate it: one sparse memfd, mapped once, whose
// pages appear on first touch. Stands for the coherent allocator of a kernel
// (spec/driver-ioctl.md 5.2); devices reach it through pcie::HostMemory. Clients map chunks of it
// by {fd, offset}.
// Exact: an address outside every live allocation is not host memory, so a DMA there aborts.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "arch/pcie/pcie.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/units.h"
#include "driver/kernel/first_fit_pool.h"

namespace driver {

class HostArena : public pcie::HostMemory {
 public:
  // First physical address handed out; below it lies nothing, so a null pointer in a descriptor
  // fails.
  static constexpr uint64_t kPhysBase = 256 * base::kMiB;
  static constexpr uint64_t kPage = 4096;
  static constexpr uint64_t kDefaultSize = 64 * base::kGiB;

  static base::Result<std::unique_ptr<HostArena>> create(uint64_t size = kDefaultSize);

  // Physically contiguous, page aligned (or `align`, a power of two), zeroed; nothing when
  // exhausted.
  std::optional<uint64_t> allocate(uint64_t size, uint64_t align = kPage);
  // `phys` came from allocate(); other addresses are ignored.
  void free(uint64_t phys);

  // The bytes behind a physical address of this arena, live or not (kernel-side access).
  uint8_t* at(uint64_t phys) const { return mapping_.data() + (phys - kPhysBase); }
  bool covers(uint64_t phys, uint64_t length) const;
  int fd() const { return fd_.get(); }
  static uint64_t fd_offset(uint64_t phys) { return phys - kPhysBase; }
  uint64_t allocated_bytes() const { return allocated_; }

  uint8_t* direct(uint64_t phys, uint64_t length) override;
  bool read(uint64_t phys, base::ByteSpan to) override;
  bool write(uint64_t phys, base::ConstByteSpan from) override;

 private:
  HostArena(base::UniqueFd fd, base::Mapping mapping);
  void clear(uint64_t phys, uint64_t size);

  base::UniqueFd fd_;
  base::Mapping mapping_;
  FirstFitPool pool_;
  std::map<uint64_t, uint64_t> live_;  // phys -> page-rounded size
  uint64_t allocated_ = 0;
  uint64_t fresh_ = kPhysBase;  // never handed out from here on, so known to be zero
};

}  // namespace driver
