// Steps to DMA descriptors: shares per engine, packets, completion writes.
#include <algorithm>

#include "runtime/collectives/lowering.h"

namespace ccl {
namespace {

using contract::Descriptor;
using contract::DmaCompute;
namespace desc = contract::desc;

constexpr uint64_t kUnit = 64;   // shares are cut at multiples of this
constexpr uint32_t kRingId = 1;  // of the first lap after a queue reset; checks are masked
constexpr uint32_t kWord = 4;    // a completion write
constexpr uint32_t kRow = kSignalsPerPacket * kWord;  // of the weights
// Pieces of compute packets: a multiple of this.
constexpr uint32_t kComputeUnit = 4096;
// After so many transfers it shows how long the rings will be. Growing by and by, they would touch
// four times the memory.
constexpr size_t kTypical = 16;
constexpr size_t kMostReserved = size_t{1} << 16;  // descriptors, ahead of need

uint64_t cut(uint64_t total, uint64_t parts, uint64_t i) {
  // floor(total * i / parts) without overflow: units are at most 2^58.
  return total / parts * i + total % parts * i / parts;
}

bool is_copy(const Transfer& t) {
  return t.sources.size() == 1 && t.destinations.size() == 1;
}

}  // namespace

Descriptors::Descriptors(const OpRequest& request, uint64_t weights, uint32_t engines,
                         uint32_t packet_bytes, size_t transfers)
    : request_(request),
      weights_(weights),
      packet_bytes_(packet_bytes),
      transfers_(transfers),
      rings_(engines),
      announced_(engines) {
  for (uint32_t e = 0; e < engines; ++e) rings_[e].engine = e;
}

// With fewer units than engines the first ones get one each; else engine e gets units
// [e U / E, (e+1) U / E). Every engine with data gets the same number of packets, so that one
// doorbell serves a row of engines.
std::vector<Descriptors::Piece> Descriptors::pieces(uint32_t index, uint32_t count, uint64_t bytes,
                                                    uint32_t limit) const {
  const uint64_t units = (bytes + kUnit - 1) / kUnit;
  const uint64_t most = (units + count - 1) / count;
  const uint64_t per_packet = limit / kUnit;
  const uint64_t packets = (most + per_packet - 1) / per_packet;
  const uint64_t begin =
      units < count ? std::min<uint64_t>(index, units) : cut(units, count, index);
  const uint64_t end =
      units < count ? std::min<uint64_t>(index + 1, units) : cut(units, count, index + 1);
  std::vector<Piece> out;
  for (uint64_t i = 0; i < packets; ++i) {
    const uint64_t from = (begin + cut(end - begin, packets, i)) * kUnit;
    const uint64_t to = std::min(bytes, (begin + cut(end - begin, packets, i + 1)) * kUnit);
    if (to > from) out.push_back({from, static_cast<uint32_t>(to - from)});
  }
  return out;
}

std::vector<Descriptors::Piece> Descriptors::rows(const Transfer& transfer,
                                                  const std::vector<Piece>& pieces) {
  std::vector<Piece> out;
  for (Piece piece : pieces) {
    while (piece.bytes != 0) {
      uint64_t bytes = piece.bytes;
      for (const Stretch& place : transfer.sources)
        bytes = std::min(bytes, place.run(piece.offset));
      for (const Stretch& place : transfer.destinations) {
        bytes = std::min(bytes, place.run(piece.offset));
      }
      out.push_back({piece.offset, static_cast<uint32_t>(bytes)});
      piece.offset += bytes;
      piece.bytes -= static_cast<uint32_t>(bytes);
    }
  }
  return out;
}

void Descriptors::add_packet(EngineRing* ring, const Transfer& transfer, const Piece& piece,
                             bool barrier, bool last) {
  const uint32_t dmb = barrier ? desc::kDmb : 0;
  if (is_copy(transfer)) {
    ring->m2s.push_back(desc::tx_copy(transfer.sources[0].at(piece.offset), piece.bytes, kRingId,
                                      desc::kFirst | desc::kLast | dmb, last));
  } else {
    DmaCompute compute;
    compute.op = request_.op;
    compute.src = request_.dtype;
    compute.dst = request_.dtype;
    compute.sources = static_cast<uint8_t>(transfer.sources.size());
    compute.copies = static_cast<uint8_t>(transfer.destinations.size());
    Descriptor meta = compute.pack(kRingId);
    meta.w0 |= dmb;
    ring->m2s.push_back(meta);
    for (size_t i = 0; i < transfer.sources.size(); ++i) {
      const bool closing = i + 1 == transfer.sources.size();
      Descriptor source;
      source.w0 = (piece.bytes & desc::kLengthMask) | kRingId << desc::kRingIdShift |
                  (closing ? desc::kLast : 0);
      source.w1 = desc::kOpCompute | static_cast<uint32_t>(request_.op) << 20 |
                  (last && closing ? desc::kWriteBarrier : 0);
      source.address = transfer.sources[i].at(piece.offset);
      ring->m2s.push_back(source);
    }
  }
  for (const Stretch& destination : transfer.destinations) {
    ring->s2m.push_back(desc::rx(destination.at(piece.offset), piece.bytes, kRingId));
  }
}

// A packet scatters a row of equal words: one packet for all signals is less work for the engine
// than one for each.
void Descriptors::add_signals(EngineRing* ring, const std::vector<uint64_t>& signals,
                              uint64_t weight, bool barrier) {
  for (size_t at = 0; at < signals.size(); at += kSignalsPerPacket) {
    const auto words =
        static_cast<uint32_t>(std::min<size_t>(signals.size() - at, kSignalsPerPacket));
    const uint32_t dmb = barrier && at == 0 ? desc::kDmb : 0;
    ring->m2s.push_back(
        desc::tx_copy(weight, words * kWord, kRingId, desc::kFirst | desc::kLast | dmb));
    for (uint32_t i = 0; i < words; ++i) {
      ring->s2m.push_back(desc::rx(signals[at + i], kWord, kRingId));
    }
  }
}

void Descriptors::add(const Transfer& transfer) {
  // The whole packet, all sources together, is limited (spec/hw-registers.md 3.5).
  uint32_t limit = packet_bytes_;
  if (!is_copy(transfer)) {
    const uint32_t whole = desc::kMaxPacketBytes / static_cast<uint32_t>(transfer.sources.size());
    limit = std::min(desc::kMaxLength, whole / kComputeUnit * kComputeUnit);
    if (transfer.sources.size() == 1) limit = packet_bytes_;  // a copy to several places
  }
  uint64_t weight = weights_;  // row i holds 2^i
  for (uint32_t k = transfer.engines.count; k < kSignal; k *= 2) weight += kRow;
  for (uint32_t i = 0; i < transfer.engines.count; ++i) {
    EngineRing& ring = rings_[transfer.engines.first + i];
    const std::vector<Piece> parts =
        rows(transfer, pieces(i, transfer.engines.count, transfer.bytes, limit));
    for (size_t p = 0; p < parts.size(); ++p) {
      add_packet(&ring, transfer, parts[p], transfer.barrier && p == 0, p + 1 == parts.size());
    }
    // Engines without data report too, so that the waiter's count is always the same.
    add_signals(&ring, transfer.signals, weight, transfer.barrier && parts.empty());
  }
  if (++added_ != kTypical || transfers_ <= kTypical) return;
  for (EngineRing& ring : rings_) {
    ring.m2s.reserve(std::min(ring.m2s.size() * transfers_ / kTypical, kMostReserved));
    ring.s2m.reserve(std::min(ring.s2m.size() * transfers_ / kTypical, kMostReserved));
  }
}

DoorbellCounts Descriptors::take_new(uint32_t engine) {
  const EngineRing& ring = rings_[engine];
  DoorbellCounts& old = announced_[engine];
  const DoorbellCounts fresh{ring.m2s.size() - old.m2s, ring.s2m.size() - old.s2m};
  old = {ring.m2s.size(), ring.s2m.size()};
  return fresh;
}

std::vector<EngineRing> Descriptors::take() {
  std::vector<EngineRing> out;
  for (EngineRing& ring : rings_) {
    if (!ring.m2s.empty()) out.push_back(std::move(ring));
  }
  return out;
}

}  // namespace ccl
