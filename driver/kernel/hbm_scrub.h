// Fills a stack of device memory with a pattern, behind the firmware's share, on queue 0 of the 16
// engines of that stack that reach the host (spec/hw-registers.md 3.12 end;
// spec/driver-ioctl.md 3.15). Exact: engines, descriptors, barriers, time limit. Decided here:
// rings have the driver's usual spare room and power of two; a second start of a stack replaces the
// first.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "driver/kernel/context.h"
#include "driver/kernel/dma_engines.h"
#include "driver/kernel/memory.h"

namespace driver {

class HbmScrub {
 public:
  HbmScrub(const Context& context, const Dhal& dhal, DmaEngines& engines, Memory& memory,
           uint32_t timeout_factor);
  ~HbmScrub();
  HbmScrub(const HbmScrub&) = delete;
  HbmScrub& operator=(const HbmScrub&) = delete;

  // Takes the queues for `tgid` and starts them; 0 or -errno. Memory is charged to `nc`.
  int start(uint32_t hbm, uint32_t nc, uint32_t pattern, int32_t tgid);
  // 0 when all engines are done; -EPERM on time-out or without a start.
  int wait(uint32_t hbm);
  // Drops what a process has started and not waited for; its queues point elsewhere by now.
  void release_process(int32_t tgid);

 private:
  static constexpr uint32_t kEngines = 16;
  struct Engine {
    Chunk* tx = nullptr;
    Chunk* rx = nullptr;
    Chunk* scratch = nullptr;  // the block read back, then the words of the marker
  };
  struct Run {
    int32_t tgid = 0;
    Chunk* pattern = nullptr;
    std::array<Engine, kEngines> engines;
  };

  bool allocate(Run& run, uint32_t nc, uint32_t descriptors);
  void discard(std::optional<Run>& run);
  // Builds the rings of one engine and returns the number of descriptors.
  uint32_t build(const Run& run, uint32_t hbm, uint32_t number);
  uint32_t blocks() const;
  base::Ps budget() const;

  const Context& context_;
  const Dhal& dhal_;
  DmaEngines& engines_;
  Memory& memory_;
  uint32_t timeout_factor_;
  std::vector<std::optional<Run>> runs_;  // by stack
};

}  // namespace driver
