// An instruction in few words, for traces and reports.
#pragma once

#include <string>

#include "hw/core/instruction_trace.h"

namespace sim {

// "MATMUL".
const char* name_of(const contract::isa::Instruction& instruction);
// "writes psum fp32 128 x 512 @2048, reads bf16 128 x 128 @0": memory unless it is SBUF, type,
// partitions x elements in each, byte offset in a partition. Empty without tensors.
std::string operands_of(const contract::isa::Instruction& instruction);
// What it waited for: the engine, or the cause as in reports.
const char* wait_name(const hw::InstructionEvent::Pause& pause);

}  // namespace sim
