#include "hw/core/compute.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>

#include "arch/contract/isa_checks.h"
#include "base/num/kernels.h"
#include "base/num/types.h"
#include "hw/core/operators.h"
#include "hw/num_type.h"

namespace hw {

namespace isa = contract::isa;
namespace num = base::num;
using isa::TensorOp;

namespace {

constexpr size_t kValues = 8;

// What is selected goes into the accumulator of its lane.
void keep_maximum(isa::ReduceCmd command, float* x, size_t n, uint32_t lane, EngineState& state) {
  if (command == isa::ReduceCmd::kIdle) return;
  float* accumulator = &state.accumulators[lane];
  if (command != isa::ReduceCmd::kReduce) *accumulator = identity(TensorOp::kMax);
  if (command == isa::ReduceCmd::kReset) return;
  num::fold_rows(num_operator(TensorOp::kMax), x, 1, n, n, accumulator);
}

}  // namespace

void compute(const isa::AffineSelect& o, const Lanes& lanes, EngineState& /*state*/) {
  const TensorAccess& from = lanes[o.src];
  const TensorAccess& to = lanes[o.dst];
  const size_t n = to.elements();
  const size_t bytes = isa::data_type_bytes(to.type());
  std::vector<uint32_t> row = affine_row(o.pattern);
  const float fill = as_float(o.fill);
  uint8_t filled[8] = {};
  num::store_float(num_type(to.type()), fill, filled);
  for (uint32_t lane = 0; lane < lanes.count(); ++lane) {
    uint8_t* x = room<uint8_t>(kFirst, n * bytes);
    if (from.type() == to.type()) {
      from.read(lane, x);
    } else {
      float* y = room<float>(kSecond, n);
      from.read(lane, y);
      num::kernels().from_float(num_type(to.type()), y, x, n);
    }
    for (size_t i = 0; i < n; ++i) {
      if (!(integer_operate(o.op, static_cast<int32_t>(row[i]), 0) != 0)) {
        std::memcpy(x + i * bytes, filled, bytes);
      }
      row[i] += static_cast<uint32_t>(o.pattern.multiplier);
    }
    to.write(lane, x);
  }
}

void compute(const isa::CopyPredicated& o, const Lanes& lanes, EngineState& /*state*/) {
  const TensorAccess& to = lanes[o.dst];
  const TensorAccess& predicate = lanes[o.predicate];
  const size_t n = to.elements();
  const size_t bytes = isa::data_type_bytes(to.type());
  for (uint32_t lane = 0; lane < lanes.count(); ++lane) {
    uint8_t* y = room<uint8_t>(kFirst, n * bytes);
    uint8_t* x = room<uint8_t>(kSecond, n * bytes);
    uint32_t* chosen = room<uint32_t>(kThird, n);
    size_t step = 0;  // of x: one number for all elements
    if (o.src.kind == isa::ScalarOperand::kTile) {
      const TensorAccess& from = lanes[o.src.tile];
      from.read(lane, x);
      if (from.elements() == n) step = bytes;
    } else {
      num::store_float(num_type(to.type()), lanes.value<float>(o.src, lane), x);
    }
    to.read(lane, y);
    predicate.read(lane, chosen);
    for (size_t i = 0; i < n; ++i) {
      if ((chosen[i] != 0) != (o.reverse != 0)) std::memcpy(y + i * bytes, x + i * step, bytes);
    }
    to.write(lane, y);
  }
}

void compute(const isa::SelectReduce& o, const Lanes& lanes, EngineState& state) {
  const TensorAccess& to = lanes[o.dst];
  const size_t n = to.elements();
  for (uint32_t lane = 0; lane < lanes.count(); ++lane) {
    float* x = room<float>(kFirst, n);
    uint32_t* chosen = room<uint32_t>(kSecond, n);
    lanes[o.on_true].read(lane, x);
    lanes[o.predicate].read(lane, chosen);
    const auto other = lanes.value<float>(o.on_false, lane);
    for (size_t i = 0; i < n; ++i) {
      if ((chosen[i] != 0) == (o.reverse != 0)) x[i] = other;
    }
    keep_maximum(o.reduce_cmd, x, n, lane, state);
    to.write(lane, x);
  }
}

void compute(const isa::RangeSelect& o, const Lanes& lanes, EngineState& state) {
  const TensorAccess& to = lanes[o.dst];
  const size_t n = to.elements();
  const float fill = as_float(o.fill);
  float* column = room<float>(kThird, n);
  float* bound = room<float>(kFourth, n);
  for (uint32_t lane = 0; lane < lanes.count(); ++lane) {
    float* x = room<float>(kFirst, n);
    float* in = room<float>(kSecond, 2 * n);
    lanes[o.src].read(lane, x);
    for (size_t i = 0; i < n; ++i) column[i] = as_float(o.start) + static_cast<float>(i);
    std::fill_n(bound, n, lanes.value<float>(o.bound0, lane));
    operate(o.op0, column, bound, in, n);
    std::fill_n(bound, n, lanes.value<float>(o.bound1, lane));
    operate(o.op1, column, bound, in + n, n);
    for (size_t i = 0; i < n; ++i) {
      if (in[i] == 0 || in[n + i] == 0) x[i] = fill;
    }
    keep_maximum(o.reduce_cmd, x, n, lane, state);
    to.write(lane, x);
  }
}

// NaN are never among the largest, and no value is equal to them.
void compute(const isa::Max8& o, const Lanes& lanes, EngineState& /*state*/) {
  const TensorAccess& from = lanes[o.src];
  const size_t n = from.elements();
  for (uint32_t lane = 0; lane < lanes.count(); ++lane) {
    float* x = room<float>(kFirst, n);
    from.read(lane, x);
    std::replace_if(
        x, x + n, [](float value) { return std::isnan(value); },
        -std::numeric_limits<float>::infinity());
    std::partial_sort(x, x + kValues, x + n, std::greater<>());
    lanes[o.dst].write(lane, x);
  }
}

void compute(const isa::FindIndex8& o, const Lanes& lanes, EngineState& /*state*/) {
  const TensorAccess& from = lanes[o.src];
  const size_t n = from.elements();
  for (uint32_t lane = 0; lane < lanes.count(); ++lane) {
    float* x = room<float>(kFirst, n);
    float values[kValues] = {};
    uint32_t places[kValues] = {};
    from.read(lane, x);
    lanes[o.values].read(lane, values);
    for (size_t i = 0; i < kValues; ++i) {
      // Behind the place of an equal value before it.
      size_t begin = 0;
      for (size_t j = 0; j < i; ++j) {
        if (values[j] == values[i] && places[j] != ~0u) begin = places[j] + size_t{1};
        if (values[j] == values[i] && places[j] == ~0u) begin = n;
      }
      const float* found = std::find(x + begin, x + n, values[i]);
      places[i] = found == x + n ? ~0u : static_cast<uint32_t>(found - x);
    }
    lanes[o.dst].write(lane, places);
  }
}

void compute(const isa::MatchReplace8& o, const Lanes& lanes, EngineState& /*state*/) {
  const TensorAccess& from = lanes[o.src];
  const size_t n = from.elements();
  for (uint32_t lane = 0; lane < lanes.count(); ++lane) {
    float* x = room<float>(kFirst, n);
    float values[kValues] = {};
    uint32_t places[kValues] = {};
    std::vector<bool> replaced(n);
    from.read(lane, x);
    lanes[o.values].read(lane, values);
    for (size_t i = kValues; i-- > 0;) {
      size_t at = 0;
      while (at < n && (replaced[at] || !(x[at] == values[i]))) ++at;
      places[i] = at == n ? ~0u : static_cast<uint32_t>(at);
      if (at == n) continue;
      x[at] = as_float(o.fill);
      replaced[at] = true;
    }
    lanes[o.dst].write(lane, x);
    if (o.index.kind == isa::ScalarOperand::kTile) lanes[o.index.tile].write(lane, places);
  }
}

void compute(const isa::SequenceBounds& o, const Lanes& lanes, EngineState& /*state*/) {
  const TensorAccess& from = lanes[o.src];
  const size_t n = from.elements();
  float* ids = room<float>(kFirst, n);
  float* bounds = room<float>(kSecond, 2 * n);
  from.read(0, ids);
  for (size_t begin = 0; begin < n;) {
    size_t end = begin + 1;
    while (end < n && ids[end] == ids[begin]) ++end;
    const bool none = ids[begin] == 0;
    std::fill(bounds + begin, bounds + end, static_cast<float>(none ? n : begin));
    std::fill(bounds + n + begin, bounds + n + end, none ? -1.0F : static_cast<float>(end));
    begin = end;
  }
  lanes[o.dst].write(0, bounds);
}

// Of equal values the one with the smaller number counts as the larger one; NaN are the smallest.
void compute(const isa::Topk& o, const Lanes& lanes, EngineState& /*state*/) {
  const TensorAccess& from = lanes[o.src];
  const size_t row = from.elements();
  const size_t k = lanes[o.dst].elements();
  for (uint32_t group = 0; group < lanes.count(); group += isa::kGroup) {
    float* x = room<float>(kFirst, isa::kGroup * row);
    lanes.read(from, group, isa::kGroup, x);
    std::vector<std::pair<float, uint32_t>> values(o.n);
    for (uint32_t i = 0; i < o.n; ++i) {
      const float value = x[i % isa::kGroup * row + i / isa::kGroup];
      values[i] = {std::isnan(value) ? -std::numeric_limits<float>::infinity() : value, i};
    }
    std::sort(values.begin(), values.end(), [](const auto& a, const auto& b) {
      return a.first < b.first || (a.first == b.first && a.second > b.second);
    });
    float* largest = room<float>(kSecond, k);
    uint32_t* numbers = room<uint32_t>(kThird, k);
    for (size_t i = 0; i < k; ++i) {
      largest[i] = values[values.size() - k + i].first;
      numbers[i] = values[values.size() - k + i].second;
    }
    for (uint32_t lane = group; lane < group + isa::kGroup; ++lane) {
      lanes[o.dst].write(lane, largest);
      lanes[o.index].write(lane, numbers);
    }
  }
}

void compute(const isa::NonzeroWithCount& o, const Lanes& lanes, EngineState& /*state*/) {
  const TensorAccess& from = lanes[o.src];
  const size_t n = from.elements();
  for (uint32_t lane = 0; lane < lanes.count(); lane += isa::kGroup) {
    float* x = room<float>(kFirst, n);
    from.read(lane, x);
    uint32_t* places = room<uint32_t>(kSecond, n + 1);
    std::fill_n(places, n, o.padding);
    uint32_t count = 0;
    for (size_t i = 0; i < n; ++i) {
      if (x[i] != 0) places[count++] = static_cast<uint32_t>(i) + o.offset;
    }
    places[n] = count;
    lanes[o.dst].write(lane, places);
  }
}

}  // namespace hw
