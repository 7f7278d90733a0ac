// --x-matrix: every operation with every algorithm that could do it, those for SBUF also there
// (named ..._sbuf), and those of variable size with three kinds of blocks, data checked, in one
// process. A line each: the time, or why the runtime refused it. What is refused is not logged.
#pragma once

#include <string>
#include <vector>

#include "options.h"

namespace nccom {

// `arguments`: of the command line; `job`: what they say, with the place of this process. Returns
// the exit code: 1 if anything but a refusal went wrong.
int run_matrix(const std::vector<std::string>& arguments, const Options& job);

}  // namespace nccom
