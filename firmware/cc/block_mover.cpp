#include "firmware/cc/block_mover.h"

#include "arch/contract/address_map.h"
#include "arch/contract/descriptor.h"
#include "contract/regs/udma.h"

namespace firmware::cc {

namespace {

namespace desc = contract::desc;
namespace udma = contract::udma;
using contract::CcError;
using contract::Descriptor;
using contract::cc_program::Block;
using contract::cc_program::Record;
using contract::cc_program::Tile;

constexpr uint32_t kWord = 4;

// One direction of a queue, behind its tail.
class Ring {
 public:
  Ring(uint64_t registers, Hal& hal) : hal_(hal) {
    uint32_t low = 0;
    uint32_t high = 0;
    uint32_t tail = 0;
    ok_ = hal.read32(registers + udma::kM2sQRingBaseLo, &low) &&
          hal.read32(registers + udma::kM2sQRingBaseHi, &high) &&
          hal.read32(registers + udma::kM2sQRingLength, &length_) &&
          hal.read32(registers + udma::kM2sQTail, &tail);
    base_ = uint64_t{high} << 32 | low;
    index_ = udma::kM2sQTailIndex.get(tail);
    id_ = udma::kM2sQTailRingId.get(tail);
    ok_ = ok_ && index_ < length_;
  }

  void put(Descriptor d) {
    if (!ok_) return;
    d.w0 |= id_ << desc::kRingIdShift;
    ok_ = hal_.write(base_ + uint64_t{index_} * sizeof d, &d, sizeof d);
    ++added_;
    if (++index_ < length_) return;
    index_ = 0;
    id_ = (id_ + 1) & 3;
  }

  bool ok() const { return ok_; }
  uint32_t added() const { return added_; }

 private:
  Hal& hal_;
  bool ok_ = false;
  uint64_t base_ = 0;
  uint32_t length_ = 0;
  uint32_t index_ = 0;
  uint32_t id_ = 0;
  uint32_t added_ = 0;
};

// The tile of a block, with addresses.
struct Transfer {
  const Block& block;
  Tile tile;
  uint64_t source_offset = 0;  // bytes of the tile from element 0
  uint64_t target_offset = 0;
};

bool well_formed(const Block& b, uint32_t weight) {
  const auto type = static_cast<contract::DType>(b.dtype);
  return contract::dtype_size(type) != 0 &&
         b.op <= static_cast<uint8_t>(contract::ReduceOp::kMin) && b.engines != 0 &&
         b.engines <= Block::kMaxEngines && b.engines <= weight && b.engine_shift < 32 &&
         b.first_engine < b.engines && b.pieces != 0 && b.piece_bytes != 0 &&
         b.piece_bytes % Block::kCut == 0 && b.piece_bytes <= desc::kMaxLength &&
         b.least_bytes <= b.piece_bytes && b.source_count != 0 &&
         b.source_count <= Block::kMaxSources &&
         uint64_t{b.source_count} * b.piece_bytes <= desc::kMaxPacketBytes;
}

bool read_place(uint64_t address, uint32_t* value, Hal& hal) {
  *value = 0;
  return address == 0 || hal.read32(address, value);
}

uint64_t source_address(const Transfer& t, uint32_t i) {
  const bool target = i == 0 && (t.block.flags & Block::kAccumulate) != 0;
  return target ? t.block.target + t.target_offset : t.block.sources[i] + t.source_offset;
}

void put_packet(const Transfer& t, uint32_t piece, bool fence, bool last, Ring* m2s, Ring* s2m) {
  const Block& b = t.block;
  const uint64_t offset = uint64_t{piece} * t.tile.piece_bytes;
  const uint64_t rest = t.tile.bytes - offset;
  const auto bytes = static_cast<uint32_t>(rest < t.tile.piece_bytes ? rest : t.tile.piece_bytes);
  const uint32_t dmb = fence ? desc::kDmb : 0;
  if (b.source_count == 1) {
    m2s->put(desc::tx_copy(source_address(t, 0) + offset, bytes, 0,
                           desc::kFirst | desc::kLast | dmb, last));
  } else {
    contract::DmaCompute compute;
    compute.op = static_cast<contract::ReduceOp>(b.op);
    compute.src = compute.dst = static_cast<contract::DType>(b.dtype);
    compute.sources = b.source_count;
    Descriptor meta = compute.pack(0);
    meta.w0 |= dmb;
    m2s->put(meta);
    for (uint32_t i = 0; i < b.source_count; ++i) {
      const bool closing = i + 1u == b.source_count;
      Descriptor source;
      source.w0 = (bytes & desc::kLengthMask) | (closing ? desc::kLast : 0);
      source.w1 =
          desc::kOpCompute | uint32_t{b.op} << 20 | (last && closing ? desc::kWriteBarrier : 0);
      source.address = source_address(t, i) + offset;
      m2s->put(source);
    }
  }
  s2m->put(desc::rx(b.target + t.target_offset + offset, bytes, 0));
}

// Pieces e, e + engines, ... and, behind them, 1 for the semaphore.
bool feed_engine(const Transfer& t, uint32_t e, Hal& hal) {
  const Block& b = t.block;
  const uint32_t engine = (b.first_engine + e) % b.engines;
  const uint64_t queue =
      b.queue + (uint64_t{engine} << (b.engine_shift + contract::cc_program::kRangeShift));
  Ring m2s(queue, hal);
  Ring s2m(queue + contract::kS2mOffset, hal);
  for (uint32_t piece = e; piece < t.tile.pieces; piece += b.engines) {
    const bool fence = (b.flags & Block::kFence) != 0 && piece == e;
    put_packet(t, piece, fence, piece + b.engines >= t.tile.pieces, &m2s, &s2m);
  }
  m2s.put(desc::tx_copy(b.one, kWord, 0));
  s2m.put(desc::rx(b.completion, kWord, 0));
  // The receiving side first (spec/hw-registers.md 0.2 rule 7).
  return m2s.ok() && s2m.ok() &&
         hal.write32(queue + contract::kS2mOffset + udma::kM2sQTailInc, s2m.added()) &&
         hal.write32(queue + udma::kM2sQTailInc, m2s.added());
}

}  // namespace

BlockResult move_block(const Record& record, uint32_t tile, Hal& hal) {
  const auto refuse = [&](CcError error) {
    BlockResult result;
    result.error = error;
    result.info = static_cast<uint32_t>(record.address);
    return result;
  };
  Block b;
  if (!hal.read(record.address, &b, sizeof b)) return refuse(CcError::kBusError);
  if (!well_formed(b, record.imm)) return refuse(CcError::kBadInstruction);
  uint32_t count = 0;
  uint32_t from = 0;
  uint32_t to = 0;
  if (!hal.read32(b.count, &count) || !read_place(b.source_place, &from, hal) ||
      !read_place(b.target_place, &to, hal)) {
    return refuse(CcError::kBusError);
  }
  BlockResult result;
  // Sums of 32-bit numbers: no overflow. An empty block is nowhere, whatever its places.
  result.out_of_bounds = count != 0 && (uint64_t{from} + count > b.source_elements ||
                                        uint64_t{to} + count > b.target_elements);
  const uint64_t element = contract::dtype_size(static_cast<contract::DType>(b.dtype));
  const uint64_t bytes = result.out_of_bounds ? 0 : count * element;
  const uint64_t whole = contract::cc_program::tile_bytes(b);
  result.tiles = static_cast<uint32_t>((bytes + whole - 1) / whole);

  Transfer t{b, contract::cc_program::tile_of(b, bytes, tile)};
  t.source_offset = from * element + t.tile.offset;
  t.target_offset = to * element + t.tile.offset;
  const uint32_t engines = t.tile.pieces < b.engines ? t.tile.pieces : b.engines;
  for (uint32_t e = 0; e < engines; ++e) {
    if (!feed_engine(t, e, hal)) return refuse(CcError::kBusError);
  }
  // Engines without a part, so that the sum is always the same.
  const uint32_t missing = record.imm - engines;
  if (missing != 0 && !hal.write32(b.completion, missing)) return refuse(CcError::kBusError);
  return result;
}

}  // namespace firmware::cc
