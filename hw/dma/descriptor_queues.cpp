#include "hw/dma/descriptor_queues.h"

#include <algorithm>

namespace hw {

namespace {
constexpr size_t kManyArrivals = 64;  // that are over and still in the list
}  // namespace

QueuePair& DescriptorQueues::make(uint32_t q) {
  queues_[q] = make_in<QueuePair>(context_.memory);
  return *queues_[q];
}

bool DescriptorQueues::at_work() const {
  return std::any_of(queues_.begin(), queues_.end(), [](const InPlace<QueuePair>& q) {
    return q != nullptr && (q->sent != 0 || q->half[kM2s].requested != q->half[kM2s].visible ||
                            q->half[kS2m].requested != q->half[kS2m].visible);
  });
}

void DescriptorQueues::ring_changed(uint32_t q, Half h) {
  HalfQueue& half = at(q).half[h];
  half.ring = nullptr;
  if (half.length == 0) return;
  const uint64_t bytes = half.length * sizeof(contract::Descriptor);
  const Location at = context_.fabric.locate(half.base);
  if (at.space == Space::kHbm) half.ring = context_.fabric.direct(half.base, bytes);
}

bool DescriptorQueues::announce(uint32_t q, Half h, uint32_t n) {
  HalfQueue& half = at(q).half[h];
  if (n == 0 || half.pending > half.length || n > half.length - half.pending) return false;
  half.tail = half.tail.plus(n, half.length);
  half.pending += n;
  return true;
}

bool DescriptorQueues::request(uint32_t q, Half h) {
  HalfQueue& half = at(q).half[h];
  const uint32_t n = half.pending - half.requested;
  if (n == 0) return false;
  half.requested = half.pending;
  const base::Ps time = context_.events.now() + std::max<base::Ps>(context_.timing.dma_fetch, 1);
  arrivals_.push_back({time, n, half.generation, static_cast<uint8_t>(q), h});
  return true;
}

void DescriptorQueues::arrive(base::Ps until, bool m2s_stopped, bool s2m_stopped) {
  for (; next_arrival() <= until; ++arrived_) {
    const Arrival& arrival = arrivals_[arrived_];
    QueuePair& pair = at(arrival.queue);
    HalfQueue& half = pair.half[arrival.half];
    if (half.generation != arrival.generation) continue;
    if (arrival.half == kM2s ? m2s_stopped : s2m_stopped) {  // requested again after recovery
      half.requested -= arrival.count;
      continue;
    }
    half.visible += arrival.count;
    if (pair.half[kM2s].visible != 0) active_ |= 1u << arrival.queue;
  }
  if (arrived_ < arrivals_.size() && arrived_ < kManyArrivals) return;
  if (arrived_ == arrivals_.size()) {
    arrivals_.clear();
  } else {
    arrivals_.drop_front(arrived_);
  }
  arrived_ = 0;
}

bool DescriptorQueues::others_arrive(uint32_t q) const {
  for (size_t i = arrived_; i < arrivals_.size(); ++i) {
    if (arrivals_[i].queue != q) return true;
  }
  return false;
}

void DescriptorQueues::drop(uint32_t q, Half h) {
  QueuePair& pair = at(q);
  HalfQueue& half = pair.half[h];
  half.pending = half.requested = half.visible = 0;
  ++half.generation;
  if (h == kS2m) return;
  pair.sent = 0;
  active_ &= ~(1u << q);
}

void DescriptorQueues::reset(uint32_t q, Half h) {
  drop(q, h);
  QueuePair& pair = at(q);
  pair.half[h].tail = pair.half[h].current = RingPointer{};
  if (h == kS2m) return;
  pair.visible_at = pair.barrier_until = 0;
  pair.dmb_waits = pair.dmb_released = false;
}

void DescriptorQueues::reset() {
  arrivals_.clear();
  arrived_ = 0;
  for (uint32_t q = 0; q < kQueues; ++q) {
    if (queues_[q] == nullptr) continue;
    for (Half h : {kM2s, kS2m}) {
      reset(q, h);
      HalfQueue& half = queues_[q]->half[h];
      half.base = 0;
      half.length = 0;
      half.ring = nullptr;
    }
  }
}

}  // namespace hw
