#include "arch/config/decimal.h"

#include <numeric>
#include <string>

namespace config {
namespace {

constexpr int kMaxDigits = 18;  // 10^18 fits 64 bits

}  // namespace

base::Result<Ratio> parse_decimal(std::string_view text) {
  const base::Error malformed{base::Fault::kConfig, 0, "",
                              "'" + std::string(text) + "' is not a plain decimal number"};
  Ratio value;
  int digits = 0;
  bool point = false;
  for (const char c : text) {
    if (c == '.' && !point && digits > 0) {
      point = true;
    } else if (c >= '0' && c <= '9' && digits < kMaxDigits) {
      value.num = value.num * 10 + static_cast<uint64_t>(c - '0');
      if (point) value.den *= 10;
      ++digits;
    } else {
      return malformed;
    }
  }
  if (digits == 0 || text.back() == '.') return malformed;
  const uint64_t common = std::gcd(value.num, value.den);
  return Ratio{value.num / common, value.den / common};
}

}  // namespace config
