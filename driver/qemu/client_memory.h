// Host memory as one vfio-user client has mapped it for DMA. Ranges with a file are reached through
// GuestMemory; ranges without one (a VMM's ROMs, memory of a client that shares nothing) through
// messages to the client, which must answer within a bounded time. Rights of a range (readable,
// writable) are kept for both kinds. Source of truth: "VFIO_USER_DMA_MAP" to "VFIO_USER_DMA_WRITE"
// of the protocol document.
#pragma once

#include <cstdint>
#include <map>

#include "arch/pcie/pcie.h"
#include "base/error.h"
#include "base/fd.h"
#include "driver/qemu/guest_memory.h"

namespace driver::qemu::vfio {

// What to do about memory that came without a file.
constexpr const char* kShareHint =
    "the device could not reach it while a processor of the guest waits for a register; give "
    "QEMU's memory backend share=on";

// Asks the client for its memory; false when it refuses or does not answer.
class DmaMessenger {
 public:
  virtual bool dma_read(uint64_t address, base::ByteSpan to) = 0;
  virtual bool dma_write(uint64_t address, base::ConstByteSpan from) = 0;

 protected:
  ~DmaMessenger() = default;
};

struct DmaRange {
  uint64_t address = 0;
  uint64_t size = 0;
  bool readable = false;
  bool writable = false;
};

class ClientMemory final : public pcie::HostMemory {
 public:
  // Errors carry an errno: EEXIST where a range lies over another, EINVAL, ENOSPC, and what the
  // file says.
  base::Status map(const DmaRange& range, base::UniqueFd file, uint64_t file_offset);
  // Without a file.
  base::Status map(const DmaRange& range);
  // ENOENT unless it is exactly a mapped range.
  base::Status unmap(uint64_t address, uint64_t size);
  void clear();
  size_t ranges() const { return ranges_.size(); }
  // Who brings ranges without a file; null: nobody, they are bus errors.
  void set_messenger(DmaMessenger* messenger) { messenger_ = messenger; }

  uint8_t* direct(uint64_t phys, uint64_t length) override;
  bool read(uint64_t phys, base::ByteSpan to) override;
  bool write(uint64_t phys, base::ConstByteSpan from) override;

 private:
  struct Range {
    uint64_t size = 0;
    bool readable = false;
    bool writable = false;
    bool file = false;
  };
  using Ranges = std::map<uint64_t, Range>;

  base::Status check_new(const DmaRange& range) const;
  Ranges::const_iterator find(uint64_t address) const;
  // Every byte is in a range that allows the access.
  bool allowed(uint64_t phys, uint64_t length, bool write) const;
  template <typename Span, typename Piece>
  bool each_piece(uint64_t phys, Span data, bool write, const Piece& piece) const;

  GuestMemory files_;
  Ranges ranges_;
  DmaMessenger* messenger_ = nullptr;
};

}  // namespace driver::qemu::vfio
