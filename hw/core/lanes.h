// Arithmetic of one lane of a compute engine on packed elements. Source of truth:
// spec/engine-isa.md 5. Exact: inputs convert to float32, one operation in float32, one rounding
// (nearest even) to the destination type; overflow to infinity where the format has one; float to
// integer saturates, NaN gives 0. With an integer unit and integer types only, 32-bit integer
// arithmetic that wraps.
#pragma once

#include <cstddef>
#include <cstdint>

#include "contract/isa_types.h"

namespace hw::lanes {

// Equal types move bits; 64-bit integers convert through float32 as all others do.
void convert(contract::isa::DataType from_type, const uint8_t* from,
             contract::isa::DataType to_type, uint8_t* to, size_t n);

struct Input {
  contract::isa::DataType type;
  const uint8_t* data;
};
struct Output {
  contract::isa::DataType type;
  uint8_t* data;
};
// MIN and MAX return NaN if either input is NaN.
void combine(contract::isa::TensorOp op, const Input& a, const Input& b, const Output& out,
             size_t n, bool integer_unit);

}  // namespace hw::lanes
