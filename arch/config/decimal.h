// Decimal text to exact rationals: "1.12" is 28/25, never a double.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace config {

struct Ratio {
  uint64_t num = 0;
  uint64_t den = 1;
};

// Digits with at most one point, at most 18 digits in all; no sign, no exponent. Reduced.
base::Result<Ratio> parse_decimal(std::string_view text);

}  // namespace config
