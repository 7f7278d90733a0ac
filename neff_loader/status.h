// Error.code values of this room: the NRT_STATUS numbers that spec/neff.md 1.10 assigns to each
// rule.
#pragma once

#include <string>

#include "base/error.h"

namespace neff {

namespace status {
constexpr int kFailure = 1;              // NRT_FAILURE
constexpr int kInvalid = 2;              // NRT_INVALID
constexpr int kResource = 4;             // NRT_RESOURCE
constexpr int kNotEnoughCores = 9;       // NRT_LOAD_NOT_ENOUGH_NC
constexpr int kUnsupportedVersion = 10;  // NRT_UNSUPPORTED_NEFF_VERSION
}  // namespace status

// `rule` is the id in spec/neff.md, for example "E-09"; it ends the message in parentheses.
inline base::Error violation(const char* rule, std::string where, std::string what,
                             int code = status::kInvalid,
                             base::Fault fault = base::Fault::kProgram) {
  return {fault, code, std::move(where), std::move(what) + " (" + rule + ")"};
}

}  // namespace neff
