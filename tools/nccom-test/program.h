// NEFFs of nccom-test: a sequence of identical collectives between two private buffers, or in one
// (spec/tools.md 2.1, spec/neff.md 6.2). With --check, DMA copies bring an input in before the
// first operation and the output out after the last; the operations themselves are the same.
// Streams run at once: one engine triggers them in turns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "options.h"

namespace nccom {

// Names of the input and output tensor of a stream.
std::string input_name(size_t stream);
std::string output_name(size_t stream);
// Of the metadata tensor of an operation of variable size: an input of every rank.
std::string metadata_name(size_t stream);

// Operations that one NEFF may hold: the program and operation memory of a CC-core bound it.
constexpr uint32_t kMaxOperations = 512;

struct Program {
  std::string name;
  std::vector<uint8_t> neff;
};

// What one NEFF runs: `iterations` times ops_per_iter operations of each stream, with buffers for
// `sizes[stream]`.
struct Workload {
  const std::vector<Options>& streams;
  std::vector<uint64_t> sizes;
  uint32_t iterations = 1;
  std::string arch;  // trn1, inf2, trn2 or trn3
  uint32_t lnc = 1;
};
// Programs of ranks differ: in place, some offsets depend on the rank; skewed, the start does.
bool rank_specific(const Workload& work);
base::Result<Program> make_program(const Workload& work, uint32_t rank = 0);

// Texts that go into the file, for tests.
std::string definition_text(const Workload& work, uint32_t rank = 0);
std::string engine_json_text(const Workload& work, uint32_t rank = 0);
std::string assembler_text(const Workload& work, uint32_t rank = 0);

}  // namespace nccom
