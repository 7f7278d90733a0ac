// The 16 queue pairs of one DMA engine: ring pointers, doorbells, and the descriptors on their way
// from a ring to the engine. Source: spec/hw-registers.md 3.3 to 3.6.
//
// Descriptors are used once prefetch has brought them, timing.dma_fetch after they were announced;
// their contents are read from the ring when a packet is assembled. Prefetch is no event of its own
// while the engine has something else to do: it asks what has arrived before it looks.
#pragma once

#include <array>
#include <cstdint>

#include "contract/regs/udma.h"
#include "hw/dma/dma_context.h"
#include "hw/dma/packet.h"
#include "hw/dma/small_vector.h"

namespace hw {

struct RingPointer {
  uint32_t index = 0;
  uint32_t ring_id = 1;  // of the lap that `index` is in

  // A ring may be taken away (length 0) under its pointers, or become shorter.
  RingPointer plus(uint32_t n, uint32_t length) const {
    if (length == 0) return *this;
    const uint64_t at = uint64_t{index} + n;
    if (at < length) return {static_cast<uint32_t>(at), ring_id};
    return {static_cast<uint32_t>(at % length), (ring_id + static_cast<uint32_t>(at / length)) & 3};
  }
  uint32_t word() const { return index | ring_id << 30; }
};

struct HalfQueue {
  uint64_t base = 0;
  uint32_t length = 0;
  RingPointer tail, current;
  uint32_t pending = 0;           // from current to tail
  uint32_t requested = 0;         // of these, prefetch has been started for
  uint32_t visible = 0;           // of these, prefetched
  uint32_t generation = 0;        // counts resets
  const uint8_t* ring = nullptr;  // the ring, when it lies in one piece of device memory
};

struct alignas(64) QueuePair {
  HalfQueue half[2];
  base::Ps visible_at = 0;     // when the last write of the queue is acknowledged
  base::Ps barrier_until = 0;  // later writes must not be visible before
  base::Ps wake_at = 0;        // last time scheduled for looking again at a stalled queue
  uint32_t sent = 0;           // bytes of the next packet that parts of it have delivered
  bool dmb_waits = false;      // the next packet has found that it must wait
  bool dmb_released = false;   // by software: the next packet does not
  uint32_t track = ~0u;        // of the tracer
};

class DescriptorQueues {
 public:
  static constexpr uint32_t kQueues = contract::kQueuesPerEngine;

  explicit DescriptorQueues(DmaContext& context) : context_(context) {}

  // A pair is made on first touch.
  QueuePair& at(uint32_t q) { return queues_[q] != nullptr ? *queues_[q] : make(q); }
  const QueuePair* touched(uint32_t q) const { return queues_[q].get(); }
  QueuePair* touched(uint32_t q) { return queues_[q].get(); }
  // Queues with prefetched M2S descriptors, a bit each.
  uint32_t active() const { return active_; }
  // Something has been requested and is not there, or a packet is there in part.
  bool at_work() const;

  // After a change of base or length.
  void ring_changed(uint32_t q, Half h);
  // The doorbell: `n` more descriptors. False, without effect, for a queue without a ring and past
  // the descriptors in flight.
  bool announce(uint32_t q, Half h, uint32_t n);
  // Starts to fetch what was announced; false if that is nothing.
  bool request(uint32_t q, Half h);
  // What has come by `until` can be used. `stopped`: halves that fetch no more and drop it.
  void arrive(base::Ps until, bool m2s_stopped, bool s2m_stopped);
  base::Ps next_arrival() const {
    return arrived_ < arrivals_.size() ? arrivals_[arrived_].time : EventQueue::kForever;
  }
  base::Ps last_arrival() { return arrivals_.back().time; }
  // Something is on its way to another queue.
  bool others_arrive(uint32_t q) const;

  void consume(uint32_t q, QueuePair& pair, Half h, uint32_t n) {
    HalfQueue& half = pair.half[h];
    half.current = half.current.plus(n, half.length);
    half.visible -= n;
    half.requested -= n;
    half.pending -= n;
    if (h == kM2s && half.visible == 0) active_ &= ~(1u << q);
  }
  // The half is empty afterwards; what was on its way from the ring arrives nowhere.
  void drop(uint32_t q, Half h);
  // The same, with its pointers at the begin of the ring.
  void reset(uint32_t q, Half h);
  // As after a device reset.
  void reset();

 private:
  // Descriptors on their way from a ring. All take the same time: they arrive in order.
  struct Arrival {
    base::Ps time;
    uint32_t count;
    uint32_t generation;  // of the half
    uint8_t queue;
    Half half;
  };
  QueuePair& make(uint32_t q);

  DmaContext& context_;
  uint32_t active_ = 0;
  size_t arrived_ = 0;  // of arrivals_
  SmallVector<Arrival, 4> arrivals_;
  std::array<InPlace<QueuePair>, kQueues> queues_;
};

}  // namespace hw
