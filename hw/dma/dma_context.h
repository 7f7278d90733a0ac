// What all DMA engines of a chip share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <utility>
#include <vector>

#include "base/index_pool.h"
#include "hw/check/checker.h"
#include "hw/dma/packet.h"
#include "hw/dma/path_cache.h"
#include "hw/mem/fabric.h"
#include "hw/params.h"
#include "hw/stats.h"
#include "hw/time/event_queue.h"

namespace hw {

// Objects of a chip that are touched in turn lie together: fewer pages to look up.
struct InPlaceDelete {
  template <typename T>
  void operator()(T* object) const {
    object->~T();
  }
};
template <typename T>
using InPlace = std::unique_ptr<T, InPlaceDelete>;
template <typename T, typename... Args>
InPlace<T> make_in(std::pmr::memory_resource& memory, Args&&... args) {
  void* at = memory.allocate(sizeof(T), alignof(T));
  return InPlace<T>(new (at) T(std::forward<Args>(args)...));
}

// A signal between the end of its packet, when its source was read, and its effect.
struct DeferredSignal {
  static constexpr size_t kWords = 3;
  struct Long {
    std::vector<Buffer> targets;
    std::vector<uint8_t> data;
  };
  const void* owner = nullptr;  // the engine's effects; null: none
  EventQueue::Id event = 0;
  uint64_t flow = 0;   // of a trace
  uint32_t words = 0;  // each with a target of its own, when that is all
  std::array<uint32_t, kWords> data{};
  std::array<Buffer, kWords> targets{};
  std::unique_ptr<Long> rest;               // otherwise
  std::unique_ptr<check::Release> release;  // of its queue, with a checker
};

struct DmaContext {
  Fabric& fabric;
  EventQueue& events;
  const TimingParams& timing;
  Counters& counters;
  AccessLog& log;
  Tracer* tracer = nullptr;
  bool timing_only = false;
  uint32_t real_bytes = 512;  // timing_only.real_bytes: payload up to this size always moves
  bool coalesce = true;
  QueuePolicy policy;
  check::Checker* checker = nullptr;
  PathCache paths;
  Charges charges;  // of the packet that is being assembled
  Charges burst;    // of the packets that an engine is about to start
  base::IndexPool<DeferredSignal> deferred;
  std::pmr::monotonic_buffer_resource memory;
};

}  // namespace hw
