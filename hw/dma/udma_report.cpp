// What a DMA engine tells: counters, spans and DMA-trace entries of its packets, and what it waits
// for when the machine hangs.
#include <cstdio>

#include "hw/dma/dma.h"
#include "hw/dma/udma_engine.h"

namespace hw {

namespace udma = contract::udma;

namespace {

std::string hex_word(uint32_t value) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%x", value);
  return text;
}

}  // namespace

void UdmaEngine::who_waits(std::vector<std::string>& lines) const {
  if (aborted(kM2s) || aborted(kS2m)) {
    constexpr uint32_t kCause = udma::kSecondaryIrq + udma::kSecondaryIrqCause;
    lines.push_back(name() + " has aborted, M2S cause " + hex_word(value(kCause, kM2s)) +
                    ", S2M cause " + hex_word(value(kCause, kS2m)));
  }
  for (uint32_t q = 0; q < kQueues; ++q) {
    const QueuePair* queue = queues_.touched(q);
    if (queue == nullptr) continue;
    const HalfQueue& tx = queue->half[kM2s];
    const HalfQueue& rx = queue->half[kS2m];
    // Receive descriptors may wait for data that nobody sends; send descriptors may not.
    if (tx.pending == 0) continue;
    std::string line = name() + ".q" + std::to_string(q) + " waits with " +
                       std::to_string(tx.pending) + " send and " + std::to_string(rx.pending) +
                       " receive descriptors";
    if (!enabled(q, kM2s) || !enabled(q, kS2m)) line += ", and is not enabled";
    if ((unanswered_ >> q & 1) != 0) line += ", for a chip that is not connected";
    lines.push_back(std::move(line));
  }
}

// DMA-trace notifications (docs/hardware-contract.md 4).
void UdmaEngine::post_trace(const PlannedPacket& planned, RingPointer first, uint32_t bytes) {
  const Packet& packet = planned.packet;
  contract::NqEntry entry;
  entry.header = contract::NqEntry::make_header(contract::NqType::kTraceDma, packet.queue, false);
  entry.payload = bytes;
  entry.timestamp = planned.end;
  entry.debug_id = planned.start;
  entry.pc = first.word();
  entry.info = packet.tx_descriptors | packet.rx_descriptors << 16;
  trace_queue_->post(0, entry);
}

// Returns the trace's flow that leads away from a signal.
uint64_t UdmaEngine::count(const PlannedPacket& planned) {
  const Packet& packet = planned.packet;
  Counters& c = context_.counters;
  c.packets += packet.partial ? 0 : 1;
  c.compute_packets += packet.compute ? 1 : 0;
  c.descriptors += uint64_t{packet.tx_descriptors} + packet.rx_descriptors;
  c.bytes += packet.bytes;
  if (context_.tracer == nullptr) return 0;
  uint32_t& track = queues_.at(packet.queue).track;
  if (track == ~0u) {
    track = context_.tracer->track(name() + ".q" + std::to_string(packet.queue));
  }
  const bool reduces = packet.sources > 1 && packet.compute;
  const uint64_t flow = packet.signal ? context_.tracer->new_flow() : 0;
  context_.tracer->span(track, planned.start, planned.end,
                        reduces         ? "reduce"
                        : packet.signal ? "signal"
                                        : "copy",
                        packet.bytes, flow);
  return flow;
}

void Dma::who_waits(std::vector<std::string>& lines) const {
  for (const auto& engine : engines_) {
    if (engine != nullptr) engine->who_waits(lines);
  }
}

}  // namespace hw
