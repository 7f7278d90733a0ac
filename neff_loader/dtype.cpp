#include "neff_loader/dtype.h"

#include "contract/isa_operands.h"

namespace neff {

std::optional<DataType> data_type(std::string_view name) {
  for (const auto& entry : contract::isa::kDataTypeNames) {
    const auto type = static_cast<DataType>(entry.value);
    if (name == entry.name && contract::isa::has_dtype(type)) return type;
  }
  return std::nullopt;
}

const char* to_string(DataType type) {
  for (const auto& entry : contract::isa::kDataTypeNames) {
    if (static_cast<uint8_t>(type) == entry.value) return entry.name;
  }
  return "unknown";
}

}  // namespace neff
