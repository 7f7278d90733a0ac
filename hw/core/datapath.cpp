#include "hw/core/datapath.h"

#include <algorithm>
#include <utility>

#include "arch/contract/isa_rules.h"

namespace hw {

namespace isa = contract::isa;
namespace tpb = contract::tpb;

namespace {

// Whether indices that are loaded are for it.
bool uses_indices(isa::Opcode op) {
  return op != isa::Opcode::kLoadIndex && op != isa::Opcode::kRegisterLoad &&
         op != isa::Opcode::kRegisterStore;
}

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
  indexed_ = false;
  stale_ = false;
}

// Of each lane, or null for rounding to nearest even. Sequences of engines differ.
base::num::Xorwow* Datapath::rounding() {
  if (!stochastic_) return nullptr;
  const auto first = static_cast<uint32_t>(params_.engine) * isa::kPartitions;
  for (uint32_t lane = 0; rounding_.size() < isa::kPartitions; ++lane) {
    rounding_.push_back(base::num::Xorwow::seeded(rounding_seed_, first + lane));
  }
  return rounding_.data();
}

// Those of the next instruction go with this tensor of it; the scales of an operand have the
// operand's. Null: there are none.
const Indices* Datapath::indices_of(const isa::Instruction& instruction, uint32_t tensor) const {
  if (!indexed_ || !uses_indices(instruction.opcode)) return nullptr;
  const bool scales = (instruction.opcode == isa::Opcode::kLdweightsMx && tensor == 1) ||
                      (instruction.opcode == isa::Opcode::kMatmulMx && tensor == 2);
  const Indices& indices = state_.indices[scales ? tensor - 1 : tensor];
  return indices.values.empty() ? nullptr : &indices;
}

// The number of a tensor that may not go by the indices that are loaded for it, or -1.
int Datapath::misplaced_indices(const isa::Instruction& instruction,
                                const isa::TensorUses& uses) const {
  if (!indexed_ || !uses_indices(instruction.opcode)) return -1;
  const auto engine = static_cast<isa::Engine>(params_.engine);
  for (uint32_t i = 0; i < isa::TensorUses::kMost; ++i) {
    const Indices& indices = state_.indices[i];
    if (indices.values.empty()) continue;
    const bool legal = isa::indexable(instruction, engine, i, indices.start_partition) &&
                       uses.uses[i].tensor->dims[0].count <= indices.count &&
                       uses.uses[i].partitions <= indices.groups() * indices.lanes;
    if (!legal) return static_cast<int>(i);
  }
  return -1;
}

void Datapath::forget_indices() {
  for (Indices& indices : state_.indices) indices.values.clear();
  indexed_ = false;
}

bool Datapath::resolve_tensor(const isa::TensorUse& use, const Indices* indices,
                              const uint32_t* registers, TensorBox* box) const {
  const isa::TensorOperand& operand = *use.tensor;
  const bool sbuf = operand.memory == isa::Memory::kSbuf;
  const uint64_t limit =
      sbuf ? fabric_.address_map().sbuf_partition_bytes() : tpb::kPsumPartitionBytes;
  if (operand.start_partition + use.partitions > tpb::kPartitions) return false;
  int64_t low = 0;
  int64_t high = 0;
  for (const isa::PatternDim& d : operand.dims) {
    const int64_t reach = d.count == 0 ? 0 : int64_t{d.step} * (d.count - 1);
    (reach < 0 ? low : high) += reach;
  }
  if (indices != nullptr) {
    const size_t n = operand.dims[0].count;
    low = INT64_MAX;
    high = INT64_MIN;
    for (uint32_t lane = 0; lane < use.partitions; lane += indices->lanes) {
      const uint32_t* index = indices->of(lane);
      const auto [least, most] = std::minmax_element(index, index + n);
      const std::pair<int64_t, int64_t> ends{int64_t{operand.dims[0].step} * *least,
                                             int64_t{operand.dims[0].step} * *most};
      low = std::min({low, ends.first, ends.second});
      high = std::max({high, ends.first, ends.second});
    }
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
  const auto engine = static_cast<isa::Engine>(params_.engine);
  extent->uses = isa::tensors_of(instruction);
  const isa::TensorUses& uses = extent->uses;
  extent->count = uses.count;
  const int foreign = isa::foreign_type(instruction, uses, engine, params_.gen);
  if (foreign >= 0) return foreign;
  const int misplaced = misplaced_indices(instruction, uses);
  if (misplaced >= 0) return misplaced;
  for (unsigned i = 0; i < uses.count; ++i) {
    const Indices* indices = indices_of(instruction, i);
    // Scales go by the indices of their numbers, and so by one dimension too.
    const bool one_index_each = indices == nullptr || uses.uses[i].tensor->dims[1].count == 0;
    if (!one_index_each || !resolve_tensor(uses.uses[i], indices, registers, &extent->box[i])) {
      return static_cast<int>(i);
    }
  }
  // Before v4 a product stays in one bank (spec/engine-isa.md 2); elements of PSUM are aligned.
  if (is_product(instruction.opcode)) {
    const TensorBox& out = extent->box[0];
    const bool one_bank = out.begin / tpb::kPsumBankBytes == (out.end - 1) / tpb::kPsumBankBytes;
    const uint64_t element = isa::data_type_bytes(uses.uses[0].tensor->dtype);
    if (out.start % element != 0 || (!one_bank && params_.gen != contract::Gen::kV4)) {
      return 0;
    }
  }
  return -1;
}

Memory& Datapath::memory(isa::Memory memory) const {
  return memory == isa::Memory::kSbuf ? fabric_.sbuf(params_.nc) : fabric_.psum(params_.nc);
}

// Timing-only: what lies there was not computed, in one of the lanes.
bool Datapath::unknown(const TensorBox& box) const {
  return memory(box.memory)
      .elided()
      .lanes()
      .overlaps(lane_set(box.first_partition, box.partitions), box.begin, box.end);
}

// Timing-only: whether the instruction is left out, because it is large or because what it would
// compute with was left out. What is not computed is remembered.
bool Datapath::elided(const isa::Instruction& instruction, const TensorExtent& extent) {
  // Without its indices an instruction has no addresses.
  if (!params_.timing_only || instruction.opcode == isa::Opcode::kLoadIndex) return false;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < extent.count; ++i) bytes = std::max(bytes, extent.bytes(i));
  const bool leave_out = bytes > params_.real_bytes;
  if (leave_out) counters_.elided_bytes += bytes;
  bool stale = leave_out || (stale_ && (is_product(instruction.opcode) ||
                                        instruction.opcode == isa::Opcode::kReadAccumulator));
  for (uint32_t i = 0; i < extent.count && !stale; ++i) {
    if (extent.reads(i)) stale = unknown(extent.box[i]);
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
  } else if (!is_product(instruction.opcode)) {
    stale_ = stale_ || stale;  // accumulators may have taken something
  }
  return stale;
}

Datapath::Outcome Datapath::execute(const isa::Instruction& instruction, const uint32_t* registers,
                                    const TensorExtent& extent) {
  const isa::Operands& o = instruction.operands;
  const bool mx = instruction.opcode == isa::Opcode::kMatmulMx;
  if (is_product(instruction.opcode) &&
      !(mx ? state_.array.fits(o.matmul_mx) : state_.array.fits(o.matmul))) {
    return Outcome::kBadWeights;
  }
  if (elided(instruction, extent)) {
    if (instruction.opcode == isa::Opcode::kLdweights) state_.array.expect(o.ldweights);
    if (instruction.opcode == isa::Opcode::kLdweightsMx) state_.array.expect(o.ldweights_mx);
    if (indexed_) forget_indices();
    return Outcome::kDone;
  }
  Lanes lanes(extent.uses, registers, rounding());
  for (uint32_t i = 0; i < extent.count; ++i) {
    if (!lanes.open(extent.box[i], memory(extent.box[i].memory), indices_of(instruction, i))) {
      return Outcome::kNoMemory;
    }
  }
  isa::visit_compute(instruction, [&](const auto& operands) { compute(operands, lanes, state_); });
  if (instruction.opcode == isa::Opcode::kLoadIndex) {
    indexed_ = true;
    // Unknown ones are taken for zeros, so that the next instruction has addresses.
    Indices& indices = state_.indices[o.load_index.operand];
    indices.known = !params_.timing_only || !unknown(extent.box[0]);
    if (!indices.known) std::fill(indices.values.begin(), indices.values.end(), 0);
  } else if (indexed_) {
    forget_indices();
  }
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
                          std::vector<uint32_t>* to, bool* known) const {
  TensorAccess access(index, box, memory(index.memory));
  if (!access.open()) return false;
  const size_t columns = access.elements();
  to->resize(columns * box.partitions);
  std::vector<uint32_t> lane(columns);
  for (uint32_t p = 0; p < box.partitions; ++p) {
    access.read(p, lane.data());
    for (size_t c = 0; c < columns; ++c) (*to)[c * box.partitions + p] = lane[c];
  }
  *known = !(params_.timing_only && unknown(box));
  counters_.elided_reads += *known ? 0 : 1;
  return true;
}

}  // namespace hw
