// CC-core programs: 16-byte records in the program memory of a TopSP (collectives.md 3.3; encoding
// is ours, docs/hardware-contract.md 5).
#pragma once

#include <cstdint>

namespace contract::cc_program {

enum class Op : uint8_t {
  kNop = 0,
  kSemWait =
      1,        // until local semaphore `address` meets `cond` against the value; optional subtract
  kSemAdd = 2,  // posted write of the value to `address`, an increment window anywhere
  kDmaAdvance = 3,  // doorbells: S2M tail += value[31:16], then M2S tail += value[15:0];
                    // `address` = device address of the M2S queue registers
  kDmaWait = 4,     // as kSemWait, on a DMA completion semaphore (named apart for traces)
  kHostPost = 5,    // reserved for the network proxy; executes as an error (unsupported)
  kMov = 6,         // reg[a] = value
  kAdd = 7,         // reg[a] += value
  kBranch = 8,      // pc = imm
  kLoop = 9,        // if (--reg[a] != 0) pc = imm
  kNotify = 10,     // NOTIFY entry with payload = value | current op_index
  kBarrier = 11,    // arrive at the barrier cell `address` (window + 0x3000 + 8 k of any TopSP) and
                    // wait until `imm` members have arrived and the machine has nothing else to do
  kWrite = 12,      // posted 32-bit write of the value to `address`
  kDone = 13,       // end of operation: optional increment (address != 0), then the next trigger
  kArgument = 14,   // reg[a] = argument word of the operation table entry
  kDmaRange = 15,   // kDmaAdvance for a + 1 units in a row: `address` + i << (b + kRangeShift);
                    // no kFromReg
  kFork = 16,       // starts a thread at record imm; threads share all but pc and registers
  kEnd = 17,        // ends a thread that kFork started
};

enum class Cond : uint8_t { kGe = 0, kEq = 1 };

namespace flag {
constexpr uint8_t kCondMask = 0x0F;
constexpr uint8_t kSubtract = 0x10;  // waits: subtract the value when satisfied
constexpr uint8_t kFromReg = 0x20;   // the value is reg[b] instead of imm
}  // namespace flag

struct Record {
  uint8_t op = 0;
  uint8_t a = 0;  // register 0..15
  uint8_t flags = 0;
  uint8_t b = 0;  // register 0..15
  uint32_t imm = 0;
  uint64_t address = 0;
};
static_assert(sizeof(Record) == 16);

constexpr uint32_t kRegisters = 16;
// Of one operation, the first included. A thread runs until it waits in vain or ends, then the next
// one that can go on does. BARRIER and DONE are for the first; DONE needs the others to have ended.
constexpr uint32_t kThreads = 8;
constexpr uint32_t kRangeShift = 12;
constexpr uint32_t kFifoDepth = 256;
constexpr uint32_t kOperations = 1024;
constexpr uint32_t kMaxRecords = 4096;
constexpr uint32_t kBarrierCells = 64;

}  // namespace contract::cc_program
