#include "hw/dma/packet_effects.h"

#include <algorithm>
#include <cstring>

namespace hw {

namespace {

bool reads_elided(const Buffer* buffers, const Packet& packet) {
  return std::any_of(buffers, buffers + packet.sources, [](const Buffer& b) {
    return b.in_memory() && b.by.memory->elided().overlaps(b.offset, b.length);
  });
}

}  // namespace

void PacketEffects::raise(const Mover::Outcome& outcome) {
  errors_.raise(kM2s, outcome.m2s);
  errors_.raise(kS2m, outcome.s2m);
}

bool PacketEffects::elided(const Packet& packet) const {
  return elides_ && packet.bytes / packet.copies > context_.real_bytes;
}

// Timing-only: bytes that were not computed stay known as such wherever they are copied; where they
// would leave device memory (to the host, into a register) somebody reads them.
void PacketEffects::track_elision(const Buffer* buffers, const Packet& packet, bool elided) {
  const bool stale = elided || reads_elided(buffers, packet);
  bool read = false;
  for (uint32_t i = packet.sources; i < packet.sources + packet.destinations; ++i) {
    const Buffer& b = buffers[i];
    if (b.length == 0) continue;
    if (!b.in_memory()) {
      read = read || (stale && !elided);
    } else if (stale) {
      b.by.memory->elided().add(b.offset, b.length);
    } else {
      b.by.memory->elided().remove(b.offset, b.length);
    }
  }
  context_.counters.elided_reads += read ? 1 : 0;
}

void PacketEffects::move(const Packet& packet, const Buffer* buffers, const Scales* scales) {
  if (elided(packet)) {
    context_.counters.elided_bytes += packet.bytes;
    track_elision(buffers, packet, true);
    return;
  }
  if (context_.timing_only) track_elision(buffers, packet, false);
  raise(mover_.move(buffers, packet, scales, context_.timing_only));
}

bool PacketEffects::begin_outward(const Packet& packet, const Buffer* buffers, const Scales* scales,
                                  const std::function<void(uint32_t number)>& answered) {
  if (outward_ != nullptr) return !outward_over_;
  const uint32_t number = ++number_;
  outward_over_ = false;
  outward_ = std::make_shared<OutwardTransfer>(context_.fabric, packet, buffers, scales,
                                               [answered, number] { answered(number); });
  return go_on_outward();
}

bool PacketEffects::go_on_outward() {
  outward_over_ = !outward_->go_on(mover_);
  return !outward_over_;
}

void PacketEffects::end_outward(const Packet& packet, const Buffer* buffers) {
  const Mover::Outcome outcome = outward_->outcome();
  outward_.reset();
  if (context_.timing_only) track_elision(buffers, packet, false);
  raise(outcome);
}

uint32_t PacketEffects::defer(const Packet& packet, const Buffer* buffers, uint64_t flow) {
  const uint32_t signal = context_.deferred.add();
  DeferredSignal& d = context_.deferred[signal];
  const Buffer* targets = buffers + packet.sources;
  d.words = packet.destinations;
  bool words = d.words <= DeferredSignal::kWords && packet.bytes == d.words * sizeof(uint32_t);
  for (uint32_t i = 0; i < d.words && words; ++i) {
    words = targets[i].length == sizeof(uint32_t);
    d.targets[i] = targets[i];
  }
  auto* to = reinterpret_cast<uint8_t*>(d.data.data());
  if (!words) {
    d.rest = std::make_unique<DeferredSignal::Long>();
    d.rest->targets.assign(targets, targets + packet.destinations);
    d.rest->data.resize(packet.bytes);
    to = d.rest->data.data();
  }
  if (!read_signal(packet, buffers, to)) {
    context_.deferred.take(signal);
    errors_.raise(kM2s, m2s_cause::kDataRead);
    return kNoSignal;
  }
  ++deferred_;
  d.owner = this;
  d.flow = flow;
  return signal;
}

void PacketEffects::drop_deferred() {
  for (size_t signal = 0; deferred_ != 0; ++signal) {
    DeferredSignal& d = context_.deferred[signal];
    if (d.owner != this) continue;
    context_.events.cancel(d.event);
    d.owner = nullptr;
    context_.deferred.take(signal);
    --deferred_;
  }
}

bool PacketEffects::read_signal(const Packet& packet, const Buffer* buffers, uint8_t* to) {
  uint64_t left = packet.bytes;
  bool elided = false;
  for (uint32_t i = 0; i < packet.sources && left != 0; ++i) {
    const Buffer& b = buffers[i];
    const uint64_t n = std::min<uint64_t>(b.length, left);
    if (!mover_.read(b, to, n)) return false;
    elided = elided ||
             (context_.timing_only && b.in_memory() && b.by.memory->elided().overlaps(b.offset, n));
    to += n;
    left -= n;
  }
  context_.counters.elided_reads += elided ? 1 : 0;
  return true;
}

void PacketEffects::take_effect(uint32_t signal) {
  // A write may come back to this engine (a doorbell, a reset): the signal is over before.
  context_.deferred[signal].owner = nullptr;
  const DeferredSignal d = context_.deferred.take(signal);
  --deferred_;
  const auto acts = d.release != nullptr
                        ? check::Checker::Acting(*context_.checker, std::move(*d.release))
                        : check::Checker::Acting();
  if (context_.tracer != nullptr) context_.tracer->set_applying(d.flow);
  write(d);
  if (context_.tracer != nullptr) context_.tracer->set_applying(0);
}

void PacketEffects::write(const DeferredSignal& d) {
  if (d.rest == nullptr) {
    for (uint32_t i = 0; i < d.words; ++i) {
      write_signal(d.targets[i], reinterpret_cast<const uint8_t*>(&d.data[i]));
    }
    return;
  }
  const uint8_t* from = d.rest->data.data();
  for (const Buffer& b : d.rest->targets) {
    write_signal(b, from);
    from += b.length;
  }
}

void PacketEffects::write_signal(const Buffer& target, const uint8_t* from) {
  bool ok = false;
  if (target.in_block()) {
    // Targets only read from the buffer of a write.
    ok = target.by.block->access(target.offset, const_cast<uint8_t*>(from), target.length, true,
                                 false);
    if (ok) ++context_.counters.register_writes;
  } else {
    ok = context_.fabric.write(target.address, {from, target.length});
  }
  if (!ok) errors_.raise(kS2m, s2m_cause::kDataWrite);
}

}  // namespace hw
