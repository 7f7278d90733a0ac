// Reductions, statistics and searches (spec/engine-isa.md 10.3), activation with its accumulators.
#include "compiler/kernel/calls.h"

namespace kernel {

void Kernel::tensor_reduce(const View& dst, const View& src, Op op, size_t dims, bool negate,
                           Location at) {
  Program& p = *program_;
  const Call call{at, "tensor_reduce"};
  const Program::Operand operands[] = {{"dst", &dst, true}, {"src", &src, false}};
  if (!p.check(call, {operands[0], operands[1]})) return;
  const size_t free = src.rank() - 1;
  if (src.space() != Space::kHbm && (dims < 1 || dims > free)) {
    p.fail(base::Fault::kUsage, at,
           "tensor_reduce: " + std::to_string(dims) + " dimensions are to be folded, src has " +
               std::to_string(free));
    return;
  }
  int64_t folded = 1;
  for (size_t i = src.rank() - dims; i < src.rank(); ++i) folded *= src.size(i);
  if (dst.elements() * folded != src.elements() || dst.size(0) != src.size(0)) {
    p.fail(base::Fault::kUsage, at,
           "tensor_reduce: " + std::to_string(src.elements()) + " elements folded by " +
               std::to_string(folded) + " give " + std::to_string(src.elements() / folded) +
               ", dst has " + std::to_string(dst.elements()));
    return;
  }
  isa::Instruction in = make(Opcode::kTensorReduce);
  size_t reduced = 0;
  in.operands.tensor_reduce = {table(op),
                               p.tensor(call, operands[0]),
                               p.tensor(call, operands[1], free - dims, &reduced),
                               static_cast<uint8_t>(reduced),
                               static_cast<uint8_t>(negate ? 1 : 0),
                               lanes_of(dst)};
  p.add(call, chosen(Engine::kAuto, Engine::kVector), in);
}

void Kernel::tensor_scalar_reduce(const View& dst, const View& src, const Step& step, Op reduce_op,
                                  Reduce reduce, const Scalar& initial, Location at) {
  Program& p = *program_;
  const Call call{at, "tensor_scalar_reduce"};
  const Program::Operand operands[] = {{"dst", &dst, true}, {"src", &src, false}};
  if (!alike(&p, call, {operands[0], operands[1]})) return;
  if (step.reverse) {
    p.fail(base::Fault::kUsage, at, "tensor_scalar_reduce: its operands cannot be reversed");
    return;
  }
  isa::Instruction in = make(Opcode::kTensorScalarReduce);
  in.operands.tensor_scalar_reduce = {
      table(step.op),
      table(reduce_op),
      static_cast<isa::ReduceCmd>(reduce),
      p.tensor(call, operands[0]),
      p.tensor(call, operands[1]),
      p.scalar(call, "the operand", step.operand, step.op, dst.size(0)),
      p.scalar(call, "initial", initial, Op::kAdd, dst.size(0)),
      lanes_of(dst)};
  p.add(call, chosen(Engine::kAuto, Engine::kVector), in);
}

void Kernel::activation(const View& dst, const View& src, const Activation& what, Location at) {
  Program& p = *program_;
  const Call call{at, "activation"};
  const Program::Operand operands[] = {{"dst", &dst, true}, {"src", &src, false}};
  if (!alike(&p, call, {operands[0], operands[1]})) return;
  if (p.params.generation == Generation::kV2 && !p.is_tile(what.bias) && !p.is_zero(what.bias)) {
    p.fail(base::Fault::kUsage, at,
           "activation: a bias on NeuronCore v2 is a tile with one element in each partition");
    return;
  }
  isa::Instruction in = make(Opcode::kActivate);
  in.operands.activate = {static_cast<isa::ActFunction>(what.function),
                          p.tensor(call, operands[0]),
                          p.tensor(call, operands[1]),
                          p.scalar(call, "scale", what.scale, Op::kAdd, dst.size(0)),
                          p.scalar(call, "bias", what.bias, Op::kAdd, dst.size(0)),
                          table(what.reduce_op),
                          static_cast<isa::ReduceCmd>(what.reduce),
                          p.bits_of(call, what.parameter, DType::kFloat32),
                          lanes_of(dst)};
  p.add(call, chosen(Engine::kAuto, Engine::kScalar), in);
}

void Kernel::activation_reduce(const View& dst, const View& result, const View& src,
                               Activation what, Location at) {
  what.reduce = Reduce::kResetReduce;
  activation(dst, src, what, at);
  read_accumulator(result, Engine::kScalar, false, at);
}

void Kernel::activation2(const View& dst, const View& src, const Activation2& what, Location at) {
  Program& p = *program_;
  const Call call{at, "activation2"};
  const Program::Operand operands[] = {{"dst", &dst, true}, {"src", &src, false}};
  if (!alike(&p, call, {operands[0], operands[1]})) return;
  isa::Instruction in = make(Opcode::kActivate2);
  isa::Activate2& o = in.operands.activate2;
  o.function = static_cast<isa::ActFunction>(what.function);
  o.op0 = table(what.first.op);
  o.op1 = table(what.second.op);
  o.dst = p.tensor(call, operands[0]);
  o.src = p.tensor(call, operands[1]);
  o.operand0 = p.scalar(call, "the first operand", what.first.operand, what.first.op, dst.size(0));
  o.operand1 =
      p.scalar(call, "the second operand", what.second.operand, what.second.op, dst.size(0));
  o.parameter = p.bits_of(call, what.parameter, DType::kFloat32);
  o.reduce_op = table(what.reduce_op);
  o.reduce_cmd = static_cast<isa::ReduceCmd>(what.reduce);
  o.reverse = reversal(what.first, what.second.reverse);
  o.partitions = lanes_of(dst);
  const bool none = what.second.op == Op::kBypass;
  const Op first = what.first.op;
  const bool adds = what.second.op == Op::kAdd || what.second.op == Op::kSubtract;
  const bool pair = first == Op::kMultiply ? none || adds
                                           : none && (first == Op::kAdd || first == Op::kSubtract ||
                                                      first == Op::kBypass);
  if (!require(&p, call, pair,
               "its operators are multiply, then add, subtract or nothing; or add, subtract or "
               "nothing alone") ||
      !require(&p, call, what.reduce != Reduce::kLoadReduce,
               "its accumulators begin with no value that is given")) {
    return;
  }
  p.add(call, chosen(Engine::kAuto, Engine::kScalar), in);
}

void Kernel::load_function(Function function, Location at) {
  const Call call{at, "load_function"};
  if (!program_->check(call, {})) return;
  isa::Instruction in = make(Opcode::kLoadActFuncSet);
  in.operands.load_act_func_set = {static_cast<isa::ActFunction>(function)};
  program_->add(call, chosen(Engine::kAuto, Engine::kScalar), in);
}

void Kernel::read_accumulator(const View& dst, Engine engine, bool negate, Location at) {
  Program& p = *program_;
  const Call call{at, "read_accumulator"};
  const Program::Operand operand{"dst", &dst, true};
  if (!p.check(call, {operand})) return;
  isa::Instruction in = make(Opcode::kReadAccumulator);
  in.operands.read_accumulator = {p.tensor(call, operand), static_cast<uint8_t>(negate ? 1 : 0),
                                  lanes_of(dst)};
  p.add(call, chosen(engine, Engine::kScalar), in);
}

void Kernel::tensor_scalar_cumulative(const View& dst, const View& src, const Step& step, Op op,
                                      Reduce reduce, const Scalar& initial, Location at) {
  Program& p = *program_;
  const Call call{at, "tensor_scalar_cumulative"};
  const Program::Operand operands[] = {{"dst", &dst, true}, {"src", &src, false}};
  if (!alike(&p, call, {operands[0], operands[1]})) return;
  isa::Instruction in = make(Opcode::kTensorScalarCumulative);
  isa::TensorScalarCumulative& o = in.operands.tensor_scalar_cumulative;
  o.op0 = table(step.op);
  o.op1 = table(op);
  o.reduce_cmd = static_cast<isa::ReduceCmd>(reduce);
  o.dst = p.tensor(call, operands[0]);
  o.src = p.tensor(call, operands[1]);
  o.operand = p.scalar(call, "the operand", step.operand, step.op, dst.size(0));
  o.initial = p.scalar(call, "initial", initial, Op::kAdd, dst.size(0));
  o.partitions = lanes_of(dst);
  p.add(call, chosen(Engine::kAuto, Engine::kVector), in);
}

void Kernel::bn_stats(const View& dst, const View& src, Location at) {
  Program& p = *program_;
  const Call call{at, "bn_stats"};
  const Program::Operand operands[] = {{"dst", &dst, true}, {"src", &src, false}};
  if (!p.check(call, {operands[0], operands[1]})) return;
  isa::Instruction in = make(Opcode::kBnStats);
  in.operands.bn_stats = {p.tensor(call, operands[0]), p.tensor(call, operands[1]), lanes_of(dst)};
  p.add(call, chosen(Engine::kAuto, Engine::kVector), in);
}

void Kernel::bn_aggregate(const View& dst, const View& src, Location at) {
  Program& p = *program_;
  const Call call{at, "bn_aggregate"};
  const Program::Operand operands[] = {{"dst", &dst, true}, {"src", &src, false}};
  if (!p.check(call, {operands[0], operands[1]})) return;
  isa::Instruction in = make(Opcode::kBnAggregate);
  in.operands.bn_aggregate = {p.tensor(call, operands[0]), p.tensor(call, operands[1]),
                              lanes_of(dst)};
  p.add(call, chosen(Engine::kAuto, Engine::kVector), in);
}

void Kernel::partition_reduce(const View& dst, const View& src, Op op, bool average, Location at) {
  Program& p = *program_;
  const Call call{at, "partition_reduce"};
  const Program::Operand operands[] = {{"dst", &dst, true}, {"src", &src, false}};
  if (!p.check(call, {operands[0], operands[1]})) return;
  isa::Instruction in = make(Opcode::kPartitionReduce);
  isa::PartitionReduce& o = in.operands.partition_reduce;
  o.op = table(op);
  o.dst = p.tensor(call, operands[0]);
  o.src = p.tensor(call, operands[1]);
  o.partitions = lanes_of(src);
  o.to = lanes_of(dst);
  o.average = average ? 1 : 0;
  p.add(call, chosen(Engine::kAuto, Engine::kGpSimd), in);
}

void Kernel::max8(const View& dst, const View& src, Location at) {
  Program& p = *program_;
  const Call call{at, "max8"};
  const Program::Operand operands[] = {{"dst", &dst, true}, {"src", &src, false}};
  if (!p.check(call, {operands[0], operands[1]})) return;
  isa::Instruction in = make(Opcode::kMax8);
  in.operands.max8 = {p.tensor(call, operands[0]), p.tensor(call, operands[1]), lanes_of(dst)};
  p.add(call, chosen(Engine::kAuto, Engine::kVector), in);
}

void Kernel::find_index8(const View& dst, const View& src, const View& values, Location at) {
  Program& p = *program_;
  const Call call{at, "find_index8"};
  const Program::Operand operands[] = {
      {"dst", &dst, true}, {"src", &src, false}, {"values", &values, false}};
  if (!p.check(call, {operands[0], operands[1], operands[2]})) return;
  isa::Instruction in = make(Opcode::kFindIndex8);
  in.operands.find_index8 = {p.tensor(call, operands[0]), p.tensor(call, operands[1]),
                             p.tensor(call, operands[2]), lanes_of(dst)};
  p.add(call, chosen(Engine::kAuto, Engine::kVector), in);
}

}  // namespace kernel
