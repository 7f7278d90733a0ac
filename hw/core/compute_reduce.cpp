#include "hw/core/compute.h"

#include <algorithm>

#include "arch/contract/isa_checks.h"
#include "base/num/functions.h"
#include "base/num/operators.h"
#include "hw/core/operators.h"
#include "hw/num_type.h"

namespace hw {

namespace isa = contract::isa;
namespace num = base::num;
using isa::TensorOp;

namespace {

static_assert(static_cast<size_t>(isa::ActFunction::kAbs) + 1 == num::kFunctions &&
              static_cast<uint8_t>(isa::ActFunction::kGeluTanh) ==
                  static_cast<uint8_t>(num::Function::kGeluTanh) &&
              static_cast<uint8_t>(isa::ActFunction::kErf) ==
                  static_cast<uint8_t>(num::Function::kErf) &&
              static_cast<uint8_t>(isa::ActFunction::kRsqrt) ==
                  static_cast<uint8_t>(num::Function::kRsqrt));

// What becomes of the accumulators of some lanes before the results are folded into them.
void prepare(isa::ReduceCmd command, float first, float* accumulators, size_t lanes) {
  const bool keeps = command == isa::ReduceCmd::kIdle || command == isa::ReduceCmd::kReduce;
  if (!keeps) std::fill_n(accumulators, lanes, first);
}
bool folds(isa::ReduceCmd command) {
  return command != isa::ReduceCmd::kIdle && command != isa::ReduceCmd::kReset;
}

// What an instruction with results x, `n` in each lane, does to the accumulators.
template <typename Initial>
void fold_results(isa::ReduceCmd command, TensorOp op, const float* x, size_t n, uint32_t first,
                  uint32_t count, EngineState& state, Initial&& initial) {
  float* accumulators = &state.accumulators[first];
  prepare(command, identity(op), accumulators, count);
  if (command == isa::ReduceCmd::kLoadReduce) {
    for (uint32_t i = 0; i < count; ++i) accumulators[i] = initial(first + i);
  }
  if (folds(command)) num::fold_rows(num_operator(op), x, count, n, n, accumulators);
}
float no_initial(uint32_t /*lane*/) {
  return 0;
}

// Lanes take every step together: step(i, x, y) of columns whose lanes are neighbours. x, n values
// in each lane, becomes the results; y may be null.
template <typename Step>
void each_column(uint32_t count, size_t n, float* x, const float* y, Step&& step) {
  constexpr size_t kSteps = 16;
  float columns[2][kSteps][isa::kPartitions] = {};
  for (size_t begin = 0; begin < n; begin += kSteps) {
    const size_t steps = std::min(kSteps, n - begin);
    for (uint32_t lane = 0; lane < count; ++lane) {
      for (size_t i = 0; i < steps; ++i) {
        columns[0][i][lane] = x[lane * n + begin + i];
        if (y != nullptr) columns[1][i][lane] = y[lane * n + begin + i];
      }
    }
    for (size_t i = 0; i < steps; ++i) step(columns[0][i], columns[1][i]);
    for (uint32_t lane = 0; lane < count; ++lane) {
      for (size_t i = 0; i < steps; ++i) x[lane * n + begin + i] = columns[0][i][lane];
    }
  }
}

}  // namespace

// A fold begins with its first element, one of truth values with its truth.
void compute(const isa::TensorReduce& o, const Lanes& lanes, EngineState& /*state*/) {
  const TensorAccess& from = lanes[o.src];
  const TensorAccess& to = lanes[o.dst];
  const size_t kept = to.elements();
  const size_t folded = from.elements() / kept;
  if (isa::on_bits(o.op)) {
    for (uint32_t lane = 0; lane < lanes.count(); ++lane) {
      uint32_t* x = room<uint32_t>(kFirst, from.elements());
      uint32_t* y = room<uint32_t>(kSecond, kept);
      from.read(lane, x);
      for (size_t i = 0; i < kept; ++i) {
        y[i] = x[i * folded];
        for (size_t j = 1; j < folded; ++j) operate(o.op, &y[i], &x[i * folded + j], &y[i], 1);
      }
      to.write(lane, y);
    }
    return;
  }
  lanes.each_group(from.elements(), Lanes::kFolded, [&](uint32_t first, uint32_t count) {
    float* x = room<float>(kFirst, count * from.elements());
    float* y = room<float>(kSecond, count * kept);
    const size_t rows = count * kept;
    lanes.read(from, first, count, x);
    const size_t begin = is_logical(o.op) ? 0 : 1;
    for (size_t i = 0; i < rows; ++i) y[i] = begin == 0 ? identity(o.op) : x[i * folded];
    num::fold_rows(num_operator(o.op), x + begin, rows, folded, folded - begin, y);
    if (o.negate != 0) {
      float* minus = room<float>(kThird, rows);
      std::fill_n(minus, rows, -1.0F);
      operate(TensorOp::kMultiply, y, minus, y, rows);
    }
    lanes.write(to, first, count, y);
  });
}

void compute(const isa::TensorScalarReduce& o, const Lanes& lanes, EngineState& state) {
  const TensorAccess& from = lanes[o.src];
  const TensorAccess& to = lanes[o.dst];
  const size_t n = to.elements();
  lanes.each_group(n, Lanes::kFolded, [&](uint32_t first, uint32_t count) {
    float* x = room<float>(kFirst, count * n);
    float* y = room<float>(kSecond, count * n);
    lanes.read(from, first, count, x);
    lanes.spread(o.operand, first, count, n, y);
    operate(o.op, x, y, x, count * n);
    fold_results(o.reduce_cmd, o.reduce_op, x, n, first, count, state,
                 [&](uint32_t lane) { return lanes.value<float>(o.initial, lane); });
    lanes.write(to, first, count, x);
  });
}

void compute(const isa::TensorScalarCumulative& o, const Lanes& lanes, EngineState& state) {
  const TensorAccess& from = lanes[o.src];
  const TensorAccess& to = lanes[o.dst];
  const size_t n = to.elements();
  const uint32_t count = lanes.count();
  float* x = room<float>(kFirst, count * n);
  float* y = room<float>(kSecond, count * n);
  lanes.read(from, 0, count, x);
  lanes.spread(o.operand, 0, count, n, y);
  operate(o.op0, x, y, x, count * n);
  float* r = state.accumulators;
  prepare(o.reduce_cmd, identity(o.op1), r, count);
  if (o.reduce_cmd == isa::ReduceCmd::kLoadReduce) {
    for (uint32_t lane = 0; lane < count; ++lane) r[lane] = lanes.value<float>(o.initial, lane);
  }
  each_column(count, n, x, nullptr, [&](float* column, const float* /*unused*/) {
    operate(o.op1, column, r, column, count);
    std::copy_n(column, count, r);
  });
  lanes.write(to, 0, count, x);
}

// All lanes take one step together.
void compute(const isa::TensorTensorScan& o, const Lanes& lanes, EngineState& /*state*/) {
  const TensorAccess& to = lanes[o.dst];
  const size_t n = to.elements();
  const uint32_t count = lanes.count();
  const bool swap0 = (o.reverse & 1) != 0;
  const bool swap1 = (o.reverse & 2) != 0;
  float* a = room<float>(kFirst, count * n);
  float* b = room<float>(kSecond, count * n);
  lanes.read(lanes[o.src0], 0, count, a);
  lanes.read(lanes[o.src1], 0, count, b);
  float r[isa::kPartitions] = {};
  float t[isa::kPartitions] = {};
  for (uint32_t lane = 0; lane < count; ++lane) r[lane] = lanes.value<float>(o.initial, lane);
  each_column(count, n, a, b, [&](float* x, const float* y) {
    operate(o.op0, swap0 ? r : x, swap0 ? x : r, t, count);
    operate(o.op1, swap1 ? y : t, swap1 ? t : y, r, count);
    std::copy_n(r, count, x);
  });
  lanes.write(to, 0, count, a);
}

void compute(const isa::Activate& o, const Lanes& lanes, EngineState& state) {
  const TensorAccess& from = lanes[o.src];
  const TensorAccess& to = lanes[o.dst];
  const size_t n = to.elements();
  // +0 in the instruction stands for "no bias": -0 stays what it is.
  const bool biased = o.bias.kind != isa::ScalarOperand::kImmediate || o.bias.bits != 0;
  lanes.each_group(n, Lanes::kFolded, [&](uint32_t first, uint32_t count) {
    float* x = room<float>(kFirst, count * n);
    float* y = room<float>(kSecond, count * n);
    lanes.read(from, first, count, x);
    lanes.spread(o.scale, first, count, n, y);
    operate(TensorOp::kMultiply, x, y, x, count * n);
    if (biased) {
      lanes.spread(o.bias, first, count, n, y);
      operate(TensorOp::kAdd, x, y, x, count * n);
    }
    num::apply(static_cast<num::Function>(o.function), x, as_float(o.parameter), x, count * n);
    fold_results(o.reduce_cmd, o.reduce_op, x, n, first, count, state, no_initial);
    lanes.write(to, first, count, x);
  });
}

void compute(const isa::Activate2& o, const Lanes& lanes, EngineState& state) {
  const TensorAccess& from = lanes[o.src];
  const TensorAccess& to = lanes[o.dst];
  const size_t n = to.elements();
  lanes.each_group(n, Lanes::kFolded, [&](uint32_t first, uint32_t count) {
    float* x = room<float>(kFirst, count * n);
    float* y = room<float>(kSecond, count * n);
    lanes.read(from, first, count, x);
    const auto step = [&](TensorOp op, const isa::ScalarOperand& operand, bool reverse) {
      if (op == TensorOp::kBypass && !reverse) return;
      lanes.spread(operand, first, count, n, y);
      operate(op, reverse ? y : x, reverse ? x : y, x, count * n);
    };
    step(o.op0, o.operand0, (o.reverse & 1) != 0);
    step(o.op1, o.operand1, (o.reverse & 2) != 0);
    num::apply(static_cast<num::Function>(o.function), x, as_float(o.parameter), x, count * n);
    fold_results(o.reduce_cmd, o.reduce_op, x, n, first, count, state, no_initial);
    lanes.write(to, first, count, x);
  });
}

void compute(const isa::Exponential& o, const Lanes& lanes, EngineState& state) {
  const TensorAccess& from = lanes[o.src];
  const TensorAccess& to = lanes[o.dst];
  const size_t n = to.elements();
  lanes.each_group(n, Lanes::kFolded, [&](uint32_t first, uint32_t count) {
    float* x = room<float>(kFirst, count * n);
    float* y = room<float>(kSecond, count * n);
    lanes.read(from, first, count, x);
    lanes.spread(o.maximum, first, count, n, y);
    operate(TensorOp::kSubtract, x, y, x, count * n);
    num::apply(num::Function::kExp, x, 0, x, count * n);
    fold_results(o.reduce_cmd, TensorOp::kAdd, x, n, first, count, state,
                 [&](uint32_t lane) { return lanes.value<float>(o.initial, lane); });
    lanes.write(to, first, count, x);
  });
}

void compute(const isa::ReadAccumulator& o, const Lanes& lanes, EngineState& state) {
  const TensorAccess& to = lanes[o.dst];
  const float sign = o.negate != 0 ? -1.0F : 1.0F;
  for (uint32_t lane = 0; lane < lanes.count(); ++lane) {
    const float value = state.accumulators[lane] * sign;
    to.write(lane, &value);
  }
}

// The sums are double: what is stored is rounded once.
void compute(const isa::BnStats& o, const Lanes& lanes, EngineState& /*state*/) {
  const TensorAccess& from = lanes[o.src];
  const size_t n = from.elements();
  for (uint32_t lane = 0; lane < lanes.count(); ++lane) {
    float* x = room<float>(kFirst, n);
    float results[6] = {};
    from.read(lane, x);
    for (size_t half = 0; half < 2; ++half) {
      const auto count = static_cast<double>((n + 1 - half) / 2);
      double sum = 0;
      for (size_t i = half; i < n; i += 2) sum += x[i];
      const double mean = count == 0 ? 0 : sum / count;
      double squares = 0;
      for (size_t i = half; i < n; i += 2) squares += (x[i] - mean) * (x[i] - mean);
      float* triple = results + 3 * half;
      triple[0] = static_cast<float>(count);
      triple[1] = static_cast<float>(mean);
      triple[2] = static_cast<float>(squares);
    }
    lanes[o.dst].write(lane, results);
  }
}

void compute(const isa::BnAggregate& o, const Lanes& lanes, EngineState& /*state*/) {
  const TensorAccess& from = lanes[o.src];
  const size_t n = from.elements();
  for (uint32_t lane = 0; lane < lanes.count(); ++lane) {
    float* x = room<float>(kFirst, n);
    from.read(lane, x);
    double count = 0;
    double sum = 0;
    for (size_t i = 0; i < n; i += 3) {
      count += x[i];
      sum += double{x[i]} * x[i + 1];
    }
    const double mean = sum / count;
    double squares = 0;
    for (size_t i = 0; i < n; i += 3) {
      squares += x[i + 2] + x[i] * (x[i + 1] - mean) * (x[i + 1] - mean);
    }
    const float results[2] = {static_cast<float>(mean), static_cast<float>(squares / count)};
    lanes[o.dst].write(lane, results);
  }
}

void compute(const isa::PartitionReduce& o, const Lanes& lanes, EngineState& /*state*/) {
  const TensorAccess& from = lanes[o.src];
  const TensorAccess& to = lanes[o.dst];
  const size_t n = to.elements();
  const auto fold = [&](auto type, auto&& finish) {
    using T = decltype(type);
    T* y = room<T>(kFirst, n);
    T* x = room<T>(kSecond, n);
    from.read(0, y);
    for (uint32_t lane = 1; lane < o.partitions; ++lane) {
      from.read(lane, x);
      operate(o.op, y, x, y, n);
    }
    finish(y, x);
    to.write(0, y);
  };
  if (isa::on_bits(o.op)) return fold(uint32_t{}, [](uint32_t*, uint32_t*) {});
  fold(float{}, [&](float* sums, float* factors) {
    if (o.average == 0) return;
    std::fill_n(factors, n, 1.0F / static_cast<float>(o.partitions));
    operate(TensorOp::kMultiply, sums, factors, sums, n);
  });
}

}  // namespace hw
