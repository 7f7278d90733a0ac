// Products of the Tensor engine (spec/engine-isa.md 7).
#include <algorithm>

#include "compiler/kernel/calls.h"

namespace kernel {
namespace {

constexpr int64_t kBankElements = 512;  // spec/engine-isa.md 2

// Columns of a product: within a bank, from NeuronCore v4 on over all of them.
int64_t most_columns(Generation generation, DType dtype) {
  constexpr int64_t kBytes = contract::tpb::kPsumPartitionBytes;
  return generation == Generation::kV4 ? kBytes / bytes_of(dtype) : kBankElements;
}

std::string size_of(int64_t rows, int64_t columns) {
  return std::to_string(rows) + " x " + std::to_string(columns);
}

bool is_e4m3(DType dtype) {
  return dtype == DType::kFloat8e4 || dtype == DType::kFloat8e4fn;
}

bool is_narrow(DType dtype) {
  return dtype == DType::kFloat8e3 || dtype == DType::kFloat8e5 || is_e4m3(dtype);
}

int slices_of(const Product& how) {
  return how.double_row ? 2 : 1;
}

// Two rows in each partition: a dimension of their own, and 8-bit floats.
bool sliced(Program* p, const Call& call, const View& operand, const char* name) {
  return require(p, call, operand.rank() == 3 && operand.size(1) == 2,
                 std::string(name) + " of a product of double rows is (partitions, 2, columns)") &&
         require(p, call, is_narrow(operand.dtype()),
                 std::string(name) + " of a product of double rows is not of 8-bit floats");
}

bool is_wide(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat32r;
}

}  // namespace

void Kernel::load_weights(const View& stationary, int column, Location at) {
  load_weights(stationary, column, Product(), at);
}

void Kernel::load_weights(const View& stationary, int column, const Product& how, Location at) {
  Program& p = *program_;
  const Call call{at, "load_weights"};
  const Program::Operand operand{"stationary", &stationary, false};
  if (!p.check(call, {operand})) return;
  isa::Instruction in = make(Opcode::kLdweights);
  isa::Ldweights& o = in.operands.ldweights;
  o.src = p.tensor(call, operand);
  o.rows = lanes_of(stationary);
  o.column = static_cast<uint8_t>(column);
  o.double_row = how.double_row ? 1 : 0;
  o.onezero = how.stationary_onezero ? 1 : 0;
  if (how.double_row && !sliced(&p, call, stationary, "stationary")) return;
  if (!require(&p, call, !how.double_row || column == 0,
               "double rows begin at column 0 of the array")) {
    return;
  }
  p.add(call, chosen(Engine::kAuto, Engine::kTensor), in);
  p.weights[{stationary.start_partition_, column}] = {stationary.size(0),
                                                      free_elements(stationary) / slices_of(how),
                                                      stationary.dtype(), slices_of(how), false};
}

// Whether the weights that are loaded go with this product.
bool Kernel::fits(const char* name, const View& dst, const View& moving, int slices, bool mx,
                  Location at) {
  Program& p = *program_;
  const std::string what = std::string(name) + ": ";
  const auto loaded = p.weights.find({moving.start_partition_, dst.start_partition_});
  if (loaded == p.weights.end() || loaded->second.mx != mx) {
    p.fail(base::Fault::kUsage, at,
           what + "no weights " + (mx ? "with scales " : "") + "begin at row " +
               std::to_string(moving.start_partition_) + ", where moving begins, and column " +
               std::to_string(dst.start_partition_) + ", where dst does");
    return false;
  }
  const Program::Weights& w = loaded->second;
  if (w.slices != slices) {
    p.fail(base::Fault::kUsage, at,
           what + "weights of double rows go with a product of double rows, and only with it");
    return false;
  }
  const int64_t columns = free_elements(moving) / slices;
  if (w.rows != moving.size(0) || w.columns != dst.size(0) || free_elements(dst) != columns) {
    p.fail(base::Fault::kUsage, at,
           what + "stationary is " + size_of(w.rows, w.columns) + " (K x M) and moving " +
               size_of(moving.size(0), columns) + " (K x N), dst is " +
               size_of(dst.size(0), free_elements(dst)) + " (M x N)");
    return false;
  }
  if (is_wide(w.dtype) != is_wide(moving.dtype())) {
    p.fail(base::Fault::kUsage, at, what + "32-bit types multiply only with themselves");
    return false;
  }
  if (is_e4m3(w.dtype) && is_e4m3(moving.dtype()) && w.dtype != moving.dtype()) {
    p.fail(base::Fault::kUsage, at, what + "float8e4 and float8e4fn do not multiply");
    return false;
  }
  const int64_t most = most_columns(p.params.generation, dst.dtype());
  if (columns > most) {
    p.fail(base::Fault::kUsage, at,
           what + std::to_string(columns) + " columns; " +
               (most == kBankElements ? "a bank of PSUM holds " : "PSUM holds ") +
               std::to_string(most));
    return false;
  }
  return true;
}

void Kernel::product(const char* name, const View& dst, const View& moving, const Product& how,
                     bool transpose, Location at) {
  Program& p = *program_;
  const Call call{at, name};
  const Program::Operand operands[] = {{"dst", &dst, true, true}, {"moving", &moving, false}};
  if (!p.check(call, {operands[0], operands[1]}) ||
      !fits(name, dst, moving, slices_of(how), false, at)) {
    return;
  }
  isa::Instruction in = make(Opcode::kMatmul);
  isa::Matmul& o = in.operands.matmul;
  o.accumulate = static_cast<isa::Accumulate>(how.accumulate);
  o.dst = p.tensor(call, operands[0]);
  o.moving = p.tensor(call, operands[1]);
  o.rows = lanes_of(moving);
  o.columns = lanes_of(dst);
  o.transpose = transpose ? 1 : 0;
  o.double_row = how.double_row ? 1 : 0;
  o.onezero = how.moving_onezero ? 1 : 0;
  if (how.double_row && !sliced(&p, call, moving, "moving")) return;
  p.add(call, chosen(Engine::kAuto, Engine::kTensor), in);
}

void Kernel::load_weights_mx(const View& stationary, const View& scale, Location at) {
  Program& p = *program_;
  const Call call{at, "load_weights_mx"};
  const Program::Operand operands[] = {{"stationary", &stationary, false},
                                       {"scale", &scale, false}};
  if (!p.check(call, {operands[0], operands[1]})) return;
  isa::Instruction in = make(Opcode::kLdweightsMx);
  isa::LdweightsMx& o = in.operands.ldweights_mx;
  o.src = p.tensor(call, operands[0]);
  o.scale = p.scales(call, operands[1], stationary);
  o.rows = lanes_of(stationary);
  o.scale_rows = static_cast<uint8_t>(isa::scale_rows_of(o.rows));
  p.add(call, chosen(Engine::kAuto, Engine::kTensor), in);
  p.weights[{stationary.start_partition_, 0}] = {stationary.size(0), free_elements(stationary),
                                                 stationary.dtype(), 1, true};
}

void Kernel::multiply_mx(const View& dst, const View& moving, const View& scale,
                         Accumulate accumulate, Location at) {
  Program& p = *program_;
  const Call call{at, "matmul_mx"};
  const Program::Operand operands[] = {
      {"dst", &dst, true, true}, {"moving", &moving, false}, {"scale", &scale, false}};
  if (!p.check(call, {operands[0], operands[1], operands[2]}) ||
      !fits(call.name, dst, moving, 1, true, at)) {
    return;
  }
  isa::Instruction in = make(Opcode::kMatmulMx);
  isa::MatmulMx& o = in.operands.matmul_mx;
  o.accumulate = static_cast<isa::Accumulate>(accumulate);
  o.dst = p.tensor(call, operands[0]);
  o.moving = p.tensor(call, operands[1]);
  o.scale = p.scales(call, operands[2], moving);
  o.rows = lanes_of(moving);
  o.columns = lanes_of(dst);
  o.scale_rows = static_cast<uint8_t>(isa::scale_rows_of(o.rows));
  p.add(call, chosen(Engine::kAuto, Engine::kTensor), in);
}

void Kernel::matmul_mx(const View& dst, const View& stationary, const View& stationary_scale,
                       const View& moving, const View& moving_scale, Accumulate accumulate,
                       Location at) {
  load_weights_mx(stationary, stationary_scale, at);
  multiply_mx(dst, moving, moving_scale, accumulate, at);
}

void Kernel::quantize_mx(const View& dst, const View& scale, const View& src, Location at) {
  Program& p = *program_;
  const Call call{at, "quantize_mx"};
  const Program::Operand operands[] = {
      {"dst", &dst, true}, {"scale", &scale, true}, {"src", &src, false}};
  if (!p.check(call, {operands[0], operands[1], operands[2]})) return;
  isa::Instruction in = make(Opcode::kQuantizeMx);
  isa::QuantizeMx& o = in.operands.quantize_mx;
  o.dst = p.tensor(call, operands[0]);
  o.src = p.tensor(call, operands[2]);
  o.scale = p.scales(call, operands[1], dst);
  o.partitions = lanes_of(dst);
  o.scale_rows = static_cast<uint8_t>(isa::scale_rows_of(o.partitions));
  if (p.ok() && dst.size(0) != src.size(0)) {
    p.fail(base::Fault::kUsage, at,
           "quantize_mx: dst has " + std::to_string(dst.size(0)) + " partitions, src " +
               std::to_string(src.size(0)));
  }
  p.add(call, chosen(Engine::kAuto, Engine::kVector), in);
}

void Kernel::multiply(const View& dst, const View& moving, Accumulate accumulate, Location at) {
  Product how;
  how.accumulate = accumulate;
  product("matmul", dst, moving, how, false, at);
}

void Kernel::multiply(const View& dst, const View& moving, const Product& how, Location at) {
  product("matmul", dst, moving, how, false, at);
}

void Kernel::matmul(const View& dst, const View& stationary, const View& moving,
                    Accumulate accumulate, Location at) {
  Product how;
  how.accumulate = accumulate;
  matmul(dst, stationary, moving, how, at);
}

void Kernel::matmul(const View& dst, const View& stationary, const View& moving, const Product& how,
                    Location at) {
  load_weights(stationary, static_cast<int>(dst.start_partition_), how, at);
  product("matmul", dst, moving, how, false, at);
}

// NeuronCore v2 has only products for it: in float32, and a NaN spreads over its row.
void Kernel::transpose(const View& dst, const View& src, const View& identity, Location at) {
  const bool exact = program_->params.generation != Generation::kV2;
  if (exact && dst.dtype() != src.dtype()) {
    program_->fail(base::Fault::kUsage, at, "transpose: dst has another type than src");
  }
  load_weights(src, static_cast<int>(dst.start_partition_), at);
  product("transpose", dst, identity, Product(), exact, at);
}

void Kernel::identity(const View& dst, Location at) {
  memset(dst, 1.0, Engine::kGpSimd, at);
  affine_select(dst, dst, {0, 1, {-1}}, Op::kEqual, 0.0, at);
}

}  // namespace kernel
