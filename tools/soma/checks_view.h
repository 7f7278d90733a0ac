// What `soma report` prints of the findings in a report (docs/checks.md).
#pragma once

#include <string>

#include "base/error.h"

namespace soma {

// Of a report's text; empty if the run was not checked. Fails if its findings are not of the form
// that a report has.
base::Result<std::string> checks_text(const std::string& report);

}  // namespace soma
