// Descriptor fetch, packet assembly and checks of the UDMA engine (spec/hw-registers.md 3.5, 3.6,
// 3.9).
#include <algorithm>
#include <cstring>

#include "hw/dma/udma_engine.h"

namespace hw {

namespace udma = contract::udma;
namespace desc = contract::desc;
using contract::Descriptor;

namespace {
constexpr uint32_t kSignalBytes = 8;  // a flag word in host memory is at most this long
constexpr uint64_t kWord = 4;         // of a signal to a register
// Operation word: swaps and CRC calculations [18:6]; "copy source data" [19]; type [22:20] (3.5).
constexpr uint32_t kTransforms = 0x0007'FFC0;
constexpr uint32_t kCopySource = 1u << 19;
constexpr contract::Field kType{20, 3};
constexpr uint32_t kDualBuffer = 1u << 31;  // S2M word 0

bool known_operation(uint32_t w1, bool compute) {
  if (desc::operation(w1) != desc::operation(compute ? desc::kOpCompute : desc::kOpCopy)) {
    return false;
  }
  if ((w1 & kTransforms) != 0 || (w1 & kCopySource) == 0) return false;
  return compute || kType.get(w1) == 0;
}
}  // namespace

bool UdmaEngine::read_descriptor(uint64_t address, Descriptor& to) {
  if (const uint8_t* at = context_.fabric.direct(address, sizeof to)) {
    to = base::load<Descriptor>(at);
    return true;
  }
  uint8_t bytes[sizeof to];
  if (context_.fabric.is_register(address)) return false;
  if (!context_.fabric.read(address, {bytes, sizeof bytes})) return false;
  to = base::load<Descriptor>(bytes);
  return true;
}

bool UdmaEngine::fetch(const HalfQueue& half, RingPointer from, Descriptor& to) {
  const uint64_t at = from.index * sizeof(Descriptor);
  if (half.ring == nullptr) return read_descriptor(half.base + at, to);
  to = base::load<Descriptor>(half.ring + at);
  return true;
}

UdmaEngine::Assembly UdmaEngine::fail(Packet& packet, Half h, uint32_t cause) {
  packet.errors[h] |= cause;
  return Assembly::kError;
}

bool UdmaEngine::abort_masked(Half h, uint32_t cause) const {
  return (value(udma::kSecondaryIrq + udma::kSecondaryIrqAbortMask, h) & cause) == cause;
}

// A mismatch that does not abort is noted and the descriptor used, which lets rings be replayed.
bool UdmaEngine::wrong_ring_id(Half h, Packet& packet) {
  const uint32_t cause = h == kM2s ? m2s_cause::kRingId : s2m_cause::kRingId;
  const bool masked = config_.ring_id_masked[h];
  (masked ? packet.noted : packet.errors)[h] |= cause;
  return !masked;
}

// A metadata slot; those that open no packet bring a new constant.
void UdmaEngine::take_slot(Packet& packet, const Descriptor& d, float& scale) {
  if (packet.tx_descriptors == 1) {
    packet.compute = true;
    packet.operation.take(d);
    if (packet.operation.op == contract::ReduceOp::kFma) {
      packet.scales = static_cast<uint32_t>(run_.scales.size());
      run_.scales.emplace_back();
    }
  }
  const auto slot = contract::DmaCompute::unpack(d);
  if (slot.has_constant && slot.op == contract::ReduceOp::kFma) {
    scale = base::load<float>(&slot.constant_bits);
  }
}

// False if there are too many sources.
bool UdmaEngine::take_source(Packet& packet, const Descriptor& d, float scale) {
  const uint32_t raw = d.w0 & desc::kLengthMask;
  const uint32_t length = raw == 0 && !config_.zero_is_64k ? 0 : desc::length(d.w0);
  if (packet.compute) {
    if (packet.sources == kMaxSources) return false;
    if (packet.operation.op == contract::ReduceOp::kFma) {
      base::store(&run_.scales[packet.scales][packet.sources], scale);
    }
  }
  run_.buffers.push_back({d.address, length});
  ++packet.sources;
  packet.source_bytes += length;
  return true;
}

UdmaEngine::Assembly UdmaEngine::assemble_tx(Queue& queue, uint32_t offset, Packet& packet) {
  const HalfQueue& half = queue.half[kM2s];
  const uint32_t available = half.visible - offset;
  RingPointer at = half.current.plus(offset, half.length);
  float scale = 1.0F;
  for (uint32_t i = 0;; ++i, at = at.plus(1, half.length)) {
    if (i == available) return Assembly::kNone;
    if (i == config_.max_descriptors) return fail(packet, kM2s, m2s_cause::kTooManyDescriptors);
    Descriptor d;
    packet.tx_descriptors = i + 1;
    if (!fetch(half, at, d)) return fail(packet, kM2s, m2s_cause::kDescriptorRead);
    if (desc::ring_id(d.w0) != at.ring_id && wrong_ring_id(kM2s, packet)) return Assembly::kError;
    if (i == 0 && (d.w0 & desc::kFirst) == 0) return fail(packet, kM2s, m2s_cause::kFirst);
    if (i != 0 && (d.w0 & desc::kFirst) != 0) {
      packet.tx_descriptors = i;  // the new FIRST belongs to the next packet
      return fail(packet, kM2s, m2s_cause::kLast);
    }
    const bool meta = (d.w0 & desc::kMeta) != 0;
    if (meta && (i == 0 || packet.compute)) take_slot(packet, d, scale);
    if (!known_operation(d.w1, packet.compute) || (meta && !packet.compute)) {
      return fail(packet, kM2s, m2s_cause::kStreamResponse);
    }
    packet.dmb |= (d.w0 & desc::kDmb) != 0;
    packet.write_barrier |= (d.w1 & desc::kWriteBarrier) != 0;
    if (!meta) {
      if (!take_source(packet, d, scale)) return fail(packet, kS2m, s2m_cause::kLengthMismatch);
      if (packet.source_bytes > config_.max_bytes) {
        return fail(packet, kM2s, m2s_cause::kPacketTooLong);
      }
    }
    if ((d.w0 & desc::kLast) != 0) return Assembly::kPacket;
  }
}

// All sources of a compute packet hold the same number of elements, and there are as many as
// announced.
bool UdmaEngine::compute_shape(Packet& packet) {
  const contract::DmaCompute& op = packet.operation;
  const uint32_t source_size = contract::dtype_size(op.src);
  const uint32_t size = contract::dtype_size(op.dst);
  if (source_size == 0 || size == 0 || packet.sources != op.sources ||
      op.op > contract::ReduceOp::kMin || op.constant_kind > 2) {
    return false;
  }
  const uint32_t each = run_.buffers[packet.first_buffer].length;
  for (uint32_t i = 1; i < packet.sources; ++i) {
    if (run_.buffers[packet.first_buffer + i].length != each) return false;
  }
  if (each == 0 || each % source_size != 0) return false;
  packet.copies = op.copies;
  packet.bytes = each / source_size * size * packet.copies;
  return true;
}

// Leaves of the packet's sources `bytes` bytes after the first `skip`. What is left out becomes
// empty.
void UdmaEngine::take_sources(Packet& packet, uint32_t skip, uint32_t bytes) {
  for (uint32_t i = 0; i < packet.sources; ++i) {
    Buffer& b = run_.buffers[packet.first_buffer + i];
    const uint32_t skipped = std::min(skip, b.length);
    b.address += skipped;
    b.length = std::min(b.length - skipped, bytes);
    skip -= skipped;
    bytes -= b.length;
  }
}

// A receive descriptor is finished when it is full or the packet ends; every packet takes one.
// Where they do not suffice, those that are there take the first part of a copy. Of several copies
// each fills its descriptors exactly.
UdmaEngine::Assembly UdmaEngine::assemble_rx(Queue& queue, uint32_t offset, Packet& packet) {
  const HalfQueue& half = queue.half[kS2m];
  uint32_t left = packet.bytes;
  RingPointer at = half.current.plus(offset, half.length);
  for (uint32_t i = 0; i == 0 || left != 0; ++i, at = at.plus(1, half.length)) {
    if (offset + i >= half.visible) {
      if (i == 0 || packet.compute) return Assembly::kNone;
      packet.partial = true;
      packet.bytes -= left;
      packet.tx_descriptors = 0;
      return Assembly::kPacket;
    }
    Descriptor d;
    packet.rx_descriptors = i + 1;
    if (!fetch(half, at, d)) return fail(packet, kS2m, s2m_cause::kDescriptorRead);
    if (desc::ring_id(d.w0) != at.ring_id && wrong_ring_id(kS2m, packet)) return Assembly::kError;
    const uint32_t length = std::min(desc::length(d.w0), left);
    if (packet.copies > 1) {
      const uint32_t of_copy = (left - 1) % (packet.bytes / packet.copies) + 1;
      if (desc::length(d.w0) > of_copy) return fail(packet, kS2m, s2m_cause::kLengthMismatch);
    }
    // Strong-order writes act as a barrier on that write (spec/hw-registers.md 3.6 rule 12).
    packet.write_barrier |= (d.w0 & desc::kStrongOrder) != 0 && !context_.fabric.address_map().v2();
    if ((d.w0 & kDualBuffer) != 0) {
      context_.log.count("udma", AccessLog::Kind::kUnsupported, "second buffer of a descriptor",
                         false);
    }
    run_.buffers.push_back({d.address, length});
    ++packet.destinations;
    left -= length;
  }
  return Assembly::kPacket;
}

// The bytes of a copy that takes as long on the engine. A copy takes as long as its bytes are
// written, each of its copies. A reduction reads its sources at the copy rate and makes its result
// at twice the accumulate factor: with factor 1/2 two sources take twice as long as a copy of the
// result; of small elements it makes so many in a time at most. Its copies are written meanwhile.
uint64_t UdmaEngine::engine_bytes(const Packet& packet) const {
  if (!packet.compute) return packet.bytes;
  const contract::DmaCompute& op = packet.operation;
  if (op.plain()) return packet.bytes;
  const TimingParams& timing = context_.timing;
  const uint64_t result = packet.bytes / packet.copies;
  const uint64_t den = timing.dma_accumulate_den;
  const uint64_t num = timing.dma_accumulate_num;
  const uint64_t read = packet.source_bytes * den / (2 * num);
  uint64_t bytes = std::max({read, result * den / num, uint64_t{packet.bytes}});
  // The only published trace of a limit by elements is that of 8-bit ones.
  if (packet.sources > 1 && contract::dtype_size(op.dst) == 1) {
    const base::Ps floor = timing.dma_compute.time_for(result);
    bytes = std::max(bytes, resource_.rate().bytes_in(floor));
  }
  return bytes;
}

// Charges what the buffers of a route occupy.
void UdmaEngine::charge(const Packet& packet, SameRoute& same) {
  if (same.route == nullptr) return;
  for (const Route::Share& share : same.route->shares) {
    const uint64_t bytes = share.times * same.bytes;
    context_.charges.add(*share.resource, bytes, 0, packet.signal ? bytes / sizeof(uint32_t) : 0);
  }
  same = {};
}

// Where a buffer lies. What it occupies is charged with the next ones of the same route.
Space UdmaEngine::look(Packet& packet, const Buffer& b, Half h, SameRoute& same) {
  if (same.route == nullptr || !same.route->holds(b.address, Routes::kind(domain_, h == kS2m))) {
    charge(packet, same);
    same.route = &context_.routes.find(domain_, b.address, h == kS2m);
    base::Ps& latency = h == kM2s ? packet.read_latency : packet.write_latency;
    latency = std::max(latency, same.route->latency);
  }
  same.bytes += b.length;
  return b.length <= same.route->left(b.address) ? same.route->space
                                                 : context_.fabric.reach(b.address, b.length);
}

// Finds accesses that cannot succeed, and signals; charges what can.
void UdmaEngine::look_at_sources(Packet& packet) {
  const Buffer* buffers = run_.buffers.data() + packet.first_buffer;
  SameRoute same;
  for (uint32_t i = 0; i < packet.sources; ++i) {
    const Buffer& b = buffers[i];
    if (b.length == 0) continue;
    switch (look(packet, b, kM2s, same)) {
      case Space::kNone:
        packet.errors[kM2s] |= m2s_cause::kDataRead;
        break;
      case Space::kRegister:
        packet.reads_register = true;
        if (b.address % 4 != 0 || b.length % 4 != 0) packet.errors[kM2s] |= m2s_cause::kDataRead;
        break;
      case Space::kForeign:
        packet.outward = true;
        break;
      case Space::kHost:
        packet.outward = packet.outward || context_.fabric.asks_host(b.address);
        break;
      case Space::kNoLink:
        packet.unanswered = true;
        break;
      default:
        break;
    }
  }
  charge(packet, same);
}

void UdmaEngine::look_at_destinations(Packet& packet) {
  const Buffer* buffers = run_.buffers.data() + packet.first_buffer;
  SameRoute same;
  for (uint32_t i = packet.sources; i < packet.sources + packet.destinations; ++i) {
    const Buffer& b = buffers[i];
    if (b.length == 0) continue;
    switch (look(packet, b, kS2m, same)) {
      case Space::kNone:
        packet.errors[kS2m] |= s2m_cause::kDataWrite;
        break;
      case Space::kRegister:
        packet.signal = true;
        if (b.address % 4 != 0 || b.length != 4 || packet.compute) {
          packet.errors[kS2m] |= s2m_cause::kDataWrite;
        }
        break;
      case Space::kForeign:
        packet.outward = true;
        break;
      case Space::kHost:
        packet.signal |= packet.bytes <= kSignalBytes && !packet.compute;
        packet.outward = packet.outward || context_.fabric.asks_host(b.address);
        break;
      case Space::kNoLink:
        packet.unanswered = true;
        break;
      default:
        break;
    }
  }
  charge(packet, same);
}

// Of a packet with all its descriptors. Destinations come first: they tell whether it is a signal.
UdmaEngine::Assembly UdmaEngine::judge(Packet& packet, bool stalled, bool joins) {
  if (packet.partial) take_sources(packet, 0, packet.bytes);
  if (!joins) context_.charges.open();
  packet.first_charge = static_cast<uint32_t>(context_.charges.size());
  look_at_destinations(packet);
  look_at_sources(packet);
  context_.charges.add(resource_, engine_bytes(packet),
                       context_.timing.dma_buffer * std::max(packet.sources, packet.destinations));
  packet.charges = static_cast<uint32_t>(context_.charges.size()) - packet.first_charge;
  if (packet.errors[kM2s] != 0 || packet.errors[kS2m] != 0) return Assembly::kError;
  if (packet.unanswered || (packet.outward && joins)) return Assembly::kNone;
  if (packet.outward) packet.signal = false;  // takes effect when those outside say so
  return stalled ? Assembly::kStalled : Assembly::kPacket;
}

// A signal may be one more than the others: by its size, as nobody has looked at its addresses.
bool UdmaEngine::fits(const Packet& packet, const Behind& behind) const {
  const bool words = packet.bytes <= std::max<uint64_t>(kSignalBytes, kWord * packet.destinations);
  const uint64_t most = context_.timing.dma_burst_packets;
  return !packet.partial && !packet.dmb && behind.packets < most + (words && most != 0 ? 1 : 0);
}

// Charges the packets of a burst again, without one that cannot execute.
void UdmaEngine::charge_again() {
  context_.charges.clear();
  bool joins = false;
  for (Packet& packet : run_.packets) {
    judge(packet, false, joins);
    joins = true;
  }
}

// Appends the packet behind others to the run. kNone: not all descriptors are there, or it does not
// fit in the burst. kStalled: a DMB waits for earlier writes. kError: the appended packet carries
// causes and must not execute; such a packet joins no burst.
UdmaEngine::Assembly UdmaEngine::assemble(uint32_t q, const Behind& behind, base::Ps at) {
  Queue& queue = *queues_[q];
  if (!config_.known) configure();
  const HalfQueue& tx = queue.half[kM2s];
  const HalfQueue& rx = queue.half[kS2m];
  const bool scheduled = (config_.scheduled >> q & 1) != 0 && tx.length != 0 && rx.length != 0;
  if (tx.visible == behind.tx || !scheduled) return Assembly::kNone;
  const size_t buffers = run_.buffers.size();
  const size_t scales = run_.scales.size();
  const Charges::Mark charges = context_.charges.mark();
  Packet& packet = run_.packets.push_back({});
  packet.queue = static_cast<uint8_t>(q);
  packet.first_buffer = static_cast<uint32_t>(buffers);
  packet.generation[kM2s] = tx.generation;
  packet.generation[kS2m] = rx.generation;
  Assembly result = assemble_tx(queue, behind.tx, packet);
  if (result == Assembly::kPacket) {
    const uint32_t sent = behind.tx == 0 ? std::min(queue.sent, packet.source_bytes) : 0;
    packet.bytes = packet.source_bytes - sent;
    if (sent != 0) take_sources(packet, sent, packet.bytes);
    if (packet.compute && !compute_shape(packet)) {
      result = fail(packet, kS2m, s2m_cause::kLengthMismatch);
    }
  }
  if (result == Assembly::kPacket) result = assemble_rx(queue, behind.rx, packet);
  if (result == Assembly::kPacket && behind.joins && !fits(packet, behind)) {
    result = Assembly::kNone;
  }
  const bool judged = result == Assembly::kPacket;
  if (judged) {
    const bool goes_on = behind.tx == 0 && (queue.dmb_released || queue.sent != 0);
    const bool dmb = packet.dmb && !goes_on && (config_.dmb_ignored >> q & 1) == 0;
    result = judge(packet, dmb && at < queue.visible_at, behind.joins);
    // The queue stands still from here on; others go on.
    if (packet.unanswered && result == Assembly::kNone && behind.tx == 0) unanswered_ |= 1u << q;
  }
  if (result != Assembly::kPacket) context_.charges.back_to(charges);
  if (result == Assembly::kNone || result == Assembly::kStalled ||
      (result == Assembly::kError && behind.joins)) {
    run_.buffers.truncate(buffers);
    run_.scales.resize(scales);
    run_.packets.pop_back();
    if (judged && behind.joins) charge_again();
  }
  return result;
}

}  // namespace hw
