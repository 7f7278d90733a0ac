// What a packet of the UDMA engine does when it has ended: descriptors are consumed, payload moves
// or is elided, signals take effect.
#include <algorithm>
#include <cstring>

#include "hw/dma/udma_engine.h"

namespace hw {

bool UdmaEngine::elided(const Packet& packet) const {
  return context_.timing_only && packet.bytes / packet.copies > context_.real_bytes &&
         index_ < context_.fabric.address_map().compute_engines();
}

// The plain memory behind a buffer, or null.
Memory* UdmaEngine::memory_of(const Buffer& b, Half h, uint64_t* offset) {
  const Route& route = context_.routes.find(domain_, b.address, h == kS2m);
  *offset = route.offset + (b.address - route.begin);
  return route.memory;
}

bool UdmaEngine::reads_elided(const Buffer* buffers, const Packet& packet) {
  for (uint32_t i = 0; i < packet.sources; ++i) {
    uint64_t offset = 0;
    Memory* memory = memory_of(buffers[i], kM2s, &offset);
    if (memory != nullptr && memory->elided().overlaps(offset, buffers[i].length)) return true;
  }
  return false;
}

// Timing-only: bytes that were not computed stay known as such wherever they are copied; where they
// would leave device memory (to the host, into a register) somebody reads them.
void UdmaEngine::track_elision(const Buffer* buffers, const Packet& packet, bool elided) {
  const bool stale = elided || reads_elided(buffers, packet);
  bool read = false;
  for (uint32_t i = packet.sources; i < packet.sources + packet.destinations; ++i) {
    uint64_t offset = 0;
    Memory* memory = memory_of(buffers[i], kS2m, &offset);
    if (memory == nullptr) {
      read = read || (stale && !elided);
    } else if (stale) {
      memory->elided().add(offset, buffers[i].length);
    } else {
      memory->elided().remove(offset, buffers[i].length);
    }
  }
  context_.counters.elided_reads += read ? 1 : 0;
}

void UdmaEngine::count(const Packet& packet) {
  Counters& c = context_.counters;
  c.packets += packet.partial ? 0 : 1;
  c.compute_packets += packet.compute ? 1 : 0;
  c.descriptors += uint64_t{packet.tx_descriptors} + packet.rx_descriptors;
  c.bytes += packet.bytes;
  if (context_.tracer == nullptr) return;
  uint32_t& track = queue(packet.queue).track;
  if (track == ~0u) {
    track = context_.tracer->track(name() + ".q" + std::to_string(packet.queue));
  }
  context_.tracer->span(track, packet.start, packet.end,
                        packet.sources > 1 && packet.compute ? "reduce"
                        : packet.signal                      ? "signal"
                                                             : "copy",
                        packet.bytes);
}

void UdmaEngine::complete(Packet& packet) {
  Queue& q = queue(packet.queue);
  const RingPointer first = q.half[kM2s].current;
  const uint32_t n[2] = {packet.tx_descriptors, packet.rx_descriptors};
  for (Half h : {kM2s, kS2m}) {
    if (q.half[h].generation == packet.generation[h]) consume(q, h, n[h]);
  }
  if (q.half[kM2s].visible == 0) active_ &= ~(1u << packet.queue);
  note(kM2s, packet.noted[kM2s]);
  note(kS2m, packet.noted[kS2m]);
  const uint32_t whole = q.sent + packet.bytes;
  if (q.half[kM2s].generation == packet.generation[kM2s]) {
    q.sent = packet.partial ? whole : 0;
    q.dmb_released = false;
  }
  count(packet);
  if (traced() && !packet.partial) post_trace(packet, first, whole);
  if (packet.signal) {
    defer(packet);
    return;
  }
  const Buffer* buffers = run_.buffers.data() + packet.first_buffer;
  if (packet.outward) {
    const Mover::Outcome outcome = outward_->outcome();
    outward_.reset();
    if (context_.timing_only) track_elision(buffers, packet, false);
    raise(kM2s, outcome.m2s);
    raise(kS2m, outcome.s2m);
    return;
  }
  if (elided(packet)) {
    context_.counters.elided_bytes += packet.bytes;
    track_elision(buffers, packet, true);
    return;
  }
  if (context_.timing_only) track_elision(buffers, packet, false);
  const bool scaled = packet.compute && packet.operation.op == contract::ReduceOp::kFma;
  const Scales* scales = scaled ? &run_.scales[packet.scales] : nullptr;
  const Mover::Outcome outcome = packet.compute
                                     ? mover_.compute(buffers, packet, scales, context_.timing_only)
                                     : mover_.copy(buffers, packet, context_.timing_only);
  raise(kM2s, outcome.m2s);
  raise(kS2m, outcome.s2m);
}

// Starts what happens outside of the machine, and says whether there is still something to wait
// for.
bool UdmaEngine::begin_outward(const Packet& packet) {
  if (outward_ != nullptr) return !outward_over_;
  const uint32_t number = ++outward_number_;
  const bool scaled = packet.compute && packet.operation.op == contract::ReduceOp::kFma;
  outward_over_ = false;
  outward_ = std::make_shared<OutwardTransfer>(
      context_.fabric, packet, run_.buffers.data() + packet.first_buffer,
      scaled ? &run_.scales[packet.scales] : nullptr, [this, number] {
        context_.events.schedule(key(context_.events.now() + 1, Phase::kEffect), *this,
                                 kTagAnswered, number);
      });
  outward_over_ = !outward_->go_on(mover_);
  return !outward_over_;
}

// The packet ends when the last one outside has answered.
void UdmaEngine::answered(base::Ps at) {
  if (outward_->go_on(mover_)) return;
  outward_over_ = true;
  Packet& packet = run_.packets[run_.done];
  packet.end = at;
  packet.visible = std::max(packet.visible, at);
  Queue& q = queue(packet.queue);
  q.visible_at = std::max(q.visible_at, packet.visible);
  if (packet.write_barrier) q.barrier_until = packet.visible;
  start_event_ = context_.events.schedule(key(at, Phase::kStart), *this, kTagStart);
}

// A signal's source is read now, at its end; its writes take effect when it is acknowledged.
void UdmaEngine::defer(const Packet& packet) {
  const uint32_t slot = context_.deferred.add();
  DeferredSignal& d = context_.deferred[slot];
  const Buffer* buffers = run_.buffers.data() + packet.first_buffer;
  const Buffer* targets = buffers + packet.sources;
  d.words = packet.destinations;
  bool words = d.words <= DeferredSignal::kWords && packet.bytes == d.words * sizeof(uint32_t);
  for (uint32_t i = 0; i < d.words && words; ++i) {
    words = targets[i].length == sizeof(uint32_t);
    d.targets[i] = targets[i].address;
  }
  if (!words) {
    d.rest = std::make_unique<DeferredSignal::Long>();
    d.rest->targets.assign(targets, targets + packet.destinations);
    d.rest->data.resize(packet.bytes);
  }
  if (!read_signal(packet,
                   words ? reinterpret_cast<uint8_t*>(d.data.data()) : d.rest->data.data())) {
    context_.deferred.take(slot);
    raise(kM2s, m2s_cause::kDataRead);
    return;
  }
  ++deferred_;
  d.engine = this;
  d.event = context_.events.schedule(key(packet.visible, Phase::kEffect), *this, kTagEffect, slot);
}

// Signals that have not taken effect never will.
void UdmaEngine::drop_deferred() {
  for (size_t slot = 0; deferred_ != 0; ++slot) {
    DeferredSignal& d = context_.deferred[slot];
    if (d.engine != this) continue;
    context_.events.cancel(d.event);
    d.engine = nullptr;
    context_.deferred.take(slot);
    --deferred_;
  }
}

bool UdmaEngine::read_signal(const Packet& packet, uint8_t* to) {
  const Buffer* buffers = run_.buffers.data() + packet.first_buffer;
  uint64_t left = packet.bytes;
  bool elided = false;
  for (uint32_t i = 0; i < packet.sources && left != 0; ++i) {
    const uint64_t n = std::min<uint64_t>(buffers[i].length, left);
    uint64_t offset = 0;
    Memory* memory = memory_of(buffers[i], kM2s, &offset);
    const uint8_t* from = memory != nullptr ? memory->at(offset, n) : nullptr;
    if (from != nullptr) {
      elided = elided || (context_.timing_only && memory->elided().overlaps(offset, n));
      std::memcpy(to, from, n);
    } else if (!mover_.read(buffers[i].address, to, n)) {
      return false;
    }
    to += n;
    left -= n;
  }
  context_.counters.elided_reads += elided ? 1 : 0;
  return true;
}

void UdmaEngine::effect(uint64_t slot) {
  // A write may come back to this engine (a doorbell, a reset): the signal is over before.
  context_.deferred[slot].engine = nullptr;
  const DeferredSignal d = context_.deferred.take(slot);
  --deferred_;
  if (d.rest == nullptr) {
    for (uint32_t i = 0; i < d.words; ++i) {
      write_signal({d.targets[i], sizeof(uint32_t)}, &d.data[i]);
    }
    return;
  }
  const uint8_t* from = d.rest->data.data();
  for (const Buffer& b : d.rest->targets) {
    write_signal(b, from);
    from += b.length;
  }
}

void UdmaEngine::write_signal(const Buffer& b, const void* from) {
  const auto* bytes = static_cast<const uint8_t*>(from);
  const Route& route = context_.routes.find(domain_, b.address, true);
  bool ok = false;
  if (route.block != nullptr) {
    // Targets only read from the buffer of a write.
    ok = route.block->access(route.offset + (b.address - route.begin), const_cast<uint8_t*>(bytes),
                             b.length, true, false);
    if (ok) ++context_.counters.register_writes;
  } else {
    ok = context_.fabric.write(b.address, {bytes, b.length});
  }
  if (!ok) raise(kS2m, s2m_cause::kDataWrite);
}

}  // namespace hw
