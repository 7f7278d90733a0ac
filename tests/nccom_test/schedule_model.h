// What a schedule computes, by its definition: steps of all ranks executed one after the other on
// bytes in memory, each fold left to right in float32 or in the widened integer and rounded once.
// No machine, no lowering, and the arithmetic of the benchmark's check instead of the machine's.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/collectives/schedule/schedule.h"

namespace nccom {

using Bytes = std::vector<uint8_t>;

// Outputs by rank; `inputs` by rank. Empty if the steps cannot all run.
std::vector<Bytes> execute(const ccl::Schedule& schedule, const std::vector<Bytes>& inputs);

}  // namespace nccom
