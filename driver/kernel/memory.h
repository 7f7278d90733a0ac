// Memory of one device as a driver tracks it: pools per HBM, host chunks, the search tree by device
// address, handles and accounting. Source: spec/driver-ioctl.md 3.3, 5, 7.2 and Appendix A.
// Exact: placement, handle order, rounding, counters. Missing: the four fallback pools of host
// memory (5.2), because the arena is the coherent allocator and does not fragment.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "driver/kernel/context.h"
#include "driver/kernel/dhal.h"
#include "driver/kernel/first_fit_pool.h"
#include "driver/uapi/limits.h"

namespace driver {

enum class Lifespan : uint8_t { kLocal, kProcess, kAllProcesses, kDevice };

struct Chunk {
  uint64_t pa = 0;    // device address; host memory includes the host window
  uint64_t size = 0;  // page rounded
  bool host = false;
  uint32_t hbm = 0;
  uint32_t nc = 0;  // charged core; picks the host-copy ring
  uint32_t category = 0;
  Lifespan lifespan = Lifespan::kLocal;
  int32_t pid = 0;
  uint64_t serial = 0;  // order of allocation
  uint32_t references = 1;
  uint64_t handle = 0;  // 0 = none yet
  FirstFitPool* pool = nullptr;
};

struct AllocRequest {
  uint64_t size = 0;
  uint64_t align = 0;
  bool host = false;
  uint32_t hbm = 0;
  uint32_t nc = 0;
  uint32_t category = 0;
  Lifespan lifespan = Lifespan::kLocal;
  int32_t pid = 0;
};

struct MemCounter {
  uint64_t total = 0;
  uint64_t present = 0;  // size of the last allocation or release
  uint64_t peak = 0;
  uint32_t changes = 0;  // for who polls the files
};

// sysfs memory counters (spec/driver-ioctl.md 7.2), indexed as the name tables in sysfs.cpp.
constexpr int kHostCategories = 8;
constexpr int kDeviceCategories = 11;
struct MemStats {
  std::array<MemCounter, kHostCategories> host;
  struct PerNc {
    MemCounter host;
    MemCounter device;
    std::array<MemCounter, kDeviceCategories> by_category;
  };
  std::array<PerNc, uapi::kMaxNcPerDevice> nc;
};

// What allocation charges to a process (spec/driver-ioctl.md 3.1.8).
struct ProcessCharge {
  uint64_t host = 0;
  uint64_t device = 0;
};
using ChargeOf = std::function<ProcessCharge*(int32_t tgid)>;

class Memory {
 public:
  static constexpr uint64_t kHandleLimit = 512 * 8192 - 1;  // the last index disables the table

  Memory(const Context& context, const Dhal& dhal, uint64_t hbm_size);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // 0 or -EINVAL / -ENOMEM (spec/driver-ioctl.md 3.3.1); `charged` is the calling process.
  int allocate(const AllocRequest& request, Chunk** out, ProcessCharge* charged = nullptr);
  // Drops one reference; frees at zero. `charged` is the calling process.
  void release(Chunk* chunk, ProcessCharge* charged = nullptr);

  Chunk* by_handle(uint64_t handle) const;
  Chunk* containing(uint64_t pa) const;  // the chunk that holds this device address
  int assign_handle(Chunk* chunk);       // 0 or -ENOENT

  // Bytes reachable through a chunk from its start (spec/driver-ioctl.md 3.4 and 5.4).
  uint64_t reach(const Chunk& chunk) const;
  bool in_bounds(const Chunk& chunk, uint64_t offset, uint64_t size) const {
    const uint64_t limit = reach(chunk);
    return size <= limit && offset <= limit - size;
  }
  // Kernel-side bytes of a host chunk.
  uint8_t* host_bytes(const Chunk& chunk) const;
  uint64_t host_phys(const Chunk& chunk) const { return chunk.pa - dhal_.map.host_window(); }

  // Frees what a process still owns; chunks with more references change to "all processes".
  void release_process(int32_t tgid, ProcessCharge* charged);
  void release_all_processes();

  std::vector<const Chunk*> chunks_of_hbm(uint32_t hbm) const;  // by address
  uint64_t hbm_size() const { return hbm_size_; }
  MemStats& stats() { return stats_; }

 private:
  struct Hbm {
    FirstFitPool main;
    FirstFitPool small;
    bool has_small = false;
    uint64_t scratchpad = 0;  // bytes of contiguous scratchpad at the end of the main pool
  };

  std::optional<uint64_t> place_device(const AllocRequest& request, uint64_t size, Chunk& chunk);
  void account(const Chunk& chunk, bool add, ProcessCharge* charged);
  void carve_out(uint32_t hbm);

  const Context& context_;
  const Dhal& dhal_;
  uint64_t hbm_size_;
  std::vector<Hbm> hbms_;
  std::map<uint64_t, std::unique_ptr<Chunk>> chunks_;  // by device address
  std::vector<Chunk*> handles_{nullptr};               // index = handle
  std::vector<uint64_t> free_handles_;
  bool handles_disabled_ = false;
  uint64_t next_serial_ = 0;
  MemStats stats_;
};

}  // namespace driver
