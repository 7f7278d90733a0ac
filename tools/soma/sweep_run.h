// Runs the points of a sweep, a few at a time.
#pragma once

#include <functional>
#include <vector>

#include "base/error.h"
#include "tools/soma/sweep_grid.h"

namespace soma {

// Measures every point of `grid` that has no time yet; what fails keeps its error, and the others
// go on. `changed` is called after each. Returns 0, or the number of the signal that ended it.
base::Result<int> run_grid(const SweepOptions& options, std::vector<SweepCase>* grid,
                           const std::function<void()>& changed);

}  // namespace soma
