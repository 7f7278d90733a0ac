// What one engine of one generation executes of the instruction set, beyond what data/isa says of
// engines. Source of truth: spec/engine-isa.md 4, 5 and 10.
#pragma once

#include "arch/contract/address_map.h"
#include "arch/contract/isa_checks.h"
#include "contract/isa_types.h"

namespace contract::isa {

namespace detail {

constexpr bool uses_psum(const Instruction& in) {
  for (const TensorUse& use : tensors_of(in)) {
    if (use.tensor->memory == Memory::kPsum) return true;
  }
  return false;
}

// Words of state per lane: GpSimd has one generator, Vector four.
constexpr bool has_state(Engine engine, Gen gen, uint64_t words) {
  return engine == Engine::kPool ? gen != Gen::kV2 && words == 6 : gen == Gen::kV4 && words == 24;
}

constexpr bool is_abs_select(TensorOp op) {
  return op == TensorOp::kAbsMax || op == TensorOp::kAbsMin;
}

constexpr bool operator_exists(TensorOp op, Gen gen) {
  return gen == Gen::kV4 || !is_abs_select(op);
}
// As the first operator with a scalar.
constexpr bool first_operator_exists(TensorOp op, Gen gen) {
  return operator_exists(op, gen) &&
         (gen == Gen::kV4 || (op != TensorOp::kSquare && op != TensorOp::kRelu));
}

constexpr bool executes(const TensorScalar& t, Engine engine, Gen gen) {
  switch (engine) {
    case Engine::kAct: {
      const bool one = t.op1 == TensorOp::kBypass;
      return gen != Gen::kV2 && t.reverse == 0 &&
             ((t.op0 == TensorOp::kMultiply && (one || t.op1 == TensorOp::kAdd)) ||
              (t.op0 == TensorOp::kAdd && one));
    }
    case Engine::kPool:
      return t.op0 == TensorOp::kRsqrt && t.op1 == TensorOp::kBypass;
    default:
      return first_operator_exists(t.op0, gen) && operator_exists(t.op1, gen);
  }
}

constexpr bool executes(const Activate& t, Gen gen) {
  const bool biased = t.bias.kind != ScalarOperand::kImmediate || t.bias.bits != 0;
  if (t.bias.kind == ScalarOperand::kTile && t.bias.tile.dtype == DataType::kFloat32r) return false;
  if (gen != Gen::kV2) return operator_exists(t.reduce_op, gen);
  return (!biased || t.bias.kind == ScalarOperand::kTile) &&
         (!biased || t.function != ActFunction::kReciprocal) && t.reduce_op == TensorOp::kAdd;
}

// Tiles of the array: 2 x 2 of 64 rows and columns, 4 x 4 of 32 from v3 on. Two rows of 8-bit
// numbers at once and transposes also from v3 on, sums in bfloat16 on v4.
constexpr unsigned tile_side(Gen gen) {
  return gen == Gen::kV2 ? 64 : 32;
}
constexpr bool executes(const Ldweights& t, Gen gen) {
  const unsigned side = tile_side(gen);
  return t.src.start_partition % side == 0 && t.column % side == 0 &&
         (t.double_row == 0 || gen != Gen::kV2);
}
constexpr bool executes(const Matmul& t, Gen gen) {
  const unsigned side = tile_side(gen);
  const bool sums = t.transpose != 0 || t.dst.dtype == DataType::kFloat32 || gen == Gen::kV4;
  return t.moving.start_partition % side == 0 && t.dst.start_partition % side == 0 && sums &&
         ((t.double_row == 0 && t.transpose == 0) || gen != Gen::kV2);
}

// Hardware generates descriptors from v3 on, behind the Scalar and the Sync engine; so do indirect
// addresses, which GpSimd resolves (spec/engine-isa.md 8.2).
constexpr bool generates(DgeMode mode, Engine engine, Gen gen) {
  return mode == DgeMode::kSwdge ? engine == Engine::kPool
                                 : engine != Engine::kPool && gen != Gen::kV2;
}

// Which types only move: equal ones, bit for bit.
constexpr bool moves(const Instruction& in) {
  switch (in.opcode) {
    case Opcode::kTensorCopy:
      return in.operands.tensor_copy.dst.dtype == in.operands.tensor_copy.src.dtype;
    case Opcode::kMemset:
    case Opcode::kStreamShuffle:
    case Opcode::kTranspose:
      return true;
    default:
      return false;
  }
}

// Operands that indices may go with (spec/engine-isa.md 3 rule 9).
constexpr bool takes_index(const Instruction& in, Engine engine, const TensorOperand* t) {
  const Operands& o = in.operands;
  const bool narrow = data_type_bytes(t->dtype) <= 2 && !dtype_is_integer(dtype_of(t->dtype));
  switch (in.opcode) {
    case Opcode::kTensorCopy:
      return engine != Engine::kPool;
    case Opcode::kCopyPredicated:
      return t == &o.copy_predicated.dst || t == &o.copy_predicated.predicate;
    case Opcode::kTensorTensor:
      return t == &o.tensor_tensor.dst || t == &o.tensor_tensor.src0;
    case Opcode::kTensorScalar:
      return (t == &o.tensor_scalar.dst || t == &o.tensor_scalar.src) &&
             !on_bits(o.tensor_scalar.op0) && !on_bits(o.tensor_scalar.op1);
    case Opcode::kTensorReduce:
      return true;
    case Opcode::kTensorScalarReduce:
      return t == &o.tensor_scalar_reduce.dst || t == &o.tensor_scalar_reduce.src;
    case Opcode::kTensorScalarCumulative:
      return t == &o.tensor_scalar_cumulative.dst || t == &o.tensor_scalar_cumulative.src;
    case Opcode::kActivate:
      return t == &o.activate.dst || t == &o.activate.src;
    case Opcode::kActivate2:
      return t == &o.activate2.dst || t == &o.activate2.src;
    case Opcode::kExponential:
      return t == &o.exponential.dst || t == &o.exponential.src;
    case Opcode::kLdweights:
      return narrow && o.ldweights.src.start_partition == 0 && o.ldweights.column == 0;
    case Opcode::kMatmul:
      return o.matmul.moving.start_partition == 0 && o.matmul.dst.start_partition == 0 &&
             (t == &o.matmul.dst || (narrow && o.matmul.transpose == 0));
    case Opcode::kLdweightsMx:
      return t == &o.ldweights_mx.src && o.ldweights_mx.src.start_partition == 0;
    case Opcode::kMatmulMx:
      return t != &o.matmul_mx.scale && o.matmul_mx.moving.start_partition == 0;
    default:
      return false;
  }
}

constexpr bool is_mx(Opcode op) {
  return op == Opcode::kQuantizeMx || op == Opcode::kLdweightsMx || op == Opcode::kMatmulMx;
}

}  // namespace detail

// Lanes that share indices.
constexpr unsigned index_lanes(Engine engine) {
  return engine == Engine::kPe ? 32 : kGroup;
}

// Whether tensor `number` may go by indices that begin at partition `start`: a source starts where
// they do; what is scattered has them where the first source is, and does not go to PSUM from the
// Scalar engine.
constexpr bool indexable(const Instruction& in, Engine engine, unsigned number, unsigned start) {
  const TensorUses uses = tensors_of(in);
  if (number >= uses.count) return false;
  const TensorUse& use = uses.uses[number];
  const TensorOperand& t = *use.tensor;
  if (t.dims[1].count != 0 || !detail::takes_index(in, engine, &t)) return false;
  if (use.access == Access::kRead) return t.start_partition == start;
  const bool reaches = engine != Engine::kAct || t.memory == Memory::kSbuf;
  return reaches && uses.count > 1 && uses.uses[1].tensor->start_partition == start;
}

// The number of the first tensor whose type this engine does not take in this instruction, or -1
// (spec/engine-isa.md 5.1): integers of 64 bits are for DMA; OCP types came with v4, where those of
// MX enter its instructions and are moved; the Tensor engine of v4 has no e3m4.
// `uses`: its tensors.
constexpr int foreign_type(const Instruction& in, const TensorUses& uses, Engine engine, Gen gen) {
  const bool mx = detail::is_mx(in.opcode) || detail::moves(in);
  for (unsigned i = 0; i < uses.count; ++i) {
    const DataType type = uses.uses[i].tensor->dtype;
    const bool scales_only = is_packed(type) || type == DataType::kFloat8e8;
    const bool taken =
        has_dtype(type) ? data_type_bytes(type) != 8 && (type != DataType::kFloat8e3 ||
                                                         engine != Engine::kPe || gen != Gen::kV4)
                        : gen == Gen::kV4 && (mx || !scales_only);
    if (!taken) return static_cast<int>(i);
  }
  return -1;
}
constexpr int foreign_type(const Instruction& in, Engine engine, Gen gen) {
  return foreign_type(in, tensors_of(in), engine, gen);
}

// `in` as decoded, on an engine that its opcode runs on.
constexpr bool executes(const Instruction& in, Engine engine, Gen gen) {
  const Operands& o = in.operands;
  if (engine == Engine::kPool && detail::uses_psum(in)) return false;
  switch (in.opcode) {
    case Opcode::kTensorTensor:
      return detail::operator_exists(o.tensor_tensor.op, gen) &&
             (o.tensor_tensor.op != TensorOp::kPower || engine == Engine::kPool);
    case Opcode::kTensorCopy:
      return engine != Engine::kAct || gen != Gen::kV2;
    case Opcode::kTensorReduce:
      return detail::operator_exists(o.tensor_reduce.op, gen);
    case Opcode::kTensorScalar:
      return detail::executes(o.tensor_scalar, engine, gen);
    case Opcode::kTensorScalarReduce:
      return detail::first_operator_exists(o.tensor_scalar_reduce.op, gen);
    case Opcode::kScalarTensorTensor:
      return detail::operator_exists(o.scalar_tensor_tensor.op0, gen) &&
             detail::operator_exists(o.scalar_tensor_tensor.op1, gen);
    case Opcode::kTensorTensorScan:
      return detail::operator_exists(o.tensor_tensor_scan.op0, gen) &&
             detail::operator_exists(o.tensor_tensor_scan.op1, gen);
    case Opcode::kActivate:
      return detail::executes(o.activate, gen);
    case Opcode::kLdweights:
      return detail::executes(o.ldweights, gen);
    case Opcode::kMatmul:
      return detail::executes(o.matmul, gen);
    case Opcode::kTensorScalarCumulative:
      return detail::first_operator_exists(o.tensor_scalar_cumulative.op0, gen);
    case Opcode::kRangeSelect:
    case Opcode::kNonzeroWithCount:
      return gen != Gen::kV2;
    case Opcode::kLoadIndex:
      return gen == Gen::kV4 && o.load_index.partitions % index_lanes(engine) == 0;
    case Opcode::kActivate2:
    case Opcode::kExponential:
    case Opcode::kRand2:
    case Opcode::kQuantizeMx:
    case Opcode::kLdweightsMx:
    case Opcode::kMatmulMx:
      return gen == Gen::kV4;
    case Opcode::kRng:
      return engine == Engine::kDve || gen != Gen::kV2;
    case Opcode::kRandGetState:
      return detail::has_state(engine, gen, element_count(o.rand_get_state.dst));
    case Opcode::kRandSetState:
      return detail::has_state(engine, gen, element_count(o.rand_set_state.src));
    case Opcode::kDmaMemcpy:
      return detail::generates(o.dma_memcpy.mode, engine, gen);
    case Opcode::kDmaTranspose:
      return detail::generates(o.dma_transpose.mode, engine, gen);
    case Opcode::kDmaIndirect:
    case Opcode::kDmaGatherTranspose:
      return gen != Gen::kV2;
    default:
      return true;
  }
}

}  // namespace contract::isa
