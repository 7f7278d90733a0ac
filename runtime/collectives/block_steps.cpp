// Variable-size steps: what the CC-core reads when it executes them (docs/hardware-contract.md 5).
#include <algorithm>

#include "contract/regs/udma.h"
#include "runtime/collectives/lowering.h"

namespace ccl {
namespace {

using contract::cc_program::Block;
using contract::cc_program::Op;

constexpr uint8_t kTile = 0;   // register
constexpr uint8_t kTiles = 1;  // register: the most of any block
// Pieces per engine and tile: one tile of a block is in flight at a time.
constexpr uint8_t kPieces = 4;
// What one engine moves about as fast as two (layout.cpp).
constexpr uint32_t kLeastBytes = 2048;
constexpr uint32_t kFoldBytes = 32 * 1024;  // of each source: 16 of them are one packet

}  // namespace

BlockSteps::BlockSteps(const Shape& shape, const RankResources& own, const Layout& layout,
                       uint32_t packet_bytes)
    : request_(shape.request),
      own_(own),
      layout_(layout),
      packet_bytes_(packet_bytes),
      together_(shape.channels),
      rows_(shape.channels),
      rings_(own.engines()) {
  for (uint32_t e = 0; e < rings_.size(); ++e) rings_[e].engine = e;
}

void BlockSteps::count(const Steps& steps) {
  for (const Step& step : steps) {
    if (step.variable && step.after.empty()) ++together_[step.channel];
  }
}

Block BlockSteps::make(const Step& step, const Address& address) const {
  const uint32_t first = layout_.first_engine(step.channel);
  const Variable& v = *step.variable;
  const Range& to = step.destinations.front();
  const uint64_t element = contract::dtype_size(request_.dtype);
  Block b;
  b.count = address(v.count);
  if (v.source) b.source_place = address(*v.source);
  if (v.destination) b.target_place = address(*v.destination);
  b.source_elements = request_.input_bytes / element;
  b.target_elements = (request_.output_bytes - to.offset) / element;
  b.target = address(to);
  for (size_t i = 0; i < step.sources.size(); ++i) b.sources[i] = address(step.sources[i]);
  b.one = own_.weights;
  b.queue =
      own_.udma(first) + contract::udma::kM2sQ + own_.block_queue * contract::udma::kM2sQStride;
  b.engines = static_cast<uint8_t>(std::min(layout_.share(), Block::kMaxEngines));
  if (b.engines > 1) {
    const uint64_t distance = own_.udma(first + 1) - own_.udma(first);
    while (1ull << (b.engine_shift + contract::cc_program::kRangeShift) < distance) {
      ++b.engine_shift;
    }
  }
  b.pieces = kPieces;
  const uint32_t piece = step.sources.size() == 1 ? packet_bytes_ : kFoldBytes;
  b.piece_bytes = piece / Block::kCut * Block::kCut;
  // Small blocks that go side by side need not be spread.
  const uint32_t spread = std::clamp<uint32_t>(together_[step.channel], 1, b.engines);
  b.least_bytes = std::min(kLeastBytes * spread, b.piece_bytes);
  b.dtype = static_cast<uint8_t>(request_.dtype);
  b.op = static_cast<uint8_t>(request_.op);
  b.source_count = static_cast<uint8_t>(step.sources.size());
  if (step.sources.front().buffer == Buffer::kOutput) b.flags |= Block::kAccumulate;
  if (!step.after.empty()) b.flags |= Block::kFence;
  return b;
}

void BlockSteps::add(const Step& step, const Address& address, uint64_t semaphore,
                     ProgramWriter* writer) {
  Block block = make(step, address);
  block.completion = semaphore;
  Row& row = rows_[step.channel];
  if (row.steps == 0) {
    row.stride = step.variable->parts;
    writer->emit_on(Op::kMov, kTile, 0, step.variable->part);
    writer->emit_on(Op::kMov, kTiles, 0, 0);
    row.loop = writer->here();
  }
  // A step that works on the result of the one before has its pieces on the same engines.
  if (row.steps != 0 && (block.flags & Block::kFence) == 0) ++row.first_engine;
  ++row.steps;
  row.ring.m2s += block.pieces * (block.source_count == 1 ? 1u : block.source_count + 1u) + 1;
  row.ring.s2m += block.pieces + 1u;
  block.first_engine = static_cast<uint8_t>(row.first_engine % block.engines);
  const uint64_t at = own_.blocks + blocks_.size() * sizeof(Block);
  blocks_.push_back(block);
  writer->emit_on(Op::kBlock, kTile, kTiles, kSignal, at);
  for (uint32_t e = 0; e < block.engines; ++e) {
    BlockRing& ring = rings_[layout_.first_engine(step.channel) + e];
    ring.m2s = std::max(ring.m2s, row.ring.m2s);
    ring.s2m = std::max(ring.s2m, row.ring.s2m);
  }
}

void BlockSteps::close(uint32_t channel, ProgramWriter* writer) {
  Row& row = rows_[channel];
  const CcResources& cc = own_.cc[layout_.cc(channel)];
  writer->wait(Op::kDmaWait, cc.completion_base + layout_.blocks(channel), row.steps * kSignal);
  writer->emit_on(Op::kAdd, kTile, 0, row.stride);
  writer->emit_on(Op::kBranchLess, kTile, kTiles, row.loop);
  row = {};
}

std::vector<BlockRing> BlockSteps::take_rings() {
  rings_.erase(
      std::remove_if(rings_.begin(), rings_.end(), [](const BlockRing& r) { return r.m2s == 0; }),
      rings_.end());
  return std::move(rings_);
}

}  // namespace ccl
