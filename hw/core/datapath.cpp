#include "hw/core/datapath.h"

#include <algorithm>

namespace hw {

namespace isa = contract::isa;
namespace tpb = contract::tpb;

namespace {

// spec/engine-isa.md 3 rule 5.
constexpr uint64_t kMaxSbufElements = 65536;
constexpr uint64_t kMaxPsumElements = 4096;

}  // namespace

Datapath::Datapath(const Params& params, Fabric& fabric, Counters& counters)
    : params_(params), fabric_(fabric), counters_(counters) {
  state_.engine = params.engine;
  state_.gen = params.gen;
}

void Datapath::reset() {
  state_ = {};
  state_.engine = params_.engine;
  state_.gen = params_.gen;
  stale_ = false;
}

bool Datapath::resolve_tensor(const isa::TensorUse& use, const uint32_t* registers,
                              TensorBox* box) const {
  const isa::TensorOperand& operand = *use.tensor;
  const bool sbuf = operand.memory == isa::Memory::kSbuf;
  const uint64_t limit =
      sbuf ? fabric_.address_map().sbuf_partition_bytes() : tpb::kPsumPartitionBytes;
  if (operand.start_partition + use.partitions > tpb::kPartitions) return false;
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
  box->partitions = use.partitions;
  box->start = static_cast<uint64_t>(start);
  box->begin = static_cast<uint64_t>(start + low * bytes);
  box->end = static_cast<uint64_t>(start + (high + 1) * bytes);
  return box->end <= limit;
}

int Datapath::resolve(const isa::Instruction& instruction, const uint32_t* registers,
                      TensorExtent* extent) const {
  const isa::TensorUses uses = isa::tensors_of(instruction);
  extent->count = uses.count;
  for (unsigned i = 0; i < uses.count; ++i) {
    extent->access[i] = uses.uses[i].access;
    if (!resolve_tensor(uses.uses[i], registers, &extent->box[i])) return static_cast<int>(i);
  }
  // Before v4 a product stays in one bank (spec/engine-isa.md 2); elements of PSUM are aligned.
  if (instruction.opcode == isa::Opcode::kMatmul) {
    const TensorBox& out = extent->box[0];
    const bool one_bank = out.begin / tpb::kPsumBankBytes == (out.end - 1) / tpb::kPsumBankBytes;
    const uint64_t element = isa::data_type_bytes(instruction.operands.matmul.dst.dtype);
    if (out.start % element != 0 || (!one_bank && params_.gen != contract::Gen::kV4)) {
      return 0;
    }
  }
  return -1;
}

Memory& Datapath::memory(isa::Memory memory) const {
  return memory == isa::Memory::kSbuf ? fabric_.sbuf(params_.nc) : fabric_.psum(params_.nc);
}

// Timing-only: whether the instruction is left out. What is not computed, or computed from what was
// not, is remembered.
bool Datapath::elided(const isa::Instruction& instruction, const TensorExtent& extent) {
  if (!params_.timing_only) return false;
  uint64_t bytes = 0;
  for (const isa::TensorUse& use : isa::tensors_of(instruction)) {
    const uint64_t size =
        isa::element_count(*use.tensor) * isa::data_type_bytes(use.tensor->dtype) * use.partitions;
    bytes = std::max(bytes, size);
  }
  const bool leave_out = bytes > params_.real_bytes;
  if (leave_out) counters_.elided_bytes += bytes;
  bool stale = leave_out || (stale_ && (instruction.opcode == isa::Opcode::kMatmul ||
                                        instruction.opcode == isa::Opcode::kReadAccumulator));
  for (uint32_t i = 0; i < extent.count && !stale; ++i) {
    if (extent.access[i] == isa::Access::kWrite) continue;
    const TensorBox& box = extent.box[i];
    stale = memory(box.memory)
                .elided()
                .lanes()
                .overlaps(lane_set(box.first_partition, box.partitions), box.begin, box.end);
  }
  bool writes = false;
  for (uint32_t i = 0; i < extent.count; ++i) {
    if (!extent.writes(i)) continue;
    writes = true;
    const TensorBox& box = extent.box[i];
    ElidedLanes& left_out = memory(box.memory).elided().lanes();
    const LaneSet lanes = lane_set(box.first_partition, box.partitions);
    if (stale) {
      left_out.add(lanes, box.begin, box.end);
    } else {
      left_out.remove(lanes, box.begin, box.end);
    }
  }
  if (!writes) {
    stale_ = stale;  // weights, or the state of random numbers
  } else if (instruction.opcode != isa::Opcode::kMatmul) {
    stale_ = stale_ || stale;  // accumulators may have taken something
  }
  return leave_out;
}

Datapath::Outcome Datapath::execute(const isa::Instruction& instruction, const uint32_t* registers,
                                    const TensorExtent& extent) {
  const isa::Operands& o = instruction.operands;
  if (instruction.opcode == isa::Opcode::kMatmul && !state_.array.fits(o.matmul)) {
    return Outcome::kBadWeights;
  }
  if (elided(instruction, extent)) {
    if (instruction.opcode == isa::Opcode::kLdweights) state_.array.expect(o.ldweights);
    return Outcome::kDone;
  }
  Lanes lanes(instruction, registers);
  for (uint32_t i = 0; i < extent.count; ++i) {
    if (!lanes.open(extent.box[i], memory(extent.box[i].memory))) return Outcome::kNoMemory;
  }
  isa::visit_compute(instruction, [&](const auto& operands) { compute(operands, lanes, state_); });
  return Outcome::kDone;
}

bool Datapath::load(const isa::RegisterLoad& o, const TensorExtent& extent, uint32_t* value) const {
  TensorAccess cell(o.src, extent.box[0], memory(o.src.memory));
  if (!cell.open()) return false;
  cell.read(0, value);
  return true;
}

bool Datapath::store(const isa::RegisterStore& o, const TensorExtent& extent,
                     uint32_t value) const {
  TensorAccess cell(o.dst, extent.box[0], memory(o.dst.memory));
  if (!cell.open()) return false;
  cell.write(0, &value);
  return true;
}

bool Datapath::read_index(const isa::TensorOperand& index, const TensorBox& box,
                          std::vector<uint32_t>* to) const {
  TensorAccess access(index, box, memory(index.memory));
  if (!access.open()) return false;
  const size_t columns = access.elements();
  to->resize(columns * box.partitions);
  std::vector<uint32_t> lane(columns);
  bool elided = false;
  for (uint32_t p = 0; p < box.partitions; ++p) {
    access.read(p, lane.data());
    for (size_t c = 0; c < columns; ++c) (*to)[c * box.partitions + p] = lane[c];
    const uint64_t at = (uint64_t{box.first_partition} + p) * tpb::kPartitionStride + box.begin;
    elided = elided || (params_.timing_only &&
                        memory(index.memory).elided().overlaps(at, box.end - box.begin));
  }
  counters_.elided_reads += elided ? 1 : 0;
  return true;
}

}  // namespace hw
