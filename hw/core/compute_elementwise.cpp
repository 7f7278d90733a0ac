#include "hw/core/compute.h"

#include <algorithm>

#include "arch/contract/isa_checks.h"
#include "base/num/types.h"
#include "hw/core/operators.h"
#include "hw/num_type.h"

namespace hw {

namespace isa = contract::isa;
namespace num = base::num;
using isa::TensorOp;

void compute(const isa::TensorTensor& o, const Lanes& lanes, EngineState& state) {
  const TensorAccess& a = lanes[o.src0];
  const TensorAccess& b = lanes[o.src1];
  const TensorAccess& to = lanes[o.dst];
  const size_t n = to.elements();
  const auto both = [&](auto type, auto&& combine) {
    using T = decltype(type);
    lanes.each_group(n, 1, [&](uint32_t first, uint32_t count) {
      T* x = room<T>(kFirst, count * n);
      T* y = room<T>(kSecond, count * n);
      const T* p = lanes.view(a, first, count, x);
      const T* q = lanes.view(b, first, count, y);
      combine(p, q, x, count * n);
      lanes.write(to, first, count, x);
    });
  };
  if (isa::on_bits(o.op)) {
    return both(uint32_t{}, [&](const uint32_t* p, const uint32_t* q, uint32_t* x, size_t size) {
      operate(o.op, p, q, x, size);
    });
  }
  const bool integers = state.engine == contract::kPool && has_integer_form(o.op) &&
                        on_words(a.type()) && on_words(b.type()) && on_words(to.type());
  if (integers) {
    const bool signed_a = is_signed(a.type());
    const bool signed_b = is_signed(b.type());
    return both(uint32_t{}, [&](const uint32_t* p, const uint32_t* q, uint32_t* x, size_t size) {
      for (size_t i = 0; i < size; ++i) {
        x[i] = static_cast<uint32_t>(
            integer_operate(o.op, number(p[i], signed_a), number(q[i], signed_b)));
      }
    });
  }
  both(float{}, [&](const float* p, const float* q, float* x, size_t size) {
    operate(o.op, p, q, x, size);
  });
}

void compute(const isa::TensorCopy& o, const Lanes& lanes, EngineState& state) {
  const TensorAccess& from = lanes[o.src];
  const TensorAccess& to = lanes[o.dst];
  const size_t n = to.elements();
  if (from.type() == to.type()) {
    const size_t bytes = n * isa::data_type_bytes(to.type());
    for (uint32_t lane = 0; lane < lanes.count(); ++lane) {
      uint8_t* x = room<uint8_t>(kFirst, bytes);
      from.read(lane, x);
      to.write(lane, x);
    }
    return;
  }
  if (state.engine == contract::kPool && on_words(from.type()) && on_words(to.type())) {
    for (uint32_t lane = 0; lane < lanes.count(); ++lane) {
      uint8_t* x = room<uint8_t>(kFirst, n * isa::data_type_bytes(from.type()));
      uint8_t* y = room<uint8_t>(kSecond, n * isa::data_type_bytes(to.type()));
      from.read(lane, x);
      num::convert(num_type(from.type()), x, num_type(to.type()), y, n);
      to.write(lane, y);
    }
    return;
  }
  for (uint32_t lane = 0; lane < lanes.count(); ++lane) {
    float* x = room<float>(kFirst, n);
    from.read(lane, x);
    to.write(lane, x);
  }
}

void compute(const isa::TensorScalar& o, const Lanes& lanes, EngineState& /*state*/) {
  const TensorAccess& from = lanes[o.src];
  const TensorAccess& to = lanes[o.dst];
  const size_t n = to.elements();
  const auto both = [&](auto type) {
    using T = decltype(type);
    lanes.each_group(n, 1, [&](uint32_t first, uint32_t count) {
      T* x = room<T>(kFirst, count * n);
      T* y = room<T>(kSecond, count * n);
      lanes.read(from, first, count, x);
      const auto step = [&](TensorOp op, const isa::ScalarOperand& operand, bool reverse) {
        if (op == TensorOp::kBypass && !reverse) return;
        lanes.spread(operand, first, count, n, y);
        operate(op, reverse ? y : x, reverse ? x : y, x, count * n);
      };
      step(o.op0, o.operand0, (o.reverse & 1) != 0);
      step(o.op1, o.operand1, (o.reverse & 2) != 0);
      lanes.write(to, first, count, x);
    });
  };
  if (isa::on_bits(o.op0) || isa::on_bits(o.op1)) return both(uint32_t{});
  both(float{});
}

void compute(const isa::ScalarTensorTensor& o, const Lanes& lanes, EngineState& /*state*/) {
  const TensorAccess& from = lanes[o.src0];
  const TensorAccess& with = lanes[o.src1];
  const TensorAccess& to = lanes[o.dst];
  const size_t n = to.elements();
  lanes.each_group(n, 1, [&](uint32_t first, uint32_t count) {
    const size_t size = count * n;
    float* x = room<float>(kFirst, size);
    float* y = room<float>(kSecond, size);
    lanes.read(from, first, count, x);
    lanes.spread(o.operand, first, count, n, y);
    const bool swap0 = (o.reverse & 1) != 0;
    const bool swap1 = (o.reverse & 2) != 0;
    operate(o.op0, swap0 ? y : x, swap0 ? x : y, x, size);
    lanes.read(with, first, count, y);
    operate(o.op1, swap1 ? y : x, swap1 ? x : y, x, size);
    lanes.write(to, first, count, x);
  });
}

void compute(const isa::Reciprocal& o, const Lanes& lanes, EngineState& /*state*/) {
  const TensorAccess& from = lanes[o.src];
  const TensorAccess& to = lanes[o.dst];
  const size_t n = to.elements();
  lanes.each_group(n, 1, [&](uint32_t first, uint32_t count) {
    float* x = room<float>(kFirst, count * n);
    lanes.read(from, first, count, x);
    operate(TensorOp::kReciprocal, x, x, x, count * n);
    lanes.write(to, first, count, x);
  });
}

void compute(const isa::Memset& o, const Lanes& lanes, EngineState& /*state*/) {
  const TensorAccess& to = lanes[o.dst];
  const size_t bytes = isa::data_type_bytes(to.type());
  uint8_t* x = room<uint8_t>(kFirst, to.elements() * bytes);
  for (size_t i = 0; i < to.elements() * bytes; ++i) {
    x[i] = static_cast<uint8_t>(o.value >> (8 * (i % bytes % sizeof(o.value))));
  }
  for (uint32_t lane = 0; lane < lanes.count(); ++lane) to.write(lane, x);
}

std::vector<uint32_t> affine_row(const isa::AffineOperand& pattern) {
  std::vector<uint32_t> row = {static_cast<uint32_t>(pattern.offset)};
  for (int d = 0; d < 4; ++d) {
    const size_t inner = row.size();
    for (uint32_t i = 1; i < pattern.count[d]; ++i) {
      for (size_t j = 0; j < inner; ++j) {
        row.push_back(row[j] + i * static_cast<uint32_t>(pattern.step[d]));
      }
    }
  }
  return row;
}

void compute(const isa::Iota& o, const Lanes& lanes, EngineState& /*state*/) {
  const TensorAccess& to = lanes[o.dst];
  const size_t n = to.elements();
  std::vector<uint32_t> row = affine_row(o.pattern);
  uint8_t* x = room<uint8_t>(kFirst, n * isa::data_type_bytes(to.type()));
  for (uint32_t lane = 0; lane < lanes.count(); ++lane) {
    num::convert(num::Type::kInt32, row.data(), num_type(to.type()), x, n);
    to.write(lane, x);
    for (uint32_t& value : row) value += static_cast<uint32_t>(o.pattern.multiplier);
  }
}

}  // namespace hw
