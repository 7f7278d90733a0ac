#include "sbuf.h"

#include <algorithm>

#include "arch/contract/address_map.h"
#include "base/json.h"
#include "options.h"

namespace nccom {
namespace {

constexpr uint32_t kPartitions = contract::tpb::kPartitions;

uint64_t count(const SbufShape& shape) {
  return shape.elements * shape.partitions;
}

std::string text(const SbufShape& shape) {
  return std::to_string(shape.elements) + " x " + std::to_string(shape.partitions);
}

SbufShape default_shape(uint64_t elements) {
  SbufShape shape;
  while (shape.partitions < kPartitions && elements % (2 * shape.partitions) == 0) {
    shape.partitions *= 2;
  }
  shape.elements = elements / shape.partitions;
  return shape;
}

// The tensor that holds the chunks of all ranks.
SbufShape joined(const SbufShape& chunk, uint32_t ranks, uint32_t cc_dim) {
  SbufShape shape = chunk;
  const uint32_t rows = chunk.partitions * ranks;
  const uint32_t room = kPartitions / chunk.step;
  if (cc_dim == 1 && rows <= room) {
    shape.partitions = rows;
  } else if (cc_dim == 1 && rows % room == 0) {
    shape.partitions = room;
  }
  shape.elements = chunk.elements * rows / shape.partitions;
  return shape;
}

base::Status check_size(const char* name, const SbufShape& shape, uint64_t elements) {
  if (count(shape) == elements) return {};
  return usage("", std::string(name) + " of " + text(shape) + " elements; " +
                       std::to_string(elements) + " are needed");
}

}  // namespace

base::Result<SbufShape> parse_shape(const std::string& text) {
  const base::Error wrong =
      usage("", "invalid shape '" + text +
                    "'; expected [step0,step1][num0,num1], such as [1,1][512,128]");
  const size_t middle = text.find("][");
  if (middle == std::string::npos) return wrong;
  constexpr uint64_t kMost = 1u << 20;
  uint64_t values[2][2];
  for (const size_t part : {0, 1}) {
    const auto list =
        base::parse_json(part == 0 ? text.substr(0, middle + 1) : text.substr(middle + 1));
    if (list.is_discarded() || !list.is_array() || list.size() != 2) return wrong;
    for (const size_t i : {0, 1}) {
      if (!list[i].is_number_unsigned()) return wrong;
      values[part][i] = list[i].get<uint64_t>();
      if (values[part][i] == 0 || values[part][i] > kMost) return wrong;
    }
  }
  if (values[0][0] != 1) {
    return base::Error{base::Fault::kUnsupported, 2, "",
                       "shape '" + text + "': gaps within a partition (step0) are not supported"};
  }
  if ((values[1][1] - 1) * values[0][1] >= kPartitions) {
    return usage(
        "", "shape '" + text + "' needs more than " + std::to_string(kPartitions) + " partitions");
  }
  SbufShape shape;
  shape.step = static_cast<uint32_t>(values[0][1]);
  shape.elements = values[1][0];
  shape.partitions = static_cast<uint32_t>(values[1][1]);
  return shape;
}

base::Result<SbufShapes> sbuf_shapes(const Options& o, uint64_t size) {
  const uint64_t element = contract::dtype_size(o.dtype.code);
  const uint64_t in = input_bytes(o, size) / element;
  const uint64_t out = output_bytes(o, size) / element;
  SbufShapes shapes;
  if (o.operation == Operation::kReduceScatter) {
    shapes.output = o.output_shape.value_or(default_shape(out));
    shapes.input =
        o.input_shape.value_or(joined(shapes.output, o.group_ranks(), o.cc_dim.value_or(1)));
  } else {
    shapes.input = o.input_shape.value_or(default_shape(in));
    const bool gather = o.operation == Operation::kAllGather;
    shapes.output = o.output_shape.value_or(
        gather ? joined(shapes.input, o.group_ranks(), o.cc_dim.value_or(1)) : shapes.input);
  }
  if (base::Status s = check_size("an input shape", shapes.input, in); !s) return s.error();
  if (base::Status s = check_size("an output shape", shapes.output, out); !s) return s.error();
  shapes.input_row = shapes.input.elements;
  shapes.output_row = shapes.output.elements;
  if (o.operation == Operation::kAllReduce) return shapes;
  const bool gather = o.operation == Operation::kAllGather;
  const SbufShape& chunk = gather ? shapes.input : shapes.output;
  const SbufShape& whole = gather ? shapes.output : shapes.input;
  (gather ? shapes.output_row : shapes.input_row) = chunk.elements;
  if (whole.elements % chunk.elements != 0) {
    return usage("",
                 "chunks of " + text(chunk) + " elements do not fit a tensor of " + text(whole));
  }
  if (o.cc_dim.value_or(1) == 0 && whole.partitions != chunk.partitions) {
    return usage("", "chunks side by side (--cc-dim 0) have " + std::to_string(chunk.partitions) +
                         " partitions, the whole tensor " + std::to_string(whole.partitions));
  }
  return shapes;
}

base::Status check_sbuf(const Options& o) {
  if (!o.sbuf) {
    const char* name = o.input_shape    ? "--input-shape"
                       : o.output_shape ? "--output-shape"
                       : o.cc_dim       ? "--cc-dim"
                                        : nullptr;
    if (name == nullptr) return {};
    return usage("", std::string("argument ") + name + ": only with --sb2sb");
  }
  if (o.operation != Operation::kAllReduce && o.operation != Operation::kAllGather &&
      o.operation != Operation::kReduceScatter) {
    return usage("", "argument --sb2sb: only for all_reduce, all_gather and reduce_scatter");
  }
  if (o.parts.size() > 1) {
    return usage("", "argument --sb2sb: not allowed with argument --coalesced-cc-size-ratio");
  }
  if (o.operation == Operation::kReduceScatter && o.cc_dim.value_or(1) == 0) {
    return usage("", "argument --cc-dim: reduce_scatter splits along the partitions (1)");
  }
  for (const uint64_t size : size_list(o)) {
    const auto shapes = sbuf_shapes(o, size);
    if (!shapes) return usage("", "argument --sb2sb: " + shapes.error().what);
  }
  return {};
}

}  // namespace nccom
