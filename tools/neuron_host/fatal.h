// How the tools end when there is nothing to show.
#pragma once

#include <string>

namespace neuron_host {

constexpr const char* kToolsVersion = "2.31.15.0";  // spec/clients.md 1.1

// One logfmt line on stderr, as spec/clients.md 3.1 has it; the exit status of such an end, 1.
int fatal(const std::string& message, const std::string& error);
// The same for a host without devices or driver.
int no_devices();

}  // namespace neuron_host
