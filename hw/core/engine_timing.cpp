#include "hw/core/engine_timing.h"

#include <algorithm>
#include <cstdlib>

#include "arch/contract/isa.h"

namespace hw {

namespace isa = contract::isa;
using isa::DataType;
using isa::Opcode;
using isa::TensorOp;
using isa::TensorOperand;

namespace {

bool is_16_bit_float(DataType t) {
  return t == DataType::kBfloat16 || t == DataType::kFloat16;
}
bool is_8_bit_float(DataType t) {
  return t == DataType::kFloat8e3 || t == DataType::kFloat8e4 || t == DataType::kFloat8e5 ||
         t == DataType::kFloat8e4fn;
}

bool contiguous(const TensorOperand& t) {
  return t.dims[0].step == 1 || t.dims[0].count <= 1;
}

bool in_sbuf(const TensorOperand& t) {
  return t.memory == isa::Memory::kSbuf;
}

bool is_dynamic(const isa::TensorUses& uses) {
  for (const isa::TensorUse& use : uses) {
    if (use.tensor->offset_register != isa::kNoRegister) return true;
  }
  return false;
}

uint64_t divided(uint64_t n, uint64_t by) {
  return (n + by - 1) / by;
}

uint64_t log2_ceil(uint64_t n) {
  uint64_t bits = 0;
  while ((uint64_t{1} << bits) < n) ++bits;
  return bits;
}

}  // namespace

EngineTiming::EngineTiming(const TimingParams& params, contract::Gen gen, contract::Engine engine)
    : params_(params), gen_(gen), engine_(engine) {
  const base::Rate clocks[] = {params.clk_pe, params.clk_act, params.clk_pool, params.clk_dve,
                               params.clk_sp};
  const base::Ps latencies[] = {params.pe_mm_pipe_latency, params.act_pipe_latency,
                                params.pool_pipe_latency, params.dve_pipe_latency, 0};
  clock_ = clocks[engine];
  latency_ = latencies[engine];
}

// Types that the performance modes take (spec/engine-isa.md 6.3).
bool EngineTiming::is_narrow(DataType type) const {
  return is_16_bit_float(type) || (gen_ == contract::Gen::kV4 && is_8_bit_float(type));
}

// Element by element, from one interface to another.
uint64_t EngineTiming::moved(const TensorOperand& dst, const TensorOperand& src) const {
  const uint64_t n = isa::element_count(dst);
  const bool both_sbuf = in_sbuf(dst) && in_sbuf(src);
  const bool narrow = is_narrow(dst.dtype) && is_narrow(src.dtype);
  const unsigned widest =
      std::max(isa::data_type_bytes(dst.dtype), isa::data_type_bytes(src.dtype));
  uint64_t divisor = 1;
  if (engine_ == contract::kDve && gen_ != contract::Gen::kV2 && narrow) {
    const bool packed = contiguous(dst) && contiguous(src);
    divisor = both_sbuf && packed ? 4 : both_sbuf || packed ? 2 : 1;
  }
  if (engine_ == contract::kDve && both_sbuf && widest == 4) {
    divisor = params_.dve_fp32_copy_speedup;
  }
  if (engine_ == contract::kAct && gen_ == contract::Gen::kV4 && narrow) divisor = 2;
  return divided(n, divisor);
}

uint64_t EngineTiming::cost(const isa::TensorTensor& op) const {
  const uint64_t n = isa::element_count(op.dst);
  const bool v2 = gen_ == contract::Gen::kV2;
  const bool both_sbuf = in_sbuf(op.src0) && in_sbuf(op.src1);
  const bool arithmetic =
      op.op == TensorOp::kAdd || op.op == TensorOp::kSubtract || op.op == TensorOp::kMultiply;
  const auto all = [&](auto test) { return test(op.dst) && test(op.src0) && test(op.src1); };
  const bool narrow = all([&](const TensorOperand& t) { return is_narrow(t.dtype); });
  const bool bf16 = all([](const TensorOperand& t) { return t.dtype == DataType::kBfloat16; });
  // Two reads of SBUF per element, unless one input is in PSUM or a 16-bit mode applies.
  bool single = !both_sbuf || (v2 ? bf16 && arithmetic && all(contiguous) : narrow);
  if (engine_ == contract::kPool) single = false;
  return single ? n : 2 * n;
}

uint64_t EngineTiming::cost(const isa::TensorReduce& op) const {
  const uint64_t n = isa::element_count(op.src);
  const bool bf16 = op.dst.dtype == DataType::kBfloat16 && op.src.dtype == DataType::kBfloat16;
  const bool halves = bf16 && (op.op == TensorOp::kAdd || op.op == TensorOp::kMax);
  return halves ? divided(n, 2) : n;
}

uint64_t EngineTiming::cost(const isa::TensorScalar& op) const {
  if (engine_ == contract::kPool) return params_.pool_rsqrt_cycles * isa::element_count(op.dst);
  return moved(op.dst, op.src);
}

uint64_t EngineTiming::cost(const isa::ScalarTensorTensor& op) const {
  const uint64_t n = isa::element_count(op.dst);
  const bool bf16 = op.src0.dtype == DataType::kBfloat16 && op.src1.dtype == DataType::kBfloat16;
  const bool single =
      bf16 && op.op0 == TensorOp::kSubtract && op.op1 == TensorOp::kMultiply && n % 2 == 0;
  return single ? n : 2 * n;
}

uint64_t EngineTiming::cost(const isa::Memset& op) const {
  const uint64_t n = isa::element_count(op.dst);
  const bool halves = engine_ == contract::kDve && op.value == 0 && is_16_bit_float(op.dst.dtype);
  return halves ? divided(n, 2) : n;
}

// One of src and predicate in PSUM: one read of SBUF per element, else two.
uint64_t EngineTiming::cost(const TensorOperand& dst, const TensorOperand& predicate,
                            const TensorOperand* src) const {
  const uint64_t n = isa::element_count(dst);
  const bool single = src == nullptr || !in_sbuf(*src) || !in_sbuf(predicate);
  return single ? n : 2 * n;
}

// spec/timing.md 4: n e C with C = ((28 + 4 e) / 4 e) / min(4 / size, e).
uint64_t EngineTiming::cost(const isa::LocalGather& op) const {
  const uint64_t e = op.width;
  const uint64_t at_once =
      std::min<uint64_t>(4 / std::min(4u, isa::data_type_bytes(op.dst.dtype)), e);
  return divided(op.count * (28 + 4 * e), 4 * at_once);
}

// Groups of instructions, each with the start-up of one; the first start-up is that of all.
uint64_t EngineTiming::cost(const isa::NGather& op) const {
  constexpr uint64_t kGroup = 512;
  const uint64_t n = isa::element_count(op.dst);
  return n + (divided(n, kGroup) - 1) * params_.pool_start_cycles;
}

// Before strides, start-up and floors: the table of spec/timing.md 4.
uint64_t EngineTiming::cycles_of(const isa::Instruction& instruction,
                                 const isa::TensorUses& uses) const {
  const isa::Operands& o = instruction.operands;
  switch (instruction.opcode) {
    case Opcode::kTensorTensor:
      return cost(o.tensor_tensor);
    case Opcode::kTensorCopy:
      return moved(o.tensor_copy.dst, o.tensor_copy.src);
    case Opcode::kTensorReduce:
      return cost(o.tensor_reduce);
    case Opcode::kTensorScalar:
      return cost(o.tensor_scalar);
    case Opcode::kMemset:
      return cost(o.memset);
    case Opcode::kScalarTensorTensor:
      return cost(o.scalar_tensor_tensor);
    case Opcode::kCopyPredicated: {
      const auto& p = o.copy_predicated;
      const bool tile = p.src.kind == isa::ScalarOperand::kTile;
      return cost(p.dst, p.predicate, tile ? &p.src.tile : nullptr);
    }
    case Opcode::kSelectReduce:
      return cost(o.select_reduce.dst, o.select_reduce.predicate, &o.select_reduce.on_true);
    case Opcode::kBnStats:
      return isa::element_count(o.bn_stats.src);
    case Opcode::kBnAggregate:
      return params_.dve_bn_aggregate_cycles * (isa::element_count(o.bn_aggregate.src) / 3);
    case Opcode::kMax8:
      return isa::element_count(o.max8.src);
    case Opcode::kFindIndex8:
      return isa::element_count(o.find_index8.src);
    case Opcode::kTranspose:
      return isa::element_count(o.transpose.src);
    case Opcode::kExponential:
      return divided(isa::element_count(o.exponential.dst), params_.dve_exp_speedup);
    case Opcode::kQuantizeMx:
      return divided(isa::element_count(o.quantize_mx.src), params_.dve_mx_speedup);
    case Opcode::kRand2:
      return divided(isa::element_count(o.rand2.dst), params_.dve_rand2_speedup);
    case Opcode::kLocalGather:
      return cost(o.local_gather);
    case Opcode::kNGather:
      return cost(o.n_gather);
    case Opcode::kPartitionReduce:
      return isa::element_count(o.partition_reduce.src) * log2_ceil(o.partition_reduce.partitions);
    case Opcode::kSequenceBounds:
      return 2 * isa::element_count(o.sequence_bounds.src);
    case Opcode::kNonzeroWithCount:
      return 2 * isa::element_count(o.nonzero_with_count.src);
    case Opcode::kTopk:
      return 4 * uint64_t{o.topk.n} + isa::element_count(o.topk.dst);
    case Opcode::kSetRngSeed:
    case Opcode::kRandGetState:
    case Opcode::kRandSetState:
      return params_.eng_min_ii_cycles;
    case Opcode::kTensorTensorScan:
      return 2 * isa::element_count(o.tensor_tensor_scan.dst);
    case Opcode::kReciprocal:
      return params_.dve_reciprocal_cycles * isa::element_count(o.reciprocal.dst);
    case Opcode::kReadAccumulator:
      return engine_ == contract::kAct ? params_.act_read_accumulator_cycles
                                       : params_.dve_read_accumulator_cycles;
    default:
      return isa::element_count(*uses.uses[0].tensor);
  }
}

InstructionTime EngineTiming::of(const isa::Instruction& instruction,
                                 const isa::TensorUses& uses) const {
  uint64_t cycles = cycles_of(instruction, uses);
  // An innermost stride of 16 bytes or more halves the rate of that interface
  // (spec/engine-isa.md 6.4).
  const bool strided = [&] {
    for (const isa::TensorUse& use : uses) {
      const isa::PatternDim& inner = use.tensor->dims[0];
      const auto step = static_cast<uint64_t>(std::abs(static_cast<int>(inner.step)));
      if (inner.count > 1 && step > 1 &&
          step * isa::data_type_bytes(use.tensor->dtype) >= params_.eng_stride_penalty_bytes) {
        return true;
      }
    }
    return false;
  }();
  if (strided) cycles *= params_.eng_stride_penalty_factor;
  if (engine_ == contract::kPool && instruction.opcode != Opcode::kTopk) {
    cycles += params_.pool_start_cycles;
  }
  const uint64_t least =
      is_dynamic(uses) ? params_.eng_min_ii_dynamic_cycles : params_.eng_min_ii_cycles;
  return {this->cycles(std::max(cycles, least)), latency_};
}

// The array takes the next instruction after its interval, but no instruction is through sooner
// than the shortest one of the other engines.
InstructionTime EngineTiming::in_array(uint64_t cycles, base::Ps latency) const {
  const base::Ps interval = this->cycles(cycles);
  const base::Ps least = this->cycles(params_.eng_min_ii_cycles);
  return {interval, latency + std::max(least, interval) - interval};
}

InstructionTime EngineTiming::load_weights(uint64_t columns, uint64_t passes) const {
  return in_array(passes * divided(columns, params_.pe_ls_speedup), params_.pe_ls_pipe_latency);
}

InstructionTime EngineTiming::multiply(uint64_t moving, uint64_t columns, uint64_t passes,
                                       bool fresh) const {
  const uint64_t least =
      fresh ? std::min(params_.pe_mm_init_cycles, columns) : params_.pe_mm_init_cycles;
  return in_array(passes * std::max(moving, least), params_.pe_mm_pipe_latency);
}

}  // namespace hw
