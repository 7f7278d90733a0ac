// CC-core programs: 16-byte records in the program memory of a TopSP (spec/collectives.md 3.3;
// encoding is ours, docs/hardware-contract.md 5).
#pragma once

#include <cstdint>

#include "arch/contract/address_map.h"
#include "arch/contract/descriptor.h"

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
  kBlock = 18,  // moves tile reg[a] of the Block at device address `address`: descriptors behind
                // the tails of its queues, and doorbells. `imm` in total is added to the Block's
                // semaphore when the data are there; reg[b] = max(reg[b], tiles of the Block)
  kBranchLess = 19,  // if (reg[a] < reg[b]) pc = imm
};

// As traces call it; nullptr for a number that is no operation. The compiler wants every one.
constexpr const char* name(Op op) {
  switch (op) {
    case Op::kNop:
      return "nop";
    case Op::kSemWait:
      return "semaphore wait";
    case Op::kSemAdd:
      return "semaphore add";
    case Op::kDmaAdvance:
      return "dma advance";
    case Op::kDmaWait:
      return "dma wait";
    case Op::kHostPost:
      return "host post";
    case Op::kMov:
      return "mov";
    case Op::kAdd:
      return "add";
    case Op::kBranch:
      return "branch";
    case Op::kLoop:
      return "loop";
    case Op::kNotify:
      return "notify";
    case Op::kBarrier:
      return "barrier";
    case Op::kWrite:
      return "write";
    case Op::kDone:
      return "done";
    case Op::kArgument:
      return "argument";
    case Op::kDmaRange:
      return "dma range";
    case Op::kFork:
      return "fork";
    case Op::kEnd:
      return "end";
    case Op::kBlock:
      return "block";
    case Op::kBranchLess:
      return "branch less";
  }
  return nullptr;
}

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

// A block of a variable-size operation, in device memory. How many elements it has and where they
// lie are words that are read when the record is executed; a block that leaves a source or the
// target has no elements. Element i of the target is the fold of element i of the sources.
struct Block {
  static constexpr uint32_t kMaxSources = DmaCompute::kMaxSources;
  static constexpr uint32_t kMaxEngines = kDmaPerNc;
  static constexpr uint32_t kCut = 64;  // pieces are multiples of it
  static constexpr uint8_t kFence = 1;  // each engine first waits for its queue to be idle (DMB)
  static constexpr uint8_t kAccumulate = 2;  // source 0 is the target

  uint64_t count = 0;            // address of the number of elements
  uint64_t source_place = 0;     // address of the first element's number in the sources; 0: none, 0
  uint64_t target_place = 0;     // the same for the target
  uint64_t source_elements = 0;  // what each source holds
  uint64_t target_elements = 0;
  uint64_t target = 0;      // address of element 0
  uint64_t completion = 0;  // increment window of a semaphore
  uint64_t one = 0;         // address of a word that holds 1
  uint64_t queue = 0;       // M2S queue registers of the first engine
  // A tile is at most engines x pieces packets of piece_bytes per source, dealt to the engines in
  // turn, first_engine first. What fits into less than one packet per engine is cut into equal
  // ones, not below least_bytes.
  uint32_t piece_bytes = 0;
  uint32_t least_bytes = 0;
  uint8_t engines = 1;       // at distances of 1 << (engine_shift + kRangeShift)
  uint8_t engine_shift = 0;  // as `b` of kDmaRange
  uint8_t first_engine = 0;
  uint8_t pieces = 1;
  uint8_t dtype = 0;  // DType
  uint8_t op = 0;     // ReduceOp
  uint8_t source_count = 1;
  uint8_t flags = 0;
  uint64_t reserved[5] = {};
  uint64_t sources[kMaxSources] = {};  // addresses of element 0
};
static_assert(sizeof(Block) == 256);

// The cuts of one tile.
struct Tile {
  uint64_t offset = 0;       // bytes from the first element of the block
  uint64_t bytes = 0;        // 0: the block ends before the tile
  uint32_t piece_bytes = 0;  // the last piece may be shorter
  uint32_t pieces = 0;
};
constexpr uint64_t tile_bytes(const Block& b) {
  return uint64_t{b.engines} * b.pieces * b.piece_bytes;
}
constexpr Tile tile_of(const Block& b, uint64_t block_bytes, uint32_t number) {
  Tile t;
  t.offset = tile_bytes(b) * number;
  if (t.offset >= block_bytes) return t;
  const uint64_t rest = block_bytes - t.offset;
  t.bytes = rest < tile_bytes(b) ? rest : tile_bytes(b);
  const uint64_t equal = (t.bytes + b.engines - 1) / b.engines;
  const uint64_t piece = equal < b.least_bytes ? b.least_bytes : equal;
  t.piece_bytes = static_cast<uint32_t>(piece < b.piece_bytes
                                            ? (piece + Block::kCut - 1) / Block::kCut * Block::kCut
                                            : b.piece_bytes);
  t.pieces = static_cast<uint32_t>((t.bytes + t.piece_bytes - 1) / t.piece_bytes);
  return t;
}

constexpr uint32_t kRegisters = 16;
// Of one operation, the first included. A thread runs until it waits in vain or ends, then the next
// one that can go on does. BARRIER and DONE are for the first; DONE needs the others to have ended.
constexpr uint32_t kThreads = 8;
constexpr uint32_t kRangeShift = 12;
constexpr uint32_t kFifoDepth = 256;
constexpr uint32_t kOperations = 1024;
constexpr uint32_t kMaxRecords = topsp::kProgramBytes / sizeof(Record);
constexpr uint32_t kBarrierCells = 64;

}  // namespace contract::cc_program
