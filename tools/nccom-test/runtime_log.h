// What the runtime logs, kept back in memory: --x-matrix tries what will be refused, and a refusal
// belongs into its table, not into some lines per rank on the terminal.
#pragma once

#include <string>

#include "base/fd.h"

namespace nccom {

class RuntimeLog {
 public:
  // Before nrt_init. Keeps nothing back if the environment says what to log or where to.
  static base::Result<RuntimeLog> open();

  // What has come since the last call.
  std::string take();

 private:
  base::UniqueFd fd_;
};

// The first complaint in `log` of a collective that was refused, without what every line begins and
// ends with; empty if there is none.
std::string refusal_in(const std::string& log);

}  // namespace nccom
