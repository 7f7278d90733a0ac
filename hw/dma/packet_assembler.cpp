#include "hw/dma/packet_assembler.h"

#include <algorithm>

namespace hw {

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
constexpr uint32_t kOne = 0x3F80'0000;      // 1.0 as float32

bool known_operation(uint32_t w1, const Packet& packet) {
  const uint32_t expected = packet.compute     ? desc::kOpCompute
                            : packet.transpose ? desc::kOpTranspose
                                               : desc::kOpCopy;
  if (desc::operation(w1) != desc::operation(expected)) return false;
  if ((w1 & kTransforms) != 0 || (w1 & kCopySource) == 0) return false;
  return packet.compute || kType.get(w1) == 0;
}
}  // namespace

bool PacketAssembler::read_descriptor(uint64_t address, Descriptor& to) {
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

bool PacketAssembler::fetch(const HalfQueue& half, RingPointer from, Descriptor& to) {
  const uint64_t at = from.index * sizeof(Descriptor);
  if (half.ring == nullptr) return read_descriptor(half.base + at, to);
  to = base::load<Descriptor>(half.ring + at);
  return true;
}

Assembly PacketAssembler::fail(Half h, uint32_t cause) {
  packets_.candidate().errors[h] |= cause;
  return Assembly::kError;
}

// A mismatch that does not abort is noted and the descriptor used, which lets rings be replayed.
bool PacketAssembler::wrong_ring_id(Half h, bool masked) {
  const uint32_t cause = h == kM2s ? m2s_cause::kRingId : s2m_cause::kRingId;
  Packet& packet = packets_.candidate();
  (masked ? packet.noted : packet.errors)[h] |= cause;
  return !masked;
}

// A metadata descriptor; those that open no packet bring a new constant.
void PacketAssembler::take_metadata(const Descriptor& d, uint32_t& scale) {
  Packet& packet = packets_.candidate();
  if (packet.tx_descriptors == 1) {
    if (desc::operation(d.w1) == desc::operation(desc::kOpTranspose)) {
      packet.transpose = true;
      packet.turn = contract::DmaTranspose::unpack(d);
      return;
    }
    packet.compute = true;
    packet.operation.take(d);
    if (packet.scaled()) packets_.candidate_scales() = {};
  }
  const auto metadata = contract::DmaCompute::unpack(d);
  if (metadata.has_constant && metadata.op == contract::ReduceOp::kFma) {
    scale = metadata.constant_bits;
  }
}

// False if there are too many sources.
bool PacketAssembler::take_source(const Descriptor& d, uint32_t scale, bool zero_is_64k) {
  Packet& packet = packets_.candidate();
  const uint32_t raw = d.w0 & desc::kLengthMask;
  const uint32_t length = raw == 0 && !zero_is_64k ? 0 : desc::length(d.w0);
  if (packet.compute) {
    if (packet.sources == kMaxSources) return false;
    if (packet.scaled()) packets_.candidate_scales()[packet.sources] = scale;
  }
  packets_.add_buffer(d.address, length);
  ++packet.sources;
  packet.source_bytes += length;
  return true;
}

Assembly PacketAssembler::assemble_tx(const HalfQueue& half, uint32_t offset,
                                      const EngineConfig& config) {
  Packet& packet = packets_.candidate();
  const uint32_t available = half.visible - offset;
  RingPointer at = half.current.plus(offset, half.length);
  uint32_t scale = kOne;
  for (uint32_t i = 0;; ++i, at = at.plus(1, half.length)) {
    if (i == available) return Assembly::kNone;
    if (i == config.max_descriptors) return fail(kM2s, m2s_cause::kTooManyDescriptors);
    Descriptor d;
    packet.tx_descriptors = i + 1;
    if (!fetch(half, at, d)) return fail(kM2s, m2s_cause::kDescriptorRead);
    if (desc::ring_id(d.w0) != at.ring_id && wrong_ring_id(kM2s, config.ring_id_masked[kM2s]))
      return Assembly::kError;
    if (i == 0 && (d.w0 & desc::kFirst) == 0) return fail(kM2s, m2s_cause::kFirst);
    if (i != 0 && (d.w0 & desc::kFirst) != 0) {
      packet.tx_descriptors = i;  // the new FIRST belongs to the next packet
      return fail(kM2s, m2s_cause::kLast);
    }
    const bool meta = (d.w0 & desc::kMeta) != 0;
    if (meta && (i == 0 || packet.compute)) take_metadata(d, scale);
    const bool stray = meta && !packet.compute && (i != 0 || !packet.transpose);
    if (!known_operation(d.w1, packet) || stray) {
      return fail(kM2s, m2s_cause::kStreamResponse);
    }
    packet.scattered |= (d.w1 & desc::kScattered) != 0;
    packet.dmb |= (d.w0 & desc::kDmb) != 0;
    packet.write_barrier |= (d.w1 & desc::kWriteBarrier) != 0;
    if (!meta) {
      if (!take_source(d, scale, config.zero_is_64k)) {
        return fail(kS2m, s2m_cause::kLengthMismatch);
      }
      if (packet.source_bytes > config.max_bytes) {
        return fail(kM2s, m2s_cause::kPacketTooLong);
      }
    }
    if ((d.w0 & desc::kLast) != 0) return Assembly::kPacket;
  }
}

// All sources of a compute packet hold the same number of elements, and there are as many as
// announced.
bool PacketAssembler::compute_shape() {
  Packet& packet = packets_.candidate();
  const contract::DmaCompute& op = packet.operation;
  const uint32_t source_size = contract::dtype_size(op.src);
  const uint32_t size = contract::dtype_size(op.dst);
  if (source_size == 0 || size == 0 || packet.sources != op.sources ||
      op.op > contract::ReduceOp::kMin || op.constant_kind > 2) {
    return false;
  }
  const Buffer* const sources = packets_.candidate_buffers();
  const uint32_t each = sources[0].length;
  for (uint32_t i = 1; i < packet.sources; ++i) {
    if (sources[i].length != each) return false;
  }
  if (each == 0 || each % source_size != 0) return false;
  packet.copies = op.copies;
  packet.bytes = each / source_size * size * packet.copies;
  return true;
}

bool PacketAssembler::transpose_shape() const {
  const Packet& packet = packets_.candidate();
  const uint64_t column = uint64_t{packet.turn.rows} * packet.turn.element_bytes;
  const bool element = packet.turn.element_bytes == 2 || packet.turn.element_bytes == 4;
  return element && column != 0 && packet.source_bytes != 0 && packet.source_bytes % column == 0;
}

// Leaves of the packet's sources `bytes` bytes after the first `skip`. What is left out becomes
// empty.
void PacketAssembler::take_sources(uint32_t skip, uint32_t bytes) {
  Buffer* b = packets_.candidate_buffers();
  for (const Buffer* const end = b + packets_.candidate().sources; b != end; ++b) {
    const uint32_t skipped = std::min(skip, b->length);
    b->address += skipped;
    b->length = std::min(b->length - skipped, bytes);
    skip -= skipped;
    bytes -= b->length;
  }
}

// A receive descriptor is finished when it is full or the packet ends; every packet takes one.
// Where they do not suffice, those that are there take the first part of a copy. Of several copies
// each fills its descriptors exactly.
Assembly PacketAssembler::assemble_rx(const HalfQueue& half, uint32_t offset,
                                      const EngineConfig& config) {
  Packet& packet = packets_.candidate();
  uint32_t left = packet.bytes;
  RingPointer at = half.current.plus(offset, half.length);
  for (uint32_t i = 0; i == 0 || left != 0; ++i, at = at.plus(1, half.length)) {
    if (offset + i >= half.visible) {
      if (i == 0 || packet.works()) return Assembly::kNone;
      packet.partial = true;
      packet.bytes -= left;
      packet.tx_descriptors = 0;
      return Assembly::kPacket;
    }
    Descriptor d;
    packet.rx_descriptors = i + 1;
    if (!fetch(half, at, d)) return fail(kS2m, s2m_cause::kDescriptorRead);
    if (desc::ring_id(d.w0) != at.ring_id && wrong_ring_id(kS2m, config.ring_id_masked[kS2m]))
      return Assembly::kError;
    const uint32_t length = std::min(desc::length(d.w0), left);
    if (packet.copies > 1) {
      const uint32_t of_copy = (left - 1) % (packet.bytes / packet.copies) + 1;
      if (desc::length(d.w0) > of_copy) return fail(kS2m, s2m_cause::kLengthMismatch);
    }
    // Strong-order writes act as a barrier on that write (spec/hw-registers.md 3.6 rule 12).
    packet.write_barrier |= (d.w0 & desc::kStrongOrder) != 0 && !context_.fabric.address_map().v2();
    if ((d.w0 & kDualBuffer) != 0) {
      context_.log.count("udma", AccessLog::Kind::kUnsupported, "second buffer of a descriptor",
                         false);
    }
    packets_.add_buffer(d.address, length);
    ++packet.destinations;
    left -= length;
  }
  return Assembly::kPacket;
}

// The bytes of a copy that takes as long on the engine. A copy takes as long as its bytes are
// written, each of its copies. A reduction reads its sources at the copy rate and makes its result
// at twice the accumulate factor: with factor 1/2 two sources take twice as long as a copy of the
// result; of small elements it makes so many in a time at most. Its copies are written meanwhile.
uint64_t PacketAssembler::engine_bytes() const {
  const Packet& packet = packets_.candidate();
  if (packet.transpose) {
    const size_t from = packet.from_sbuf ? 1 : 0;
    return uint64_t{packet.bytes} * context_.timing.dma_transpose_den[from] /
           context_.timing.dma_transpose_num[from];
  }
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
    bytes = std::max(bytes, engine_.rate().bytes_in(floor));
  }
  return bytes;
}

// What the packet takes on its engine beyond `bytes`: for each of its buffers, which take a while
// however short they are. The rate of a transposition is that of its blocks.
base::Ps PacketAssembler::overhead(uint64_t bytes) const {
  const Packet& packet = packets_.candidate();
  const TimingParams& timing = context_.timing;
  if (packet.transpose && !packet.scattered) return 0;
  const uint32_t count = std::max(packet.sources, packet.destinations);
  const base::Ps each = packet.scattered ? timing.dma_scattered_buffer : timing.dma_buffer;
  const base::Ps least = timing.dma_buffer_least * count;
  const base::Ps moved = engine_.rate().time_for(bytes);
  return std::max(each * count, least > moved ? least - moved : 0);
}

// Charges what the buffers of a path occupy.
void PacketAssembler::charge(SamePath& same) {
  if (same.path == nullptr) return;
  const bool signal = packets_.candidate().signal;
  for (uint32_t i = 0; i < same.path->shares; ++i) {
    const Path::Share& share = same.path->share[i];
    const uint64_t bytes = share.times * same.bytes;
    context_.charges.add(*share.resource, bytes, 0, signal ? bytes / sizeof(uint32_t) : 0);
  }
  same = {};
}

// Where a buffer lies, and who holds it. What it occupies is charged with the next ones of the same
// path.
Space PacketAssembler::look(Buffer& b, Half h, SamePath& same) {
  if (same.path == nullptr || !same.path->holds(b.address, PathCache::kind(domain_, h == kS2m))) {
    charge(same);
    same.path = &context_.paths.find(domain_, b.address, h == kS2m);
    Packet& packet = packets_.candidate();
    base::Ps& latency = h == kM2s ? packet.read_latency : packet.write_latency;
    latency = std::max(latency, same.path->latency);
  }
  same.bytes += b.length;
  const Path& path = *same.path;
  if (b.length > path.left(b.address)) {
    uint64_t offset = 0;
    if (Memory* memory = context_.fabric.plain(b.address, &offset)) {
      b.holder = Holder::kMemory;
      b.by.memory = memory;
    } else if (BusTarget* block = context_.fabric.block(b.address, &offset)) {
      b.holder = Holder::kBlock;
      b.by.block = block;
    }
    b.offset = offset;
    return context_.fabric.reach(b.address, b.length);
  }
  b.holder = path.holder;
  b.by = path.by;
  b.offset = path.offset + (b.address - path.begin);
  return path.space;
}

// Finds accesses of one half that cannot succeed, and signals; charges what can.
void PacketAssembler::look_at(Half h) {
  Packet& packet = packets_.candidate();
  const bool writes = h == kS2m;
  const uint32_t fault = writes ? s2m_cause::kDataWrite : m2s_cause::kDataRead;
  Buffer* b = packets_.candidate_buffers() + (writes ? packet.sources : 0);
  const Buffer* const end = b + (writes ? packet.destinations : packet.sources);
  SamePath same;
  for (; b != end; ++b) {
    if (b->length == 0) continue;
    switch (look(*b, h, same)) {
      case Space::kNone:
        packet.errors[h] |= fault;
        break;
      case Space::kRegister: {
        (writes ? packet.signal : packet.reads_register) = true;
        const bool words = b->address % kWord == 0 && b->length % kWord == 0;
        const bool fits = !writes || (b->length == kWord && !packet.works());
        if (!words || !fits) packet.errors[h] |= fault;
        break;
      }
      case Space::kForeign:
        packet.outward = true;
        break;
      case Space::kHost:
        packet.signal |= writes && packet.bytes <= kSignalBytes && !packet.works();
        packet.outward = packet.outward || context_.fabric.asks_host(b->address);
        break;
      case Space::kNoLink:
        packet.unanswered = true;
        break;
      case Space::kSbuf:
        packet.from_sbuf |= !writes;
        break;
      default:
        break;
    }
  }
  charge(same);
}

// Of a packet with all its descriptors. Destinations come first: they tell whether it is a signal.
Assembly PacketAssembler::judge() {
  Packet& packet = packets_.candidate();
  if (packet.partial) take_sources(0, packet.bytes);
  look_at(kS2m);
  look_at(kM2s);
  const uint64_t bytes = engine_bytes();
  const base::Ps beyond = overhead(bytes);
  packet.work = engine_.rate().time_for(bytes) + beyond;
  context_.charges.add(engine_, bytes, beyond);
  if (packet.erroneous()) return Assembly::kError;
  if (packet.unanswered) return Assembly::kUnanswered;
  if (packet.outward) packet.signal = false;  // takes effect when those outside say so
  return Assembly::kPacket;
}

// A signal may be one more than the others: by its size, as nobody has looked at its addresses.
bool PacketAssembler::fits(const Behind& behind) const {
  const Packet& packet = packets_.candidate();
  const bool words = packet.bytes <= std::max<uint64_t>(kSignalBytes, kWord * packet.destinations);
  const uint64_t most = context_.timing.dma_burst_packets;
  return !packet.partial && !packet.dmb && behind.packets < most + (words && most != 0 ? 1 : 0);
}

Assembly PacketAssembler::assemble(const QueuePair& queue, uint32_t q, const EngineConfig& config,
                                   const Behind& behind, base::Ps at) {
  const HalfQueue& tx = queue.half[kM2s];
  const HalfQueue& rx = queue.half[kS2m];
  const bool scheduled = (config.scheduled >> q & 1) != 0 && tx.length != 0 && rx.length != 0;
  if (tx.visible == behind.tx || !scheduled) return Assembly::kNone;
  context_.charges.clear();
  Packet& packet = packets_.begin_candidate();
  packet.queue = static_cast<uint8_t>(q);
  packet.generation[kM2s] = tx.generation;
  packet.generation[kS2m] = rx.generation;
  Assembly result = assemble_tx(tx, behind.tx, config);
  if (result != Assembly::kPacket) return result;
  const uint32_t sent = behind.tx == 0 ? std::min(queue.sent, packet.source_bytes) : 0;
  packet.bytes = packet.source_bytes - sent;
  if (sent != 0) take_sources(sent, packet.bytes);
  if ((packet.compute && !compute_shape()) || (packet.transpose && !transpose_shape())) {
    return fail(kS2m, s2m_cause::kLengthMismatch);
  }
  result = assemble_rx(rx, behind.rx, config);
  if (result != Assembly::kPacket) return result;
  if (behind.joins && !fits(behind)) return Assembly::kNone;
  result = judge();
  if (result != Assembly::kPacket) return result;
  if (behind.joins && packet.outward) return Assembly::kNone;
  const bool goes_on = behind.tx == 0 && (queue.dmb_released || queue.sent != 0);
  const bool dmb = packet.dmb && !goes_on && (config.dmb_ignored >> q & 1) == 0;
  return dmb && at < queue.visible_at ? Assembly::kStalled : Assembly::kPacket;
}

}  // namespace hw
