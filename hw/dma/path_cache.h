// What the DMA engines of a chip remember about addresses: where a range leads and what a transfer
// to or from there occupies, as hw::Fabric says. An engine looks at each buffer of each packet, so
// this is asked far more often than anything changes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "hw/dma/packet.h"
#include "hw/mem/fabric.h"

namespace hw {

// All addresses of a path lie in one place. As long as a line of the host's caches.
struct alignas(64) Path {
  // What each byte occupies, so many times.
  struct Share {
    BandwidthResource* resource;
    uint64_t times;
  };

  uint64_t begin = 0;
  uint64_t size = 0;
  uint32_t kind = 0;  // of access: domain of the engine, and direction
  Holder holder = Holder::kElsewhere;
  Space space = Space::kNone;
  uint16_t shares = 0;
  base::Ps latency = 0;
  HeldBy by{};
  uint64_t offset = 0;  // of `begin`, in memory or block
  std::unique_ptr<Share[]> share;

  bool holds(uint64_t address, uint32_t of_kind) const {
    return address - begin < size && kind == of_kind;
  }
  uint64_t left(uint64_t address) const { return size - (address - begin); }
};

class PathCache {
 public:
  explicit PathCache(Fabric& fabric) : fabric_(fabric) {}

  static uint32_t kind(uint32_t domain, bool write) { return domain << 1 | (write ? 1 : 0); }

  // For an engine of `domain`. Valid until the next call.
  const Path& find(uint32_t domain, uint64_t address, bool write) {
    if (version_ != fabric_.version()) forget();
    const uint32_t of_kind = kind(domain, write);
    const Path& large = table_[index(address >> kLargeBits, of_kind)];
    if (large.holds(address, of_kind)) return large;
    const Path& small = table_[index(address >> kSmallBits, of_kind)];
    if (small.holds(address, of_kind)) return small;
    return resolve(domain, address, write);
  }

 private:
  static constexpr uint32_t kEntryBits = 11;
  static constexpr size_t kEntries = size_t{1} << kEntryBits;
  // A path is kept in an entry that is shared by all addresses of a large or of a small block.
  static constexpr uint32_t kLargeBits = 33;
  static constexpr uint32_t kSmallBits = 16;

  static size_t index(uint64_t block, uint32_t kind) {
    return ((block << 4 ^ kind) * 0x9E37'79B9'7F4A'7C15) >> (64 - kEntryBits);
  }
  void forget();
  const Path& resolve(uint32_t domain, uint64_t address, bool write);
  void set_range(Path& path, uint64_t address);

  Fabric& fabric_;
  std::vector<Path> table_;
  Path single_;
  Charges scratch_;
  uint64_t version_ = ~uint64_t{0};  // that the table is of; made on first use
};

}  // namespace hw
