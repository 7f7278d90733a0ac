#include "hw/cc/barrier_hub.h"

#include <algorithm>

#include "contract/regs/cc.h"

namespace hw {

std::optional<BarrierCell> resolve_barrier(const contract::AddressMap& map, uint32_t own_chip,
                                           uint32_t chips, uint64_t address) {
  uint32_t chip = own_chip;
  if (map.is_peer(address)) {
    chip = map.peer_chip(address);
    address = map.peer_local(address);
  }
  if (chip >= chips) return std::nullopt;
  for (uint32_t t = 0; t < map.topsps(); ++t) {
    const uint64_t offset = address - map.topsp(t).device - contract::cc::kBarrier;
    if (offset >= contract::cc::kBarrierCount * contract::cc::kBarrierStride) continue;
    if (offset % contract::cc::kBarrierStride != 0) return std::nullopt;
    return BarrierCell{chip, t, static_cast<uint32_t>(offset / contract::cc::kBarrierStride)};
  }
  return std::nullopt;
}

std::string to_string(const BarrierCell& cell) {
  return "barrier cell " + std::to_string(cell.index) + " of d" + std::to_string(cell.chip) +
         ".cc" + std::to_string(cell.topsp);
}

bool BarrierHub::arrive(const BarrierCell& cell, uint32_t members, BarrierMember& member) {
  State& state = cells_[cell];
  const bool legal = members != 0 && (state.waiting.empty() || state.members == members) &&
                     state.waiting.size() < members;
  if (!legal) {
    const std::vector<BarrierMember*> waiting = std::move(state.waiting);
    state.waiting.clear();
    for (BarrierMember* other : waiting) other->barrier_mismatch();
    return false;
  }
  state.members = members;
  state.waiting.push_back(&member);
  if (on_arrival_ && state.waiting.size() == members) open(state);
  return true;
}

void BarrierHub::open(State& state) {
  const std::vector<BarrierMember*> waiting = std::move(state.waiting);
  state.waiting.clear();
  ++state.generation;
  for (BarrierMember* member : waiting) member->barrier_open();
}

void BarrierHub::leave(BarrierMember& member) {
  for (auto& [cell, state] : cells_) {
    const auto at = std::find(state.waiting.begin(), state.waiting.end(), &member);
    if (at != state.waiting.end()) state.waiting.erase(at);
  }
}

void BarrierHub::clear(uint32_t chip, uint32_t topsp) {
  for (auto& [cell, state] : cells_) {
    if (cell.chip == chip && cell.topsp == topsp) state.waiting.clear();
  }
}

bool BarrierHub::release_ready() {
  bool any = false;
  for (auto& [cell, state] : cells_) {
    if (state.waiting.empty() || state.waiting.size() != state.members) continue;
    open(state);
    any = true;
  }
  return any;
}

uint32_t BarrierHub::arrived(const BarrierCell& cell) const {
  const auto at = cells_.find(cell);
  return at == cells_.end() ? 0 : static_cast<uint32_t>(at->second.waiting.size());
}

uint32_t BarrierHub::generation(const BarrierCell& cell) const {
  const auto at = cells_.find(cell);
  return at == cells_.end() ? 0 : at->second.generation;
}

}  // namespace hw
