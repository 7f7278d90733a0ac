// In which order one engine executes its DMA triggers and collectives. Rings are replayed, so what
// a queue consumes in an execution must be known at load (spec/neff.md 3.8, 3.10): this walks the
// program through its calls, with the active instance of each queue set.
#pragma once

#include <vector>

#include "base/error.h"
#include "neff_loader/neff.h"

namespace neff {

// Triggers and collectives as they run, calls included. What is in a loop, behind a branch or
// behind a HALT or RETURN stands once, as repeated. Rules E-20 and B-04, the latter for functions
// that CALL names: they exist, control flow neither enters nor leaves them but by CALL and RETURN,
// and calls nest at most as deep as the sequencer's stack, so none calls itself. E-20 also for
// arguments that a table of arguments among `variables` does not have, on any way to the function.
base::Result<std::vector<FlowStep>> find_flow(const EngineProgram& program,
                                              const std::vector<QueueSet>& queues,
                                              const std::vector<Variable>& variables = {});

}  // namespace neff
