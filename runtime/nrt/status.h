// Errors inside the library are base::Error with an NRT_STATUS as code; these helpers make and
// translate them.
#pragma once

#include <nrt/nrt_status.h>

#include <string>

#include "base/error.h"

namespace nrt {

inline base::Error error(NRT_STATUS status, std::string what,
                         base::Fault fault = base::Fault::kUsage) {
  return {fault, static_cast<int>(status), {}, std::move(what)};
}

inline base::Error unsupported(NRT_STATUS status, std::string what) {
  return error(status, std::move(what), base::Fault::kUnsupported);
}

// The status a caller sees; an error without a status is NRT_FAILURE.
inline NRT_STATUS status_of(const base::Error& e) {
  return e.code == 0 ? NRT_FAILURE : static_cast<NRT_STATUS>(e.code);
}

// Failure of a driver library call: errno decides (spec/ndl-api.md 2.1).
base::Error driver_error(const char* what, int error_number);

// Static text of a status; the library's own use does not go through the exported symbol.
const char* status_text(NRT_STATUS status);

}  // namespace nrt
