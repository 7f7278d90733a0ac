// Rules that tie several operands of one instruction together. Source of truth:
// spec/engine-isa.md 3 (partitions, element counts, PSUM inputs), 5.6 (scales), spec/neff.md 5.4
// R-17 (WRITE).
#pragma once

#include "contract/isa_types.h"

namespace contract {
namespace isa {

// spec/engine-isa.md 3 rule 2: the legal start partitions for `count` active partitions.
constexpr bool legal_partitions(unsigned start, unsigned count) {
  if (count == 0 || count > kPartitions) return false;
  if (count > 64) return start == 0;
  if (count > 32) return start % 64 == 0 && start < kPartitions;
  return start % 32 == 0 && start < kPartitions;
}

// Scales of MX operands (spec/engine-isa.md 5.6): group g of a quadrant, 8 partitions of data, has
// its scale in partition g + o of that quadrant, o the first partition of the operand within it.
// The operand ends with the last quadrant's fourth scale.
constexpr unsigned kQuadrant = 32;
constexpr unsigned kMxGroupLanes = 8;
constexpr unsigned kMxGroups = kQuadrant / kMxGroupLanes;
constexpr unsigned scale_rows_of(unsigned rows) {
  return rows - kQuadrant + kMxGroups;
}
constexpr bool legal_scales(const TensorOperand& scale, unsigned scale_rows,
                            const TensorOperand& data, unsigned rows) {
  return rows != 0 && rows % kQuadrant == 0 && scale_rows == scale_rows_of(rows) &&
         scale.memory == Memory::kSbuf && scale.start_partition % kMxGroups == 0 &&
         scale.start_partition % kQuadrant < 4 * kMxGroups &&
         scale.start_partition / kQuadrant == data.start_partition / kQuadrant &&
         (scale.dtype == DataType::kFloat8e8 || scale.dtype == DataType::kUint8) &&
         element_count(scale) == element_count(data);
}

constexpr DecodeError check_operands(const Write& w) {
  const bool sizes =
      (w.size0 == 4 && (w.size1 == 0 || w.size1 == 4)) || (w.size0 == 8 && w.size1 == 0);
  if (!sizes || w.dst0 % w.size0 != 0) return DecodeError::kFieldRange;
  if (w.size1 == 0) {
    const bool unused_zero = w.dst1 == 0 && (w.size0 == 8 || w.data1 == 0);
    return unused_zero ? DecodeError::kNone : DecodeError::kFieldRange;
  }
  return w.dst1 % w.size1 == 0 ? DecodeError::kNone : DecodeError::kFieldRange;
}

// Pairs of registers, the higher one holding the high half.
constexpr DecodeError check_operands(const RegisterAlu64& o) {
  const auto pair = [](uint32_t r) { return r + 1 < kRegisters; };
  return pair(o.dst) && pair(o.a) && (!o.b.is_register || pair(o.b.value))
             ? DecodeError::kNone
             : DecodeError::kFieldRange;
}

constexpr DecodeError check_operands(const AllEngineBarrier& b) {
  return b.semaphore + kEngines <= 256 ? DecodeError::kNone : DecodeError::kFieldRange;
}

constexpr DecodeError check_operands(const EventSemaphoreRangeClear& c) {
  return c.first <= c.last ? DecodeError::kNone : DecodeError::kFieldRange;
}

// What one instruction reaches of a memory (spec/engine-isa.md 3 rule 5); a product fills PSUM.
constexpr bool legal_size(const TensorOperand& t, bool product = false) {
  const uint64_t most = t.memory == Memory::kSbuf ? 65536
                        : product ? tpb::kPsumPartitionBytes / data_type_bytes(t.dtype)
                                  : 4096;
  return element_count(t) <= most;
}
constexpr bool legal_size(const ScalarOperand& s, bool /*product*/ = false) {
  return s.kind != ScalarOperand::kTile || legal_size(s.tile);
}

constexpr bool legal_partitions(const TensorOperand& t, unsigned count) {
  return legal_partitions(t.start_partition, count);
}
constexpr bool legal_partitions(const ScalarOperand& s, unsigned count) {
  return s.kind != ScalarOperand::kTile || legal_partitions(s.tile, count);
}
constexpr bool single_element(const TensorOperand& t) {
  return element_count(t) == 1;
}
constexpr bool single_element(const ScalarOperand& s) {
  return s.kind != ScalarOperand::kTile || single_element(s.tile);
}

constexpr DecodeError when(bool legal) {
  return legal ? DecodeError::kNone : DecodeError::kFieldRange;
}

constexpr bool is_integer(const TensorOperand& t) {
  return dtype_is_integer(dtype_of(t.dtype));
}
constexpr bool on_bits(TensorOp op) {
  return op >= TensorOp::kNot;
}
constexpr bool compares(TensorOp op) {
  return op >= TensorOp::kEqual && op <= TensorOp::kGreater;
}
// What a fold may use (spec/engine-isa.md 5.3).
constexpr bool folds(TensorOp op) {
  switch (op) {
    case TensorOp::kAdd:
    case TensorOp::kSubtract:
    case TensorOp::kMultiply:
    case TensorOp::kMin:
    case TensorOp::kMax:
    case TensorOp::kLogicalAnd:
    case TensorOp::kLogicalOr:
    case TensorOp::kLogicalXor:
    case TensorOp::kAbsMax:
    case TensorOp::kAbsMin:
    case TensorOp::kAnd:
    case TensorOp::kOr:
    case TensorOp::kXor:
      return true;
    default:
      return false;
  }
}
constexpr bool both_in_psum(const TensorOperand& a, const TensorOperand& b) {
  return a.memory == Memory::kPsum && b.memory == Memory::kPsum;
}

constexpr DecodeError check_operands(const TensorTensor& t) {
  return when(!both_in_psum(t.src0, t.src1) &&
              (!on_bits(t.op) || (is_integer(t.dst) && is_integer(t.src0) && is_integer(t.src1))));
}

constexpr bool is_unary(TensorOp op) {
  return op == TensorOp::kBypass || op == TensorOp::kNot ||
         (op >= TensorOp::kAbs && op <= TensorOp::kReciprocal);
}
// Numbers for each lane from a tile are float32.
constexpr bool is_number(const ScalarOperand& s) {
  return s.kind != ScalarOperand::kTile || s.tile.dtype == DataType::kFloat32;
}
// spec/engine-isa.md 10.2: from a tile, the operand of an operator on bits is an integer, that of
// an arithmetic one float32. An operator of one operand ignores it, unless it is reversed.
constexpr bool legal_operand(TensorOp op, const ScalarOperand& s, bool reversed, bool bits) {
  if (is_unary(op) && !reversed) return true;
  return bits ? s.kind != ScalarOperand::kTile || is_integer(s.tile) : is_number(s);
}

// Operators are both on bits or both arithmetic; BYPASS goes with either.
constexpr DecodeError check_operands(const TensorScalar& t) {
  const bool bits = on_bits(t.op0) || on_bits(t.op1);
  const bool alike = !bits || ((on_bits(t.op0) || t.op0 == TensorOp::kBypass) &&
                               (on_bits(t.op1) || t.op1 == TensorOp::kBypass));
  return when(alike && (!bits || (is_integer(t.dst) && is_integer(t.src))) &&
              legal_operand(t.op0, t.operand0, (t.reverse & 1) != 0, bits) &&
              legal_operand(t.op1, t.operand1, (t.reverse & 2) != 0, bits));
}

// Four numbers to an element are set to nothing but 0.
constexpr DecodeError check_operands(const Memset& t) {
  return when(!is_packed(t.dst.dtype) || t.value == 0);
}

constexpr DecodeError check_operands(const ScalarTensorTensor& t) {
  return when(!on_bits(t.op0) && !on_bits(t.op1) && !both_in_psum(t.src0, t.src1));
}

constexpr DecodeError check_operands(const TensorTensorScan& t) {
  return when(!on_bits(t.op0) && !on_bits(t.op1) && !both_in_psum(t.src0, t.src1));
}

// The innermost `dims` dimensions of src are folded; what is left has as many elements as dst.
constexpr DecodeError check_operands(const TensorReduce& t) {
  uint64_t kept = 1;
  for (unsigned i = t.dims; i < 4; ++i) kept *= t.src.dims[i].count == 0 ? 1u : t.src.dims[i].count;
  const bool integers = is_integer(t.dst) && is_integer(t.src) && t.negate == 0;
  return when(t.dims >= 1 && kept == element_count(t.dst) && folds(t.op) &&
              (!on_bits(t.op) || integers));
}

constexpr bool arithmetic_fold(TensorOp op) {
  return folds(op) && !on_bits(op);
}

constexpr DecodeError check_operands(const TensorScalarReduce& t) {
  const bool reduces = t.reduce_op == TensorOp::kAdd || t.reduce_op == TensorOp::kMultiply ||
                       t.reduce_op == TensorOp::kMax || t.reduce_op == TensorOp::kMin;
  return when(!on_bits(t.op) && reduces);
}

constexpr DecodeError check_operands(const Activate& t) {
  return when(arithmetic_fold(t.reduce_op) && t.reduce_cmd != ReduceCmd::kLoadReduce &&
              is_number(t.scale));
}

constexpr DecodeError check_operands(const Iota& t) {
  return when(t.dst.memory == Memory::kSbuf && element_count(t.pattern) == element_count(t.dst));
}

constexpr DecodeError check_operands(const AffineSelect& t) {
  return when(compares(t.op) && t.dst.memory == Memory::kSbuf && t.src.memory == Memory::kSbuf &&
              element_count(t.pattern) == element_count(t.dst));
}

constexpr bool is_8_bit_float(const TensorOperand& t) {
  return t.dtype == DataType::kFloat8e3 || t.dtype == DataType::kFloat8e4 ||
         t.dtype == DataType::kFloat8e5 || t.dtype == DataType::kFloat8e4fn;
}

// spec/engine-isa.md 7: weights of at most 128 columns, from SBUF into the array, within a tile.
constexpr DecodeError check_operands(const Ldweights& t) {
  const unsigned slices = t.double_row != 0 ? 2 : 1;
  const uint64_t columns = element_count(t.src) / slices;
  return when(t.src.memory == Memory::kSbuf && !is_integer(t.src) &&
              element_count(t.src) % slices == 0 && columns != 0 && columns <= kPartitions &&
              legal_partitions(t.column, static_cast<unsigned>(columns)) &&
              (slices == 1 || (is_8_bit_float(t.src) && t.column == 0)));
}

// Results are float32; of transposes as wide as what is turned, but at least 16 bits; bfloat16 on
// generations that accumulate in it.
constexpr DecodeError check_operands(const Matmul& t) {
  const unsigned slices = t.double_row != 0 ? 2 : 1;
  const bool sizes = element_count(t.moving) == slices * element_count(t.dst);
  const bool slicing =
      slices == 1 || (is_8_bit_float(t.moving) && t.transpose == 0 && t.dst.start_partition == 0);
  const bool type = t.dst.dtype == DataType::kFloat32 || t.dst.dtype == DataType::kBfloat16 ||
                    (t.transpose != 0 && data_type_bytes(t.dst.dtype) == 2);
  return when(t.moving.memory == Memory::kSbuf && t.dst.memory == Memory::kPsum &&
              !is_integer(t.moving) && type && sizes && slicing &&
              (t.transpose == 0 || t.accumulate == Accumulate::kOverwrite));
}

// spec/engine-isa.md 5.6, 10.2, 10.4.
constexpr DecodeError check_operands(const QuantizeMx& t) {
  const bool types =
      (t.dst.dtype == DataType::kFloat8e5x4 || t.dst.dtype == DataType::kFloat8e4fnx4) &&
      (t.src.dtype == DataType::kBfloat16 || t.src.dtype == DataType::kFloat16);
  return when(types && t.dst.memory == Memory::kSbuf && t.src.memory == Memory::kSbuf &&
              element_count(t.src) == 4 * element_count(t.dst) &&
              legal_scales(t.scale, t.scale_rows, t.dst, t.partitions));
}
constexpr DecodeError check_operands(const LdweightsMx& t) {
  const uint64_t columns = element_count(t.src);
  return when(is_packed(t.src.dtype) && t.src.memory == Memory::kSbuf && columns % 2 == 0 &&
              columns <= kPartitions && legal_scales(t.scale, t.scale_rows, t.src, t.rows));
}
constexpr DecodeError check_operands(const MatmulMx& t) {
  const bool type = t.dst.dtype == DataType::kFloat32 || t.dst.dtype == DataType::kBfloat16;
  return when(is_packed(t.moving.dtype) && t.moving.memory == Memory::kSbuf && type &&
              t.dst.memory == Memory::kPsum && t.dst.start_partition == 0 &&
              element_count(t.moving) == element_count(t.dst) &&
              legal_scales(t.scale, t.scale_rows, t.moving, t.rows));
}

// One block of at most 32 x 32 elements, or whole blocks that stay where they are.
constexpr DecodeError check_operands(const Transpose& t) {
  constexpr unsigned kBlock = 32;
  const uint64_t n = element_count(t.src);
  const bool one =
      t.rows <= kBlock && n <= kBlock && t.columns == n && element_count(t.dst) == t.rows;
  const bool many =
      t.rows == t.columns && t.rows % kBlock == 0 && n % kBlock == 0 && element_count(t.dst) == n;
  return when(t.src.dtype == t.dst.dtype && (one || many));
}

constexpr bool is_unsigned(const TensorOperand& t) {
  return t.dtype == DataType::kUint8 || t.dtype == DataType::kUint16 ||
         t.dtype == DataType::kUint32;
}
constexpr DecodeError check_operands(const CopyPredicated& t) {
  const bool tile = t.src.kind == ScalarOperand::kTile;
  const uint64_t n = tile ? element_count(t.src.tile) : 1;
  const bool memories = !tile || !both_in_psum(t.src.tile, t.predicate);
  return when(is_unsigned(t.predicate) && (n == 1 || n == element_count(t.dst)) && memories &&
              (!tile || t.src.tile.dtype == t.dst.dtype));
}

constexpr bool is_integer_of_32_bits(const TensorOperand& t) {
  return t.dtype == DataType::kInt32 || t.dtype == DataType::kUint32;
}
constexpr DecodeError check_operands(const SelectReduce& t) {
  return when(is_integer(t.predicate) && data_type_bytes(t.predicate.dtype) <= 2 &&
              !is_integer_of_32_bits(t.on_true) && t.on_true.dtype != DataType::kFloat32r &&
              !both_in_psum(t.predicate, t.on_true) && t.reduce_cmd != ReduceCmd::kLoadReduce);
}

constexpr DecodeError check_operands(const RangeSelect& t) {
  const bool operators = compares(t.op0) && compares(t.op1) && t.op0 != TensorOp::kNotEqual &&
                         t.op1 != TensorOp::kNotEqual;
  return when(operators && !is_integer(t.src) && t.reduce_cmd != ReduceCmd::kLoadReduce &&
              is_number(t.bound0) && is_number(t.bound1));
}

constexpr DecodeError check_operands(const BnStats& t) {
  return when(element_count(t.dst) == 6 && element_count(t.src) <= 512);
}
constexpr DecodeError check_operands(const BnAggregate& t) {
  return when(element_count(t.dst) == 2 && element_count(t.src) % 3 == 0);
}

constexpr DecodeError check_operands(const Max8& t) {
  return when(element_count(t.dst) == 8 && t.src.dims[3].count == 0 && element_count(t.src) >= 8 &&
              element_count(t.src) <= 16384);
}
constexpr bool is_index(const TensorOperand& t) {
  return t.dtype == DataType::kUint16 || t.dtype == DataType::kUint32;
}
constexpr DecodeError check_operands(const FindIndex8& t) {
  return when(element_count(t.dst) == 8 && element_count(t.values) == 8 && is_index(t.dst));
}
constexpr DecodeError check_operands(const MatchReplace8& t) {
  const bool no_index = t.index.kind == ScalarOperand::kImmediate && t.index.bits == 0;
  const bool index = t.index.kind == ScalarOperand::kTile && element_count(t.index.tile) == 8 &&
                     is_index(t.index.tile);
  return when(element_count(t.values) == 8 && (no_index || index));
}

constexpr uint8_t shuffle_mask(const StreamShuffle& t, unsigned i) {
  const uint64_t words[4] = {t.mask0, t.mask1, t.mask2, t.mask3};
  return static_cast<uint8_t>(words[i / 8] >> (i % 8 * 8));
}
constexpr uint8_t kUnmoved = 255;
constexpr DecodeError check_operands(const StreamShuffle& t) {
  bool lanes = t.partitions % kQuadrant == 0;
  for (unsigned i = 0; i < kQuadrant; ++i) {
    lanes = lanes && (shuffle_mask(t, i) < kQuadrant || shuffle_mask(t, i) == kUnmoved);
  }
  return when(lanes && t.src.dtype == t.dst.dtype);
}

constexpr DecodeError check_operands(const TensorScalarCumulative& t) {
  const bool folds = t.op1 == TensorOp::kAdd || t.op1 == TensorOp::kSubtract ||
                     t.op1 == TensorOp::kMultiply || t.op1 == TensorOp::kMax ||
                     t.op1 == TensorOp::kMin;
  const bool starts = t.reduce_cmd == ReduceCmd::kReduce ||
                      t.reduce_cmd == ReduceCmd::kResetReduce ||
                      t.reduce_cmd == ReduceCmd::kLoadReduce;
  return when(!on_bits(t.op0) && folds && starts && !is_integer_of_32_bits(t.src) &&
              !is_integer_of_32_bits(t.dst));
}

constexpr DecodeError check_operands(const Exponential& t) {
  return when(t.reduce_cmd != ReduceCmd::kReset);
}
constexpr DecodeError check_operands(const Dropout& t) {
  return when(t.src.dtype == t.dst.dtype && (!is_integer(t.src) || is_number(t.probability)));
}
constexpr DecodeError check_operands(const Rng& t) {
  return when(is_integer(t.dst));
}
constexpr DecodeError check_operands(const SetRngSeed& t) {
  return when(t.partitions == 1 && data_type_bytes(t.src.dtype) == 4);
}
constexpr bool is_state(const TensorOperand& t) {
  return t.dtype == DataType::kUint32 && (element_count(t) == 6 || element_count(t) == 24);
}
constexpr DecodeError check_operands(const RandGetState& t) {
  return when(is_state(t.dst));
}
constexpr DecodeError check_operands(const RandSetState& t) {
  return when(is_state(t.src));
}

// (op0, op1) of spec/engine-isa.md 10.2.
constexpr DecodeError check_operands(const Activate2& t) {
  const bool none = t.op1 == TensorOp::kBypass;
  const bool pair = (t.op0 == TensorOp::kMultiply &&
                     (none || t.op1 == TensorOp::kAdd || t.op1 == TensorOp::kSubtract)) ||
                    (none && (t.op0 == TensorOp::kAdd || t.op0 == TensorOp::kSubtract ||
                              t.op0 == TensorOp::kBypass));
  const bool reduces = t.reduce_op == TensorOp::kAdd || t.reduce_op == TensorOp::kMax ||
                       t.reduce_op == TensorOp::kMin || t.reduce_op == TensorOp::kAbsMax ||
                       t.reduce_op == TensorOp::kAbsMin;
  return when(pair && reduces && t.reduce_cmd != ReduceCmd::kLoadReduce);
}

// Lanes that share a list of indices or numbers.
constexpr unsigned kGroup = 16;
constexpr DecodeError check_operands(const LoadIndex& t) {
  return when(t.src.memory == Memory::kSbuf && is_index(t.src) && t.partitions % kGroup == 0);
}
constexpr DecodeError check_operands(const LocalGather& t) {
  const bool width = t.width != 0 && (t.width & (t.width - 1)) == 0;
  return when(t.partitions % kGroup == 0 && width && t.count != 0 && t.count <= 4096 &&
              element_count(t.index) * kGroup >= t.count && t.index.dtype == DataType::kUint16 &&
              element_count(t.dst) == uint64_t{t.count} * t.width && t.src.dtype == t.dst.dtype);
}
constexpr DecodeError check_operands(const NGather& t) {
  return when(t.index.dtype == DataType::kUint32 && t.src.dtype == t.dst.dtype);
}
constexpr DecodeError check_operands(const PartitionReduce& t) {
  const bool arithmetic = t.op == TensorOp::kAdd || t.op == TensorOp::kMax;
  const bool bits = t.op == TensorOp::kAnd || t.op == TensorOp::kOr;
  return when(t.to == 1 && (arithmetic || (bits && is_integer(t.src) && is_integer(t.dst))) &&
              (t.average == 0 || t.op == TensorOp::kAdd));
}
constexpr bool is_count(const TensorOperand& t) {
  return t.dtype == DataType::kInt32 || t.dtype == DataType::kFloat32;
}
constexpr DecodeError check_operands(const SequenceBounds& t) {
  return when(t.partitions == 1 && is_count(t.src) && is_count(t.dst) &&
              element_count(t.dst) == 2 * element_count(t.src));
}
constexpr DecodeError check_operands(const Topk& t) {
  const uint64_t k = element_count(t.dst);
  return when(t.partitions % kGroup == 0 && t.n >= 8 && k <= t.n && k < 32768 &&
              element_count(t.index) == k && element_count(t.src) * kGroup >= t.n &&
              t.src.dtype == DataType::kBfloat16 && t.dst.dtype == DataType::kBfloat16 &&
              t.index.dtype == DataType::kUint32);
}
constexpr DecodeError check_operands(const NonzeroWithCount& t) {
  return when(is_count(t.src) && t.dst.dtype == DataType::kInt32 &&
              element_count(t.dst) == element_count(t.src) + 1);
}

constexpr bool is_register_cell(const TensorOperand& t, unsigned partitions) {
  return partitions == 1 && t.memory == Memory::kSbuf && data_type_bytes(t.dtype) <= 4;
}
constexpr DecodeError check_operands(const RegisterLoad& t) {
  return when(is_register_cell(t.src, t.partitions));
}
constexpr DecodeError check_operands(const RegisterStore& t) {
  return when(is_register_cell(t.dst, t.partitions));
}

// One element in device memory and the register, or pair of them, that it goes to or comes from.
constexpr bool is_tensor_cell(const SideOperand& s, uint32_t r) {
  return s.entry != kSbufEntry && element_count(s) == 1 &&
         (data_type_bytes(s.dtype) <= 4 || r + 1 < kRegisters);
}
constexpr DecodeError check_operands(const TensorLoad& t) {
  return when(is_tensor_cell(t.src, t.dst));
}
constexpr DecodeError check_operands(const TensorStore& t) {
  return when(is_tensor_cell(t.dst, t.src));
}
constexpr DecodeError check_operands(const BranchLink& b) {
  return when((b.entries != 0) == (b.table != 0) &&
              b.entries <= uint32_t{kSbufEntry} - kFirstArgument);
}

// Sides of generated transfers. Elements of the destination have a place each; hardware moves bytes
// as they are (spec/engine-isa.md 10.1). Only types of descriptors are converted and added up.
constexpr bool has_places(const SideOperand& dst) {
  for (unsigned i = 0; i < rank_of(dst); ++i) {
    if (dst.count[i] > 1 && dst.step[i] == 0) return false;
  }
  return true;
}
constexpr bool moves(DgeMode mode, DgeOp op, const SideOperand& dst, const SideOperand& src) {
  const bool as_it_is = src.dtype == dst.dtype;
  const bool computable = has_dtype(src.dtype) && has_dtype(dst.dtype);
  return has_places(dst) && element_count(src) == element_count(dst) &&
         (as_it_is || (mode == DgeMode::kSwdge && op == DgeOp::kNone)) &&
         (computable || (as_it_is && op == DgeOp::kNone)) &&
         (op == DgeOp::kNone || mode == DgeMode::kSwdge);
}
constexpr DecodeError check_operands(const DmaMemcpy& t) {
  return when(moves(t.mode, t.op, t.dst, t.src));
}
constexpr DecodeError check_operands(const DmaIndirect& t) {
  const SideOperand& indexed = t.direction == DgeDirection::kGather ? t.src : t.dst;
  const bool index = t.index.dtype == DataType::kUint32 || t.index.dtype == DataType::kInt32;
  return when(t.mode == DgeMode::kSwdge && moves(t.mode, t.op, t.dst, t.src) && index &&
              t.index.memory == Memory::kSbuf && indexed.entry != kSbufEntry &&
              rows_of(indexed) == t.rows);
}
// The first and the last axis change places.
constexpr bool transposed(const SideOperand& dst, const SideOperand& src) {
  const unsigned rank = rank_of(src);
  if (rank < 2 || rank_of(dst) != rank || !has_places(dst)) return false;
  bool alike = dst.count[0] == src.count[rank - 1] && dst.count[rank - 1] == src.count[0];
  for (unsigned i = 1; i + 1 < rank; ++i) alike = alike && dst.count[i] == src.count[i];
  constexpr uint32_t kMostColumns = 128;
  return alike && src.dtype == dst.dtype && data_type_bytes(src.dtype) == 2 &&
         dst.entry == kSbufEntry && src.count[0] <= kMostColumns && src.step[0] == 2 &&
         dst.step[0] == 2;
}
constexpr DecodeError check_operands(const DmaTranspose& t) {
  const unsigned rank = rank_of(t.src);
  const uint32_t first = rows_of(t.src);
  const bool power = first == 1 || first == 2 || first == 4 || first == 8 || first == 16;
  const bool shape = rank == 2 ? first == 16 : power && first * uint64_t{t.src.count[1]} % 16 == 0;
  return when(t.mode == DgeMode::kHwdge && transposed(t.dst, t.src) && shape);
}
constexpr DecodeError check_operands(const DmaGatherTranspose& t) {
  const unsigned rank = rank_of(t.src);
  const uint32_t n = rows_of(t.src);
  const uint64_t columns = element_count(t.index);
  const bool index = t.index.dtype == DataType::kUint32 && t.index.memory == Memory::kSbuf &&
                     t.rows % 16 == 0 && (columns == 1 || t.rows == kPartitions) &&
                     columns * t.rows >= n;
  const bool middle = rank < 4 || t.src.count[1] == 1 || t.src.count[2] == 1;
  return when(t.mode == DgeMode::kSwdge && transposed(t.dst, t.src) && index && middle &&
              n % 16 == 0 && t.src.entry != kSbufEntry);
}

// Operands of some kinds are zero in the others.
constexpr DecodeError check_operands(const PseudoTriggerCollective2& c) {
  const CollectiveType t = c.ctype;
  const bool variable_size = t == CollectiveType::kAllGatherV ||
                             t == CollectiveType::kReduceScatterV ||
                             t == CollectiveType::kAllToAllV;
  const bool rooted = t == CollectiveType::kBroadcast || t == CollectiveType::kReduce;
  const bool two_sources = t == CollectiveType::kPermuteReduce ||
                           t == CollectiveType::kPermuteReduceImplicit ||
                           t == CollectiveType::kSendRecvCce;
  const bool metadata = c.metadata_var_id != 0 || c.recv_counts_known != 0 || c.has_rdispls != 0;
  const bool ok = has_dtype(c.dtype) && (variable_size || !metadata) && (rooted || c.root == 0) &&
                  (two_sources || (c.src1_var_id == 0 && c.src1_var_offset == 0));
  return ok ? DecodeError::kNone : DecodeError::kFieldRange;
}

}  // namespace isa
}  // namespace contract
