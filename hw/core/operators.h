// The operators of data/isa on numbers and words of the host. Source of truth:
// spec/engine-isa.md 5.3; arithmetic: base/num/operators.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/num/operators.h"
#include "contract/isa_types.h"

namespace hw {

// Not of operators on bits.
base::num::Operator num_operator(contract::isa::TensorOp op);

// y[i] = a[i] op b[i]; `y` may be exactly `a` or `b`.
void operate(contract::isa::TensorOp op, const float* a, const float* b, float* y, size_t n);
// Operators on bits, and BYPASS.
void operate(contract::isa::TensorOp op, const uint32_t* a, const uint32_t* b, uint32_t* y,
             size_t n);

// GpSimd's integer arithmetic. Wraps; the destination keeps the low bits. Roots, reciprocals and
// powers are left to float32.
bool has_integer_form(contract::isa::TensorOp op);
int64_t integer_operate(contract::isa::TensorOp op, int64_t a, int64_t b);
// What a word of a type stands for.
inline int64_t number(uint32_t word, bool is_signed) {
  return is_signed ? int64_t{static_cast<int32_t>(word)} : int64_t{word};
}
// Integers of up to 32 bits.
bool on_words(contract::isa::DataType type);
bool is_signed(contract::isa::DataType type);

// An accumulator before anything is folded into it.
float identity(contract::isa::TensorOp op);
bool is_logical(contract::isa::TensorOp op);

}  // namespace hw
