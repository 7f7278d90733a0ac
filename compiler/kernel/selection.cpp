// Selections and searches (spec/engine-isa.md 10.2, 10.3).
#include "compiler/kernel/calls.h"

namespace kernel {
namespace {

// Vector's accumulators begin with the least number, or go on.
bool starts(Program* p, const Call& call, Reduce reduce) {
  return require(p, call, reduce != Reduce::kLoadReduce,
                 "its accumulators begin with no value that is given");
}

bool in_a_range(Op op) {
  return op == Op::kEqual || op == Op::kLess || op == Op::kLessEqual || op == Op::kGreaterEqual ||
         op == Op::kGreater;
}

bool is_number(const View& view) {
  return view.dtype() == DType::kInt32 || view.dtype() == DType::kFloat32;
}

bool is_place(const View& view) {
  return view.dtype() == DType::kUint16 || view.dtype() == DType::kUint32;
}

constexpr int64_t kValues = 8;  // that a search looks for at once

}  // namespace

void Kernel::select_reduce(const View& dst, const View& predicate, const View& on_true,
                           const Scalar& on_false, bool reverse, Reduce reduce, Location at) {
  Program& p = *program_;
  const Call call{at, "select_reduce"};
  const Program::Operand operands[] = {
      {"dst", &dst, true}, {"predicate", &predicate, false}, {"on_true", &on_true, false}};
  if (!alike(&p, call, {operands[0], operands[1], operands[2]})) return;
  isa::Instruction in = make(Opcode::kSelectReduce);
  isa::SelectReduce& o = in.operands.select_reduce;
  o.reduce_cmd = static_cast<isa::ReduceCmd>(reduce);
  o.dst = p.tensor(call, operands[0]);
  o.predicate = p.tensor(call, operands[1]);
  o.on_true = p.tensor(call, operands[2]);
  o.on_false = p.scalar(call, "on_false", on_false, Op::kAdd, dst.size(0));
  o.reverse = reverse ? 1 : 0;
  o.partitions = lanes_of(dst);
  if (!require(&p, call, is_integer(predicate.dtype()) && bytes_of(predicate.dtype()) <= 2,
               "the predicate is no tile of integers of 8 or 16 bits") ||
      !starts(&p, call, reduce)) {
    return;
  }
  p.add(call, chosen(Engine::kAuto, Engine::kVector), in);
}

void Kernel::range_select(const View& dst, const View& src, const Range& range, Reduce reduce,
                          Location at) {
  Program& p = *program_;
  const Call call{at, "range_select"};
  const Program::Operand operands[] = {{"dst", &dst, true}, {"src", &src, false}};
  if (!alike(&p, call, {operands[0], operands[1]})) return;
  isa::Instruction in = make(Opcode::kRangeSelect);
  isa::RangeSelect& o = in.operands.range_select;
  o.op0 = table(range.first);
  o.op1 = table(range.second);
  o.reduce_cmd = static_cast<isa::ReduceCmd>(reduce);
  o.dst = p.tensor(call, operands[0]);
  o.src = p.tensor(call, operands[1]);
  o.bound0 = p.scalar(call, "the first bound", range.first_bound, Op::kAdd, dst.size(0));
  o.bound1 = p.scalar(call, "the second bound", range.second_bound, Op::kAdd, dst.size(0));
  o.start = p.bits_of(call, range.start, DType::kFloat32);
  o.fill = p.bits_of(call, range.fill, DType::kFloat32);
  o.partitions = lanes_of(dst);
  if (!require(&p, call, in_a_range(range.first) && in_a_range(range.second),
               "a bound is equal, less, less or equal, greater or equal, or greater") ||
      !require(&p, call, !is_integer(src.dtype()), "src is a tile of integers") ||
      !starts(&p, call, reduce)) {
    return;
  }
  p.add(call, chosen(Engine::kAuto, Engine::kVector), in);
}

void Kernel::exponential(const View& dst, const View& src, const Scalar& maximum, Reduce reduce,
                         const Scalar& initial, Location at) {
  Program& p = *program_;
  const Call call{at, "exponential"};
  const Program::Operand operands[] = {{"dst", &dst, true}, {"src", &src, false}};
  if (!alike(&p, call, {operands[0], operands[1]})) return;
  isa::Instruction in = make(Opcode::kExponential);
  isa::Exponential& o = in.operands.exponential;
  o.reduce_cmd = static_cast<isa::ReduceCmd>(reduce);
  o.dst = p.tensor(call, operands[0]);
  o.src = p.tensor(call, operands[1]);
  o.maximum = p.scalar(call, "the maximum", maximum, Op::kAdd, dst.size(0));
  o.initial = p.scalar(call, "initial", initial, Op::kAdd, dst.size(0));
  o.partitions = lanes_of(dst);
  if (!require(&p, call, reduce != Reduce::kReset,
               "its accumulators are not set to 0 without adding to them")) {
    return;
  }
  p.add(call, chosen(Engine::kAuto, Engine::kVector), in);
}

void Kernel::match_replace8(const View& dst, const View& src, const View& values, double fill,
                            const View& index, Location at) {
  Program& p = *program_;
  const Call call{at, "match_replace8"};
  const Program::Operand operands[] = {{"dst", &dst, true},
                                       {"src", &src, false},
                                       {"values", &values, false},
                                       {"index", &index, true}};
  if (!alike(&p, call, {operands[0], operands[1]}) || !p.check(call, {operands[2]})) return;
  isa::Instruction in = make(Opcode::kMatchReplace8);
  isa::MatchReplace8& o = in.operands.match_replace8;
  o.dst = p.tensor(call, operands[0]);
  o.src = p.tensor(call, operands[1]);
  o.values = p.tensor(call, operands[2]);
  o.fill = p.bits_of(call, fill, DType::kFloat32);
  o.partitions = lanes_of(dst);
  if (!require(&p, call, values.size(0) == dst.size(0) && free_elements(values) == kValues,
               "values are eight in each partition of dst")) {
    return;
  }
  if (index) {
    if (!p.check(call, {operands[3]})) return;
    o.index.kind = isa::ScalarOperand::kTile;
    o.index.tile = p.tensor(call, operands[3]);
    if (!require(&p, call,
                 index.size(0) == dst.size(0) && free_elements(index) == kValues && is_place(index),
                 "index is eight uint16 or uint32 in each partition of dst")) {
      return;
    }
  }
  p.add(call, chosen(Engine::kAuto, Engine::kVector), in);
}

void Kernel::nonzero_with_count(const View& dst, const View& src, int32_t offset, int32_t padding,
                                Location at) {
  Program& p = *program_;
  const Call call{at, "nonzero_with_count"};
  const Program::Operand operands[] = {{"dst", &dst, true}, {"src", &src, false}};
  if (!p.check(call, {operands[0], operands[1]})) return;
  isa::Instruction in = make(Opcode::kNonzeroWithCount);
  isa::NonzeroWithCount& o = in.operands.nonzero_with_count;
  o.dst = p.tensor(call, operands[0]);
  o.src = p.tensor(call, operands[1]);
  o.offset = static_cast<uint32_t>(offset);
  o.padding = static_cast<uint32_t>(padding);
  o.partitions = lanes_of(dst);
  if (!require(&p, call, is_number(src), "src is neither int32 nor float32") ||
      !require(&p, call,
               dst.dtype() == DType::kInt32 && dst.size(0) == src.size(0) &&
                   free_elements(dst) == free_elements(src) + 1,
               "dst is not of int32, one element wider than src, in as many partitions")) {
    return;
  }
  p.add(call, chosen(Engine::kAuto, Engine::kGpSimd), in);
}

void Kernel::sequence_bounds(const View& dst, const View& ids, Location at) {
  Program& p = *program_;
  const Call call{at, "sequence_bounds"};
  const Program::Operand operands[] = {{"dst", &dst, true}, {"ids", &ids, false}};
  if (!p.check(call, {operands[0], operands[1]})) return;
  isa::Instruction in = make(Opcode::kSequenceBounds);
  in.operands.sequence_bounds = {p.tensor(call, operands[0]), p.tensor(call, operands[1]),
                                 lanes_of(dst)};
  if (!require(&p, call, is_number(ids) && is_number(dst), "dst and ids are int32 or float32") ||
      !require(&p, call,
               ids.size(0) == 1 && dst.size(0) == 1 && free_elements(dst) == 2 * free_elements(ids),
               "ids are in one partition, and so is dst, with two elements for each")) {
    return;
  }
  p.add(call, chosen(Engine::kAuto, Engine::kGpSimd), in);
}

}  // namespace kernel
