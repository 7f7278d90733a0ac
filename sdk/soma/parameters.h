// The parameters of a block or policy, as the platform file gives them.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

namespace soma {

// Names are those of the file; a name that is given and never asked for is an error of the file.
class Parameters {
 public:
  virtual ~Parameters() = default;
  // The value as text (numbers in decimal or with 0x, true, false), or null if it is not given.
  virtual const char* find(const char* name) const = 0;

  // The value, or `otherwise` where the file gives none. Throws std::invalid_argument for a value
  // that is not of the kind asked for.
  std::string text(const char* name, const std::string& otherwise) const {
    const char* value = find(name);
    return value != nullptr ? value : otherwise;
  }
  uint64_t integer(const char* name, uint64_t otherwise) const {
    const char* value = find(name);
    if (value == nullptr) return otherwise;
    const bool hex = value[0] == '0' && (value[1] == 'x' || value[1] == 'X');
    uint64_t number = 0;
    const char* end = value + std::strlen(value);
    const auto parsed = std::from_chars(value + (hex ? 2 : 0), end, number, hex ? 16 : 10);
    if (parsed.ec != std::errc() || parsed.ptr != end) refuse(name, value, "a whole number");
    return number;
  }
  double number(const char* name, double otherwise) const {
    const char* value = find(name);
    if (value == nullptr) return otherwise;
    double number = 0;
    const char* end = value + std::strlen(value);
    const auto parsed = std::from_chars(value, end, number);
    if (parsed.ec != std::errc() || parsed.ptr != end) refuse(name, value, "a number");
    return number;
  }
  bool flag(const char* name, bool otherwise) const {
    const char* value = find(name);
    if (value == nullptr) return otherwise;
    const bool on = std::strcmp(value, "true") == 0;
    if (!on && std::strcmp(value, "false") != 0) refuse(name, value, "true or false");
    return on;
  }

 private:
  [[noreturn]] static void refuse(const char* name, const char* value, const char* wanted) {
    throw std::invalid_argument(std::string("parameter ") + name + " is '" + value +
                                "', which is not " + wanted);
  }
};

}  // namespace soma
