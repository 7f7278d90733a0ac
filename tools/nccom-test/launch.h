// Several instances (tools.md 2.12): the first nccom-test starts one of its kind per instance
// through mpirun or srun and waits; each of those takes its share of the ranks.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "options.h"

namespace nccom {

// The place of this process among those that mpirun or srun has started; false if neither has.
bool place_of_process(std::vector<Options>* streams);

// Where the ranks meet (NEURON_RT_ROOT_COMM_ID) unless the environment says so: a free port of
// `host`, which must be this one.
base::Status choose_root(const std::string& host);

// Becomes mpirun or srun; returns only with an error.
base::Error launch(const Options& options, const std::vector<std::string>& command);

}  // namespace nccom
