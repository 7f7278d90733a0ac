#include "runtime/collectives/schedule/schedule.h"

#include <algorithm>

namespace ccl {
namespace {}  // namespace

Chunk chunk_of(uint64_t bytes, uint32_t ranks, uint32_t n) {
  const uint64_t per_rank = bytes / ranks + (bytes % ranks != 0 ? 1 : 0);
  const uint64_t chunk = (per_rank + kChunkAlign - 1) / kChunkAlign * kChunkAlign;
  // min() before multiplying: chunk x n may pass the end, never 64 bits (chunk <= bytes + 64).
  const uint64_t begin = std::min(bytes, chunk * n);
  const uint64_t end = std::min(bytes, chunk * (n + uint64_t{1}));
  return {begin, end - begin};
}

Chunk chunk_of(const OpRequest& request, uint32_t ranks, uint32_t n) {
  switch (request.kind) {
    case OpKind::kAllGather:
      return {n * request.input_bytes, request.input_bytes};
    case OpKind::kReduceScatter:
      return {n * request.output_bytes, request.output_bytes};
    case OpKind::kAllToAll:
      return {n * (request.input_bytes / ranks), request.input_bytes / ranks};
    default:
      return chunk_of(request.input_bytes, ranks, n);
  }
}

Chunk part_of(const Chunk& chunk, uint32_t parts, uint32_t p) {
  const Chunk part = chunk_of(chunk.bytes, parts, p);
  return {chunk.offset + part.offset, part.bytes};
}

}  // namespace ccl
