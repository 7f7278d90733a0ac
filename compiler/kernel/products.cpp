// Products of the Tensor engine (spec/engine-isa.md 7).
#include <algorithm>

#include "compiler/kernel/calls.h"

namespace kernel {
namespace {

constexpr int64_t kBankElements = 512;  // spec/engine-isa.md 2

int64_t free_elements(const View& v) {
  return v.elements() / std::max<int64_t>(v.size(0), 1);
}

std::string size_of(int64_t rows, int64_t columns) {
  return std::to_string(rows) + " x " + std::to_string(columns);
}

bool is_wide(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat32r;
}

}  // namespace

void Kernel::load_weights(const View& stationary, int column, Location at) {
  Program& p = *program_;
  const Call call{at, "load_weights"};
  const Program::Operand operand{"stationary", &stationary, false};
  if (!p.check(call, {operand})) return;
  isa::Instruction in = make(Opcode::kLdweights);
  in.operands.ldweights.src = p.tensor(call, operand);
  in.operands.ldweights.rows = lanes_of(stationary);
  in.operands.ldweights.column = static_cast<uint8_t>(column);
  p.add(call, chosen(Engine::kAuto, Engine::kTensor), in);
  p.weights[{stationary.start_partition_, column}] = {stationary.size(0), free_elements(stationary),
                                                      stationary.dtype()};
}

void Kernel::product(const char* name, const View& dst, const View& moving, Accumulate accumulate,
                     bool transpose, Location at) {
  Program& p = *program_;
  const Call call{at, name};
  const Program::Operand operands[] = {{"dst", &dst, true}, {"moving", &moving, false}};
  if (!p.check(call, {operands[0], operands[1]})) return;
  const std::string what = std::string(name) + ": ";
  const auto loaded = p.weights.find({moving.start_partition_, dst.start_partition_});
  if (loaded == p.weights.end()) {
    p.fail(base::Fault::kUsage, at,
           what + "no weights begin at row " + std::to_string(moving.start_partition_) +
               ", where moving begins, and column " + std::to_string(dst.start_partition_) +
               ", where dst does");
    return;
  }
  const Program::Weights& w = loaded->second;
  if (w.rows != moving.size(0) || w.columns != dst.size(0) ||
      free_elements(dst) != free_elements(moving)) {
    p.fail(base::Fault::kUsage, at,
           what + "stationary is " + size_of(w.rows, w.columns) + " (K x M) and moving " +
               size_of(moving.size(0), free_elements(moving)) + " (K x N), dst is " +
               size_of(dst.size(0), free_elements(dst)) + " (M x N)");
    return;
  }
  if (is_wide(w.dtype) != is_wide(moving.dtype())) {
    p.fail(base::Fault::kUsage, at, what + "32-bit types multiply only with themselves");
    return;
  }
  if (free_elements(dst) > kBankElements) {
    p.fail(base::Fault::kUsage, at,
           what + std::to_string(free_elements(dst)) + " columns; a bank of PSUM holds 512");
    return;
  }
  isa::Instruction in = make(Opcode::kMatmul);
  in.operands.matmul.accumulate = static_cast<isa::Accumulate>(accumulate);
  in.operands.matmul.dst = p.tensor(call, operands[0]);
  in.operands.matmul.moving = p.tensor(call, operands[1]);
  in.operands.matmul.rows = lanes_of(moving);
  in.operands.matmul.columns = lanes_of(dst);
  in.operands.matmul.transpose = transpose ? 1 : 0;
  p.add(call, chosen(Engine::kAuto, Engine::kTensor), in);
}

void Kernel::multiply(const View& dst, const View& moving, Accumulate accumulate, Location at) {
  product("matmul", dst, moving, accumulate, false, at);
}

void Kernel::matmul(const View& dst, const View& stationary, const View& moving,
                    Accumulate accumulate, Location at) {
  load_weights(stationary, static_cast<int>(dst.start_partition_), at);
  multiply(dst, moving, accumulate, at);
}

// NeuronCore v2 has only products for it: in float32, and a NaN spreads over its row.
void Kernel::transpose(const View& dst, const View& src, const View& identity, Location at) {
  const bool exact = program_->params.generation != Generation::kV2;
  if (exact && dst.dtype() != src.dtype()) {
    program_->fail(base::Fault::kUsage, at, "transpose: dst has another type than src");
  }
  load_weights(src, static_cast<int>(dst.start_partition_), at);
  product("transpose", dst, identity, Accumulate::kOverwrite, exact, at);
}

void Kernel::identity(const View& dst, Location at) {
  memset(dst, 1.0, Engine::kGpSimd, at);
  affine_select(dst, dst, {0, 1, {-1}}, Op::kEqual, 0.0, at);
}

}  // namespace kernel
