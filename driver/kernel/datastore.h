// The datastore of one device: 16 slots of 256 KiB host memory that clients map, and the counters
// that sysfs shows from them. Source: spec/driver-ioctl.md 3.9, 7.2; spec/ndl-api.md 6.
#pragma once

#include <array>
#include <cstdint>

#include "driver/kernel/memory.h"
#include "driver/uapi/limits.h"

namespace driver {

// sysfs view of one datastore counter of one NC.
struct FoldedCounter {
  uint64_t total = 0;
  uint64_t present = 0;
  uint32_t changes = 0;  // for who polls the files
  void add(uint64_t value) {
    if (value == 0) return;  // `present` keeps the last one that was not
    total += value;
    present = value;
    ++changes;
  }
};

class Datastore {
 public:
  explicit Datastore(Memory& memory) : memory_(memory) {}

  bool allocate();  // false: out of host memory
  // The slot of `pid` (0 = caller, created when absent). 0, -ENOMEM or -ENOENT.
  int acquire(int32_t pid, int32_t caller, const Chunk** out);
  void release(int32_t pid, int32_t caller);  // acts only on the caller's own slot
  void release_all();

  // Totals over all released slots, by NC and counter id.
  const FoldedCounter& counter(uint32_t nc, uint32_t id) const { return folded_[nc][id]; }
  FoldedCounter& counter(uint32_t nc, uint32_t id) { return folded_[nc][id]; }

 private:
  struct Slot {
    Chunk* chunk = nullptr;
    int32_t owner = 0;
    uint64_t cleared_at = 0;  // order of release; 0 = never used
  };
  Slot* find(int32_t tgid);
  void clear(Slot& slot);

  Memory& memory_;
  std::array<Slot, uapi::kDatastoreSlots> slots_;
  uint64_t clock_ = 0;
  std::array<std::array<FoldedCounter, uapi::kDsTotalCounters>, uapi::kMaxNcPerDevice> folded_{};
};

}  // namespace driver
