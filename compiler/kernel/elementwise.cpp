// Element-wise instructions (spec/engine-isa.md 10.1, 10.2).
#include <algorithm>

#include "compiler/kernel/calls.h"

namespace kernel {
namespace {

// The pattern of dst's free dimensions, of which it must have one step each.
bool affine(Program* p, const Call& call, const View& dst, const Affine& values,
            isa::AffineOperand* out) {
  if (!p->ok()) return false;
  const View::Sizes shape = dst.shape();
  if (values.steps.size() + 1 != shape.size() || shape.size() > 5) {
    p->fail(base::Fault::kUsage, call.at,
            std::string(call.name) + ": " + std::to_string(values.steps.size()) +
                " steps; dst has " + std::to_string(shape.size() - 1) +
                " free dimensions, of up to 4");
    return false;
  }
  *out = {values.offset, values.multiplier, {}, {}};
  const size_t n = values.steps.size();
  for (size_t i = 0; i < n; ++i) {
    out->step[i] = values.steps[n - 1 - i];
    out->count[i] = static_cast<uint16_t>(shape[n - i]);
  }
  if (n == 0) out->count[0] = 1;
  return true;
}

}  // namespace

bool alike(Program* p, const Call& call, const std::vector<Program::Operand>& operands) {
  if (!p->check(call, operands)) return false;
  const View& first = *operands[0].view;
  for (const Program::Operand& o : operands) {
    const bool same = o.view->size(0) == first.size(0) && o.view->elements() == first.elements();
    if (same || first.space() == Space::kHbm || o.view->space() == Space::kHbm) continue;
    const auto size = [](const View& v) {
      return std::to_string(v.size(0)) + " partitions of " +
             std::to_string(v.elements() / std::max<int64_t>(v.size(0), 1)) + " elements";
    };
    p->fail(base::Fault::kUsage, call.at,
            std::string(call.name) + ": " + operands[0].name + " has " + size(first) + ", " +
                o.name + " " + size(*o.view));
    return false;
  }
  const bool two_inputs = operands.size() == 3;
  if (two_inputs && operands[1].view->space() == Space::kPsum &&
      operands[2].view->space() == Space::kPsum) {
    p->fail(base::Fault::kUsage, call.at,
            std::string(call.name) + ": " + operands[1].name + " and " + operands[2].name +
                " are both in PSUM; copy one to SBUF");
    return false;
  }
  return true;
}

// Integers need the engine that adds them exactly (spec/engine-isa.md 5.2), which PSUM is closed
// to.
void Kernel::tensor_tensor(const View& dst, const View& a, const View& b, Op op, Engine engine,
                           Location at) {
  Program& p = *program_;
  const Call call{at, "tensor_tensor"};
  const Program::Operand operands[] = {{"dst", &dst, true}, {"a", &a, false}, {"b", &b, false}};
  if (!alike(&p, call, {operands[0], operands[1], operands[2]})) return;
  const auto wide = [](const View& v) {
    return v.dtype() == DType::kInt32 || v.dtype() == DType::kUint32;
  };
  const bool exact = wide(dst) && wide(a) && wide(b) && !isa::on_bits(table(op));
  const bool gpsimd = (exact || op == Op::kPower) && !in_psum(dst) && !in_psum(a) && !in_psum(b);
  isa::Instruction in = make(Opcode::kTensorTensor);
  in.operands.tensor_tensor = {table(op), p.tensor(call, operands[0]), p.tensor(call, operands[1]),
                               p.tensor(call, operands[2]), lanes_of(dst)};
  p.add(call, chosen(engine, gpsimd ? Engine::kGpSimd : Engine::kVector), in);
}

void Kernel::tensor_scalar(const View& dst, const View& src, const Step& first, const Step& second,
                           Engine engine, Location at) {
  Program& p = *program_;
  const Call call{at, "tensor_scalar"};
  const Program::Operand operands[] = {{"dst", &dst, true}, {"src", &src, false}};
  if (!alike(&p, call, {operands[0], operands[1]})) return;
  isa::Instruction in = make(Opcode::kTensorScalar);
  in.operands.tensor_scalar = {
      table(first.op),
      table(second.op),
      p.tensor(call, operands[0]),
      p.tensor(call, operands[1]),
      p.scalar(call, "the first operand", first.operand, first.op, dst.size(0)),
      p.scalar(call, "the second operand", second.operand, second.op, dst.size(0)),
      reversal(first, second.reverse),
      lanes_of(dst)};
  p.add(call, chosen(engine, Engine::kVector), in);
}

void Kernel::scalar_tensor_tensor(const View& dst, const View& src, const Step& first, Op second,
                                  const View& other, bool reverse, Location at) {
  Program& p = *program_;
  const Call call{at, "scalar_tensor_tensor"};
  const Program::Operand operands[] = {
      {"dst", &dst, true}, {"src", &src, false}, {"other", &other, false}};
  if (!alike(&p, call, {operands[0], operands[1], operands[2]})) return;
  isa::Instruction in = make(Opcode::kScalarTensorTensor);
  in.operands.scalar_tensor_tensor = {
      table(first.op),
      table(second),
      p.tensor(call, operands[0]),
      p.tensor(call, operands[1]),
      p.scalar(call, "the operand", first.operand, first.op, dst.size(0)),
      p.tensor(call, operands[2]),
      reversal(first, reverse),
      lanes_of(dst)};
  p.add(call, chosen(Engine::kAuto, Engine::kVector), in);
}

void Kernel::tensor_tensor_scan(const View& dst, const View& a, const View& b,
                                const Scalar& initial, Op op0, Op op1, bool reverse0, bool reverse1,
                                Location at) {
  Program& p = *program_;
  const Call call{at, "tensor_tensor_scan"};
  const Program::Operand operands[] = {{"dst", &dst, true}, {"a", &a, false}, {"b", &b, false}};
  if (!alike(&p, call, {operands[0], operands[1], operands[2]})) return;
  isa::Instruction in = make(Opcode::kTensorTensorScan);
  in.operands.tensor_tensor_scan = {table(op0),
                                    table(op1),
                                    p.tensor(call, operands[0]),
                                    p.tensor(call, operands[1]),
                                    p.scalar(call, "initial", initial, Op::kAdd, dst.size(0)),
                                    p.tensor(call, operands[2]),
                                    static_cast<uint8_t>((reverse0 ? 1 : 0) | (reverse1 ? 2 : 0)),
                                    lanes_of(dst)};
  p.add(call, chosen(Engine::kAuto, Engine::kVector), in);
}

void Kernel::tensor_copy(const View& dst, const View& src, Engine engine, Location at) {
  Program& p = *program_;
  const Call call{at, "tensor_copy"};
  const Program::Operand operands[] = {{"dst", &dst, true}, {"src", &src, false}};
  if (!alike(&p, call, {operands[0], operands[1]})) return;
  isa::Instruction in = make(Opcode::kTensorCopy);
  in.operands.tensor_copy = {p.tensor(call, operands[0]), p.tensor(call, operands[1]),
                             lanes_of(dst)};
  p.add(call, chosen(engine, Engine::kVector), in);
}

void Kernel::reciprocal(const View& dst, const View& src, Location at) {
  Program& p = *program_;
  const Call call{at, "reciprocal"};
  const Program::Operand operands[] = {{"dst", &dst, true}, {"src", &src, false}};
  if (!alike(&p, call, {operands[0], operands[1]})) return;
  isa::Instruction in = make(Opcode::kReciprocal);
  in.operands.reciprocal = {p.tensor(call, operands[0]), p.tensor(call, operands[1]),
                            lanes_of(dst)};
  p.add(call, chosen(Engine::kAuto, Engine::kVector), in);
}

void Kernel::memset(const View& dst, double value, Engine engine, Location at) {
  Program& p = *program_;
  const Call call{at, "memset"};
  const Program::Operand operand{"dst", &dst, true};
  if (!p.check(call, {operand})) return;
  isa::Instruction in = make(Opcode::kMemset);
  in.operands.memset = {p.tensor(call, operand), p.bits_of(call, value, dst.dtype()),
                        lanes_of(dst)};
  p.add(call, chosen(engine, in_psum(dst) ? Engine::kVector : Engine::kGpSimd), in);
}

void Kernel::iota(const View& dst, const Affine& values, Location at) {
  Program& p = *program_;
  const Call call{at, "iota"};
  const Program::Operand operand{"dst", &dst, true};
  isa::Instruction in = make(Opcode::kIota);
  isa::AffineOperand pattern{};
  if (!p.check(call, {operand}) || !affine(&p, call, dst, values, &pattern)) return;
  in.operands.iota = {p.tensor(call, operand), pattern, lanes_of(dst)};
  p.add(call, chosen(Engine::kAuto, Engine::kGpSimd), in);
}

void Kernel::affine_select(const View& dst, const View& src, const Affine& values, Op compare,
                           double fill, Location at) {
  Program& p = *program_;
  const Call call{at, "affine_select"};
  const Program::Operand operands[] = {{"dst", &dst, true}, {"src", &src, false}};
  isa::Instruction in = make(Opcode::kAffineSelect);
  isa::AffineOperand pattern{};
  if (!alike(&p, call, {operands[0], operands[1]}) || !affine(&p, call, dst, values, &pattern)) {
    return;
  }
  in.operands.affine_select = {table(compare),
                               p.tensor(call, operands[0]),
                               p.tensor(call, operands[1]),
                               pattern,
                               p.bits_of(call, fill, DType::kFloat32),
                               lanes_of(dst)};
  p.add(call, chosen(Engine::kAuto, Engine::kGpSimd), in);
}

void Kernel::copy_predicated(const View& dst, const View& src, const View& predicate, bool reverse,
                             Location at) {
  Program& p = *program_;
  const Call call{at, "copy_predicated"};
  const Program::Operand operands[] = {
      {"dst", &dst, true}, {"src", &src, false}, {"predicate", &predicate, false}};
  if (!alike(&p, call, {operands[0], operands[1], operands[2]})) return;
  isa::Instruction in = make(Opcode::kCopyPredicated);
  isa::CopyPredicated& o = in.operands.copy_predicated;
  o.dst = p.tensor(call, operands[0]);
  o.src.kind = isa::ScalarOperand::kTile;
  o.src.tile = p.tensor(call, operands[1]);
  o.predicate = p.tensor(call, operands[2]);
  o.reverse = reverse ? 1 : 0;
  o.partitions = lanes_of(dst);
  p.add(call, chosen(Engine::kAuto, Engine::kVector), in);
}

void Kernel::copy_predicated(const View& dst, const Scalar& src, const View& predicate,
                             bool reverse, Location at) {
  Program& p = *program_;
  const Call call{at, "copy_predicated"};
  const Program::Operand operands[] = {{"dst", &dst, true}, {"predicate", &predicate, false}};
  if (!alike(&p, call, {operands[0], operands[1]})) return;
  isa::Instruction in = make(Opcode::kCopyPredicated);
  isa::CopyPredicated& o = in.operands.copy_predicated;
  o.dst = p.tensor(call, operands[0]);
  o.src = p.scalar(call, "src", src, Op::kAdd, dst.size(0));
  o.predicate = p.tensor(call, operands[1]);
  o.reverse = reverse ? 1 : 0;
  o.partitions = lanes_of(dst);
  p.add(call, chosen(Engine::kAuto, Engine::kVector), in);
}

void Kernel::gather(const View& dst, const View& src, const View& index, Location at) {
  Program& p = *program_;
  const Call call{at, "gather"};
  const Program::Operand operands[] = {
      {"dst", &dst, true}, {"src", &src, false}, {"index", &index, false}};
  if (!alike(&p, call, {operands[0], operands[2]}) || !p.check(call, {operands[1]})) return;
  isa::Instruction in = make(Opcode::kNGather);
  in.operands.n_gather = {p.tensor(call, operands[0]), p.tensor(call, operands[1]),
                          p.tensor(call, operands[2]), lanes_of(dst)};
  p.add(call, chosen(Engine::kAuto, Engine::kGpSimd), in);
}

}  // namespace kernel
