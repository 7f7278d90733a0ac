// Data type names of NEFF JSON (spec/neff.md 3.6). Codes are those of the runtime header.
#pragma once

#include <optional>
#include <string_view>

#include "arch/contract/isa_fields.h"

namespace neff {

using contract::isa::data_type_bytes;
using contract::isa::DataType;

std::optional<DataType> data_type(std::string_view name);
const char* to_string(DataType type);  // "float32"

}  // namespace neff
