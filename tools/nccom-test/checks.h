// Options that do not fit each other, the operation or its sizes.
#pragma once

#include <vector>

#include "base/error.h"
#include "options.h"

namespace nccom {

// The message is what argparse would print behind "error: ".
base::Status check_options(const Options& options);

// Streams run in one job: they agree about its ranks, iterations and seed.
base::Status check_streams(const std::vector<Options>& streams);

}  // namespace nccom
