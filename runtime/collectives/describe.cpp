// Text form of a lowered operation, for debugging and tests.
#include <cstdio>

#include "runtime/collectives/ccl.h"

namespace ccl {
namespace {

const char* name(uint8_t op) {
  static constexpr const char* kNames[] = {
      "NOP",   "SEM_WAIT", "SEM_ADD",  "DMA_ADVANCE", "DMA_WAIT", "HOST_POST",
      "MOV",   "ADD",      "BRANCH",   "LOOP",        "NOTIFY",   "BARRIER",
      "WRITE", "DONE",     "ARGUMENT", "DMA_RANGE",   "FORK",     "END"};
  return op < sizeof kNames / sizeof kNames[0] ? kNames[op] : "?";
}

}  // namespace

std::string Lowered::describe() const {
  std::string out = std::string(to_string(algorithm)) + ", queue " + std::to_string(queue) +
                    ", channel buffer " + std::to_string(channel_buffer) + "\n";
  char line[128];
  for (size_t cc = 0; cc < programs.size(); ++cc) {
    std::snprintf(line, sizeof line, "CC-core %zu: %zu records\n", cc, programs[cc].size());
    out += line;
    for (size_t i = 0; i < programs[cc].size(); ++i) {
      const auto& r = programs[cc][i];
      std::snprintf(line, sizeof line,
                    "%4zu %-11s a=%u flags=0x%02x b=%u imm=0x%x address=0x%llx\n", i, name(r.op),
                    r.a, r.flags, r.b, r.imm, static_cast<unsigned long long>(r.address));
      out += line;
    }
  }
  for (const EngineRing& ring : rings) {
    std::snprintf(line, sizeof line, "engine %u: %zu M2S, %zu S2M descriptors\n", ring.engine,
                  ring.m2s.size(), ring.s2m.size());
    out += line;
  }
  return out;
}

}  // namespace ccl
