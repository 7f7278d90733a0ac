// The packets that a DMA engine executes, in order, and behind them the candidate: the one that is
// being assembled. It lies where it will stay, so that taking it costs nothing; nothing has changed
// for it, and nothing has to be undone when it is not taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "hw/dma/packet.h"
#include "hw/dma/small_vector.h"

namespace hw {

// Aligned, and two lines of the host's caches long.
struct alignas(64) PlannedPacket {
  Packet packet;
  base::Ps start = 0;
  base::Ps end = 0;
  base::Ps visible = 0;       // when its writes are acknowledged
  uint32_t first_buffer = 0;  // sources, then destinations
  uint32_t scales = 0;        // index, of an fma packet
};

class PacketList {
 public:
  size_t size() const { return packets_.size(); }
  PlannedPacket& operator[](size_t i) { return packets_[i]; }
  PlannedPacket& back() { return packets_.back(); }
  PlannedPacket* begin() { return packets_.begin(); }
  PlannedPacket* end() { return packets_.end(); }
  const Buffer* buffers(const PlannedPacket& p) const { return buffers_.data() + p.first_buffer; }
  const Scales* scales(const PlannedPacket& p) const {
    return p.packet.scaled() ? &scales_[p.scales] : nullptr;
  }

  // An empty one, in place of the last. Made where it stays, like its buffers: a temporary would go
  // through the stack in pieces that do not fit.
  Packet& begin_candidate() {
    candidate_ = new (&packets_.spare()) PlannedPacket;
    if (size() != 0) {
      const PlannedPacket& last = back();
      candidate_->first_buffer = last.first_buffer + last.packet.sources + last.packet.destinations;
      candidate_->scales = last.scales + (last.packet.scaled() ? 1 : 0);
    }
    buffers_.truncate(candidate_->first_buffer);
    return candidate_->packet;
  }
  Packet& candidate() { return candidate_->packet; }
  const Packet& candidate() const { return candidate_->packet; }
  Buffer* candidate_buffers() { return buffers_.data() + candidate_->first_buffer; }
  void add_buffer(uint64_t address, uint32_t bytes) {
    new (&buffers_.spare()) Buffer(address, bytes);
    buffers_.extend();
  }
  // Of an fma packet.
  Scales& candidate_scales() {
    const size_t at = candidate_->scales;
    if (scales_.size() <= at) scales_.resize(at + 1);
    return scales_[at];
  }
  void take_candidate() { packets_.extend(); }

  // To at most the present size.
  void truncate(size_t size) { packets_.truncate(size); }
  void clear() {
    packets_.clear();
    buffers_.clear();
  }

 private:
  // A burst of two, and the signal behind it.
  SmallVector<PlannedPacket, 3> packets_;
  SmallVector<Buffer, 8> buffers_;
  PlannedPacket* candidate_ = nullptr;
  std::vector<Scales> scales_;
};

}  // namespace hw
