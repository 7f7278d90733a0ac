// Where the programs of a NEFF lie on the device and which lines of source their instructions stand
// for, as a file for tools that see no more than addresses and debug ids. Written when
// NEURON_RT_INSPECT_ENABLE=1 asks for inspection, into NEURON_RT_INSPECT_OUTPUT_DIR
// (spec/nrt-api.md 14.3). The file and its content are this project's own (docs/neff-files.md).
#pragma once

#include <string>

#include "base/error.h"

namespace nrt {

class LoadedProgram;

// <directory>/pid_<process>/program_<model>_nc_<first core>.json; nothing if the NEFF does not say
// where its instructions come from.
base::Status write_listing(const LoadedProgram& program, const std::string& directory);

}  // namespace nrt
