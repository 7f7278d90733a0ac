// Descriptor fetch, packet assembly and checks of the UDMA engine (hw-registers.md 3.5, 3.6, 3.9).
#include <algorithm>

#include "hw/dma/udma_engine.h"

namespace hw {

namespace udma = contract::udma;
namespace desc = contract::desc;
using contract::Descriptor;

namespace {
constexpr uint32_t kSignalBytes = 8;  // a flag word in host memory is at most this long
// A packet's M2S descriptors are held in the prefetch buffer (hw-registers.md 3.5).
constexpr uint32_t kMaxTxDescriptors = 128;
// Operation word: swaps and CRC calculations [18:6]; "copy source data" [19]; type [22:20] (3.5).
constexpr uint32_t kTransforms = 0x0007'FFC0;
constexpr uint32_t kCopySource = 1u << 19;
constexpr contract::Field kType{20, 3};
constexpr uint32_t kLenCfg = 0x010F'FFFF;
constexpr uint32_t kDualBuffer = 1u << 31;  // S2M word 0

bool known_operation(uint32_t w1, bool compute) {
  if (desc::operation(w1) != desc::operation(compute ? desc::kOpCompute : desc::kOpCopy)) {
    return false;
  }
  if ((w1 & kTransforms) != 0 || (w1 & kCopySource) == 0) return false;
  return compute || kType.get(w1) == 0;
}
}  // namespace

bool UdmaEngine::fetch(HalfQueue& half, uint32_t offset, Descriptor& to) {
  const uint64_t index = half.current.plus(offset, half.length).index;
  if (half.ring != nullptr) {
    to = base::load<Descriptor>(half.ring + index * sizeof(Descriptor));
    return true;
  }
  const uint64_t address = half.base + index * sizeof(Descriptor);
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

UdmaEngine::Assembly UdmaEngine::fail(Packet& packet, Half h, uint32_t cause) {
  packet.errors[h] |= cause;
  return Assembly::kError;
}

bool UdmaEngine::abort_masked(Half h, uint32_t cause) const {
  return (value(udma::kSecondaryIrq + udma::kSecondaryIrqAbortMask, h) & cause) == cause;
}

// A mismatch that does not abort is noted and the descriptor used, which lets rings be replayed.
bool UdmaEngine::check_ring_id(const HalfQueue& half, uint32_t offset, const Descriptor& d, Half h,
                               Packet& packet) {
  if (desc::ring_id(d.w0) == half.current.plus(offset, half.length).ring_id) return true;
  const uint32_t cause = h == kM2s ? m2s_cause::kRingId : s2m_cause::kRingId;
  const bool masked = abort_masked(h, cause);
  (masked ? packet.noted : packet.errors)[h] |= cause;
  return masked;
}

UdmaEngine::Assembly UdmaEngine::assemble_tx(Queue& queue, uint32_t offset, Packet& packet) {
  HalfQueue& half = queue.half[kM2s];
  // As after reset: nobody has configured it, which means no limit and length 0 as 64 KiB.
  const uint32_t len_cfg = value(udma::kM2sPktLenCfg) != 0 ? value(udma::kM2sPktLenCfg) : kLenCfg;
  const uint32_t max_bytes = udma::kM2sPktLenCfgMaxBytes.get(len_cfg);
  const uint32_t max_desc = udma::kM2sDescPrefCfg2MaxDesc.get(value(udma::kM2sDescPrefCfg2));
  const uint32_t limit_bytes = max_bytes == 0 ? desc::kMaxPacketBytes : max_bytes;
  const uint32_t limit_desc =
      max_desc == 0 ? kMaxTxDescriptors : std::min(max_desc, kMaxTxDescriptors);
  const uint32_t available = half.visible - offset;
  float scale = 1.0F;
  for (uint32_t i = 0;; ++i) {
    if (i == available) return Assembly::kNone;
    if (i == limit_desc) return fail(packet, kM2s, m2s_cause::kTooManyDescriptors);
    Descriptor d;
    packet.tx_descriptors = i + 1;
    if (!fetch(half, offset + i, d)) return fail(packet, kM2s, m2s_cause::kDescriptorRead);
    if (!check_ring_id(half, offset + i, d, kM2s, packet)) return Assembly::kError;
    if (i == 0 && (d.w0 & desc::kFirst) == 0) return fail(packet, kM2s, m2s_cause::kFirst);
    if (i != 0 && (d.w0 & desc::kFirst) != 0) {
      packet.tx_descriptors = i;  // the new FIRST belongs to the next packet
      return fail(packet, kM2s, m2s_cause::kLast);
    }
    const bool meta = (d.w0 & desc::kMeta) != 0;
    if (meta && i == 0) {
      packet.compute = true;
      packet.header = static_cast<uint32_t>(run_.headers.size());
      run_.headers.push_back({contract::DmaCompute::unpack(d), {}});
    }
    if (!known_operation(d.w1, packet.compute) || (meta && !packet.compute)) {
      return fail(packet, kM2s, m2s_cause::kStreamResponse);
    }
    packet.dmb |= (d.w0 & desc::kDmb) != 0;
    packet.write_barrier |= (d.w1 & desc::kWriteBarrier) != 0;
    if (meta) {
      const auto slot = contract::DmaCompute::unpack(d);
      if (slot.has_constant && slot.op == contract::ReduceOp::kFma) {
        scale = base::load<float>(&slot.constant_bits);
      }
    } else {
      const bool zero_is_64k = udma::kM2sPktLenCfgZeroIs64k.get(len_cfg) != 0;
      const uint32_t raw = d.w0 & desc::kLengthMask;
      const uint32_t length = raw == 0 && !zero_is_64k ? 0 : desc::length(d.w0);
      if (packet.compute) {
        ComputeHeader& header = run_.headers[packet.header];
        if (packet.sources == kMaxSources) return fail(packet, kS2m, s2m_cause::kLengthMismatch);
        base::store(&header.scale_bits[packet.sources], scale);
      }
      run_.buffers.push_back({d.address, length});
      ++packet.sources;
      packet.source_bytes += length;
      if (packet.source_bytes > limit_bytes) return fail(packet, kM2s, m2s_cause::kPacketTooLong);
    }
    if ((d.w0 & desc::kLast) != 0) return Assembly::kPacket;
  }
}

// All sources of a compute packet hold the same number of elements, and there are as many as
// announced.
bool UdmaEngine::compute_shape(Packet& packet, const ComputeHeader& header) {
  const uint32_t source_size = contract::dtype_size(header.op.src);
  const uint32_t size = contract::dtype_size(header.op.dst);
  if (source_size == 0 || size == 0 || packet.sources != header.op.sources ||
      header.op.op > contract::ReduceOp::kMin || header.op.constant_kind > 2) {
    return false;
  }
  const uint32_t each = run_.buffers[packet.first_buffer].length;
  for (uint32_t i = 1; i < packet.sources; ++i) {
    if (run_.buffers[packet.first_buffer + i].length != each) return false;
  }
  if (each == 0 || each % source_size != 0) return false;
  packet.copies = header.op.copies;
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
  HalfQueue& half = queue.half[kS2m];
  uint32_t left = packet.bytes;
  for (uint32_t i = 0; i == 0 || left != 0; ++i) {
    if (offset + i >= half.visible) {
      if (i == 0 || packet.compute) return Assembly::kNone;
      packet.partial = true;
      packet.bytes -= left;
      packet.tx_descriptors = 0;
      return Assembly::kPacket;
    }
    Descriptor d;
    packet.rx_descriptors = i + 1;
    if (!fetch(half, offset + i, d)) return fail(packet, kS2m, s2m_cause::kDescriptorRead);
    if (!check_ring_id(half, offset + i, d, kS2m, packet)) return Assembly::kError;
    const uint32_t length = std::min(desc::length(d.w0), left);
    if (packet.copies > 1) {
      const uint32_t of_copy = (left - 1) % (packet.bytes / packet.copies) + 1;
      if (desc::length(d.w0) > of_copy) return fail(packet, kS2m, s2m_cause::kLengthMismatch);
    }
    // Strong-order writes act as a barrier on that write (hw-registers.md 3.6 rule 12).
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

// Finds accesses that cannot succeed, and signals.
void UdmaEngine::check_addresses(Packet& packet) {
  const Buffer* buffers = run_.buffers.data() + packet.first_buffer;
  Fabric& fabric = context_.fabric;
  for (uint32_t i = 0; i < packet.sources; ++i) {
    const Buffer& b = buffers[i];
    if (b.length == 0) continue;
    const bool words = b.address % 4 == 0 && b.length % 4 == 0;
    switch (fabric.reach(b.address, b.length)) {
      case Space::kNone:
        packet.errors[kM2s] |= m2s_cause::kDataRead;
        break;
      case Space::kRegister:
        packet.reads_register = true;
        if (!words) packet.errors[kM2s] |= m2s_cause::kDataRead;
        break;
      case Space::kNoLink:
        packet.unanswered = true;
        break;
      default:
        break;
    }
    packet.read_latency = std::max(packet.read_latency, fabric.read_latency(b.address));
  }
  for (uint32_t i = packet.sources; i < packet.sources + packet.destinations; ++i) {
    const Buffer& b = buffers[i];
    if (b.length == 0) continue;
    switch (fabric.reach(b.address, b.length)) {
      case Space::kNone:
        packet.errors[kS2m] |= s2m_cause::kDataWrite;
        break;
      case Space::kRegister:
        packet.signal = true;
        if (b.address % 4 != 0 || b.length != 4 || packet.compute) {
          packet.errors[kS2m] |= s2m_cause::kDataWrite;
        }
        break;
      case Space::kHost:
        packet.signal |= packet.bytes <= kSignalBytes && !packet.compute;
        break;
      case Space::kNoLink:
        packet.unanswered = true;
        break;
      default:
        break;
    }
    packet.write_latency = std::max(packet.write_latency, fabric.write_latency(b.address));
  }
}

// The bytes of a copy that takes as long on the engine. A copy takes as long as its bytes are
// written, each of its copies. A reduction reads its sources at the copy rate and makes its result
// at twice the accumulate factor: with factor 1/2 two sources take twice as long as a copy of the
// result; of small elements it makes so many in a time at most. Its copies are written meanwhile.
uint64_t UdmaEngine::engine_bytes(const Packet& packet) const {
  if (!packet.compute) return packet.bytes;
  const contract::DmaCompute& op = run_.headers[packet.header].op;
  if (op.plain()) return packet.bytes;
  const TimingParams& timing = context_.timing;
  const uint64_t result = packet.bytes / packet.copies;
  const uint64_t den = timing.dma_accumulate_den;
  const uint64_t num = timing.dma_accumulate_num;
  const uint64_t read = packet.source_bytes * den / (2 * num);
  uint64_t bytes = std::max({read, result * den / num, uint64_t{packet.bytes}});
  if (packet.sources > 1) {
    const base::Ps floor = timing.dma_compute.time_for(result / contract::dtype_size(op.dst));
    bytes = std::max(bytes, resource_.rate().bytes_in(floor));
  }
  return bytes;
}

void UdmaEngine::charge(Packet& packet) {
  const TimingParams& timing = context_.timing;
  const Buffer* buffers = run_.buffers.data() + packet.first_buffer;
  scratch_.clear();
  scratch_.add(resource_, engine_bytes(packet),
               timing.dma_buffer * std::max(packet.sources, packet.destinations));
  for (uint32_t i = 0; i < packet.sources; ++i) {
    context_.fabric.path(domain_, buffers[i].address, false, buffers[i].length, scratch_);
  }
  for (uint32_t i = packet.sources; i < packet.sources + packet.destinations; ++i) {
    context_.fabric.path(domain_, buffers[i].address, true, buffers[i].length, scratch_);
  }
  packet.first_charge = static_cast<uint32_t>(run_.charges.size());
  packet.charges = static_cast<uint32_t>(scratch_.size());
  run_.charges.insert(run_.charges.end(), scratch_.begin(), scratch_.end());
}

// Appends the packet at these ring offsets to the run. kNone: not all descriptors are there.
// kStalled: a DMB waits for earlier writes. kError: the appended packet carries causes and must not
// execute.
UdmaEngine::Assembly UdmaEngine::assemble(uint32_t q, uint32_t tx_offset, uint32_t rx_offset,
                                          base::Ps at, base::Ps visible_at) {
  Queue& queue = queues_[q];
  if (queue.half[kM2s].visible == tx_offset || !schedules(q, kM2s) || !schedules(q, kS2m)) {
    return Assembly::kNone;
  }
  const size_t buffers = run_.buffers.size();
  const size_t headers = run_.headers.size();
  Packet packet;
  packet.queue = static_cast<uint8_t>(q);
  packet.first_buffer = static_cast<uint32_t>(buffers);
  packet.generation[kM2s] = queue.half[kM2s].generation;
  packet.generation[kS2m] = queue.half[kS2m].generation;
  Assembly result = assemble_tx(queue, tx_offset, packet);
  if (result == Assembly::kPacket) {
    const uint32_t sent = tx_offset == 0 ? std::min(queue.sent, packet.source_bytes) : 0;
    packet.bytes = packet.source_bytes - sent;
    if (sent != 0) take_sources(packet, sent, packet.bytes);
    if (packet.compute && !compute_shape(packet, run_.headers[packet.header])) {
      result = fail(packet, kS2m, s2m_cause::kLengthMismatch);
    }
  }
  if (result == Assembly::kPacket) result = assemble_rx(queue, rx_offset, packet);
  if (result == Assembly::kPacket) {
    if (packet.partial) take_sources(packet, 0, packet.bytes);
    check_addresses(packet);
    const bool dmb =
        packet.dmb && !(tx_offset == 0 && (queue.dmb_released || queue.sent != 0)) &&
        udma::kM2sQRateLimitMaskDmbPause.get(value(udma::kM2sQ + udma::kM2sQRateLimitMask, q)) == 0;
    if (packet.errors[kM2s] != 0 || packet.errors[kS2m] != 0) {
      result = Assembly::kError;
    } else if (packet.unanswered) {
      // The queue stands still from here on; others go on.
      if (tx_offset == 0) unanswered_ |= 1u << q;
      result = Assembly::kNone;
    } else if (dmb && at < visible_at) {
      result = Assembly::kStalled;
    }
  }
  if (result == Assembly::kNone || result == Assembly::kStalled) {
    run_.buffers.resize(buffers);
    run_.headers.resize(headers);
    return result;
  }
  if (result == Assembly::kPacket) charge(packet);
  run_.packets.push_back(packet);
  return result;
}

}  // namespace hw
