// Which line of a kernel's source an instruction stands for. The member's name and the split of the
// ids are public (spec/neff.md 2.11); its content is this project's own (docs/neff-files.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/span.h"

namespace neff {

constexpr const char* kDebugInfoFile = "kernel_debug_info.json";

// Bits 63 to 48 subgraph, 47 to 32 function, 31 to 0 instruction.
constexpr uint64_t debug_id(uint16_t subgraph, uint16_t function, uint32_t instruction) {
  return uint64_t{subgraph} << 48 | uint64_t{function} << 32 | instruction;
}

struct DebugInfo {
  struct Source {
    uint32_t file = 0;  // index in files
    uint32_t line = 0;
    uint32_t call = 0;  // index in calls: what the line asked for
  };

  std::vector<std::string> files;
  std::vector<std::string> calls;
  std::vector<Source> locations;  // of instruction 1 and following, all subgraphs alike

  const Source* find(uint64_t debug_id) const;
  // "softmax.cpp:42 (activation)", or "" if nothing is known.
  std::string describe(uint64_t debug_id) const;
};

std::vector<uint8_t> write_debug_info(const DebugInfo& info);
// Nothing if this is no debug information of our own.
std::optional<DebugInfo> read_debug_info(base::ConstByteSpan json);

}  // namespace neff
