#include "runtime/collectives/schedule.h"

#include <algorithm>

namespace ccl {
namespace {

// Chunks and pieces are cut at multiples of this many bytes (collectives.md 1.3).
constexpr uint64_t kAlign = 64;

const char* name(Buffer buffer) {
  switch (buffer) {
    case Buffer::kInput:
      return "in";
    case Buffer::kOutput:
      return "out";
    case Buffer::kChannel:
      return "chan";
  }
  return "?";
}

std::string text(const Range& range) {
  return std::string(name(range.buffer)) + "[" + std::to_string(range.rank) + "]+" +
         std::to_string(range.offset);
}

}  // namespace

Chunk chunk_of(uint64_t bytes, uint32_t ranks, uint32_t n) {
  const uint64_t per_rank = bytes / ranks + (bytes % ranks != 0 ? 1 : 0);
  const uint64_t chunk = (per_rank + kAlign - 1) / kAlign * kAlign;
  // min() before multiplying: chunk x n may pass the end, never 64 bits (chunk <= bytes + 64).
  const uint64_t begin = std::min(bytes, chunk * n);
  const uint64_t end = std::min(bytes, chunk * (n + uint64_t{1}));
  return {begin, end - begin};
}

uint64_t fabric_bytes(const Schedule& schedule, uint32_t from, uint32_t to) {
  uint64_t bytes = 0;
  for (const Step& step : schedule.steps) {
    // Data passes from the memory of a source to the executing rank, then to the destination.
    for (const Range& source : step.sources) {
      if (source.rank == from && step.rank == to) bytes += step.bytes;
    }
    if (step.rank == from && step.destination.rank == to) bytes += step.bytes;
  }
  return bytes;
}

std::string print(const Schedule& schedule) {
  std::string out =
      std::string(to_string(schedule.kind)) + " " + to_string(schedule.algorithm) + ", " +
      std::to_string(schedule.ranks) + " ranks, " + std::to_string(schedule.input_bytes) + " -> " +
      std::to_string(schedule.output_bytes) + " bytes, channel " +
      std::to_string(schedule.channel_bytes) + (schedule.in_place ? ", in place\n" : "\n");
  for (const Step& step : schedule.steps) {
    out += std::to_string(step.id) + ": rank " + std::to_string(step.rank) + " " +
           text(step.destination) + " = ";
    for (size_t i = 0; i < step.sources.size(); ++i) {
      out += (i == 0 ? "" : " op ") + text(step.sources[i]);
    }
    out += ", " + std::to_string(step.bytes) + " bytes";
    for (size_t i = 0; i < step.after.size(); ++i) {
      out += (i == 0 ? ", after " : " ") + std::to_string(step.after[i]);
    }
    out += "\n";
  }
  return out;
}

}  // namespace ccl
