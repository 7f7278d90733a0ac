// One execution of a program on its core: start the engines, collect notification entries until all
// are at their end, turn failures into statuses (spec/nrt-api.md 9, docs/hardware-contract.md 3 to
// 5). The host only sleeps and reads memory while the device works; after seconds without an end it
// looks at the DMA engines, because an aborted transfer posts nothing.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "runtime/exec/device_events.h"
#include "runtime/load/loaded_program.h"

namespace nrt {

struct ExecutionOptions {
  uint64_t timeout_seconds = 30;  // 0 = none
  uint64_t exec_id = 0;
};

// Runs the bound program. The core's mutex is held. Error::code is the NRT_STATUS; `fatal` tells
// whether the core is in an undefined state afterwards.
struct ExecutionOutcome {
  base::Status status;
  bool fatal = false;
  DeviceEvents events;
};
ExecutionOutcome execute(LoadedProgram& program, const ExecutionOptions& options);

// Status and text of an ERROR entry of an engine or of a CC-core; for tests.
base::Error engine_failure(const LoadedProgram& program, const EngineImage& image,
                           const contract::NqEntry& entry);
base::Error cc_failure(const contract::NqEntry& entry);

}  // namespace nrt
