// NEFFs of nccom-test: a sequence of identical collectives between two private buffers
// (tools.md 2.1, neff.md 6.2). With --check, DMA copies bring an input in before the first
// operation and the output out after the last; the operations themselves are the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "options.h"

namespace nccom {

constexpr const char* kInputName = "x";
constexpr const char* kOutputName = "y";

// Operations that one NEFF may hold: the program and operation memory of a CC-core bound it.
constexpr uint32_t kMaxOperations = 512;

struct Program {
  std::string name;
  uint32_t operations = 0;
  std::vector<uint8_t> neff;
};

// `arch`: trn1, inf2, trn2 or trn3.
base::Result<Program> make_program(const Options& options, uint64_t size, uint32_t operations,
                                   const std::string& arch);

// Texts that go into the file, for tests.
std::string definition_text(const Options& options, uint64_t size, uint32_t operations,
                            const std::string& arch);
std::string engine_json_text(const Options& options, uint64_t size);
std::string assembler_text(const Options& options, uint64_t size, uint32_t operations,
                           const std::string& arch);

}  // namespace nccom
