// MX operands of the compute engines: elements of four numbers, and the scales of groups of 8
// partitions. Source of truth: spec/engine-isa.md 5.6.
#pragma once

#include <cstdint>
#include <vector>

#include "base/num/mx.h"
#include "hw/core/tensor_access.h"

namespace hw {

// Of an element type that has four numbers.
base::num::Mx mx_format(contract::isa::DataType type);

// The lane of a scale operand that holds the scales of this lane of the data.
uint32_t scale_lane(uint32_t lane);

// Number j of each element of lane k, times its scale, is row j * rows + k.
void read_mx_rows(const TensorAccess& from, const TensorAccess& scale, uint32_t rows,
                  std::vector<float>* to);

}  // namespace hw
