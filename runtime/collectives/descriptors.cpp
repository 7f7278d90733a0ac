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
// Up to here one engine moves a message about as fast as sixteen, and signals once.
constexpr uint64_t kOneEngineBytes = 2048;

uint64_t cut(uint64_t total, uint64_t parts, uint64_t i) {
  // floor(total * i / parts) without overflow: units are at most 2^58.
  return total / parts * i + total % parts * i / parts;
}

}  // namespace

uint32_t engines_of(const Schedule& schedule, uint32_t rank) {
  uint64_t largest = 0;
  for (const Step& step : schedule.steps) {
    if (step.rank == rank) largest = std::max(largest, step.bytes);
  }
  return largest <= kOneEngineBytes ? 1 : contract::kDmaPerNc;
}

Descriptors::Descriptors(const OpRequest& request, const RankResources& own, uint32_t engines,
                         uint32_t packet_bytes)
    : request_(request),
      one_word_(own.one_word),
      packet_bytes_(packet_bytes),
      rings_(engines),
      counts_(engines) {
  for (uint32_t e = 0; e < engines; ++e) rings_[e].engine = e;
}

// Engine e gets units [e U / E, (e+1) U / E) of the step; every engine with data gets the same
// number of packets, so that one broadcast doorbell serves all.
std::vector<Descriptors::Piece> Descriptors::pieces(uint32_t engine, uint64_t bytes,
                                                    uint32_t limit) const {
  const uint64_t engines = rings_.size();
  const uint64_t units = (bytes + kUnit - 1) / kUnit;
  const uint64_t most = (units + engines - 1) / engines;
  const uint64_t per_packet = limit / kUnit;
  const uint64_t packets = (most + per_packet - 1) / per_packet;
  const uint64_t begin = cut(units, engines, engine);
  const uint64_t count = cut(units, engines, engine + 1) - begin;
  std::vector<Piece> out;
  for (uint64_t i = 0; i < packets; ++i) {
    const uint64_t from = (begin + cut(count, packets, i)) * kUnit;
    const uint64_t to = std::min(bytes, (begin + cut(count, packets, i + 1)) * kUnit);
    if (to > from) out.push_back({from, static_cast<uint32_t>(to - from)});
  }
  return out;
}

void Descriptors::add_packet(EngineRing* ring, const std::vector<uint64_t>& sources,
                             uint64_t destination, const Piece& piece, bool barrier, bool last) {
  const uint32_t dmb = barrier ? desc::kDmb : 0;
  if (sources.size() == 1) {
    ring->m2s.push_back(desc::tx_copy(sources[0] + piece.offset, piece.bytes, kRingId,
                                      desc::kFirst | desc::kLast | dmb, last));
  } else {
    DmaCompute compute;
    compute.op = request_.op;
    compute.src = request_.dtype;
    compute.dst = request_.dtype;
    compute.sources = static_cast<uint8_t>(sources.size());
    Descriptor meta = compute.pack(kRingId);
    meta.w0 |= dmb;
    ring->m2s.push_back(meta);
    for (size_t i = 0; i < sources.size(); ++i) {
      const bool closing = i + 1 == sources.size();
      Descriptor source;
      source.w0 = (piece.bytes & desc::kLengthMask) | kRingId << desc::kRingIdShift |
                  (closing ? desc::kLast : 0);
      source.w1 = desc::kOpCompute | static_cast<uint32_t>(request_.op) << 20 |
                  (last && closing ? desc::kWriteBarrier : 0);
      source.address = sources[i] + piece.offset;
      ring->m2s.push_back(source);
    }
  }
  ring->s2m.push_back(desc::rx(destination + piece.offset, piece.bytes, kRingId));
}

void Descriptors::add_step(const std::vector<uint64_t>& sources, uint64_t destination,
                           uint64_t bytes, bool barrier, const std::vector<uint64_t>& signals) {
  // The whole packet, all sources together, is limited (hw-registers.md 3.5).
  uint32_t limit = packet_bytes_;
  if (sources.size() > 1) {
    const uint32_t whole = desc::kMaxPacketBytes / static_cast<uint32_t>(sources.size());
    limit = std::min(desc::kMaxLength, whole / static_cast<uint32_t>(kUnit * kUnit) *
                                           static_cast<uint32_t>(kUnit * kUnit));
  }
  for (EngineRing& ring : rings_) {
    const auto m2s = static_cast<uint32_t>(ring.m2s.size());
    const auto s2m = static_cast<uint32_t>(ring.s2m.size());
    const std::vector<Piece> parts = pieces(ring.engine, bytes, limit);
    for (size_t i = 0; i < parts.size(); ++i) {
      add_packet(&ring, sources, destination, parts[i], barrier && i == 0, i + 1 == parts.size());
    }
    // Engines without data report too, so that the waiter's count is always the same.
    for (const uint64_t signal : signals) {
      ring.m2s.push_back(desc::tx_copy(one_word_, kWord, kRingId));
      ring.s2m.push_back(desc::rx(signal, kWord, kRingId));
    }
    counts_[ring.engine] = {static_cast<uint32_t>(ring.m2s.size()) - m2s,
                            static_cast<uint32_t>(ring.s2m.size()) - s2m};
  }
}

}  // namespace ccl
