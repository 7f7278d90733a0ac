// Static transpositions (spec/neff.md 3.4.1) as blocks that a DMA engine turns: packets whose
// sources are rows, and whose result is written column by column (docs/hardware-contract.md 6).
// Pure. Exact: bytes. Own: blocks of up to 16 rows and 8 columns, by columns first.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "neff_loader/neff.h"

namespace nrt {

struct TransposeBlock {
  uint32_t rows = 1;
  std::vector<neff::Run> from;  // offsets in the variables
  std::vector<neff::Run> to;
};

// Elements of 2 and 4 bytes; others are Unsupported.
base::Result<std::vector<TransposeBlock>> transpose_blocks(const neff::DmaTransfer& transfer);

}  // namespace nrt
