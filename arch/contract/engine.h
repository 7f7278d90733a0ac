// States and error codes of the compute-engine sequencers and CC-cores (docs/hardware-contract.md
// 3, 5).
#pragma once

#include <cstdint>

namespace contract {

enum class EngineStatus : uint32_t { kIdle = 0, kRunning = 1, kHalted = 2, kError = 3 };

enum class EngineError : uint32_t {
  kNone = 0,
  kBadInstruction = 1,  // undecodable record; info = opcode
  kUnsupported = 2,     // decodable, not modelled; info = opcode
  kBadPc = 3,           // pc outside the program; info = pc
  kBadOperand = 4,      // access pattern outside SBUF or PSUM, bad dtype; info = operand number
  kBusError = 5,        // a store or fetch hit no target; info = low address bits
  // Of transfers that the engine generates (docs/hardware-contract.md 3).
  kOutOfBounds = 6,  // info = side (0 dst, 1 src) in bits 31:24, row of the index in the rest
  kBadQueue = 7,     // not set up for it; info = queue
};

enum class CcStatus : uint32_t {
  kReset = 0,
  kIdle = 1,
  kRunning = 2,
  kWaiting = 3,
  kHalted = 4,
  kError = 5
};

enum class CcError : uint32_t {
  kNone = 0,
  kFifoOverflow = 1,
  kBadInstruction = 2,
  kBadPc = 3,
  kBadOperation = 4,  // op_index outside the table or without entry
  kBusError = 5,
};

}  // namespace contract
