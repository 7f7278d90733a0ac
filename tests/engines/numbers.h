// Numbers of the compute engines, as the specification defines them: element types, and operators
// on float32 with one rounding each. Source of truth: spec/engine-isa.md 5.1 to 5.3; what that
// leaves open: docs/decisions/hw.md (8-bit floats with infinities, canonical NaNs).
// Shares nothing with the model: formats are decoded and encoded from their widths, arithmetic is
// done in double (whose 53 bits round to float32 as if once) or wider, then rounded to float32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "contract/isa_types.h"

namespace engine_reference {

namespace isa = contract::isa;

// Bits of an element, zero-extended.
uint64_t load_bits(isa::DataType type, const uint8_t* from);
void store_bits(isa::DataType type, uint64_t bits, uint8_t* to);

bool is_integer(isa::DataType type);
bool is_signed(isa::DataType type);
// Integers that GpSimd computes with natively: up to 32 bits.
bool is_word(isa::DataType type);

// The reading and the writing conversion. NaN becomes the canonical quiet NaN of `type`, or 0.
float to_float(isa::DataType type, uint64_t bits);
uint64_t from_float(isa::DataType type, float value);
// An integer's value. uint64 beyond the largest int64 does not fit, and is no operand of integer
// arithmetic.
int64_t to_integer(isa::DataType type, uint64_t bits);
// Integers saturate; floats round through float32.
uint64_t from_integer(isa::DataType type, int64_t value);
// Number `which` of an element of four (spec/engine-isa.md 5.6), or 2^(byte - 127) of a scale.
double mx_number(isa::DataType type, uint64_t bits, unsigned which);
double mx_scale(uint64_t byte);
// The low bits, for arithmetic that wraps.
uint64_t truncated(isa::DataType type, uint64_t word);
// float32r enters the Tensor engine with 10 mantissa bits.
float rounded_to_10_bits(float value);

float float_of(uint32_t bits);
uint32_t bits_of(float value);
float canonical_nan();
// The next number up and down, in the order in which -0 comes before +0.
float above(float value);
float below(float value);

// The float32 values that a correct machine may produce: numbers from low to high, and a NaN.
struct Range {
  float low = 0;
  float high = 0;
  bool number = true;
  bool nan = false;

  static Range exactly(float value);
  static Range from_to(float low, float high) { return {low, high, true, false}; }
  // What rounds to `value`, one unit in the last place either way.
  static Range around(float value);
  bool exact() const;  // one value
  float nominal() const { return number ? low : canonical_nan(); }
  void include(float value);
  void include(const Range& other);
};

// What may lie in an element: converted values of the range, in the order of numbers.
bool admits(isa::DataType type, const Range& range, uint64_t bits);

// One operator on float32. Where the specification does not say which zero results, both may.
Range operate(isa::TensorOp op, const Range& a, const Range& b);
// Operators on bits of 32-bit words.
constexpr bool on_bits(isa::TensorOp op) {
  return op >= isa::TensorOp::kNot;
}
uint32_t operate_bits(isa::TensorOp op, uint32_t a, uint32_t b);
// Exact integer arithmetic: the low bits of the result count. False: not defined on integers.
bool operate_integers(isa::TensorOp op, int64_t a, int64_t b, uint64_t* result);
// What a reset makes of an accumulator that `op` folds into.
float identity(isa::TensorOp op);

// The Scalar engine's function; `parameter` is PRELU's.
Range activate(isa::ActFunction function, const Range& x, float parameter);

}  // namespace engine_reference
