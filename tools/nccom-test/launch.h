// Several instances (spec/tools.md 2.12): the first nccom-test starts one of its kind per instance
// through mpirun or srun, and collects what they measure; each takes its share of the ranks.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "options.h"

namespace nccom {

// The place of this process among those that mpirun or srun has started; false if neither has. All
// have equally many ranks: a usage error otherwise.
base::Result<bool> place_of_process(std::vector<Options>* streams);

// Where the ranks meet (NEURON_RT_ROOT_COMM_ID) unless the environment says so: a free port of
// `host`, which must be this one.
base::Status choose_root(const std::string& host);

// Starts the instances: a process that becomes mpirun or srun.
base::Result<pid_t> launch(const Options& options, const std::vector<std::string>& command);
// Waits for a process; its exit code, or 1 if a signal ended it.
int wait_for(pid_t process);

}  // namespace nccom
