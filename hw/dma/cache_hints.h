// Brings into the host's caches what the next packet of a DMA engine will read, while the event
// before it is executed: a machine has hundreds of engines, which take turns. Changes nothing but
// the speed of the emulator.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "arch/contract/descriptor.h"
#include "hw/dma/descriptor_queues.h"
#include "hw/dma/packet.h"

namespace hw {

// Inlined by force: the compiler drops calls of a function that only fetches ahead.
[[gnu::always_inline]] inline void fetch_lines(const void* from, size_t bytes) {
  constexpr size_t kLine = 64;
  if (from == nullptr) return;
  for (size_t at = 0; at < bytes; at += kLine) {
    __builtin_prefetch(static_cast<const uint8_t*>(from) + at);
  }
}

class CacheHints {
 public:
  // What a packet of this queue would read behind so many descriptors.
  void remember(const QueuePair& queue, const uint32_t (&behind)[2]) {
    ahead_[0] = &queue;
    for (Half h : {kM2s, kS2m}) {
      const HalfQueue& half = queue.half[h];
      if (half.ring == nullptr) continue;
      const uint32_t next = half.current.plus(behind[h], half.length).index;
      ahead_[1 + h] = half.ring + next * sizeof(contract::Descriptor);
    }
  }
  [[gnu::always_inline]] void fetch() const {
    fetch_lines(ahead_[0], sizeof(QueuePair));
    fetch_lines(ahead_[1], kTxBytes);
    fetch_lines(ahead_[2], kRxBytes);
  }

 private:
  static constexpr size_t kTxBytes = 256;  // descriptors of a burst
  static constexpr size_t kRxBytes = 192;

  std::array<const void*, 3> ahead_{};  // queue, descriptors
};

}  // namespace hw
