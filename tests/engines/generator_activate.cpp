// Functions, and what goes into the accumulators with them.
#include <utility>

#include "tests/engines/generator.h"

namespace engine_reference {

using contract::Gen;
using isa::ScalarOperand;
using isa::TensorOp;

// v2 takes its bias from a tile, and only adds up results (spec/engine-isa.md 10.2).
void Generator::make(isa::Activate* t, const Shape& s) {
  t->function = static_cast<isa::ActFunction>(random_.below(26));
  t->reduce_op = gen_ == Gen::kV2 ? TensorOp::kAdd : foldable();
  t->reduce_cmd = static_cast<isa::ReduceCmd>(random_.below(4));
  t->partitions = s.partitions;
  t->parameter = t->function == isa::ActFunction::kPrelu ? bits_of(number(Values::kTame)) : 0;
  t->scale = scalar(s.partitions, false);
  if (random_.chance(40)) t->scale = {ScalarOperand::kImmediate, bits_of(1.0f), {}};
  t->bias = scalar(s.partitions, false);
  if (random_.chance(40)) t->bias = {};
  t->src = tensor(type(), memory(), s.partitions, s.elements);
  t->dst = destination(t->src, type(), s.partitions, s.elements);
}

void Generator::make(isa::Activate2* t, const Shape& s) {
  static constexpr std::pair<TensorOp, TensorOp> kOperators[] = {
      {TensorOp::kMultiply, TensorOp::kAdd},    {TensorOp::kMultiply, TensorOp::kSubtract},
      {TensorOp::kMultiply, TensorOp::kBypass}, {TensorOp::kAdd, TensorOp::kBypass},
      {TensorOp::kSubtract, TensorOp::kBypass}, {TensorOp::kBypass, TensorOp::kBypass}};
  static constexpr TensorOp kReductions[] = {TensorOp::kAdd, TensorOp::kMax, TensorOp::kMin,
                                             TensorOp::kAbsMax, TensorOp::kAbsMin};
  t->function = static_cast<isa::ActFunction>(random_.below(26));
  const std::pair<TensorOp, TensorOp>& operators = random_.of(kOperators);
  t->op0 = operators.first;
  t->op1 = operators.second;
  t->reverse = static_cast<uint8_t>(random_.below(4));
  t->reduce_op = random_.of(kReductions);
  t->reduce_cmd = static_cast<isa::ReduceCmd>(random_.below(4));
  t->partitions = s.partitions;
  t->parameter = t->function == isa::ActFunction::kPrelu ? bits_of(number(Values::kTame)) : 0;
  t->operand0 = scalar(s.partitions, false);
  t->operand1 = scalar(s.partitions, false);
  t->src = tensor(type(), memory(), s.partitions, s.elements);
  t->dst = destination(t->src, type(), s.partitions, s.elements);
}

void Generator::make(isa::TensorScalarCumulative* t, const Shape& s) {
  static constexpr TensorOp kReductions[] = {TensorOp::kAdd, TensorOp::kSubtract,
                                             TensorOp::kMultiply, TensorOp::kMax, TensorOp::kMin};
  t->op0 = arithmetic();
  t->op1 = random_.of(kReductions);
  t->reduce_cmd = static_cast<isa::ReduceCmd>(2 + random_.below(3));
  t->partitions = s.partitions;
  t->operand = scalar(s.partitions, false);
  t->initial = scalar(s.partitions, false);
  t->src = tensor(type(), memory(), s.partitions, s.elements);
  t->dst = destination(t->src, type(), s.partitions, s.elements);
}

void Generator::make(isa::Exponential* t, const Shape& s) {
  t->reduce_cmd = static_cast<isa::ReduceCmd>(random_.below(5));
  t->partitions = s.partitions;
  t->maximum = scalar(s.partitions, false);
  t->initial = scalar(s.partitions, false);
  t->src = tensor(type(), memory(), s.partitions, s.elements);
  t->dst = destination(t->src, type(), s.partitions, s.elements);
}

}  // namespace engine_reference
