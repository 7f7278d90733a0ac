// Transfers whose descriptors an engine has made while it runs: what the instructions for it have
// in common. Source of truth: spec/engine-isa.md 8, spec/neff.md 3.12; docs/hardware-contract.md 3.
#pragma once

#include <array>

#include "arch/contract/descriptor.h"
#include "contract/isa_types.h"

namespace contract::dge {

// The DGE table and argument tables in device memory (spec/neff.md 3.12): a u64 device address, a
// u64 size in bytes.
constexpr uint64_t kEntryBytes = 16;
constexpr uint32_t kMostEntries = isa::kFirstArgument;
constexpr uint32_t kMostArguments = isa::kSbufEntry - isa::kFirstArgument;
// A larger run is cut: the packet of arbitration between rings (spec/timing.md 5).
constexpr uint32_t kPieceBytes = 4096;
// Elements in a row of a transposing packet: it writes blocks of [partitions, 16]
// (spec/engine-isa.md 8.4).
constexpr uint32_t kTransposeRows = 16;
// Of a row that such a packet reads.
constexpr uint32_t kTransposeColumns = 8;

struct Transfer {
  isa::DgeMode mode = isa::DgeMode::kHwdge;
  isa::DgeOp op = isa::DgeOp::kNone;
  isa::DgeBounds bounds = isa::DgeBounds::kError;
  uint8_t semaphore = 0;
  uint32_t queue = 0;
  const isa::SideOperand* src = nullptr;
  const isa::SideOperand* dst = nullptr;
  const isa::TensorOperand* index = nullptr;  // null: no indirection
  uint8_t index_partitions = 0;
  bool scatter = false;  // it is dst whose rows have an index
  bool ordered = false;
  bool transpose = false;

  const isa::SideOperand* indexed() const {
    return index == nullptr ? nullptr : scatter ? dst : src;
  }
};

constexpr bool generates(isa::Opcode opcode) {
  return opcode == isa::Opcode::kDmaMemcpy || opcode == isa::Opcode::kDmaIndirect ||
         opcode == isa::Opcode::kDmaTranspose || opcode == isa::Opcode::kDmaGatherTranspose;
}

// The tensor whose element a register is loaded from or stored to; null: another instruction.
inline const isa::SideOperand* cell_of(const isa::Instruction& in) {
  if (in.opcode == isa::Opcode::kTensorLoad) return &in.operands.tensor_load.src;
  if (in.opcode == isa::Opcode::kTensorStore) return &in.operands.tensor_store.dst;
  return nullptr;
}
constexpr bool uses_tables(isa::Opcode opcode) {
  return generates(opcode) || opcode == isa::Opcode::kTensorLoad ||
         opcode == isa::Opcode::kTensorStore;
}

namespace detail {
template <typename Operands>
Transfer base_of(const Operands& o) {
  Transfer t;
  t.mode = o.mode;
  t.bounds = o.bounds;
  t.semaphore = o.semaphore;
  t.queue = o.queue;
  t.src = &o.src;
  t.dst = &o.dst;
  return t;
}
}  // namespace detail

// Of an instruction that generates; as long as it lives.
inline Transfer transfer_of(const isa::Instruction& in) {
  const isa::Operands& o = in.operands;
  Transfer t;
  switch (in.opcode) {
    case isa::Opcode::kDmaMemcpy:
      t = detail::base_of(o.dma_memcpy);
      t.op = o.dma_memcpy.op;
      break;
    case isa::Opcode::kDmaIndirect:
      t = detail::base_of(o.dma_indirect);
      t.op = o.dma_indirect.op;
      t.index = &o.dma_indirect.index;
      t.index_partitions = o.dma_indirect.rows;
      t.scatter = o.dma_indirect.direction == isa::DgeDirection::kScatter;
      t.ordered = o.dma_indirect.ordered != 0;
      break;
    case isa::Opcode::kDmaTranspose:
      t = detail::base_of(o.dma_transpose);
      t.transpose = true;
      break;
    case isa::Opcode::kDmaGatherTranspose:
      t = detail::base_of(o.dma_gather_transpose);
      t.index = &o.dma_gather_transpose.index;
      t.index_partitions = o.dma_gather_transpose.rows;
      t.transpose = true;
      break;
    default:
      break;
  }
  return t;
}

// In a file `queue` names a queue set; when executed it is the number of a queue.
inline void set_queue(isa::Instruction* in, uint32_t queue) {
  isa::Operands& o = in->operands;
  if (in->opcode == isa::Opcode::kDmaMemcpy) o.dma_memcpy.queue = queue;
  if (in->opcode == isa::Opcode::kDmaIndirect) o.dma_indirect.queue = queue;
  if (in->opcode == isa::Opcode::kDmaTranspose) o.dma_transpose.queue = queue;
  if (in->opcode == isa::Opcode::kDmaGatherTranspose) o.dma_gather_transpose.queue = queue;
}
inline void set_semaphore(isa::Instruction* in, uint8_t semaphore) {
  isa::Operands& o = in->operands;
  if (in->opcode == isa::Opcode::kDmaMemcpy) o.dma_memcpy.semaphore = semaphore;
  if (in->opcode == isa::Opcode::kDmaIndirect) o.dma_indirect.semaphore = semaphore;
  if (in->opcode == isa::Opcode::kDmaTranspose) o.dma_transpose.semaphore = semaphore;
  if (in->opcode == isa::Opcode::kDmaGatherTranspose) o.dma_gather_transpose.semaphore = semaphore;
}

// The sides of an instruction that uses tables, null where it has none.
inline std::array<const isa::SideOperand*, 2> sides_of(const isa::Instruction& in) {
  if (!generates(in.opcode)) return {cell_of(in), nullptr};
  const Transfer t = transfer_of(in);
  return {t.dst, t.src};
}

// Bytes from the first on that lie without a gap.
constexpr uint64_t run_bytes(const isa::SideOperand& s) {
  uint64_t run = isa::data_type_bytes(s.dtype);
  for (unsigned i = 0; i < isa::rank_of(s); ++i) {
    if (s.count[i] != 1 && (s.step[i] < 0 || static_cast<uint64_t>(s.step[i]) != run)) break;
    run *= s.count[i];
  }
  return run;
}
constexpr uint64_t total_bytes(const isa::SideOperand& s) {
  return isa::element_count(s) * isa::data_type_bytes(s.dtype);
}

// The most descriptors of one direction that one ring of 16 gets for a transfer: what its ring must
// have room for.
inline uint64_t most_descriptors(const Transfer& t) {
  constexpr uint64_t kSignal = 1;
  if (t.transpose) {
    const uint64_t columns = t.src->count[0];
    const uint64_t rows = isa::rows_of(*t.src);
    const uint64_t packets = (columns + kTransposeColumns - 1) / kTransposeColumns *
                             ((rows + kTransposeRows - 1) / kTransposeRows) *
                             (isa::element_count(*t.src) / (columns * rows));
    // A row that is left out parts a packet: each part takes all columns.
    const uint64_t each = t.bounds == isa::DgeBounds::kSkip ? kTransposeRows / 2 * kTransposeColumns
                                                            : kTransposeRows + 1;
    return (packets + kDmaPerNc - 1) / kDmaPerNc * each + kSignal;
  }
  // Every cut of a run is one of either side, of a row, or a multiple of the piece.
  const uint64_t pieces = total_bytes(*t.src) / run_bytes(*t.src) +
                          total_bytes(*t.dst) / run_bytes(*t.dst) +
                          (total_bytes(*t.src) + total_bytes(*t.dst)) / kPieceBytes +
                          (t.index == nullptr ? 0 : isa::rows_of(*t.indexed()));
  const uint64_t share = t.ordered ? pieces : (pieces + kDmaPerNc - 1) / kDmaPerNc;
  const bool computes = t.op != isa::DgeOp::kNone || t.src->dtype != t.dst->dtype;
  return share * (computes ? 3 : 1) + kSignal;
}

}  // namespace contract::dge
