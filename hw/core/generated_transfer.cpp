#include "hw/core/generated_transfer.h"

#include <algorithm>

#include "contract/regs/sem.h"

namespace hw {

namespace desc = contract::desc;
namespace dge = contract::dge;
namespace isa = contract::isa;
using contract::Descriptor;
using contract::EngineError;

namespace {

constexpr uint32_t kWord = 4;
constexpr uint32_t kPacketPieces = desc::kMaxPacketDescriptors - 1;  // and a metadata descriptor
// Farther away than any memory reaches: sums of a few of these do not overflow.
constexpr int64_t kFar = int64_t{1} << 60;

int64_t reach(int64_t factor, int32_t step) {
  return std::clamp(factor * step, -kFar, kFar);
}

// Goes through a side run by run, in the order of its elements.
class RunWalk {
 public:
  RunWalk(const isa::SideOperand& side, const std::vector<uint32_t>* index)
      : side_(side), index_(index), rank_(isa::rank_of(side)) {
    run_ = 1;
    const auto bytes = static_cast<int64_t>(isa::data_type_bytes(side.dtype));
    const uint32_t free = index == nullptr ? rank_ : rank_ - 1;
    while (inner_ < free &&
           (side.count[inner_] == 1 || side.step[inner_] == bytes * static_cast<int64_t>(run_))) {
      run_ *= side.count[inner_++];
    }
    left_ = run_;
  }

  uint64_t left() const { return left_; }  // elements of the present run
  uint32_t row() const { return rank_ == inner_ ? 0 : at_[rank_ - 1]; }
  // In bytes from the start of the side.
  int64_t begin() const {
    int64_t offset = 0;
    for (uint32_t i = inner_; i < rank_; ++i) {
      const int64_t factor = index_ != nullptr && i + 1 == rank_ ? (*index_)[at_[i]] : at_[i];
      offset += reach(factor, side_.step[i]);
    }
    return offset + static_cast<int64_t>((run_ - left_) * isa::data_type_bytes(side_.dtype));
  }
  void take(uint64_t elements) {
    left_ -= elements;
    if (left_ != 0) return;
    left_ = run_;
    for (uint32_t i = inner_; i < rank_; ++i) {
      if (++at_[i] < side_.count[i]) return;
      at_[i] = 0;
    }
  }

 private:
  const isa::SideOperand& side_;
  const std::vector<uint32_t>* index_;
  uint32_t rank_;
  uint32_t inner_ = 0;  // dimensions that are in the run
  uint32_t at_[4] = {};
  uint64_t run_;
  uint64_t left_;
};

struct Piece {
  uint64_t from;
  uint64_t to;
  uint32_t elements;
};

// One ring's share of pieces, as packets.
class PieceEmitter {
 public:
  PieceEmitter(const dge::Transfer& t, GeneratedRing* ring) : transfer_(t), ring_(*ring) {
    scattered_ = t.index != nullptr ? desc::kScattered : 0;
  }

  void copy(const Piece& piece) {
    const uint32_t bytes = piece.elements * isa::data_type_bytes(transfer_.src->dtype);
    if (pieces_ == kPacketPieces || bytes_ + bytes > dge::kPieceBytes) close();
    Descriptor d = desc::tx_copy(piece.from, bytes, 0, pieces_ == 0 ? desc::kFirst : 0);
    d.w1 |= scattered_;
    ring_.m2s.push_back(d);
    ring_.s2m.push_back(desc::rx(piece.to, bytes, 0));
    ++pieces_;
    bytes_ += bytes;
  }

  // A conversion, or what is there plus what comes.
  void compute(const Piece& piece) {
    const bool adds = transfer_.op == isa::DgeOp::kAdd;
    contract::DmaCompute op;
    op.src = isa::dtype_of(transfer_.src->dtype);
    op.dst = isa::dtype_of(transfer_.dst->dtype);
    op.sources = adds ? 2 : 1;
    ring_.m2s.push_back(op.pack(0));
    const uint32_t bytes = piece.elements * isa::data_type_bytes(transfer_.src->dtype);
    if (adds) source(piece.to, bytes, 0);
    source(piece.from, bytes, desc::kLast);
    const uint32_t size = isa::data_type_bytes(transfer_.dst->dtype);
    ring_.s2m.push_back(desc::rx(piece.to, piece.elements * size, 0));
  }

  void close() {
    if (pieces_ != 0) ring_.m2s.back().w0 |= desc::kLast;
    pieces_ = 0;
    bytes_ = 0;
  }

 private:
  void source(uint64_t address, uint32_t bytes, uint32_t flags) {
    ring_.m2s.push_back(
        {(bytes & desc::kLengthMask) | flags, desc::kOpCompute | scattered_, address});
  }

  const dge::Transfer& transfer_;
  GeneratedRing& ring_;
  uint32_t scattered_;
  uint32_t pieces_ = 0;
  uint32_t bytes_ = 0;
};

// The first of `n` things that are dealt out in order, for the ring `e`; behind the last: e + 1.
size_t share_begin(size_t n, size_t e) {
  return (n * e + contract::kDmaPerNc - 1) / contract::kDmaPerNc;
}

}  // namespace

struct TransferGenerator::Work {
  const dge::Transfer& transfer;
  const Params& params;
  Place dst;
  Place src;
};

bool TransferGenerator::Place::holds(int64_t at, uint64_t bytes, uint64_t partition_bytes) const {
  if (at < 0) return false;
  const auto begin = static_cast<uint64_t>(at);
  if (!sbuf) return begin <= size && bytes <= size - begin;
  const uint64_t in = begin % contract::tpb::kPartitionStride;
  return begin / contract::tpb::kPartitionStride < contract::tpb::kPartitions &&
         in + bytes <= partition_bytes;
}

// Offsets are multiples of the element's size.
std::optional<GenerationFault> TransferGenerator::place(const isa::SideOperand& side,
                                                        uint32_t number, const Params& params,
                                                        Place* out) const {
  const GenerationFault bad{EngineError::kBadOperand, number};
  out->sbuf = side.entry == isa::kSbufEntry;
  if (out->sbuf) {
    out->base = fabric_.address_map().nc(nc_).device + contract::tpb::kSbuf;
  } else {
    uint8_t entry[dge::kEntryBytes];
    const bool argument = isa::is_argument(side);
    const Table& table = argument ? params.arguments : params.table;
    const uint32_t number_there = side.entry - (argument ? isa::kFirstArgument : 0u);
    if (number_there >= table.entries) return bad;
    const uint64_t at = table.address + number_there * dge::kEntryBytes;
    if (!fabric_.read(at, {entry, sizeof entry})) {
      return GenerationFault{EngineError::kBusError, static_cast<uint32_t>(at)};
    }
    out->base = base::load<uint64_t>(entry);
    out->size = base::load<uint64_t>(entry + 8);
  }
  constexpr auto kMost = static_cast<uint64_t>(kFar);
  uint64_t offset = std::min(side.offset, kMost);
  if (side.offset_register != isa::kNoRegister) {
    offset += std::min(uint64_t{params.registers[side.offset_register]} * side.scale, kMost);
  }
  out->offset = static_cast<int64_t>(offset);
  const auto bytes = static_cast<int64_t>(isa::data_type_bytes(side.dtype));
  bool aligned = out->offset % bytes == 0;
  for (uint32_t i = 0; i < isa::rank_of(side); ++i) aligned &= side.step[i] % bytes == 0;
  return aligned ? std::nullopt : std::optional(bad);
}

std::optional<GenerationFault> TransferGenerator::locate(const isa::SideOperand& cell,
                                                         isa::DgeBounds bounds,
                                                         const Params& params,
                                                         std::optional<uint64_t>* address) const {
  Place there;
  *address = std::nullopt;
  if (auto fault = place(cell, 0, params, &there)) return fault;
  if (there.holds(there.offset, isa::data_type_bytes(cell.dtype), 0)) {
    *address = there.base + static_cast<uint64_t>(there.offset);
  } else if (bounds == isa::DgeBounds::kError) {
    return GenerationFault{EngineError::kOutOfBounds, 0};
  }
  return std::nullopt;
}

bool TransferGenerator::inside(const Work& work, uint32_t number, const Place& place, int64_t at,
                               uint64_t bytes, uint32_t row,
                               std::optional<GenerationFault>* fault) const {
  if (place.holds(at, bytes, fabric_.address_map().sbuf_partition_bytes())) return true;
  if (work.transfer.bounds == isa::DgeBounds::kError) {
    *fault = place.sbuf ? GenerationFault{EngineError::kBadOperand, number}
                        : GenerationFault{EngineError::kOutOfBounds, number << 24 | row};
  }
  return false;
}

std::optional<GenerationFault> TransferGenerator::copy(const Work& work,
                                                       GeneratedTransfer* out) const {
  const dge::Transfer& t = work.transfer;
  const uint64_t size[2] = {isa::data_type_bytes(t.dst->dtype), isa::data_type_bytes(t.src->dtype)};
  const uint64_t most = dge::kPieceBytes / std::max(size[0], size[1]);
  RunWalk dst(*t.dst, t.index != nullptr && t.scatter ? &work.params.index : nullptr);
  RunWalk src(*t.src, t.index != nullptr && !t.scatter ? &work.params.index : nullptr);
  std::vector<Piece> pieces;
  std::optional<GenerationFault> fault;
  for (uint64_t left = isa::element_count(*t.src); left != 0;) {
    const uint64_t n = std::min({most, dst.left(), src.left()});
    const int64_t to = work.dst.offset + dst.begin();
    const int64_t from = work.src.offset + src.begin();
    const bool there = inside(work, 0, work.dst, to, n * size[0], dst.row(), &fault) &&
                       inside(work, 1, work.src, from, n * size[1], src.row(), &fault);
    if (fault) return fault;
    if (there) {
      pieces.push_back({work.src.base + static_cast<uint64_t>(from),
                        work.dst.base + static_cast<uint64_t>(to), static_cast<uint32_t>(n)});
    }
    dst.take(n);
    src.take(n);
    left -= n;
  }
  const bool computes = t.op != isa::DgeOp::kNone || t.src->dtype != t.dst->dtype;
  for (size_t e = 0; e < contract::kDmaPerNc; ++e) {
    PieceEmitter emitter(t, &out->rings[e]);
    const size_t begin = t.ordered ? (e == 0 ? 0 : pieces.size()) : share_begin(pieces.size(), e);
    const size_t end = t.ordered ? pieces.size() : share_begin(pieces.size(), e + 1);
    for (size_t i = begin; i < end; ++i) {
      computes ? emitter.compute(pieces[i]) : emitter.copy(pieces[i]);
    }
    emitter.close();
    out->rings[e].pairs = end - begin;
  }
  out->pairs = pieces.size();
  return std::nullopt;
}

// Blocks of up to 16 rows and 8 columns, by columns first: a ring serves neighbouring partitions.
class TransferGenerator::Turn {
 public:
  Turn(const TransferGenerator& generator, const Work& work, GeneratedTransfer* out)
      : generator_(generator),
        work_(work),
        src_(*work.transfer.src),
        dst_(*work.transfer.dst),
        out_(*out),
        rank_(isa::rank_of(src_)),
        size_(isa::data_type_bytes(src_.dtype)) {}

  std::optional<GenerationFault> run() {
    const uint32_t rows = isa::rows_of(src_);
    Block at;
    for (; at.column < src_.count[0]; at.column += dge::kTransposeColumns) {
      at.columns = std::min(dge::kTransposeColumns, src_.count[0] - at.column);
      for (at.outer = 0; at.outer < count(2); ++at.outer) {
        for (at.inner = 0; at.inner < count(1); ++at.inner) {
          for (uint32_t row = 0; row < rows && !fault_; row += dge::kTransposeRows) {
            add(at, row, std::min(rows, row + dge::kTransposeRows));
          }
        }
      }
    }
    if (!fault_) deal();
    return fault_;
  }

 private:
  struct Block {
    uint32_t column = 0;  // the first
    uint32_t columns = 0;
    uint32_t inner = 0;  // of the axes in between
    uint32_t outer = 0;
  };

  // Of an axis in between.
  uint32_t count(uint32_t axis) const { return rank_ > axis + 1 ? src_.count[axis] : 1; }
  int64_t middle(const isa::SideOperand& side, const Block& b) const {
    return (rank_ > 2 ? reach(b.inner, side.step[1]) : 0) +
           (rank_ > 3 ? reach(b.outer, side.step[2]) : 0);
  }
  int64_t from(const Block& b, uint32_t row) const {
    const bool indexed = work_.transfer.index != nullptr;
    const int64_t place = indexed ? work_.params.index[row] : row;
    return work_.src.offset + reach(place, src_.step[rank_ - 1]) + middle(src_, b) +
           int64_t{b.column} * size_;
  }
  bool there(const Block& b, uint32_t row) {
    return generator_.inside(work_, 1, work_.src, from(b, row), uint64_t{b.columns} * size_, row,
                             &fault_);
  }

  // Rows that are left out part a block.
  void add(const Block& b, uint32_t first, uint32_t end) {
    for (uint32_t row = first; row < end && !fault_;) {
      uint32_t last = row;
      while (last < end && there(b, last)) ++last;
      if (last > row) packet(b, row, last);
      row = last + 1;
    }
  }

  void packet(const Block& b, uint32_t first, uint32_t last) {
    const uint32_t scattered = work_.transfer.index != nullptr ? desc::kScattered : 0;
    const uint32_t rows = last - first;
    GeneratedRing packet;
    packet.m2s.push_back(contract::DmaTranspose{rows, static_cast<uint8_t>(size_)}.pack(0));
    for (uint32_t row = first; row < last; ++row) {
      packet.m2s.push_back({b.columns * size_ | (row + 1 == last ? desc::kLast : 0),
                            desc::kOpTranspose | scattered,
                            work_.src.base + static_cast<uint64_t>(from(b, row))});
    }
    for (uint32_t c = b.column; c < b.column + b.columns; ++c) {
      const int64_t to = work_.dst.offset + reach(c, dst_.step[rank_ - 1]) + middle(dst_, b) +
                         int64_t{first} * size_;
      if (!generator_.inside(work_, 0, work_.dst, to, uint64_t{rows} * size_, 0, &fault_)) return;
      packet.s2m.push_back(desc::rx(work_.dst.base + static_cast<uint64_t>(to), rows * size_, 0));
    }
    packet.pairs = rows;
    out_.pairs += rows;
    packets_.push_back(std::move(packet));
  }

  void deal() {
    for (size_t e = 0; e < contract::kDmaPerNc; ++e) {
      GeneratedRing& ring = out_.rings[e];
      for (size_t i = share_begin(packets_.size(), e); i < share_begin(packets_.size(), e + 1);
           ++i) {
        ring.m2s.insert(ring.m2s.end(), packets_[i].m2s.begin(), packets_[i].m2s.end());
        ring.s2m.insert(ring.s2m.end(), packets_[i].s2m.begin(), packets_[i].s2m.end());
        ring.pairs += packets_[i].pairs;
      }
    }
  }

  const TransferGenerator& generator_;
  const Work& work_;
  const isa::SideOperand& src_;
  const isa::SideOperand& dst_;
  GeneratedTransfer& out_;
  uint32_t rank_;
  uint32_t size_;
  std::vector<GeneratedRing> packets_;
  std::optional<GenerationFault> fault_;
};

std::optional<GenerationFault> TransferGenerator::generate(const dge::Transfer& transfer,
                                                           const Params& params,
                                                           GeneratedTransfer* out) const {
  Work work{transfer, params, {}, {}};
  if (auto fault = place(*transfer.dst, 0, params, &work.dst)) return fault;
  if (auto fault = place(*transfer.src, 1, params, &work.src)) return fault;
  *out = {};
  out->queue = transfer.queue;
  if (auto fault = transfer.transpose ? Turn(*this, work, out).run() : copy(work, out)) {
    return fault;
  }
  const uint64_t semaphore = fabric_.address_map().nc_semaphores(nc_) + contract::sem::kInc +
                             uint64_t{contract::sem::kIncStride} * transfer.semaphore;
  for (GeneratedRing& ring : out->rings) {
    // The completion is behind the data.
    if (!ring.m2s.empty()) ring.m2s.back().w1 |= desc::kWriteBarrier;
    ring.m2s.push_back(desc::tx_copy(params.one, kWord, 0));
    ring.s2m.push_back(desc::rx(semaphore, kWord, 0));
  }
  return std::nullopt;
}

}  // namespace hw
