// Tensors in SBUF (--sb2sb; spec/tools.md 2.3, spec/collectives.md 1.3): shapes, and what
// concatenates them. Own: dimension 1 counts partitions, and the steps of dimension 0 are 1.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace nccom {

struct Options;

struct SbufShape {
  uint32_t step = 1;        // in partitions
  uint64_t elements = 0;    // of a partition
  uint32_t partitions = 1;  // from partition 0 on
};

// "[step0,step1][num0,num1]": dimension 0 lies within a partition.
base::Result<SbufShape> parse_shape(const std::string& text);

// Shapes of an operation of this size per rank: those given, or as many partitions as a power of
// two can have. With --cc-dim 1 the chunks of the long tensor follow each other in the partitions,
// then in the next elements of all of them; with 0 they lie side by side in the same partitions.
struct SbufShapes {
  SbufShape input;
  SbufShape output;
  uint64_t input_row = 0;  // elements of a chunk in a partition
  uint64_t output_row = 0;
};
base::Result<SbufShapes> sbuf_shapes(const Options& options, uint64_t size);

// The options that concern SBUF fit each other, the operation and all sizes.
base::Status check_sbuf(const Options& options);

}  // namespace nccom
