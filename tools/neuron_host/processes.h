// Processes that hold a device: the driver's list, and what they publish of themselves in their
// datastores (spec/ndl-api.md 6).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

struct ndl_device;

namespace neuron_host {

struct Process {
  pid_t pid = 0;                // as the driver counts, which is the host's number
  std::string command;          // empty: not visible from here
  std::string runtime_version;  // "2.31.0"; empty: it does not use the runtime
  bool uses_runtime() const { return !runtime_version.empty(); }
};

// In ascending order of pid.
std::vector<Process> read_processes(ndl_device* device);
// Words of the command line, separated by blanks.
std::string read_command(pid_t pid);
// At most `limit` characters, the last three of which are dots if something is left out.
std::string shortened(const std::string& command, size_t limit);

}  // namespace neuron_host
