// One machine as the tool holds it: log, trace, private directory, and the machine itself.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "sim/machine.h"
#include "tools/soma/instruments.h"
#include "tools/soma/options.h"
#include "tools/soma/place.h"
#include "tools/soma/runtime_dir.h"

namespace soma {

class Session {
 public:
  // Errors of the command line have Fault::kConfig.
  static base::Result<std::unique_ptr<Session>> create(const MachineOptions& options,
                                                       RuntimeDir directory);

  sim::Machine& machine() { return *machine_; }
  const std::string& directory() const { return directory_.path(); }
  Instruments& instruments() { return instruments_; }

 private:
  explicit Session(RuntimeDir directory) : directory_(std::move(directory)) {}

  // The machine uses the others, so it goes first.
  RuntimeDir directory_;
  Instruments instruments_;
  std::unique_ptr<sim::Machine> machine_;
};

// The environment of a program that is to see the devices of a node: the shim and our libraries are
// found beside this executable. The stand-ins for programs that reach other nodes lead PATH, before
// this executable's directory.
base::Result<std::vector<std::string>> client_environment(const Running& running, uint32_t node);

}  // namespace soma
