#include "hw/core/engine_timing.h"

#include <algorithm>
#include <cstdlib>

namespace hw {

namespace isa = contract::isa;
using isa::DataType;
using isa::TensorOperand;

namespace {

bool is_16_bit_float(DataType t) {
  return t == DataType::kBfloat16 || t == DataType::kFloat16;
}

bool contiguous(const TensorOperand& t) {
  return t.dims[0].step == 1 || t.dims[0].count <= 1;
}

bool dynamic(const TensorOperand& t) {
  return t.offset_register != isa::kNoRegister;
}

bool in_sbuf(const TensorOperand& t) {
  return t.memory == isa::Memory::kSbuf;
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

// An innermost stride of 16 bytes or more halves the rate of that interface
// (spec/engine-isa.md 6.4).
uint64_t EngineTiming::strided(const TensorOperand& operand, uint64_t cycles) const {
  const auto step = static_cast<uint64_t>(std::abs(static_cast<int>(operand.dims[0].step)));
  const bool penalty =
      operand.dims[0].count > 1 && step > 1 &&
      step * isa::data_type_bytes(operand.dtype) >= params_.eng_stride_penalty_bytes;
  return penalty ? cycles * params_.eng_stride_penalty_factor : cycles;
}

InstructionTime EngineTiming::finish(uint64_t cycles, bool dynamic) const {
  if (engine_ == contract::kPool) cycles += params_.pool_start_cycles;
  const uint64_t least = dynamic ? params_.eng_min_ii_dynamic_cycles : params_.eng_min_ii_cycles;
  return {clock_.time_for(std::max(cycles, least)), latency_};
}

InstructionTime EngineTiming::tensor_copy(const isa::TensorCopy& op) const {
  const uint64_t n = isa::element_count(op.dst);
  uint64_t divisor = 1;
  const bool both_sbuf = in_sbuf(op.dst) && in_sbuf(op.src);
  const unsigned widest =
      std::max(isa::data_type_bytes(op.dst.dtype), isa::data_type_bytes(op.src.dtype));
  // Performance modes of the Vector engine (spec/engine-isa.md 6.3).
  if (engine_ == contract::kDve && gen_ != contract::Gen::kV2) {
    if (is_16_bit_float(op.dst.dtype) && is_16_bit_float(op.src.dtype)) {
      const bool packed = contiguous(op.dst) && contiguous(op.src);
      divisor = both_sbuf && packed ? 4 : both_sbuf || packed ? 2 : 1;
    }
  }
  if (engine_ == contract::kDve && both_sbuf && widest == 4)
    divisor = params_.dve_fp32_copy_speedup;
  const uint64_t cycles = (n + divisor - 1) / divisor;
  return finish(std::max(strided(op.dst, cycles), strided(op.src, cycles)),
                dynamic(op.dst) || dynamic(op.src));
}

InstructionTime EngineTiming::tensor_tensor(const isa::TensorTensor& op) const {
  const uint64_t n = isa::element_count(op.dst);
  const bool v2 = gen_ == contract::Gen::kV2;
  const bool both_sbuf = in_sbuf(op.src0) && in_sbuf(op.src1);
  const bool arithmetic = op.op == isa::TensorOp::kAdd || op.op == isa::TensorOp::kSubtract ||
                          op.op == isa::TensorOp::kMultiply;
  const auto all = [&](auto test) { return test(op.dst) && test(op.src0) && test(op.src1); };
  const bool half = all([](const TensorOperand& t) { return is_16_bit_float(t.dtype); });
  const bool bf16 = all([](const TensorOperand& t) { return t.dtype == DataType::kBfloat16; });
  // Two reads of SBUF per element, unless one input is in PSUM or a 16-bit mode applies.
  bool single = !both_sbuf || (v2 ? bf16 && arithmetic && all(contiguous) : half);
  if (engine_ == contract::kPool) single = false;
  const uint64_t reads = single ? n : 2 * n;
  const uint64_t cycles =
      std::max({strided(op.src0, reads), strided(op.src1, reads), strided(op.dst, n)});
  return finish(cycles, dynamic(op.dst) || dynamic(op.src0) || dynamic(op.src1));
}

}  // namespace hw
