#include "hw/core/tensor_unit.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "hw/core/lanes.h"

namespace hw {

namespace isa = contract::isa;
namespace tpb = contract::tpb;
using isa::TensorOperand;

namespace {

// spec/engine-isa.md 3 rule 5.
constexpr uint64_t kMaxSbufElements = 65536;
constexpr uint64_t kMaxPsumElements = 4096;

// Visits the element offsets (in elements, from the start) in stream order.
template <typename Visit>
void walk(const TensorOperand& operand, Visit&& visit) {
  int64_t count[4];
  for (int d = 0; d < 4; ++d) count[d] = std::max<int64_t>(1, operand.dims[d].count);
  const int64_t step0 = operand.dims[0].step;
  for (int64_t w = 0; w < count[3]; ++w) {
    for (int64_t z = 0; z < count[2]; ++z) {
      for (int64_t y = 0; y < count[1]; ++y) {
        int64_t at = w * operand.dims[3].step + z * operand.dims[2].step + y * operand.dims[1].step;
        for (int64_t x = 0; x < count[0]; ++x, at += step0) visit(at);
      }
    }
  }
}

template <size_t kBytes>
void gather_bytes(const TensorOperand& operand, const uint8_t* from, uint8_t* to) {
  walk(operand, [&](int64_t at) {
    std::memcpy(to, from + at * static_cast<int64_t>(kBytes), kBytes);
    to += kBytes;
  });
}
template <size_t kBytes>
void scatter_bytes(const TensorOperand& operand, const uint8_t* from, uint8_t* to) {
  walk(operand, [&](int64_t at) {
    std::memcpy(to + at * static_cast<int64_t>(kBytes), from, kBytes);
    from += kBytes;
  });
}

void gather(const TensorOperand& operand, const uint8_t* from, uint8_t* to) {
  switch (isa::data_type_bytes(operand.dtype)) {
    case 1:
      return gather_bytes<1>(operand, from, to);
    case 2:
      return gather_bytes<2>(operand, from, to);
    case 4:
      return gather_bytes<4>(operand, from, to);
    default:
      return gather_bytes<8>(operand, from, to);
  }
}
void scatter(const TensorOperand& operand, const uint8_t* from, uint8_t* to) {
  switch (isa::data_type_bytes(operand.dtype)) {
    case 1:
      return scatter_bytes<1>(operand, from, to);
    case 2:
      return scatter_bytes<2>(operand, from, to);
    case 4:
      return scatter_bytes<4>(operand, from, to);
    default:
      return scatter_bytes<8>(operand, from, to);
  }
}

}  // namespace

bool TensorUnit::resolve_operand(const TensorOperand& operand, const uint32_t* registers,
                                 uint32_t partitions, TensorBox* box) const {
  const bool sbuf = operand.memory == isa::Memory::kSbuf;
  const uint64_t limit =
      sbuf ? fabric_.address_map().sbuf_partition_bytes() : tpb::kPsumPartitionBytes;
  if (operand.start_partition + partitions > tpb::kPartitions) return false;
  if (isa::element_count(operand) > (sbuf ? kMaxSbufElements : kMaxPsumElements)) return false;
  int64_t low = 0;
  int64_t high = 0;
  for (const isa::PatternDim& d : operand.dims) {
    const int64_t reach = d.count == 0 ? 0 : int64_t{d.step} * (d.count - 1);
    (reach < 0 ? low : high) += reach;
  }
  const auto bytes = static_cast<int64_t>(isa::data_type_bytes(operand.dtype));
  const bool dynamic = operand.offset_register != isa::kNoRegister;
  const int64_t start = static_cast<int64_t>(operand.byte_offset) +
                        (dynamic ? static_cast<int64_t>(registers[operand.offset_register]) : 0);
  if (start + low * bytes < 0) return false;
  box->memory = operand.memory;
  box->first_partition = operand.start_partition;
  box->partitions = partitions;
  box->start = static_cast<uint64_t>(start);
  box->begin = static_cast<uint64_t>(start + low * bytes);
  box->end = static_cast<uint64_t>(start + (high + 1) * bytes);
  return box->end <= limit;
}

int TensorUnit::resolve(const isa::Instruction& instruction, const uint32_t* registers,
                        TensorExtent* extent) const {
  const isa::Operands& o = instruction.operands;
  const TensorOperand* operands[3] = {};
  uint32_t partitions = 0;
  if (instruction.opcode == isa::Opcode::kTensorCopy) {
    operands[0] = &o.tensor_copy.dst;
    operands[1] = &o.tensor_copy.src;
    partitions = o.tensor_copy.partitions;
    extent->count = 2;
  } else {
    operands[0] = &o.tensor_tensor.dst;
    operands[1] = &o.tensor_tensor.src0;
    operands[2] = &o.tensor_tensor.src1;
    partitions = o.tensor_tensor.partitions;
    extent->count = 3;
  }
  extent->elements = isa::element_count(*operands[0]);
  for (uint32_t i = 0; i < extent->count; ++i) {
    if (!resolve_operand(*operands[i], registers, partitions, &extent->operand[i])) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

Memory& TensorUnit::memory(const TensorBox& box) const {
  return box.memory == isa::Memory::kSbuf ? fabric_.sbuf(params_.nc) : fabric_.psum(params_.nc);
}

// Where a lane's partition begins in its memory.
uint64_t TensorUnit::partition_offset(const TensorBox& box, uint32_t lane) {
  const uint64_t p = uint64_t{box.first_partition} + lane;
  return p * (box.memory == isa::Memory::kSbuf ? tpb::kPartitionStride : tpb::kPsumStride);
}

uint8_t* TensorUnit::partition(const TensorBox& box, uint32_t lane) const {
  // The whole box was checked against the partition; `start` may lie above `begin`.
  uint8_t* at = memory(box).at(partition_offset(box, lane) + box.begin, box.end - box.begin);
  return at == nullptr ? nullptr : at + (box.start - box.begin);
}

// Timing-only: whether this result is left out. What is not computed, or computed from what was
// not, is remembered, lane by lane.
bool TensorUnit::elided(const TensorExtent& extent, uint64_t bytes) {
  if (!params_.timing_only) return false;
  const bool leave_out = bytes > params_.real_bytes;
  if (leave_out) counters_.elided_bytes += bytes;
  bool stale = leave_out;
  for (uint32_t i = 1; i < extent.count && !stale; ++i) {
    const TensorBox& box = extent.operand[i];
    for (uint32_t lane = 0; lane < box.partitions && !stale; ++lane) {
      stale = memory(box).elided().overlaps(partition_offset(box, lane) + box.begin,
                                            box.end - box.begin);
    }
  }
  const TensorBox& out = extent.operand[0];
  for (uint32_t lane = 0; lane < out.partitions; ++lane) {
    ElidedRanges& ranges = memory(out).elided();
    const uint64_t begin = partition_offset(out, lane) + out.begin;
    if (stale) {
      ranges.add(begin, out.end - out.begin);
    } else {
      ranges.remove(begin, out.end - out.begin);
    }
  }
  return leave_out;
}

// One instruction's lanes: every lane is read completely before any lane is written, so operands
// may overlap in any way.
bool TensorUnit::execute(const isa::Instruction& instruction, const TensorExtent& extent,
                         bool integer_unit) {
  const isa::Operands& o = instruction.operands;
  const bool copy = instruction.opcode == isa::Opcode::kTensorCopy;
  const TensorOperand& dst = copy ? o.tensor_copy.dst : o.tensor_tensor.dst;
  const TensorOperand* sources[2] = {copy ? &o.tensor_copy.src : &o.tensor_tensor.src0,
                                     copy ? nullptr : &o.tensor_tensor.src1};
  const size_t n = extent.elements;
  const size_t out_bytes = n * isa::data_type_bytes(dst.dtype);
  const uint32_t lanes = extent.operand[0].partitions;
  if (elided(extent, out_bytes * lanes)) return true;

  std::vector<uint8_t> out(out_bytes * lanes);
  std::vector<uint8_t> in[2];
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    for (int s = 0; s < 2 && sources[s] != nullptr; ++s) {
      const uint8_t* from = partition(extent.operand[1 + s], lane);
      if (from == nullptr) return false;
      in[s].resize(n * isa::data_type_bytes(sources[s]->dtype));
      gather(*sources[s], from, in[s].data());
    }
    uint8_t* to = &out[lane * out_bytes];
    if (copy) {
      lanes::convert(sources[0]->dtype, in[0].data(), dst.dtype, to, n);
    } else {
      lanes::combine(o.tensor_tensor.op, {sources[0]->dtype, in[0].data()},
                     {sources[1]->dtype, in[1].data()}, {dst.dtype, to}, n, integer_unit);
    }
  }
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    uint8_t* to = partition(extent.operand[0], lane);
    if (to == nullptr) return false;
    scatter(dst, &out[lane * out_bytes], to);
  }
  return true;
}

}  // namespace hw
