#include "hw/core/dge.h"

#include <algorithm>

#include "contract/regs/udma.h"

namespace hw {

namespace desc = contract::desc;
namespace udma = contract::udma;
using contract::Descriptor;

// One direction of a queue.
struct DescriptorGenerator::RingState {
  uint64_t base = 0;
  uint32_t length = 0;
  uint32_t index = 0;
  uint32_t id = 0;
  uint32_t free = 0;
};

// Registers of M2S and S2M queues have equal offsets.
uint64_t DescriptorGenerator::registers(uint32_t queue, uint32_t e, bool receive) const {
  return fabric_.address_map().udma(first_engine_ + e).device + udma::kM2sQ +
         uint64_t{udma::kM2sQStride} * queue + (receive ? contract::kS2mOffset : 0);
}

std::optional<DescriptorGenerator::RingState> DescriptorGenerator::ring_state(uint64_t at) const {
  uint32_t low = 0;
  uint32_t high = 0;
  uint32_t tail = 0;
  uint32_t status = 0;
  RingState ring;
  const bool ok = fabric_.read32(at + udma::kM2sQRingBaseLo, low) &&
                  fabric_.read32(at + udma::kM2sQRingBaseHi, high) &&
                  fabric_.read32(at + udma::kM2sQRingLength, ring.length) &&
                  fabric_.read32(at + udma::kM2sQTail, tail) &&
                  fabric_.read32(at + udma::kM2sQStatus, status);
  ring.base = uint64_t{high} << 32 | low;
  ring.index = udma::kM2sQTailIndex.get(tail);
  ring.id = udma::kM2sQTailRingId.get(tail);
  const uint32_t used = udma::kM2sQStatusUsed.get(status);
  if (!ok || ring.index >= ring.length || used > ring.length) return std::nullopt;
  ring.free = ring.length - used;
  return ring;
}

bool DescriptorGenerator::ready(uint32_t queue, uint64_t most) const {
  if (queue >= kQueues) return false;
  for (uint32_t e = 0; e < contract::kDmaPerNc; ++e) {
    for (const bool receive : {false, true}) {
      const auto ring = ring_state(registers(queue, e, receive));
      if (!ring || ring->length < most) return false;
    }
  }
  return true;
}

bool DescriptorGenerator::fits(const GeneratedTransfer& transfer) const {
  for (uint32_t e = 0; e < contract::kDmaPerNc; ++e) {
    for (const bool receive : {true, false}) {
      const auto ring = ring_state(registers(transfer.queue, e, receive));
      if (!ring || ring->free < transfer.rings[e].list(receive).size()) return false;
    }
  }
  return true;
}

// The receiving side first (spec/hw-registers.md 0.2 rule 7).
void DescriptorGenerator::put(const Pending& pending, uint32_t e) {
  const GeneratedTransfer& transfer = pending.transfer;
  const auto acts = checker_ != nullptr ? check::Checker::Acting(*checker_, pending.release)
                                        : check::Checker::Acting();
  for (const bool receive : {true, false}) {
    const uint64_t at = registers(transfer.queue, e, receive);
    auto ring = ring_state(at);
    if (!ring) return;  // somebody has reset the queue meanwhile
    const std::vector<Descriptor>& list = transfer.rings[e].list(receive);
    for (Descriptor d : list) {
      d.w0 |= ring->id << desc::kRingIdShift;
      uint8_t bytes[sizeof d];
      base::store(bytes, d);
      fabric_.write(ring->base + uint64_t{ring->index} * sizeof d, {bytes, sizeof bytes});
      if (++ring->index < ring->length) continue;
      ring->index = 0;
      ring->id = (ring->id + 1) & 3;
    }
    fabric_.write32(at + udma::kM2sQTailInc, static_cast<uint32_t>(list.size()));
  }
}

base::Ps DescriptorGenerator::submit(GeneratedTransfer transfer, base::Ps at, base::Ps each,
                                     check::Release release) {
  base::Ps& next = next_[transfer.queue];
  const base::Ps when = std::max(at, next) + each * transfer.rings[0].pairs;
  next = when + timing_.dma_t0;
  held_ += transfer.descriptors();
  pending_.push_back({std::move(transfer), when, each, 0, false, std::move(release)});
  return when;
}

bool DescriptorGenerator::put_due(Pending* p, base::Ps now) {
  p->waits = p->ring == 0 && !fits(p->transfer);
  if (p->waits) {
    p->at = now + timing_.dma_t0;
    return false;
  }
  while (p->at <= now) {
    put(*p, p->ring);
    if (++p->ring == contract::kDmaPerNc) return true;
    p->at += p->each * p->transfer.rings[p->ring].pairs;
  }
  return false;
}

std::optional<DescriptorGenerator::Next> DescriptorGenerator::advance(base::Ps now) {
  std::array<bool, kQueues> held{};  // an earlier transfer of the queue has to go first
  std::optional<Next> again;
  for (size_t i = 0; i < pending_.size();) {
    Pending& p = pending_[i];
    bool& hold = held[p.transfer.queue];
    if (!hold && p.at <= now && put_due(&p, now)) {
      held_ -= p.transfer.descriptors();
      pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    if (!hold) {
      again = {again ? std::min(again->at, p.at) : p.at, p.waits && (!again || again->waits)};
    }
    hold = true;
    ++i;
  }
  return again;
}

std::optional<uint32_t> DescriptorGenerator::waits_for() const {
  for (const Pending& p : pending_) {
    if (p.waits) return p.transfer.queue;
  }
  return std::nullopt;
}

void DescriptorGenerator::reset() {
  pending_.clear();
  held_ = 0;
  next_ = {};
  busy_until_ = 0;
}

}  // namespace hw
