// What a reduction of the DMA engines gives, written apart from base/num.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/contract/descriptor.h"

namespace ccl {

// Fold of `bytes` of each source, elements of one type, left to right in float or modulo 2^n.
void reference_fold(const contract::DmaCompute& op, const std::vector<const uint8_t*>& sources,
                    uint64_t bytes, uint8_t* out);

// Floats of the supported types, by code.
double decode_float(contract::DType dtype, const uint8_t* from);
void encode_float(contract::DType dtype, double value, uint8_t* to);
bool is_float(contract::DType dtype);

}  // namespace ccl
