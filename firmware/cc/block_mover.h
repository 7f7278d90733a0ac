// Variable-size blocks (BLOCK records): reads a Block and the words that it names, checks them, and
// makes the DMA descriptors of one tile. Source of truth: docs/hardware-contract.md 5,
// arch/contract/cc_program.h, spec/collectives.md 1.4.
// Exact: bounds, descriptors, order per queue. Neither the Block nor the words are trusted: they
// lie in memory that programs can write.
#pragma once

#include "arch/contract/cc_program.h"
#include "arch/contract/engine.h"
#include "firmware/hal/hal.h"

namespace firmware::cc {

struct BlockResult {
  contract::CcError error = contract::CcError::kNone;
  uint32_t info = 0;
  bool out_of_bounds = false;
  uint32_t tiles = 0;  // of the block
};

BlockResult move_block(const contract::cc_program::Record& record, uint32_t tile, Hal& hal);

}  // namespace firmware::cc
