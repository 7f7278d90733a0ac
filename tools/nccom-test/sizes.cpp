// Sizes of operations, of their parts and buffers.
#include <algorithm>
#include <numeric>

#include "options.h"

namespace nccom {
namespace {

// Sizes are multiples of this: elements, of all ranks where the operation splits the buffer.
uint64_t unit_of(const Options& o) {
  const uint64_t element = contract::dtype_size(o.dtype.code);
  switch (o.operation) {
    case Operation::kAllGather:
    case Operation::kReduceScatter:
    case Operation::kAllToAll:
    case Operation::kAllGatherV:
    case Operation::kReduceScatterV:
    case Operation::kAllToAllV:
      return element * o.group_ranks();
    case Operation::kPermuteImplicit:
    case Operation::kPermuteReduceImplicit:
      return element * o.parts.size();
    default:
      return element;
  }
}

}  // namespace

std::vector<uint64_t> size_list(const Options& o) {
  if (o.operation == Operation::kBarrier) return {0};  // moves nothing
  const uint64_t unit = unit_of(o);
  uint64_t step = o.step_bytes;
  if (step == 0) step = std::max<uint64_t>(1, (o.max_bytes - o.min_bytes) / 10);
  std::vector<uint64_t> out;
  for (uint64_t size = o.min_bytes; size <= o.max_bytes;) {
    const uint64_t wanted = std::max(size, least_size(o));
    out.push_back(std::max<uint64_t>(1, (wanted + unit - 1) / unit) * unit);
    if (o.step_factor != 0) {
      size = std::max<uint64_t>(size, 1);
      if (size > o.max_bytes / o.step_factor) break;  // a factor may be larger than any size
      size *= o.step_factor;
    } else {
      size += step;
    }
  }
  return out;
}

std::vector<Part> parts_of(const Options& o, uint64_t size) {
  const uint64_t unit = unit_of(o);
  const uint64_t units = size / unit;
  const uint64_t sum = std::accumulate(o.parts.begin(), o.parts.end(), uint64_t{0});
  std::vector<Part> out;
  uint64_t done = 0;
  uint64_t before = 0;
  for (const uint32_t part : o.parts) {
    before += part;
    const uint64_t end = units / sum * before + units % sum * before / sum;
    out.push_back({done * unit, (end - done) * unit});
    done = end;
  }
  return out;
}

uint64_t input_bytes(const Options& o, uint64_t size) {
  if (two_sources(o.operation)) return 2 * size;
  if (variable_size(o.operation)) return variable_input_bytes(o, size);
  return o.operation == Operation::kAllGather ? size / o.group_ranks() : size;
}

uint64_t output_bytes(const Options& o, uint64_t size) {
  if (variable_size(o.operation)) return variable_output_bytes(o, size);
  return o.operation == Operation::kReduceScatter ? size / o.group_ranks() : size;
}

}  // namespace nccom
