#include "hw/dma/mover.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/num/reduce.h"
#include "hw/num_type.h"

namespace hw {

namespace {
constexpr uint64_t kSparseBytes = 4096;  // below a page there is no hole to keep

bool overlaps(const uint8_t* a, uint64_t a_bytes, const uint8_t* b, uint64_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}
}  // namespace

uint8_t* Mover::pointer(const Place& at, uint64_t length) {
  const Buffer& b = *at.buffer;
  switch (b.holder) {
    case Holder::kMemory:
      return fabric_.direct(*b.by.memory, b.offset + at.skip, length);
    case Holder::kStage:
      return b.by.stage + at.skip;
    case Holder::kBlock:
      return nullptr;
    case Holder::kElsewhere:
      break;
  }
  return fabric_.direct(at.address(), length);
}

SparseRange Mover::sparse_range(const Place& at, uint64_t length) {
  Memory* memory = at.buffer->in_memory() ? at.buffer->by.memory : nullptr;
  return {pointer(at, length), memory, at.buffer->offset + at.skip};
}

bool Mover::read(const Place& from, uint8_t* to, uint64_t length) {
  if (const uint8_t* bytes = pointer(from, length)) {
    std::memcpy(to, bytes, length);
    return true;
  }
  if (!from.buffer->in_block()) return fabric_.read(from.address(), {to, length});
  for (uint64_t i = 0; i < length; i += 4) {  // registers are read one by one
    if (!fabric_.read(from.address() + i, {to + i, 4})) return false;
  }
  return true;
}

bool Mover::write(const Place& to, const uint8_t* from, uint64_t length) {
  if (uint8_t* bytes = pointer(to, length)) {
    std::memcpy(bytes, from, length);
    return true;
  }
  return fabric_.write(to.address(), {from, length});
}

bool Mover::move_piece(const Place& to, const Place& from, uint64_t length, bool sparse,
                       Outcome& outcome) {
  if (sparse && length >= kSparseBytes) {
    const SparseRange source = sparse_range(from, length);
    const SparseRange target = sparse_range(to, length);
    if (source.data != nullptr && target.data != nullptr) {
      copy_sparse(target, source, length);
      return true;
    }
  }
  const uint8_t* source = pointer(from, length);
  uint8_t* target = pointer(to, length);
  if (source != nullptr && target != nullptr) {
    std::memmove(target, source, length);
    return true;
  }
  bounce_.resize(std::max<size_t>(bounce_.size(), length));
  if (!read(from, bounce_.data(), length)) {
    outcome.m2s |= m2s_cause::kDataRead;
    return false;
  }
  if (!write(to, bounce_.data(), length)) {
    outcome.s2m |= s2m_cause::kDataWrite;
    return false;
  }
  return true;
}

// The sources form one stream, which fills the destinations in order.
Mover::Outcome Mover::copy(const Buffer* buffers, const Packet& packet, bool sparse) {
  Outcome outcome;
  const Buffer* source = buffers;
  const Buffer* target = buffers + packet.sources;
  const Buffer* end = target + packet.destinations;
  uint64_t in_source = 0;
  uint64_t in_target = 0;
  while (target != end) {
    const uint64_t n = std::min(source->length - in_source, target->length - in_target);
    if (n != 0 && !move_piece({target, in_target}, {source, in_source}, n, sparse, outcome)) {
      return outcome;
    }
    in_source += n;
    in_target += n;
    if (in_source == source->length) {
      ++source;
      in_source = 0;
    }
    if (in_target == target->length) {
      ++target;
      in_target = 0;
    }
  }
  return outcome;
}

// Writes the `each` bytes at `from` over and over until the targets are full.
void Mover::scatter(const Buffer* targets, uint32_t count, const uint8_t* from, uint64_t each,
                    Outcome& outcome) {
  uint64_t done = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (!write({&targets[i], 0}, from + done, targets[i].length)) {
      outcome.s2m |= s2m_cause::kDataWrite;
      return;
    }
    done = (done + targets[i].length) % each;
  }
}

Mover::Outcome Mover::transpose(const Buffer* buffers, const Packet& packet) {
  Outcome outcome;
  const size_t bytes = packet.source_bytes;
  bounce_.resize(std::max(bounce_.size(), 2 * bytes));
  uint8_t* from = bounce_.data();
  for (uint32_t i = 0; i < packet.sources; from += buffers[i++].length) {
    if (read({&buffers[i], 0}, from, buffers[i].length)) continue;
    outcome.m2s |= m2s_cause::kDataRead;
    return outcome;
  }
  const size_t element = packet.turn.element_bytes;
  const size_t rows = packet.turn.rows;
  const size_t columns = bytes / (rows * element);
  uint8_t* const turned = bounce_.data() + bytes;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      std::memcpy(turned + (column * rows + row) * element,
                  bounce_.data() + (row * columns + column) * element, element);
    }
  }
  scatter(buffers + packet.sources, packet.destinations, turned, bytes, outcome);
  return outcome;
}

// One source, untouched, into each copy. The whole source counts as read before the first write.
Mover::Outcome Mover::duplicate(const Buffer* buffers, const Packet& packet, bool sparse) {
  Outcome outcome;
  const Buffer& source = buffers[0];
  const Buffer* targets = buffers + 1;
  const uint64_t each = source.length;
  const uint8_t* from = pointer({&source, 0}, each);
  bool clear = packet.copies == packet.destinations && from != nullptr;
  for (uint32_t i = 0; i < packet.destinations && clear; ++i) {
    const uint8_t* to = pointer({&targets[i], 0}, each);
    clear = to != nullptr && (to == from || !overlaps(from, each, to, each));
  }
  if (clear) {
    for (uint32_t i = 0; i < packet.destinations; ++i) {
      if (!move_piece({&targets[i], 0}, {&source, 0}, each, sparse, outcome)) break;
    }
    return outcome;
  }
  bounce_.resize(std::max<size_t>(bounce_.size(), each));
  if (!read(source, bounce_.data(), each)) {
    outcome.m2s |= m2s_cause::kDataRead;
    return outcome;
  }
  scatter(targets, packet.destinations, bounce_.data(), each, outcome);
  return outcome;
}

// One fused pass from the sources to the first copy, from where the others are taken. Where a
// pointer cannot span a copy, or the first overlaps a source or another copy other than exactly,
// the pass goes through a bounce buffer.
Mover::Outcome Mover::compute(const Buffer* buffers, const Packet& packet, const Scales* scales,
                              bool sparse) {
  namespace num = base::num;
  if (packet.operation.plain()) return duplicate(buffers, packet, sparse);
  Outcome outcome;
  const auto source_type = num_type(packet.operation.src);
  const auto type = num_type(packet.operation.dst);
  const uint64_t each = buffers[0].length;
  const uint64_t result = packet.bytes / packet.copies;
  bounce_.resize(std::max<size_t>(bounce_.size(), result + each * packet.sources));
  uint8_t* spill = bounce_.data() + result;
  std::array<const uint8_t*, kMaxSources> sources{};
  for (uint32_t i = 0; i < packet.sources; ++i, spill += each) {
    sources[i] = pointer({&buffers[i], 0}, each);
    if (sources[i] != nullptr) continue;
    if (!read(buffers[i], spill, each)) {
      outcome.m2s |= m2s_cause::kDataRead;
      return outcome;
    }
    sources[i] = spill;
  }
  const Buffer* targets = buffers + packet.sources;
  uint8_t* to = packet.destinations == packet.copies ? pointer({targets, 0}, result) : nullptr;
  for (uint32_t i = 0; i < packet.sources && to != nullptr; ++i) {
    const bool exact = sources[i] == to && each == result;
    if (!exact && overlaps(sources[i], each, to, result)) to = nullptr;
  }
  for (uint32_t i = 1; i < packet.copies && to != nullptr; ++i) {
    const uint8_t* copy = pointer({&targets[i], 0}, result);
    if (copy == nullptr || overlaps(copy, result, to, result)) to = nullptr;
  }
  num::Reduction reduction;
  reduction.op = num_reduce(packet.operation.op);
  reduction.source_type = source_type;
  reduction.type = type;
  reduction.sources = sources.data();
  reduction.count = packet.sources;
  reduction.scale_bits = scales != nullptr ? scales->data() : nullptr;
  reduction.has_constant = packet.operation.has_constant;
  reduction.constant_kind = packet.operation.constant_kind;
  reduction.constant_bits = packet.operation.constant_bits;
  num::reduce(reduction, to != nullptr ? to : bounce_.data(), each / num::size_of(source_type));
  if (to == nullptr) {
    scatter(targets, packet.destinations, bounce_.data(), result, outcome);
  } else {
    scatter(targets + 1, packet.destinations - 1, to, result, outcome);
  }
  return outcome;
}

}  // namespace hw
